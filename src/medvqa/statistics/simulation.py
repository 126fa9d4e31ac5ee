"""Simulate a baseline rule of the gate on given units and groups: how often it passes, before any answer.

A unit rises with probability (flips - loss) / 2 and falls with (flips + loss) / 2. With probability sqrt(correlation)
it fares as its group does, so two units of a group have that correlation. The runs are slices of one table, compared by
the gate's own `compare_prepared` and judged by its `decide`; of macro averages each run is a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import TYPE_CHECKING

from medvqa.statistics.gate import MarginRule, decide, level_of
from medvqa.statistics.influence import UnitTable, by_unit, distinct
from medvqa.statistics.paired import FLIP_ICC, Comparison, Prepared, Shared, compare_prepared, prepared
from medvqa.statistics.planning import POWER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RUNS = 2000
"""Runs of a simulation, unless the units are many."""
LEAST_RUNS = 500
ROWS = 16_000_000
"""Units of all runs that are simulated without fewer runs: some ten seconds."""
CHUNK = 1_000_000
"""Units of the runs that are compared at once."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitLayout:
    """The units of a measure in their groups and slices, without answers: the numerators of `table` do not matter.

    The measure is that of slice 0, or with `over` the mean over these slices, with `weights`, as for `compare`.
    `binary`: every unit is right or wrong.
    """

    table: UnitTable
    binary: bool = True
    over: Sequence[int] | None = None
    weights: Sequence[float] | None = None

    @property
    def units(self) -> int:
        """The number of units."""
        import numpy as np

        return len(np.unique(self.table.unit))


@dataclass(frozen=True, slots=True)
class Simulated:
    """The shares of `runs` simulated gates that passed and failed.

    `passable`: the margin that 80 % of the runs would pass; infinite without bounds.
    """

    passed: float
    failed: float
    passable: float
    runs: int

    @property
    def error(self) -> float:
        """Two standard errors of `passed`, at a share with one success and one failure more: it may be 0 or 1."""
        share = (self.passed * self.runs + 1) / (self.runs + 2)
        return 2 * sqrt(share * (1 - share) / self.runs)


def in_groups(groups: Sequence[int] | NDArray[np.intp]) -> UnitLayout:
    """Return right or wrong units with equal weights in these groups, one number for each unit."""
    import numpy as np

    group = np.asarray(groups, dtype=np.intp)
    group = group[group.argsort(kind="stable")]
    units, ones = np.arange(len(group)), np.ones(len(group))
    return UnitLayout(UnitTable(0 * ones, ones, units, group, 0 * units))


def simulated(
    layout: UnitLayout,
    margin: float,
    flips: float,
    *,
    loss: float = 0.0,
    correlation: float = 0.0,
    icc: float = FLIP_ICC,
    looks: int = 1,
    runs: int | None = None,
    seed: int = 0,
) -> Simulated:
    """Simulate the rule that the new run is not worse by `margin`, if it is worse by `loss` (fractions).

    `flips`: the share of units that change either way; `icc`: the correlation that the rule declares, as for `compare`;
    `looks` as for `decide`. `runs` is by default `RUNS`, and fewer for many units. Raises ValueError for a
    loss beyond the share of flips, and for other values out of range.
    """
    import numpy as np

    if not (layout.units and abs(loss) <= flips <= 1 and 0 <= correlation <= 1 and margin > 0):
        raise ValueError(
            "a simulation needs units, a margin above 0, a correlation from 0 to 1 and flips between the loss and 1, "
            f"not units={layout.units}, margin={margin}, correlation={correlation}, loss={loss}, flips={flips}"
        )
    table, _ = by_unit(layout.table)
    layout = replace(layout, table=table)
    if runs is None:
        most = ROWS // len(table.unit) if layout.over is None else LEAST_RUNS
        runs = max(LEAST_RUNS, min(RUNS, most))
    outcomes, bounds = [], []
    for comparison in _compared(layout, runs, (flips, loss, correlation), level_of(looks), icc, seed):
        outcomes.append(decide([MarginRule(name="", comparison=comparison, margin=margin)], looks=looks).outcome)
        bounds.append(np.inf if comparison.low is None else -comparison.low)
    passable = float(np.quantile(bounds, POWER, method="higher"))
    return Simulated(outcomes.count("PASS") / runs, outcomes.count("FAIL") / runs, passable, runs)


