"""The readers of a run of people: each reader, their mean, the panel's majority, and their agreement."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from medvqa.figures import INTERVAL, Column, Figure, Table, number, numbers, texts
from medvqa.items import CHOICE_KINDS, INVALID_OUTCOMES, Result, replace
from medvqa.judging import coefficients
from medvqa.metrics.by_reader import ReaderScores, by_reader
from medvqa.metrics.frames import groups as groups_of
from medvqa.protocols import voting
from medvqa.report.build import Part, Report, of_samples
from medvqa.report.tables import naming
from medvqa.statistics import readers as statistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP = "/"
"""Stands behind the group in a reader's code: senior/R1."""


def of_people(report: Report) -> list[Table]:
    """Return the tables about the readers that have rows; none for a run that asked no people."""
    return [table for table in (readers(report), agreement(report)) if table.rows]


def readers(report: Report) -> Table:
    """A row for each reader, the means of groups of readers and of all, and the panel's majority.

    No rows for a run that asked no people. Intervals of means take readers and cases as random; with few readers, those
    of these readers alone stand beside them.
    """
    names = naming(report)
    codes = () if report.run.readers is None else report.run.readers.codes
    rows, notes = list[tuple[object, ...]](), list[str]()
    for part in report.parts if codes else ():
        if part.results:
            named = (part.benchmark.name, part.technique)[: len(names)]
            scored = by_reader(part.results, len(codes))
            rows += [(*named, *row) for row in (*_each(part, codes, scored), *_means(codes, scored), *_panel(part))]
            found = statistics.mean_of_readers(scored.scores, scored.groups)
            notes.append(f"Means of readers: 95 % intervals for other readers and cases ({found.method}).")
            notes += filter(None, [statistics.warning(found.readers, crossed=found.method == statistics.CROSSED)])
    if rows:
        notes.append("A question's sample k is the reading of the k-th of these readers, sorted by their codes.")
    score = (Column("mean score %", "figure", name="score"), replace(INTERVAL, name="score"))
    others = numbers("abstained", "median seconds")
    columns = (*texts(*names, "reader"), *numbers("questions"), *score, *others)
    return Table("Readers", columns, tuple(rows), notes=tuple(dict.fromkeys(notes)))


def _each(part: Part, codes: Sequence[str], scored: ReaderScores) -> list[tuple[object, ...]]:
    """A row for each reader who read any question of the part."""
    rows = list[tuple[object, ...]]()
    for place, code in enumerate(codes):
        own = [result for result in part.results if result.sample == place + 1]
        seconds = [r.answer.seconds for r in own if r.answer is not None and r.answer.seconds is not None]
        shown = _figure(scored.scores[[place]], scored.groups, fixed=True)
        abstained = sum(result.score.outcome == "abstained" for result in own)
        time = number(median(seconds), percent=False, digits=1) if seconds else ""
        if own:
            rows.append((code, len(own), shown, shown, abstained, time))
    return rows


def _figure(scores: NDArray[np.float64], groups: NDArray[np.intp], *, fixed: bool) -> Figure:
    found = statistics.mean_of_readers(scores, groups, fixed=fixed)
    return Figure(found.value, found.low, found.high, groups=found.cases, df=found.df)


def _means(codes: Sequence[str], scored: ReaderScores) -> list[tuple[object, ...]]:
    """The means of the groups of readers, if there are several, and of all readers."""
    import numpy as np

    rows = list[tuple[object, ...]]()
    for group, places in {**grouped(codes), "readers": [*range(len(codes))]}.items():
        name = f"mean of {group}"
        own = scored.scores[places]
        number_read = int((~np.isnan(own)).any(axis=0).sum())
        for fixed in (False, True) if len(places) < statistics.LEAST_READERS else (False,):
            shown = _figure(own, scored.groups, fixed=fixed)
            if number_read:
                rows.append((f"{name}, these alone" if fixed else name, number_read, shown, shown, "", ""))
    return rows


def grouped(codes: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the readers of each group, by its name; {} if there are no groups."""
    groups: dict[str, list[int]] = {}
    for place, code in enumerate(codes):
        groups.setdefault(code.partition(GROUP)[0] if GROUP in code else "others", []).append(place)
    return dict(sorted(groups.items())) if len(groups) > 1 else {}


def of_groups(report: Report) -> dict[str, Report]:
    """Return the report of each group of readers, over its readings alone; {} without groups or people."""
    codes = () if report.run.readers is None else report.run.readers.codes
    return {group: of_samples(report, {place + 1 for place in places}) for group, places in grouped(codes).items()}


def _panel(part: Part) -> list[tuple[object, ...]]:
    """The row of the panel's majority, if every answer to a question names options."""
    if any(chosen(result) is None for result in part.results):
        return []
    votes = [replace(voting.vote(own), sample=1) for own in voting.by_question(part.results).values()]
    panel = by_reader(votes, 1)
    shown = _figure(panel.scores, panel.groups, fixed=True)
    abstained = sum(result.score.outcome == "abstained" for result in votes)
    return [("panel majority", len(votes), shown, shown, abstained, "")]


def chosen(result: Result) -> tuple[str, ...] | None:
    """Return the options that a reader chose, () for an answer that names none; None if no option can be chosen."""
    if result.item.kind not in CHOICE_KINDS:
        return None
    return result.score.extracted if result.score.extracted or result.score.outcome in INVALID_OUTCOMES else None


def agreement(report: Report) -> Table:
    """Agreement of the readers on the options that they chose: Cohen's kappa of two, Krippendorff's alpha of more.

    To say that it cannot be determined is a choice of its own; other answers that name no option do not count. No rows
    for questions without options, or if no two readers read the same question.
    """
    names = naming(report)
    codes = () if report.run.readers is None else report.run.readers.codes
    rows = list[tuple[object, ...]]()
    for part in report.parts if len(codes) > 1 else ():
        labels, groups = _labels(part.results, len(codes))
        if len(labels):
            name = "Cohen's kappa" if len(codes) == 2 else "Krippendorff's alpha"
            shown = coefficients.nominal_agreement(labels, groups).figure()
            rows.append((*(part.benchmark.name, part.technique)[: len(names)], name, shown, shown, len(labels)))
    columns = (*texts(*names, "agreement"), Column("value", "figure"), INTERVAL, *numbers("questions"))
    return Table("Agreement of readers", columns, tuple(rows))


def _labels(results: Sequence[Result], readers: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the choices of readers by number, (questions, readers), -1 for none, and the group of each question.

    Questions with the choices of fewer than two readers are left out.
    """
    import numpy as np

    numbers_of: dict[tuple[str, ...], int] = {}
    firsts, labels = list[Result](), list[list[int]]()
    for answers in voting.by_question(results).values():
        own = [-1] * readers
        for result in answers:
            told = chosen(result)
            if told or (told is not None and result.score.outcome == "abstained"):
                own[result.sample - 1] = numbers_of.setdefault(told, len(numbers_of))
        if sum(label >= 0 for label in own) > 1:
            firsts.append(answers[0])
            labels.append(own)
    return np.array(labels, dtype=np.intp).reshape(-1, readers), groups_of(firsts)
