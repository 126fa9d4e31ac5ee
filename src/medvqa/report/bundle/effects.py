"""Sentences about the difference of two runs, and about the effect of the one setting in which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from medvqa.comparing import Difference, Paired, PairedPart, differing
from medvqa.figures import between, number, typeset
from medvqa.report.bundle.differences import ComparedCell, Way
from medvqa.report.bundle.shape import Shape

QUESTIONS: Mapping[str, str] = {
    differing.IMAGE: "Does it look at the picture?",
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


class ComparedWord(Shape, frozen=True):
    """Some words of a sentence, or a number."""

    text: str
    number: str
    """The field of the first headline measure that has the number; "" for plain words."""


class ComparedSentence(Shape, frozen=True):
    """What the rules of a comparison allow to say about a benchmark: its first headline measure in words."""

    words: list[ComparedWord]
    way: Way
    more: str
    """The other headline measures, or ""."""


def sentence(part: PairedPart, paired: Paired, rows: Sequence[ComparedCell], corrected: str) -> ComparedSentence:
    """Say the first headline measure in words; a difference is named only if it is shown.

    `corrected`: the tests that p is corrected for, such as "3 measures"; "" for one alone.
    """
    if part.unchanged:
        return ComparedSentence([_word("The responses are identical on every question.")], "", "")
    if not rows:
        return ComparedSentence([_word("No headline measure can be compared.")], "", "")
    first, *others = rows
    more = _others(others)
    if first.baseline is None or first.new is None:
        return ComparedSentence([_word(f"{_start(first.title)} is not defined in both runs.")], "", more)
    new, baseline = paired.new.name, paired.baseline.name
    if first.few:
        words = [
            *(_word(f"{_start(first.title)}: "), _word(first.texts.new, "new"), _word(f" in {new}, ")),
            *(_word(first.texts.baseline, "baseline"), _word(f" in {baseline}: too few for a difference.")),
        ]
        return ComparedSentence(words, "", more)
    if paired.difference is not None and paired.difference.setting == differing.IMAGE and not first.lower:
        words = _gap(first, paired.difference)
    else:
        words = [_word(_claim(first, new, baseline, paired.difference)), *_measured(first)]
    if first.texts.adjusted:
        words += [_word("; p "), _word(first.texts.adjusted, "adjusted")]
        words.append(_word(f", corrected for {corrected}" if corrected else ""))
    words.append(_word("."))
    if not first.sure and first.texts.detectable:
        words += [
            _word(" In 80 % of comparisons, such data would show a true loss of "),
            _word(f"{first.texts.detectable}{' points' if first.percent else ''}", "detectable"),
            _word("."),
        ]
    return ComparedSentence([word for word in words if word.text], first.sure, more)


def _claim(first: ComparedCell, new: str, baseline: str, difference: Difference | None) -> str:
    """Name the better run, or if one setting differs, its better value; and the measure."""
    less = " (less is better): " if first.lower else ": "
    if difference is not None:
        new, baseline = difference.new, difference.baseline
        if first.sure:
            return f"By {first.title}, {new} does {first.sure} than {baseline}{less}"
        return f"No difference in {first.title} between {new} and {baseline} is shown{less}"
    if first.sure:
        return f"{new} is {first.sure} than {baseline} by {first.title}{less}"
    return f"No difference in {first.title} is shown{less}"


def _gap(first: ComparedCell, difference: Difference) -> list[ComparedWord]:
    """Say the measure with and without the image, and the gain of the image with its interval."""
    sides = [(first.texts.new, "new"), (first.texts.baseline, "baseline")]
    # If both runs lack the image in different ways, the words of the runs' settings tell them apart.
    names = {"shown": "the image", "of another question": "that of another question", "blank": "a blank one"}
    values = [names.get(value, f"it {value}") for value in (difference.new, difference.baseline)]
    gained, low, high = first.difference, first.low, first.high
    if difference.reverse:
        sides, values = sides[::-1], values[::-1]
        gained, low, high = (None if value is None else -value for value in (gained, high, low))
    percent = " %" if first.percent else ""
    words = [
        *(_word(f"{_start(first.title)} with {values[0]} "), _word(f"{sides[0][0]}{percent}", sides[0][1])),
        *(_word(f", with {values[1]} "), _word(f"{sides[1][0]}{percent}", sides[1][1])),
        *(_word(" of "), _word(first.texts.units, "units"), _word(": ")),
    ]
    verb = "gains" if (gained or 0) >= 0 else "costs"
    if not first.sure:
        words.append(_word("no gain of the image is shown, "))
        change = typeset(number(gained, sign=True))
    else:
        words.append(_word(f"the image {verb} "))
        change = number(abs(gained or 0))
        if verb == "costs":
            low, high = (None if value is None else -value for value in (high, low))
    within = typeset(between(low, high, sign=True)).replace("+", "") or first.texts.bounds
    level = "95 % interval " if low is not None else ""
    return [*words, _word(f"{change} points ({level}{within})")]


def _measured(first: ComparedCell) -> list[ComparedWord]:
    """Both values, the difference and its interval."""
    percent, points_ = (" %", " points") if first.percent else ("", "")
    words = [
        *(_word(f"{first.texts.new}{percent}", "new"), _word(" against ")),
        *(_word(f"{first.texts.baseline}{percent}", "baseline"), _word(" of " if first.percent else " over ")),
        *(_word(first.texts.units, "units"), _word(", ")),
        *(_word(first.texts.difference, "difference"), _word(points_)),
    ]
    low, _, high = first.texts.bounds.partition(" to ")
    if first.low is None or first.high is None:
        return [*words, _word(f", {first.texts.bounds or 'no interval'}")]
    return [*words, _word(", 95 % interval "), _word(low, "low"), _word(" to "), _word(high, "high")]


def _word(text: str, number: str = "") -> ComparedWord:
    return ComparedWord(text, number)


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _others(rows: Iterable[ComparedCell]) -> str:
    """The other headline measures, by the way in which they changed."""
    by_way: dict[Way, list[str]] = {}
    for row in rows:
        by_way.setdefault(row.sure, []).append(row.title)
    words: Mapping[Way, str] = {"better": "better", "worse": "worse", "": "no difference shown"}
    told = [f"{', '.join(by_way[way])}: {words[way]}" for way in words if way in by_way]
    return _start("; ".join(told)) + "." if told else ""
