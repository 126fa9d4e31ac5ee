"""Sentences about the difference of two runs, and about the effect of the one setting in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medvqa.comparing import Compared, Difference, Paired, PairedPart, differing
from medvqa.figures import Figure, Tone, chance, typeset
from medvqa.report import comparison
from medvqa.report.bundle.page_blocks import PageSentence, PageWord, State, figure_cell
from medvqa.report.bundle.texts import label

QUESTIONS: Mapping[str, str] = {
    differing.IMAGE: "Does it look at the image?",
    differing.PERTURB: "Does the perturbation cost anything?",
    "shots": "Do examples help?",
    "reasoning": "Does reasoning help?",
    "explain": "Does it help to ask for an explanation?",
    "samples": "Does it help to ask several times?",
    "rotate": "Does the order of the options matter?",
    differing.PROMPT: "Does the prompt matter?",
    differing.TECHNIQUE: "Does the technique matter?",
    differing.TOKENS: "Does the token limit matter?",
}
"""The question that a difference in one setting answers, by the option that sets it."""
STATES: Mapping[Tone, State] = {"better": "good", "worse": "bad", "": "open"}


def sentence(
    title: str, part: PairedPart, paired: Paired, rows: Sequence[Compared], corrected: str, link: str = ""
) -> PageSentence:
    """Say the first of the headline measures in words; a difference is named only if it is shown.

    `rows`: the headline measures over all questions. `corrected`: the tests that p is corrected for, such as
    "3 measures"; "" for one alone.
    """
    if part.unchanged:
        return PageSentence(title, [PageWord("The responses are identical on every question.")], "open", link=link)
    if not rows:
        return PageSentence(title, [PageWord("No headline measure can be compared.")], "open", link=link)
    of = {"new": paired.new.name, "baseline": paired.baseline.name}
    first, *others = [(row, *comparison.identified(row, of)) for row in rows]
    row, before, after, change = first
    figure = figure_cell(change)
    difference = paired.difference
    image = difference is not None and difference.setting == differing.IMAGE and row.better == "higher"
    if image and difference is not None and difference.reverse:
        # Said as the gain of the image, also if the run without it is the new one.
        first, *others = [(row, after, before, reverse(change)) for row, before, after, change in (first, *others)]
        row, before, after, change = first
    named = label(row.metric)
    if before.value is None or after.value is None:
        words = [PageWord(f"{_start(named)} is not defined in both runs.")]
    elif before.few:
        words = [
            *(PageWord(f"{_start(named)}: "), _number(after), PageWord(f" in {after.of[after.of['field']]}, ")),
            *(_number(before), PageWord(f" in {before.of[before.of['field']]}: too few for a difference.")),
        ]
    else:
        if image and difference is not None:
            words = _gap(first, difference)
        else:
            words = [PageWord(_claim(first, paired)), *_measured(first)]
        if row.adjusted is not None:
            words += [PageWord("; p "), PageWord(chance(row.adjusted), "adjusted", row.adjusted)]
            words.append(PageWord(f", corrected for {corrected}" if corrected else ""))
        words.append(PageWord("."))
        least = comparison.detectable(row)
        if not change.tone and least.value is not None:
            words.append(PageWord(" In 80 % of comparisons, such data would show a true loss of "))
            words += [PageWord(f"{least.text}{_points(least)}", "detectable", least.value), PageWord(".")]
    if row.equivalence is not None and not before.few:
        words.append(PageWord(f" {_likeness(row)}"))
    words.append(PageWord(_others([(row, change) for row, _, _, change in others])))
    state: State = "good" if row.alike and not change.tone else STATES[change.tone]
    return PageSentence(title, [word for word in words if word.text], state, figure=figure, link=link)


Figured = tuple[Compared, Figure, Figure, Figure]
"""A measure, its values in the baseline and in the new run, and the difference."""


def _likeness(row: Compared) -> str:
    """Say whether the runs are shown to be alike, and the interval that tells it."""
    test = row.equivalence
    if test is None or test.low is None:
        return "Without an interval, the runs cannot be shown to be alike."
    shown = "shown" if row.alike else "not shown"
    margin = comparison.points(test.margin)
    return f"A difference below {margin} is {shown} (90 % interval {typeset(comparison.narrow_interval(row))})."


def _claim(first: Figured, paired: Paired) -> str:
    """Name the better run, or if one setting differs, its better value; and the measure."""
    row, _, _, change = first
    named, less = label(row.metric), " (less is better): " if row.better == "lower" else ": "
    if paired.difference is not None:
        new, baseline = paired.difference.new, paired.difference.baseline
        if change.tone:
            return f"By {named}, {new} does {change.tone} than {baseline}{less}"
        return f"No difference in {named} between {new} and {baseline} is shown{less}"
    if change.tone:
        return f"{paired.new.name} is {change.tone} than {paired.baseline.name} by {named}{less}"
    return f"No difference in {named} is shown{less}"


def _gap(first: Figured, difference: Difference) -> list[PageWord]:
    """Say the measure with and without the image, and the gain of the image with its interval."""
    row, before, after, change = first
    # If both runs lack the image in different ways, the words of the runs' settings tell them apart.
    names = {"shown": "the image", "of another question": "that of another question", "blank": "a blank one"}
    settings = {"new": difference.new, "baseline": difference.baseline}
    one, other = (names.get(value, f"it {value}") for value in (settings[each.of["field"]] for each in (after, before)))
    words = [
        *(PageWord(f"{_start(label(row.metric))} with {one} "), _number(after), PageWord(f", with {other} ")),
        *(_number(before), PageWord(" of "), PageWord(change.counted, "units", change.n), PageWord(": ")),
    ]
    verb = "the image gains " if (change.value or 0) >= 0 else "the image costs "
    words.append(PageWord(verb if change.tone else "no gain of the image is shown, "))
    if change.tone and (change.value or 0) < 0:
        change = reverse(change)
    gain = change.text.removeprefix("+") if change.tone else change.text
    level = "95 % interval " if change.low is not None else ""
    return [*words, PageWord(typeset(f"{gain} points ({level}{change.interval.replace('+', '')})"))]


def reverse(change: Figure) -> Figure:
    """Return the difference the other way round."""
    low, high = (None if value is None else -value for value in (change.high, change.low))
    turned: Mapping[Tone, Tone] = {"better": "worse", "worse": "better", "": ""}
    return replace(
        change, value=None if change.value is None else -change.value, low=low, high=high, tone=turned[change.tone]
    )


def _measured(first: Figured) -> list[PageWord]:
    """Both values, the difference and its interval."""
    row, before, after, change = first
    words = [
        *(_number(after), PageWord(" against "), _number(before)),
        *(PageWord(" of " if row.percent else " over "), PageWord(change.counted, "units", change.n)),
        *(PageWord(", difference "), _number(change), PageWord(_points(change))),
    ]
    if change.low is None or change.high is None:
        return [*words, PageWord(f", {change.interval or 'no interval'}")]
    low, _, high = typeset(change.interval).partition(" to ")
    words += [PageWord(", 95 % interval "), PageWord(low, "low", change.low), PageWord(" to ")]
    return [*words, PageWord(high, "high", change.high)]


def _number(figure: Figure) -> PageWord:
    """A value with its unit, or a difference without."""
    return PageWord(typeset(figure.text) if figure.sign else figure.stated, figure.of["field"], figure.value)


def _points(figure: Figure) -> str:
    return " points" if figure.percent else ""


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _others(rows: Sequence[tuple[Compared, Figure]]) -> str:
    """The other headline measures, by the way in which they changed."""
    by_tone: dict[Tone, list[str]] = {}
    for row, change in rows:
        by_tone.setdefault(change.tone, []).append(label(row.metric))
    words: Mapping[Tone, str] = {"better": "better", "worse": "worse", "": "no difference shown"}
    told = [f"{', '.join(by_tone[tone])}: {words[tone]}" for tone in words if tone in by_tone]
    return f" {_start('; '.join(told))}." if told else ""
