"""The readers of a run of people: each reader, their mean, the panel's majority, and their agreement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from medvqa.comparing.against_readers import unread
from medvqa.figures import INTERVAL, Column, Figure, Table, counted, number, numbers, texts
from medvqa.items import CHOICE_KINDS, INVALID_OUTCOMES, Result, replace
from medvqa.judging import coefficients
from medvqa.metrics.by_reader import by_reader
from medvqa.metrics.frames import groups
from medvqa.protocols import voting
from medvqa.report.build import Part, Report, of_samples
from medvqa.report.tables import naming
from medvqa.statistics import readers as statistics

GROUP = "/"
"""Stands behind the group in a reader's code: senior/R1."""


def of_people(report: Report) -> list[Table]:
    """Return the table of readers; [] for a run that asked no people.

    Rows are each reader, the means of groups of readers and of all, and the panel's majority. Intervals of means take
    readers and cases as random; with few readers, the result for these readers alone stands beside.
    """
    if report.run.readers is None:
        return []
    names, codes = naming(report), report.run.readers.codes
    answers = (result for part in report.parts for result in part.results)
    rows, notes = list[tuple[object, ...]](), dict.fromkeys(unread(report.run.readers, answers))
    for part in report.parts:
        if part.results:
            named = (part.benchmark.name, part.technique)[: len(names)]
            rows += [(*named, *row) for row in _rows(part, codes)]
            notes |= dict.fromkeys(_notes(part))
    columns = (
        *(*texts(*names, "reader"), *numbers("questions"), Column("mean score %", "figure", "score")),
        *(replace(INTERVAL, name="score"), *numbers("abstained", "median seconds")),
    )
    return [Table("Readers", columns, tuple(rows), tuple(notes))]


def _rows(part: Part, codes: Sequence[str]) -> Iterator[tuple[object, ...]]:
    for place, code in enumerate(codes, 1):
        if own := [result for result in part.results if result.sample == place]:
            yield _row(code, own, fixed=True)
    for group, samples in {**grouped(codes), "readers": [*range(1, len(codes) + 1)]}.items():
        if own := [result for result in part.results if result.sample in samples]:
            yield _row(f"mean of {group}", own, fixed=False)
            if len(samples) < statistics.LEAST_READERS:
                yield _row(f"mean of {group}, these alone", own, fixed=True)
    choices = [result for result in part.results if result.item.kind in CHOICE_KINDS]
    if choices and all(_chosen(result) is not None for result in choices):
        panel = [voting.vote(own) for own in voting.by_question(choices).values()]
        of = "" if len(choices) == len(part.results) else ", choice questions"
        yield _row(f"panel majority{of}", [replace(vote, answer=None) for vote in panel], fixed=True)


def _row(name: str, results: Sequence[Result], *, fixed: bool) -> tuple[object, ...]:
    """Return the row of some readers together; `fixed`: its interval is for these readers alone."""
    import numpy as np

    scored = by_reader(results)
    found = statistics.mean_of_readers(scored.scores, scored.groups, fixed=fixed)
    shown = Figure(found.value, found.low, found.high, groups=found.cases, df=found.df)
    abstained = sum(result.score.outcome == "abstained" for result in results)
    seconds = [r.answer.seconds for r in results if r.answer is not None and r.answer.seconds is not None]
    time = number(median(seconds), percent=False, digits=1) if seconds else ""
    return name, int((~np.isnan(scored.scores)).any(axis=0).sum()), shown, shown, abstained, time


def _notes(part: Part) -> Iterator[str]:
    crossed = statistics.crossed(by_reader(part.results).scores)
    method = statistics.CROSSED if crossed else statistics.NOT_CROSSED
    samples = len({result.sample for result in part.results})
    if samples > 1:
        yield f"Means of readers: 95 % intervals for other readers and cases ({method})."
    if len({result.item.kind in CHOICE_KINDS for result in part.results if result.score.value is not None}) > 1:
        yield f"{part.name}: scores of choice and of open questions are averaged together."
    if lacking := sum(result.score.value is None for result in part.results):
        yield f"{part.name}: {counted(lacking, 'readings')} without a score count in no row."
    yield from filter(None, [statistics.warning(samples, crossed=crossed)])
    yield from filter(None, [_agreement(part)])
    yield "A question's sample k is the reading of the k-th of the readers, sorted by their codes."


def grouped(codes: Sequence[str]) -> dict[str, list[int]]:
    """Return the samples of the readers of each group, by its name; {} if there are no groups."""
    samples: dict[str, list[int]] = {}
    for sample, code in enumerate(codes, 1):
        samples.setdefault(code.partition(GROUP)[0] if GROUP in code else "others", []).append(sample)
    return dict(sorted(samples.items())) if len(samples) > 1 else {}


def of_groups(report: Report) -> dict[str, Report]:
    """Return the report of each group of readers, over its readings alone; {} without groups or people."""
    codes = () if report.run.readers is None else report.run.readers.codes
    return {group: of_samples(report, samples) for group, samples in grouped(codes).items()}


def _chosen(result: Result) -> tuple[str, ...] | None:
    """Return the options that a reader chose, () for an answer that names none; None if none can be chosen."""
    if result.item.kind not in CHOICE_KINDS:
        return None
    return result.score.extracted if result.score.extracted or result.score.outcome in INVALID_OUTCOMES else None


def _agreement(part: Part) -> str:
    """Name the agreement on options: Cohen's kappa of two readers, Krippendorff's alpha of more; "" without any.

    To say that it cannot be determined is a choice of its own; other answers that name no option do not count.
    """
    import numpy as np

    samples = sorted({result.sample for result in part.results})
    labels, firsts, rows = dict[tuple[str, ...], int](), list[Result](), list[list[int]]()
    for answers in voting.by_question(part.results).values():
        row = [-1] * len(samples)
        for result in answers:
            told = _chosen(result)
            if told or (told is not None and result.score.outcome == "abstained"):
                row[samples.index(result.sample)] = labels.setdefault(told, len(labels))
        if sum(label >= 0 for label in row) > 1:
            firsts.append(answers[0])
            rows.append(row)
    if not rows:
        return ""
    said = coefficients.nominal_said(np.array(rows), groups(firsts))
    return f"Agreement on the options of {counted(len(rows), 'questions')} of {part.name}: {said}."
