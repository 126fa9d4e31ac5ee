"""One sentence for each benchmark and technique: its first headline measure beside answers that do not look.

The page's first screen shows them, and summary.md begins with them. Each number of a sentence names its origin, so that
a test can compare it with metrics.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from medvqa import figures, metrics
from medvqa.comparing.blank import BlankGap
from medvqa.figures import count, no_interval, rounded
from medvqa.items import Measure, Metric
from medvqa.metrics import MAXIMA, definitions
from medvqa.report.build import Part, Report

Origin = Literal[
    "", "value", "low", "high", "n", "random", "majority", "image_blind", "blank", "gap", "gap_low", "gap_high"
]
"""A field or a reference of a measure, or one of its gap to the run without the images; "" for plain words."""
Standing = Literal["above", "below", "open", ""]

_RIGHT: Mapping[object, tuple[str, str]] = {
    definitions.accuracy.terms: ("accuracy", "single-choice questions right"),
    definitions.individual_accuracy.terms: ("individual_accuracy", "questions of pairs right"),
    definitions.set_accuracy.terms: ("set_accuracy", "pairs with both questions right"),
    definitions.confusion.terms: ("confusion", "pairs with the same answer to both questions"),
    definitions.exact_match.terms: ("exact_match", "multiple-response questions exactly right"),
}
"""Shipped metrics by their terms: the name, which an oracle's lacks, and the words after "80.6 % of"."""
MAXIMUM = "The largest value over techniques: optimistic, because the same answers choose and judge."
LOOKLESS: Mapping[Origin, str] = {
    "random": "chance",
    "majority": "most frequent answer",
    "image_blind": "image ignored",
}
"""Answers that do not look at the image, by the names of their reference lines."""


@dataclass(frozen=True, slots=True)
class Word:
    """Some words of a sentence, or a number with its origin and full value."""

    text: str
    of: Origin = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """The result of one part. `title`: its benchmark, technique and protocol. `measure`: None if it has no number.

    `standing`: "above" if the whole interval is better than every answer that does not look, "below" if it is worse
    than the best of them, "open" if it reaches that one, or if the image is not shown to help; "" if there is no such
    answer, or no interval. `meaning`: the definition of the measure if the words do not say it, else "".
    """

    title: str
    part: Part
    measure: Measure | None
    words: tuple[Word, ...]
    standing: Standing = ""
    meaning: str = ""

    @property
    def text(self) -> str:
        """The sentence as a line."""
        return f"{self.title}: " + "".join(word.text for word in self.words)


def sentences(report: Report) -> list[Sentence]:
    """Return the sentences of all parts with results, in their order."""
    return [_sentence(report, part) for part in report.parts if part.results]


def limits(report: Report) -> list[str]:
    """Lines that stand before any number: why the run stopped, missing results, and errors."""
    stopped = report.run.last_session.stopped
    failed = failures(report.parts, report.counted)
    return [*([f"stopped: {stopped}"] if stopped else []), *report.covered.lines, *([failed] if failed else [])]


def failures(parts: Iterable[Part], unit: str) -> str:
    """How many results have no score: "26.2 % without a score: 27 of 103 items ended in error"; "" without errors."""
    counts = [(part.outcomes["error"], len(part.results)) for part in parts]
    errors, number = sum(count for count, _ in counts), sum(count for _, count in counts)
    return (
        f"{rounded(errors / number)} % without a score: {errors:,} of {number:,} {unit} ended in error"
        if errors
        else ""
    )


def title(report: Report, part: Part) -> str:
    """The part's benchmark, the technique if the run has several, the ablation and the protocol."""
    named = part.benchmark.title or part.benchmark.name
    technique = f", technique {part.technique}" if part.results else ", best of the techniques"
    technique = technique if len(report.techniques) > 1 else ""
    return named + technique + (f" ({report.label})" if report.label else "")


def metric_of(part: Part, name: str) -> Metric | None:
    """The metric of this name; None for a maximum over techniques, and for the mean over orders of options."""
    return next((metric for metric in part.benchmark.metrics if metric.name == name), None)


