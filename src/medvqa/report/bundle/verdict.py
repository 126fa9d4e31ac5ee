"""The first screen of a run: whether it is whole, its results in sentences, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from medvqa.items import Benchmark, Outcome
from medvqa.records import coverage
from medvqa.report.build import Part, Report
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.shape import Shape
from medvqa.report.notes import answers_of, noted
from medvqa.report.sentences import Origin, Sentence, Standing, counted, failures, sentences, title

UNFINISHED = "unfinished: "
LOST = 0.05
"""The share of errors in a benchmark from which the first screen is red."""
CONTROLS: Mapping[str, str] = {
    "text-only": "The model got no images",
    "blank": "The model got grey pictures in place of the images",
    "shuffle": "The model got the images of other questions",
}
"""Ablations in words."""


class StatusView(Shape, frozen=True):
    """Whether all selected questions have a result and a score, and which part of the data was selected.

    `failed`: some results are errors; `lost`: so many of a benchmark's that its numbers tell little.
    """

    state: Literal["complete", "part", "failed", "lost", "unfinished", "unknown"]
    title: str
    lines: list[str]


class WordView(Shape, frozen=True):
    """Words of a sentence, or a number of it."""

    text: str
    of: Origin = ""
    """The field, reference or gap that the number is; "" for plain words."""
    value: float | None = None


class SentenceView(Shape, frozen=True):
    """The result of one benchmark and technique."""

    title: str
    benchmark: str
    technique: str
    words: list[WordView]
    meaning: str
    """The definition of the measure if the words do not say it, else ""."""
    standing: Standing
    """Where the interval lies against answers that do not look; "" if that is not known."""
    cell: Cell | None
    """The measure of the sentence; null if there is no number."""


class WarningView(Shape, frozen=True):
    """A sentence that limits the numbers; `outcomes`: those of its questions, [] if outcomes do not tell them."""

    text: str
    benchmark: str
    technique: str
    outcomes: list[Outcome]


class VerdictView(Shape, frozen=True):
    """The first screen of a run."""

    status: StatusView
    control: str
    """A sentence if the model did not get the images, else ""."""
    sentences: list[SentenceView]
    warnings: list[WarningView]
    notes: list[str]
    synthetic: str = ""
    """A sentence if a program drew images of the run, else ""."""


def verdict_of(report: Report) -> VerdictView:
    """The first screen of a run."""
    notes = noted(report)
    return VerdictView(
        _status(report),
        _control(report),
        list(map(_said, sentences(report))),
        [
            *(WarningView(note.text, "", "", []) for note in notes if note.warns and not note.selects),
            *(warning for part in report.parts if part.results for warning in _invalid(report, part)),
        ],
        [note.text for note in notes if not note.warns],
        synthetic(part.benchmark for part in report.parts if part.results),
    )


def _status(report: Report) -> StatusView:
    covered, selection = report.covered, report.selection
    parts = [part for part in report.parts if part.results]
    several = len({part.benchmark.name for part in parts}) > 1 or len(report.techniques) > 1
    chosen = [
        f"{title(report, part)}: selected {line}" if several else f"selected {line}"
        for part in parts
        if (line := report.selected(part))
    ]
    failed = _failed(report, parts)
    stopped = [f"stopped: {why}"] if (why := coverage.stopped(report.run)) else []
    undefined, left_out = _left_out(report)
    reused = answers_of(report)
    extra = [*stopped, *chosen, *left_out, *([reused] if reused else [])]
    if not covered.finished:
        lines = [line.removeprefix(UNFINISHED) for line in covered.lines]
        return StatusView("unfinished", "Unfinished: the numbers will change", [*lines, *failed, *extra])
    if failed:
        worst = max(part.outcomes["error"] / len(part.results) for part in parts)
        return StatusView("lost" if worst >= LOST else "failed", failed[0], [*failed[1:], *covered.absent, *extra])
    if covered.absent:
        return StatusView("part", "A part of a run", [*covered.absent, *extra])
    answers = report.counted == "answers" or len(report.techniques) > 1
    number = counted(covered.there, "answers" if answers else "questions")
    have = f"{number} {'are there' if answers else 'have a result'}"
    if covered.selected is None:
        return StatusView("unknown", have, ["the selected questions are not recorded", *extra])
    if chosen or undefined or not selection.whole:
        return StatusView("part", "Complete for a part of the data", [have, *extra])
    return StatusView("complete", "Complete", [f"all {have}", *extra])


def _failed(report: Report, parts: Sequence[Part]) -> list[str]:
    """How many results have no score because of errors, over all and by part if there are several; [] without any."""
    number = sum(len(part.results) for part in parts)
    if not (over_all := failures(parts, report.counted)):
        return []
    share, _, counts = over_all.partition(": ")
    by_part = [
        f"{title(report, part)}: {failures([part], report.counted).partition(': ')[2]}"
        for part in parts
        if part.outcomes["error"] and len(part.results) < number
    ]
    return [share, counts, *by_part]


def _left_out(report: Report) -> tuple[bool, list[str]]:
    """Whether some questions are asked by no technique of the run, and lines about questions left out."""
    left: Mapping[str, Mapping[str, Mapping[str, int]]] = report.run.left_out
    counts = {
        technique: sum(sum(techniques.get(technique, {}).values()) for techniques in left.values())
        for technique in report.techniques
    }
    lines = [
        f"{counted(number, 'questions')} left out: technique {technique} is not defined for their kind"
        for technique, number in counts.items()
        if number
    ]
    return any(set(report.techniques) <= techniques.keys() for techniques in left.values()), lines


def _control(report: Report) -> str:
    if not report.ablation:
        return ""
    got = CONTROLS.get(report.run.ablation or "", f"The model got {report.ablation}")
    return f"{got}. These numbers are a control: they show the score without the right image."


def synthetic(benchmarks: Iterable[Benchmark]) -> str:
    """A warning if a program drew images of these benchmarks, else "": their names and tags look like clinical data."""
    named = {benchmark.title or benchmark.name: benchmark.origin for benchmark in benchmarks}
    drawn = [name for name, origin in named.items() if origin is not None and origin.synthetic]
    if not drawn:
        return ""
    whose = "The images" if len(drawn) == len(named) else f"The images of {', '.join(drawn)}"
    return f"{whose} are drawn by a program; they show no patients. Their scores say nothing about medical skill."


def _said(sentence: Sentence) -> SentenceView:
    part = sentence.part
    return SentenceView(
        sentence.title,
        part.benchmark.name,
        part.technique,
        [WordView(word.text, word.of, word.value) for word in sentence.words],
        sentence.meaning,
        sentence.standing,
        None if sentence.measure is None else cell(sentence.measure),
    )


SAID: Mapping[Outcome, str] = {
    "refused": "the model declines",
    "abstained": "the model says that the question cannot be answered",
    "unparsed": "no option can be read",
}
"""Outcomes of answers that name no option, in words."""


def _invalid(report: Report, part: Part) -> list[WarningView]:
    """How many answers name no option, by reason; [] if all do."""
    counts = {outcome: number for outcome in SAID if (number := part.outcomes[outcome])}
    if not counts:
        return []
    reasons = ", ".join(f"{number:,} {outcome} ({SAID[outcome]})" for outcome, number in counts.items())
    wrong = "it counts as wrong" if sum(counts.values()) == 1 else "they count as wrong"
    text = f"{title(report, part)}: of {len(part.results):,} answers {reasons}; {wrong}."
    return [WarningView(text, part.benchmark.name, part.technique, list(counts))]
