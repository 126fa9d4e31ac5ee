"""Headline measures of several runs unit by unit, and slice by slice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from medvqa import statistics
from medvqa.comparing.common import CommonPart, everything
from medvqa.figures import Figure
from medvqa.items import QuestionKey
from medvqa.metrics import Tabled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Unit = tuple[QuestionKey, ...]
"""The questions of a unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """A headline measure unit by unit, for all runs of a study.

    `units`: the questions of each unit, as keys of `Study.aligned`: one, or those of a pair. `values`, (units, runs in
    the order of `Study.sides`): the value of each unit, NaN where a run has no score. Two runs flip on a unit if both
    values are there and differ. A unit that some runs of the board have not scored counts for no two runs of the board:
    it may stand several times, with the values of runs that are compared with each other off the board.
    """

    benchmark: str
    technique: str
    metric: str
    unit: Literal["item", "pair"]
    better: Literal["higher", "lower"]
    units: Sequence[Unit]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SlicedRuns:
    """A headline measure of the board's runs over each value of one dimension, on the questions of `Ranking.scored`.

    `runs`: places in `Study.sides`. `values`: slice value -> the measure of each of `runs`, with its 95 % interval, its
    number of units (`n`) and of independent groups.
    """

    benchmark: str
    technique: str
    metric: str
    dimension: str
    runs: tuple[int, ...]
    values: Mapping[str, Sequence[Figure]]


@dataclass(slots=True)
class _ScaleRows:
    """The units of a scale, under way; `shared`: whether the runs of the board count in a row, by row."""

    units: list[Unit] = field(default_factory=list)
    values: list[list[float]] = field(default_factory=list)
    shared: list[bool] = field(default_factory=list)
    places: dict[Unit, list[int]] = field(default_factory=dict)

    def add(self, unit: Unit, values: list[float], board: Sequence[int], *, shared: bool) -> None:
        """Add the values of some runs, NaN for the others, to a row of the unit if they may be compared there."""
        for place in self.places.get(unit, ()):
            row = self.values[place]
            with_values = [run for run in board if row[run] == row[run] or values[run] == values[run]]
            same = all(a != a or b != b or a == b for a, b in zip(row, values, strict=True))
            if same and (self.shared[place] or len(with_values) < 2):
                row[:] = [a if b != b else b for a, b in zip(row, values, strict=True)]
                return
        self.places.setdefault(unit, []).append(len(self.units))
        self.units.append(unit)
        self.values.append(values)
        self.shared.append(shared)


def scales(board: Iterable[CommonPart], pairs: Iterable[CommonPart], runs: int, ranked: Sequence[int]) -> list[Scale]:
    """The values of all units by each headline measure whose units flip: no average over slices, no plain number.

    `board`: the parts of the runs that are ranked together, which are the places `ranked` of `runs` runs. `pairs`: the
    parts of two runs each.
    """
    import numpy as np

    by_measure: dict[tuple[str, str, str], list[tuple[bool, CommonPart, tuple[Tabled, ...]]]] = {}
    for shared, parts in ((True, board), (False, pairs)):
        for part in parts:
            for tabled in part.headline:
                metric = tabled[0].metric
                if metric.mean_over is None and metric.percent:
                    key = part.benchmark.name, part.technique, metric.name
                    by_measure.setdefault(key, []).append((shared, part, tabled))
    found = []
    for key, measured in by_measure.items():
        metric, rows = measured[0][2][0].metric, _ScaleRows()
        for shared, part, tabled in measured:
            units, own = _by_unit(part, tabled)
            values = np.full((len(units), runs), np.nan)
            values[:, list(part.places)] = own
            if len(measured) > 1:
                for unit, of_unit in zip(units, values.tolist(), strict=True):
                    rows.add(unit, of_unit, ranked, shared=shared)
        if len(measured) > 1:
            units, values = rows.units, np.array(rows.values, dtype=float).reshape(-1, runs)
        found.append(Scale(*key, metric.unit, metric.better, units, values))
    return found


def _by_unit(part: CommonPart, tabled: Sequence[Tabled]) -> tuple[list[Unit], NDArray[np.float64]]:
    """The questions of each unit that any run has scored, and the values, (units, runs)."""
    import numpy as np

    tables = [statistics.by_unit(everything(run.table()))[0] for run in tabled]
    values = np.column_stack([statistics.own_values(table) for table in tables])
    kept = ~np.isnan(values).all(axis=1)
    units = part.units(tabled[0])
    questions = (units[code] for code in tables[0].unit[kept].tolist())
    return [tuple(part.keys[place] for unit in own for place in unit) for own in questions], values[kept]


def sliced(part: CommonPart) -> list[SlicedRuns]:
    """The headline measures of a part by slice, of the benchmark's dimensions, with two-sided intervals."""
    measures = []
    for tabled in part.headline:
        metric = tabled[0].metric
        if metric.mean_over is not None or not metric.percent:
            continue
        by_run = [_slices(run) for run in tabled]
        places: dict[str, list[int]] = {}
        for place, (dimension, _) in enumerate(tabled[0].frame.slices):
            places.setdefault(dimension, []).append(place)
        for dimension in part.benchmark.dimensions:
            values = {
                tabled[0].frame.slices[place][1]: [run[place] for run in by_run]
                for place in places.get(dimension, ())
                if any(run[place].n for run in by_run)
            }
            if values:
                key = part.benchmark.name, part.technique, metric.name, dimension
                measures.append(SlicedRuns(*key, part.places, values))
    return measures


def _slices(tabled: Tabled) -> list[Figure]:
    """The value of a measure in each slice, EVERYTHING first."""
    found = tabled.estimate()
    return [replace(found.figure(place), n=units) for place, units in enumerate(found.units.tolist())]