def less_is_better(part: Part, name: str) -> bool:
    """Whether a lower value of this measure is better."""
    metric = metric_of(part, name)
    return metric is not None and metric.better == "lower"


def counted(value: float, unit: str) -> str:
    """A number with its unit, given as a plural, for readers: "26,000 questions", "1 pair"; items are questions."""
    return figures.counted(value, unit.replace("items", "questions"))


def _sentence(report: Report, part: Part) -> Sentence:
    named = title(report, part)
    if report.selection.ranked_by_outcome:
        return Sentence(named, part, None, (Word("no number: an earlier outcome chose these questions (--lf)."),))
    measure = next((one for one in part.headline if one.value is not None), None)
    if measure is None or measure.value is None:
        return Sentence(named, part, None, (Word(_no_number(part)),))
    less = less_is_better(part, measure.name)
    standing = _standing(measure, less=less)
    chosen = report.selected(part)
    words = [
        *_value(part, measure, measure.value, " for these readers" if report.run.readers is not None else ""),
        *([Word(f", from a part of the benchmark: {chosen}.")] if chosen else [Word(".")]),
        *_lookless(measure, standing, less=less),
    ]
    gap = report.blank.gap(part.benchmark.name, part.technique, measure.name) if report.blank is not None else None
    if report.blank is not None and gap is not None:
        words += _gained(gap, report.blank.name)
        if standing == "above" and gap.value is not None and not _helps(gap):
            standing = "open"
    return Sentence(named, part, measure, tuple(words), standing, _meaning(part, measure.name))


def meaning_of(part: Part, name: str) -> str:
    """The definition of a measure; "" for one without a metric."""
    metric = metric_of(part, name)
    if metric is None:
        return MAXIMUM if name in MAXIMA.values() else ""
    over = metric.mean_over if not metric.weights else None
    return metric.definition if over is None else f"Mean over the values of {over}, of: {metric.definition}"


def _words_of(part: Part, name: str) -> str:
    """The words after "80.6 % of" for a shipped metric under its own name; "" for others."""
    metric = metric_of(part, name)
    known, words = _RIGHT.get(metric.terms, ("", "")) if metric is not None and metric.mean_over is None else ("", "")
    return words if known == name else ""


def _meaning(part: Part, name: str) -> str:
    return "" if _words_of(part, name) else meaning_of(part, name)


def _no_number(part: Part) -> str:
    if all(result.score.value is None for result in part.results):
        return f"no number: none of {len(part.results):,} answers has a score."
    if part.failed:
        return f"no number: {part.failed[0].name} could not be computed."
    return "no number: no question counts in a headline measure."


def _value(part: Part, measure: Measure, value: float, of: str) -> list[Word]:
    """The value in words, its interval `of` which answers ("" if it needs no words), and the number of units."""
    right = _words_of(part, measure.name)
    less = " (less is better)" if less_is_better(part, measure.name) else ""
    label = measure.name.replace("_", " ")
    units = Word(_units(part, measure), "n", measure.n)
    if measure.figure.few and measure.percent and measure.count is not None:
        counts = Word(f"{count(measure.count)} of {count(measure.n)}", "value", value)
        few = Word(", too few for a percentage")
        if " of " in units.text:
            few = Word(f"{few.text}; {units.text} have a score")
        return [counts, Word(f" {right}{less}"), few] if right else [Word(f"{label}{less} "), counts, few]
    unit = " %" if measure.percent else ""
    number = Word(rounded(value, percent=measure.percent) + unit, "value", value)
    said = [number, Word(f" of {right}{less}")] if right else [Word(f"{label}{less} "), number]
    if measure.low is None or measure.high is None:
        return [*said, Word(f", {no_interval(measure.groups) or 'no interval'} ("), units, Word(")")]
    low, high = (rounded(bound, percent=measure.percent) for bound in (measure.low, measure.high))
    prompts = max((len(each.prompts) for each in part.headline_spreads if each.name == measure.name), default=1)
    which = f" for these {prompts} prompts" if prompts > 1 else of
    bounds = [
        Word(f", 95 % interval{which} "),
        Word(low, "low", measure.low),
        Word(" to "),
        Word(high, "high", measure.high),
    ]
    return [*said, *bounds, Word(" ("), units, Word(")")]