def _compared(
    layout: UnitLayout, runs: int, chances: tuple[float, float, float], level: float, icc: float, seed: int
) -> Iterator[Comparison]:
    """The comparisons of all runs, some at once; equal numbers of them share what does not depend on the answers."""
    import numpy as np

    table, draw, shared = layout.table, np.random.default_rng(seed), Shared()
    units, unit = distinct(table.unit.astype(np.int64))
    group = np.zeros(len(units), dtype=np.intp)
    group[unit] = table.group
    _, group = np.unique(group, return_inverse=True)
    size = 1 if layout.over is not None else max(1, min(runs, CHUNK // len(unit)))
    for start in range(0, runs, size):
        count = min(size, runs - start)
        change = changes(draw, group, count, *chances)[:, unit]
        sides = (_prepared(layout, right) for right in (change >= 0, change <= 0))
        known = shared if count == size else Shared()
        yield from compare_prepared(
            *sides, binary=layout.binary, level=level, icc=icc, weights=layout.weights, shared=known
        )


def _prepared(layout: UnitLayout, right: NDArray[np.bool_]) -> Prepared:
    """The answers of runs, (runs, rows): one table of macro averages, else each run as a slice."""
    import numpy as np

    table, runs = layout.table, len(right)
    values = np.where(right, table.denominator, 0.0)
    if layout.over is not None:
        return prepared(replace(table, numerator=values[0]), over=layout.over, weights=layout.weights)
    of = np.repeat(np.arange(runs), len(table.unit))
    unit, group = np.tile(table.unit, runs), np.tile(table.group, runs)
    return prepared(UnitTable(values.ravel(), np.tile(table.denominator, runs), unit, group, of, runs))


def changes(
    draw: np.random.Generator, group: NDArray[np.intp], runs: int, flips: float, loss: float, correlation: float
) -> NDArray[np.int8]:
    """Return what becomes of each unit, (runs, units): 1 it rises, -1 it falls, 0 as before."""
    import numpy as np

    rank = draw.random((runs, len(group)))
    if correlation:
        together = draw.random((runs, int(group.max()) + 1))[:, group]
        rank = np.where(draw.random(rank.shape) < sqrt(correlation), together, rank)
    return (rank > 1 - (flips - loss) / 2).astype(np.int8) - (rank < (flips + loss) / 2).astype(np.int8)


def units_to_pass(
    layout: UnitLayout,
    margin: float,
    flips: float,
    *,
    correlation: float = 0.0,
    icc: float = FLIP_ICC,
    looks: int = 1,
    passable: float,
) -> int:
    """Return the number of units with which 80 % pass the margin at no change, in groups like these.

    `passable`: the margin that 80 % pass with the units of the layout. Standard errors fall with the root of the number
    of groups; with few groups they fall faster, so a second simulation of that number corrects it, unless it is large.
    """
    units = layout.units * (passable / margin) ** 2
    if layout.over is None and isfinite(units) and units * LEAST_RUNS <= ROWS:
        larger = grown(layout, int(units) + 1)
        found = simulated(larger, margin, flips, correlation=correlation, icc=icc, looks=looks, runs=LEAST_RUNS, seed=1)
        if isfinite(found.passable):
            units = larger.units * (found.passable / margin) ** 2
    return int(units) + 1


def grown(layout: UnitLayout, units: int) -> UnitLayout:
    """Return at least `units` units in groups like those of the layout, which are repeated in a random order."""
    import numpy as np

    table = layout.table
    groups, group = np.unique(table.group, return_inverse=True)
    numbers, unit = np.unique(table.unit, return_inverse=True)
    of = np.zeros(len(numbers), dtype=np.intp)
    of[unit] = group
    sizes = np.bincount(of, minlength=len(groups))
    order = np.random.default_rng(0).permutation(len(groups))
    times = -(-units // len(numbers))
    kept = int(np.searchsorted(np.cumsum(np.tile(sizes[order], times)), units)) + 1
    rank = np.empty(len(groups), dtype=np.intp)
    rank[order] = np.arange(len(groups))
    copy = np.repeat(np.arange(times), len(group))
    new = np.tile(rank[group], times) + copy * len(groups)
    inside = new < kept
    return replace(
        layout,
        table=UnitTable(
            np.tile(table.numerator, times)[inside],
            np.tile(table.denominator, times)[inside],
            (np.tile(unit, times) + copy * len(numbers))[inside],
            new[inside],
            np.tile(table.slice, times)[inside],
            table.slices,
        ),
    )
