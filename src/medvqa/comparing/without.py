"""The headline measures of a run with and without the items that a training set has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from medvqa import metrics, statistics
from medvqa.benchmarks import not_known
from medvqa.comparing.common import under_protocols
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Item, Result, UsageError, withholding
from medvqa.likeness import LEVELS, Level, Overlaps
from medvqa.metrics.measuring import Tabled
from medvqa.statistics import PartDifference


@dataclass(frozen=True, slots=True)
class WithoutOverlap:
    """A measure of a run over all units, and over those without overlap up to a level.

    `items` counts the items of the run that are left out. `numbers` has both values and their difference, whose units
    are pairs or items; a pair is left out with either of its items.
    """

    benchmark: str
    technique: str
    measure: str
    level: Level
    items: int
    percent: bool
    numbers: PartDifference


@dataclass(frozen=True, slots=True)
class CleanScores:
    """The measures of a run without overlap; `unknown` counts its items that the data here lack or have otherwise."""

    run: str
    rows: tuple[WithoutOverlap, ...]
    unknown: Mapping[str, int]
    failed: tuple[FailedMetric, ...] = ()


def without_overlap(
    side: Side,
    benchmarks: Mapping[str, Benchmark],
    items: Mapping[str, Sequence[Item]],
    overlaps: Mapping[str, Overlaps],
) -> CleanScores:
    """Return the headline measures of a run with and without overlap, for each level that leaves out further items.

    `items` and `overlaps` are those of the benchmarks, by name. UsageError for a run of an unknown benchmark, and if
    none of its questions is among the items.
    """
    rows: list[WithoutOverlap] = []
    unknown: dict[str, int] = {}
    failed: list[FailedMetric] = []
    for name, techniques in side.asked.items():
        if name not in benchmarks:
            raise not_known(f"{side.name} holds", name, benchmarks)
        if name not in overlaps:
            continue
        asked = [result for result in side.results if result.item.benchmark == name]
        if missing := _unknown(asked, items[name]):
            unknown[name] = len(missing)
            if len(missing) == len({result.item.id for result in asked}):
                raise UsageError(
                    f"{side.name}: none of its questions of {name} is in the data here, so nothing can be left out. "
                    "Name the data that it was asked with by --data=DIR; a baseline with hashed ids has none"
                )
        for technique in techniques:
            benchmark = under_protocols(benchmarks[name], (side,), technique)
            measures = [metric for metric in benchmark.metrics if metric.name in benchmark.headline]
            results = [result for result in asked if result.technique == technique]
            with withholding(not benchmark.public):
                tables = metrics.tables(results, measures, benchmark.dimensions, failed)
            for tabled in tables:
                rows += _levels(tabled, overlaps[name], name, technique)
    return CleanScores(side.name, tuple(rows), unknown, tuple(failed))


def _unknown(results: Sequence[Result], items: Sequence[Item]) -> set[str]:
    """The items of the results that are not among the items, or have another question or other options there."""
    known = {item.id: (item.question, tuple(item.options.items())) for item in items}
    return {
        result.item.id
        for result in results
        if known.get(result.item.id) != (result.item.question, tuple(result.item.options.items()))
    }


def _levels(tabled: Tabled, overlaps: Overlaps, benchmark: str, technique: str) -> list[WithoutOverlap]:
    """One measure without the items of each level, unless the level adds none to those before it."""
    asked = {result.item.id for result in tabled.rows}
    rows: list[WithoutOverlap] = []
    for level in LEVELS:
        left_out = overlaps.up_to(level) & asked
        if not overlaps.at(level) & asked:
            continue
        part = _without(tabled, left_out)
        numbers = statistics.part_difference(
            tabled.table(),
            part.table(),
            binary=tabled.binary,
            bounded=tabled.bounded,
            over=tabled.over,
            weights=tabled.weights,
        )
        rows.append(
            WithoutOverlap(
                benchmark, technique, tabled.metric.name, level, len(left_out), bool(tabled.metric.percent), numbers
            )
        )
    return rows


def _without(tabled: Tabled, items: Collection[str]) -> Tabled:
    """The table without units that have one of the items."""
    import numpy as np

    dropped = np.array([any(result.item.id in items for result in unit) for unit in tabled.frame.units], dtype=bool)
    return replace(tabled, terms=np.where(dropped, 0.0, tabled.terms))