def _units(part: Part, measure: Measure) -> str:
    """The number of units: "103 questions"; if some of those asked ended in error: "76 of 103 questions"."""
    metric = metric_of(part, measure.name)
    lost = 0
    if metric is not None and part.outcomes["error"]:
        lost = sum(table.failed for table in metrics.tables(part.combined or part.results, [metric], (), []))
    units = counted(measure.n + lost, measure.unit)
    return f"{count(measure.n)} of {units}" if lost else units


def _references(measure: Measure, *, less: bool) -> dict[Origin, float]:
    """The reference lines to name. The most frequent answer is one of them only if it is the best."""
    levels = {name: measure.references[name] for name in LOOKLESS if name in measure.references}
    others = [level for name, level in levels.items() if name != "majority"]
    if others and "majority" in levels:
        best = min(others) if less else max(others)
        if levels["majority"] == best or (levels["majority"] > best) == less:
            del levels["majority"]
    return levels


def _standing(measure: Measure, *, less: bool) -> Standing:
    levels = _references(measure, less=less).values()
    if not levels or measure.low is None or measure.high is None or measure.figure.few:
        return ""
    best = min(levels) if less else max(levels)
    if measure.low <= best <= measure.high:
        return "open"
    return "above" if (measure.high < best) == less else "below"


def _lookless(measure: Measure, standing: Standing, *, less: bool) -> list[Word]:
    """The scores of answers that do not look, and whether the interval is beyond them."""
    if not (levels := _references(measure, less=less)):
        return []
    words: list[Word] = []
    for name, level in levels.items():
        lead = ", " if words else " Without looking: "
        words += [Word(f"{lead}{LOOKLESS[name]} "), Word(f"{rounded(level)} %", name, level)]
    said: Mapping[Standing, str] = {
        "above": ". The whole interval is better than these.",
        "open": ". The interval reaches the best of these: not shown to be better.",
        "below": ". The whole interval is worse than the best of these.",
        "": ".",
    }
    return [*words, Word(said[standing])]


def _gained(gap: BlankGap, run: str) -> list[Word]:
    """The measured score without the image, and the gain of the image with its interval."""
    if gap.blank is None or gap.value is None:
        return []
    words = [Word(f" Without the image (run {run}): ")]
    common = Word(f", on the {gap.scored:,} of {gap.asked:,} questions that both runs have scored")
    shared = [common] if gap.scored < gap.asked else []
    if gap.side(gap.blank).few:
        counts = f"{count(gap.blank * gap.n)} of {count(gap.n)}"
        return [*words, Word(counts, "blank", gap.blank), *shared, Word(".")]
    points = " points" if gap.percent else ""
    unit = " %" if gap.percent else ""
    gained = rounded(gap.value, percent=gap.percent, sign=True)
    words += [
        Word(rounded(gap.blank, percent=gap.percent) + unit, "blank", gap.blank),
        Word("; the image changes the value by " if gap.better == "lower" else "; gain of the image "),
        Word(gained + points, "gap", gap.value),
    ]
    if gap.low is None or gap.high is None:
        return [*words, Word(f", {no_interval(gap.groups) or 'no interval'}"), *shared, Word(".")]
    low, high = (rounded(bound, percent=gap.percent, sign=True) for bound in (gap.low, gap.high))
    return [
        *words,
        Word(", 95 % interval "),
        Word(low, "gap_low", gap.low),
        Word(" to "),
        Word(high, "gap_high", gap.high),
        *shared,
        Word("." if _helps(gap) else ": the image is not shown to help."),
    ]


def _helps(gap: BlankGap) -> bool:
    """Whether the whole interval of the gap is on the better side of 0."""
    if gap.low is None or gap.high is None:
        return False
    return gap.high < 0 if gap.better == "lower" else gap.low > 0
