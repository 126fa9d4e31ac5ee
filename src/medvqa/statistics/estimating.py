"""From a table of units to values with intervals, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.figures import Figure, defined
from medvqa.statistics import intervals
from medvqa.statistics.clustered import Estimates, clustered
from medvqa.statistics.influence import UnitTable, by_unit, mean_over, ratios

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """Measures with their intervals; all arrays are (measures,), NaN where undefined.

    `units`: the number of units in each slice, (slices,). `precision`: the variance and all that bounds need.
    """

    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    units: NDArray[np.intp]
    precision: Estimates
    binary: bool

    @property
    def groups(self) -> NDArray[np.intp]:
        """The number of independent groups of each measure."""
        return self.precision.groups

    def bounds(self, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return one-sided lower and upper bounds (`intervals.bounds`)."""
        return intervals.bounds(self.precision, binary=self.binary, level=level)

    def figure(self, place: int = 0) -> Figure:
        """Return a measure with its interval, None where undefined; in `groups`, its groups."""
        value, low, high = (defined(column[place]) for column in (self.value, self.low, self.high))
        return Figure(value, low, high, groups=int(self.groups[place]))


def estimate(
    table: UnitTable,
    *,
    binary: bool,
    bounded: bool = True,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
) -> Estimated:
    """Return the measure of every slice with its two-sided interval; with `over`, one mean over these slices.

    `binary`: every unit is right or wrong. `bounded`: all values are from 0 to 1; else there is no interval. `weights`
    are those of `over`, as for `mean_over`. Two runs are compared by `compare`, a part with its whole by
    `part_difference`.
    """
    import numpy as np

    table, _ = by_unit(table)
    measured = ratios(table) if over is None else mean_over(ratios(table), over, weights)
    precision = clustered(measured)
    low = high = np.full_like(measured.value, np.nan)
    if bounded:
        low, high = intervals.intervals(precision, binary=binary, level=level)
    units = np.bincount(table.slice[table.denominator > 0], minlength=table.slices)
    return Estimated(measured.value, low, high, units, precision, binary)
