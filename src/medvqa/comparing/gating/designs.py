"""Designs of rules, known before any answer: units, groups and degrees of freedom, overall and by slice.

`layouts` has the units themselves, for simulations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from medvqa import metrics, statistics
from medvqa.items import Answer, Item, Metric, Outcome, Result, Score, replace
from medvqa.metrics import Tabled
from medvqa.statistics import Design, UnitLayout

Place = tuple[tuple[str, str], ...]
"""The (dimension, value) pairs of a slice; () is the whole benchmark."""


def averaged(metric: Metric) -> tuple[str, ...]:
    """The dimension over whose slices a metric averages, () for most: all that a table without other slices needs."""
    return () if metric.mean_over is None else (metric.mean_over,)


def designs(
    results: Iterable[Result], metric: Metric, dimensions: Sequence[str], *, alone: bool = False
) -> dict[Place, Design]:
    """The design of a measure on the questions of these results, whatever the answers were.

    `alone`: without slices of other dimensions than these. Every scorable answer counts as wrong: a measure may count
    units by their answers (`confusion` leaves out pairs without two valid ones), and answers must not choose the gated
    rules.
    """
    import numpy as np

    tables = _tabled(results, metric, dimensions, alone=alone)
    if tables is None:
        return {}
    table, _ = statistics.by_unit(tables.table())
    ratios, of = statistics.ratios(table), table.slice
    places: list[Place] = [((dimension, value),) if dimension else () for dimension, value in tables.frame.slices]
    if tables.over is not None:
        ratios, places = tables.mean(ratios), [()]
        of = np.where(np.isin(of, np.asarray(tables.over)), 0, -1)
    correction = statistics.corrected(ratios)
    unit = _unit(result.item for result in tables.rows)
    designs = {}
    for i, place in enumerate(places):
        rows = (table.denominator > 0) & (of == i)
        _, group = np.unique(table.group[rows], return_inverse=True)
        weight, df = table.denominator[rows], float(correction.df[i])
        together = float((np.bincount(group, weight) ** 2).sum() / (weight**2).sum()) if rows.any() else 1.0
        designs[place] = Design(
            units=len(np.unique(table.unit[rows])),
            groups=int(correction.groups[i]),
            df=None if df != df else df,
            unit=unit,
            together=together,
        )
    return designs


def layouts(results: Iterable[Result], metric: Metric, dimensions: Sequence[str]) -> dict[Place, UnitLayout]:
    """The units of each design, on the same terms as `designs`."""
    import numpy as np

    tables = _tabled(results, metric, dimensions)
    if tables is None:
        return {}
    table = tables.table()
    counted = table.only(table.denominator > 0)
    if tables.over is not None:
        averaged_over = np.isin(counted.slice, np.asarray(tables.over))
        return {(): UnitLayout(counted.only(averaged_over), tables.binary, tables.over, tables.weights)}
    found: dict[Place, UnitLayout] = {}
    for i, (dimension, value) in enumerate(tables.frame.slices):
        own = counted.in_slice(i)
        if len(own.unit):
            found[((dimension, value),) if dimension else ()] = UnitLayout(own, tables.binary)
    return found


def _tabled(
    results: Iterable[Result], metric: Metric, dimensions: Sequence[str], *, alone: bool = False
) -> Tabled | None:
    """The table of a measure as if every answer were wrong; None if a user's metric fails on artificial results."""
    tabled = metrics.tables([as_wrong(result) for result in results], [metric], dimensions, failed=[], alone=alone)
    return tabled[0] if tabled else None


def unanswered(items: Iterable[Item]) -> list[Result]:
    """Results of questions that no model has answered yet, for `designs` and for levels of chance."""
    return [
        Result("", item, "", Answer(""), Score(0.0, "wrong") if item.answers else Score(None, "unscored"))
        for item in items
    ]


def as_wrong(result: Result) -> Result:
    """Return the result as if its answer were wrong; a result without a score is unchanged."""
    return _as(result, 0.0, "wrong")


def as_right(result: Result) -> Result:
    """Return the result as if its answer were correct; a result without a score is unchanged."""
    return _as(result, 1.0, "correct")


def _as(result: Result, value: float, outcome: Outcome) -> Result:
    if result.score.outcome == "unscored":
        return result
    return replace(result, score=Score(value, outcome, result.score.extracted, result.score.why))


def _unit(items: Iterable[Item]) -> str:
    """The name of a unit."""
    paired = {item.pair_id is not None for item in items}
    return "unit" if len(paired) > 1 else "pair" if paired == {True} else "question"
