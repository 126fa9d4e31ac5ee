"""The first section of a run's page: whether the run is whole, its results in sentences, and what limits them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from medvqa.items import Benchmark, Outcome
from medvqa.protocols import perturbation
from medvqa.report.build import Part, Report
from medvqa.report.bundle.axes import PERCENT
from medvqa.report.bundle.page_blocks import (
    HeadlineBlock,
    NoticeBlock,
    PageSection,
    PageSentence,
    PageWord,
    State,
    TextBlock,
    figure_cell,
)
from medvqa.report.bundle.texts import linker
from medvqa.report.notes import answers_of, noted
from medvqa.report.sentences import Sentence, Standing, counted, failures, sentences, title

UNFINISHED = "unfinished: "
LOST = 0.05
"""The share of errors in a benchmark from which its numbers tell little."""
CONTROLS: Mapping[str, str] = {
    "text-only": "The model got no images",
    "blank": "The model got grey pictures in place of the images",
    "shuffle": "The model got the images of other questions",
}
"""Ablations in words."""
INVALID: Mapping[Outcome, str] = {
    "refused": "the model declines",
    "abstained": "the answer says that the question cannot be answered",
    "unparsed": "no option can be read",
}
"""Outcomes of answers that name no option, in words."""
STATES: Mapping[Standing, State] = {"above": "good", "open": "open", "below": "bad", "": ""}


def verdict_section(report: Report, images: str) -> PageSection:
    """The first section; `images`: sentences about the place of the images."""
    notes = noted(report)
    warnings = [synthetic(part.benchmark for part in report.parts if part.results), _control(report)]
    warnings += [note.text for note in notes if note.warns and not note.selects]
    counting = tuple(note.text for note in notes if not note.warns)
    return PageSection(
        "verdict",
        "Result",
        [
            _status(report),
            *(NoticeBlock(text) for text in warnings if text),
            *(notice for part in report.parts if part.results for notice in _invalid(report, part)),
            *([TextBlock("How this was counted", counting, folded=True)] if counting else []),
            *([TextBlock(lines=(images,))] if images else []),
        ],
    )


def _status(report: Report) -> HeadlineBlock:
    """Whether all selected questions have a result and a score, which part was selected, and the results."""
    covered, selection = report.covered, report.selection
    parts = [part for part in report.parts if part.results]
    several = len({part.benchmark.name for part in parts}) > 1 or len(report.techniques) > 1
    chosen = [
        f"{title(report, part)}: selected {line}" if several else f"selected {line}"
        for part in parts
        if (line := report.selected(part))
    ]
    failed = _failed(report, parts)
    stopped = [f"stopped: {why}"] if (why := report.run.last_session.stopped) else []
    undefined, left_out = _left_out(report)
    reused = answers_of(report)
    extra = [*stopped, *chosen, *left_out, *([reused] if reused else [])]

    def status(text: str, state: State, *lines: str) -> HeadlineBlock:
        said = tuple(_said(report, sentence) for sentence in sentences(report))
        return HeadlineBlock(text, state, (*lines, *extra), said)

    if not covered.finished:
        lines = [line.removeprefix(UNFINISHED) for line in covered.lines]
        return status("Unfinished: the numbers will change", "open", *lines, *failed)
    if failed:
        worst = max(part.outcomes["error"] / len(part.results) for part in parts)
        return status(failed[0], "bad" if worst >= LOST else "part", *failed[1:], *covered.absent)
    if covered.absent:
        return status("A part of a run", "part", *covered.absent)
    answers = report.counted == "answers" or len(report.techniques) > 1
    number = counted(covered.there, "answers" if answers else "questions")
    have = f"{number} {'are there' if answers else 'have a result'}"
    if covered.selected is None:
        return status(have, "part", "the selected questions are not recorded")
    if chosen or undefined or not selection.whole:
        return status("Complete for a part of the data", "part", have)
    return status("Complete", "good", f"all {have}")


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
    """A sentence if the model did not get the images as they are, else ""."""
    if not report.ablation:
        perturb = report.run.protocol.perturb
        if perturbation.of(perturb) is None:
            return ""
        words = perturbation.in_words(perturb)
        return f"The model got changed images: {words}. Pictures on this page are as the model saw them."
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


def _said(report: Report, sentence: Sentence) -> PageSentence:
    part, measure = sentence.part, sentence.measure
    return PageSentence(
        sentence.title,
        [PageWord(word.text, word.of, word.value) for word in sentence.words],
        STATES[sentence.standing],
        sentence.meaning,
        None if measure is None else figure_cell(measure.figure),
        None if measure is None or not measure.percent else PERCENT,
        linker(part, report)(unit="" if measure is None else measure.unit),
    )


def _invalid(report: Report, part: Part) -> list[NoticeBlock]:
    """How many answers name no option, by reason; [] if all do."""
    counts = {outcome: number for outcome in INVALID if (number := part.outcomes[outcome])}
    if not counts:
        return []
    reasons = ", ".join(f"{number:,} {outcome} ({INVALID[outcome]})" for outcome, number in counts.items())
    wrong = "it counts as wrong" if sum(counts.values()) == 1 else "they count as wrong"
    text = f"{title(report, part)}: of {len(part.results):,} answers {reasons}; {wrong}."
    return [NoticeBlock(text, link=linker(part, report)(f"outcome:{','.join(counts)}"))]
