"""The first screen of a run: whether it is whole, its results in sentences, and what limits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from medvqa.items import INVALID_OUTCOMES, OUTCOMES
from medvqa.report.build import Part, Report
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.shape import Shape
from medvqa.report.notes import answers_of, noted
from medvqa.report.sentences import Origin, Sentence, Standing, sentences, title

UNFINISHED = "unfinished: "
CONTROLS: Mapping[str, str] = {
    "text-only": "The model got no images",
    "blank": "The model got grey pictures in place of the images",
    "shuffle": "The model got the images of other questions",
}
"""Ablations in words."""


class StatusView(Shape, frozen=True):
    """Whether all selected questions have a result, and which part of the data was selected."""

    state: Literal["complete", "part", "unfinished", "unknown"]
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
    standing: Standing
    """Where the interval lies against answers that do not look; "" if that is not known."""
    cell: Cell | None
    """The measure of the sentence; null if there is no number."""


class WarningView(Shape, frozen=True):
    """A sentence that limits the numbers; `query` finds its questions, "" if there is no such query."""

    text: str
    benchmark: str = ""
    technique: str = ""
    query: str = ""


class VerdictView(Shape, frozen=True):
    """The first screen of a run."""

    status: StatusView
    control: str
    """A sentence if the model did not get the images, else ""."""
    sentences: list[SentenceView]
    warnings: list[WarningView]
    notes: list[str]


def verdict_of(report: Report) -> VerdictView:
    """The first screen of a run."""
    notes = noted(report)
    reused = answers_of(report)
    return VerdictView(
        _status(report),
        _control(report),
        list(map(_said, sentences(report))),
        [
            *(warning for part in report.parts if part.results for warning in _invalid(report, part)),
            *(WarningView(note.text) for note in notes if note.warns),
        ],
        [*([reused] if reused else []), *(note.text for note in notes if not note.warns)],
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
    errors = sum(part.outcomes["error"] for part in parts)
    failed = [f"{errors:,} of the results {'is an error' if errors == 1 else 'are errors'}, without a score"]
    extra = [*chosen, *(failed if errors else [])]
    if not covered.finished:
        return StatusView(
            "unfinished", "Unfinished", [*(line.removeprefix(UNFINISHED) for line in covered.lines), *extra]
        )
    if covered.absent:
        return StatusView("part", "A part of a run", [*covered.absent, *extra])
    number = f"{covered.there:,} {'question' if covered.there == 1 else 'questions'}"
    if report.counted == "answers":
        number = f"{covered.there:,} answers"
    if covered.selected is None:
        return StatusView("unknown", f"{number} have a result", ["the selected questions are not recorded", *extra])
    if chosen or not selection.whole:
        return StatusView("part", "Complete for a part of the data", extra or [f"{number} have a result"])
    return StatusView("complete", "Complete", [f"all {number} have a result", *extra])


def _control(report: Report) -> str:
    if not report.ablation:
        return ""
    got = CONTROLS.get(str(report.run.get("ablation")), f"The model got {report.ablation}")
    return f"{got}. These numbers are a control: they show the score without the right image."


def _said(sentence: Sentence) -> SentenceView:
    part = sentence.part
    return SentenceView(
        sentence.title,
        part.benchmark.name,
        part.technique,
        [WordView(word.text, word.of, word.value) for word in sentence.words],
        sentence.standing,
        None if sentence.measure is None else cell(sentence.measure),
    )


def _invalid(report: Report, part: Part) -> list[WarningView]:
    """How many answers name no option, by reason."""
    warnings = []
    for outcome in OUTCOMES:
        if outcome in INVALID_OUTCOMES and (number := part.outcomes[outcome]):
            said = {
                "refused": "the model declines",
                "abstained": "the model says that it cannot tell",
                "unparsed": "no option can be read",
            }[outcome]
            counted = f"{number:,} of {len(part.results):,} answers {'is' if number == 1 else 'are'} {outcome}"
            text = f"{title(report, part)}: {counted} ({said}) and {'counts' if number == 1 else 'count'} as wrong."
            warnings.append(WarningView(text, part.benchmark.name, part.technique, f"outcome:{outcome}"))
    return warnings
