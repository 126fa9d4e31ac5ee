"""Rank several runs on the same questions by a measure, with the possible ranks of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from medvqa import metrics as measures
from medvqa import statistics
from medvqa.comparing import differing, matching
from medvqa.comparing.paired import under_protocols
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Metric, QuestionKey, Result
from medvqa.metrics import Tabled
from medvqa.statistics import Influences, Table

if TYPE_CHECKING:
    from medvqa.comparing.matching import Samples

ERROR = 0.05
"""Familywise error: chance that any two equal runs of a ranking are shown to differ."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One run: its value with its own 95 % interval, its rank and its possible ranks.

    `rank` counts from 1; equal values share one. `best`: one more than the number of runs shown to be better. `worst`:
    the number of runs less those shown to be worse (adjusted p at most 5 %). `differs`: the value of the one setting in
    which the run differs from the first run of the comparison, "" without one.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    rank: int
    best: int
    worst: int
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Runs in the order of one headline measure, the best first.

    `items`: number of items in all runs. `scored`: number of these with a score in all runs; the measure is over these.
    `adjusted`: two-sided p-value of each pair of runs, by their names in input order, after Holm over all pairs; None
    without bounds.
    """

    benchmark: str
    technique: str
    metric: str
    better: Literal["higher", "lower"]
    items: int
    scored: int
    rows: tuple[Ranked, ...]
    adjusted: Mapping[tuple[str, str], float | None]


@dataclass(frozen=True, slots=True)
class InCommon:
    """One headline measure of several runs on the items that all of them have; `tabled`: its terms, run by run.

    `items` and `scored` as in `Ranking`.
    """

    benchmark: str
    technique: str
    items: int
    scored: int
    tabled: Sequence[Tabled]


def rank(sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> list[Ranking]:
    """Rank runs with different names by each headline measure, on the items that all of them have.

    Runs that differ from the first in one setting are matched with it as in a comparison (`paired.compare`).
    """
    first, *others = sides
    differences = [differing.contrast(side, first).difference for side in others]
    sides = [first, *(differing.aligned(first, side, d) for side, d in zip(others, differences, strict=True))]
    differs = ["", *("" if difference is None else difference.new for difference in differences)]
    names = [side.name for side in sides]
    return [_ranking(measure, names, differs) for measure in in_common(sides, benchmarks)]


def in_common(sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> Iterator[InCommon]:
    """Yield each headline measure of each benchmark and technique that all runs have, without numbers that are no
    percentages."""
    techniques_of_sides = [side.asked for side in sides]
    for name, techniques in techniques_of_sides[0].items():
        for technique in techniques:
            if name in benchmarks and all(technique in others.get(name, ()) for others in techniques_of_sides):
                yield from _in_common(sides, under_protocols(benchmarks[name], sides), technique)


def _in_common(sides: Sequence[Side], benchmark: Benchmark, technique: str) -> Iterator[InCommon]:
    chosen = [metric for metric in benchmark.metrics if metric.name in benchmark.headline]
    rows = _common([matching.by_question(side.results, benchmark.name, technique) for side in sides])
    failed: list[FailedMetric] = []
    tabled = [measures.tables(results, chosen, benchmark.dimensions, failed) for results in rows]
    failed_names = {metric.name for metric in failed}
    # Comparisons of two runs show failed metrics, and numbers that are no percentages.
    tabled = [
        [table for table in run if table.metric.percent and table.metric.name not in failed_names] for run in tabled
    ]
    answered = [{result.item.id for result in results if matching.scored([result])} for results in rows]
    items, scored = len({result.item.id for result in rows[0]}), len(set.intersection(*answered))
    for one_measure in map(measures.scored_in_all, zip(*tabled, strict=True)):
        yield InCommon(benchmark.name, technique, items, scored, one_measure)


def _common(sides_by_question: Sequence[Mapping[QuestionKey, Samples]]) -> list[list[Result]]:
    """The results of each run on the common questions, with the items of the first run."""
    first, *others = sides_by_question
    matched = [matching.match(first, other) for other in others]
    kept = set(first)
    for pairing in matched:
        kept -= set(pairing.alone_first)
    sides = [sorted(first.items())]
    sides += [[(one[0].key.question, other) for one, other in zip(m.first, m.second, strict=True)] for m in matched]
    return [[result for key, samples in side if key in kept for result in samples] for side in sides]


def _ranking(measure: InCommon, names: Sequence[str], differs: Sequence[str]) -> Ranking:
    tabled, metric = measure.tabled, measure.tabled[0].metric
    estimates = [estimate(table) for table in tabled]
    compared = {(i, j): _difference(tabled[i], tabled[j], metric) for i, j in combinations(range(len(tabled)), 2)}
    tested = [pair for pair, (_, p) in compared.items() if p is not None]
    corrected = statistics.holm([p for _, p in compared.values() if p is not None]).tolist()
    adjusted: dict[tuple[int, int], float | None] = {
        **dict.fromkeys(compared),
        **dict(zip(tested, corrected, strict=True)),
    }
    better = [0] * len(tabled)
    worse = [0] * len(tabled)
    for (i, j), (difference, _) in compared.items():
        p = adjusted[i, j]
        if p is None or difference is None or p > ERROR:
            continue
        above, below = (i, j) if difference > 0 else (j, i)
        better[below] += 1
        worse[above] += 1
    sign = 1 if metric.better == "higher" else -1
    keys = [float("-inf") if value is None else sign * value for value, _, _ in estimates]
    ranked = [
        Ranked(name, *estimate, 1 + sum(other > key for other in keys), 1 + above, len(names) - below)
        for name, estimate, key, above, below in zip(names, estimates, keys, better, worse, strict=True)
    ]
    ranked = [replace(row, differs=value) for row, value in zip(ranked, differs, strict=True)]
    return Ranking(
        measure.benchmark,
        measure.technique,
        metric.name,
        metric.better,
        measure.items,
        measure.scored,
        tuple(sorted(ranked, key=lambda row: (row.rank, row.name))),
        {(names[i], names[j]): p for (i, j), p in adjusted.items()},
    )


def influences(tabled: Tabled) -> Influences:
    """The contributions of the units to a measure over all items."""
    return tabled.mean(statistics.ratios(tabled.table() if tabled.over is not None else _everything(tabled.table())))


def estimate(tabled: Tabled) -> tuple[float | None, float | None, float | None]:
    """Value and two-sided interval over all items."""
    ratios = influences(tabled)
    low, high = statistics.intervals(statistics.clustered(ratios), binary=tabled.binary and tabled.over is None)
    value, below, above = (float(values[0]) for values in (ratios.value, low, high))
    if value != value:
        return None, None, None
    return (value, None, None) if below != below or not tabled.bounded else (value, below, above)


def _difference(one: Tabled, other: Tabled, metric: Metric) -> tuple[float | None, float | None]:
    """The first value minus the second, positive if better, and the two-sided p-value."""
    tables = [table.table(complement=metric.better == "lower") for table in (one, other)]
    if one.over is None:
        tables = [_everything(table) for table in tables]
    (comparison,) = statistics.compare(*tables, binary=one.binary and other.binary, over=one.over, weights=one.weights)
    return comparison.difference, None if comparison.worse is None else min(
        1.0, 2 * min(comparison.worse, 1 - comparison.worse)
    )


def _everything(table: Table) -> Table:
    """The rows of the first slice, which holds every unit."""
    kept = table.slice == 0
    columns = (table.numerator, table.denominator, table.unit, table.group, table.slice)
    return Table(*(column[kept] for column in columns))
