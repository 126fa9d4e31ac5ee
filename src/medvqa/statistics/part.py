"""A measure over all units and over a part of them, such as those that no training set has: their difference.

The part is fixed: which units are left out is a fact about the questions. With s the share of the weights that is left
out, the part minus the whole is

    r' - r = s (rest - left),

a difference of two proportions times a constant. Its interval is Newcombe's hybrid score interval (1998, Statistics in
Medicine 17:873, method 10): Wilson's interval of either side at its own n* (`intervals`), joined as the square root of
the sum of squares. Linearisation instead takes the variance from the sample: where few units are left out and nearly
all answers are right, none of these is wrong in many samples, and a model without any effect looks better on them.

An average over slices is a sum of such differences, joined alike (MOVER: Zou and Donner 2008, Statistics in Medicine
27:1693). If groups lie in several slices, the interval is widened by the square root of the sum's CR2 variance over
that of its independent terms. A side with fewer than `LEAST_DF` degrees of freedom counts as many units as it has
effective groups. Groups that lie on both sides make the true interval narrower, not wider: their covariance is left
out.

There is no interval if fewer than `LEAST_LEFT_OUT` units, or groups with fewer than `LEAST_DF` degrees of freedom, are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING

from medvqa.figures import defined
from medvqa.statistics.clustered import Estimates, clustered
from medvqa.statistics.influence import Influences, UnitTable, by_unit, ratios, sums
from medvqa.statistics.intervals import LEAST_DF, VARIES, intervals, student, wilson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_LEFT_OUT = 10
"""Fewest units on either side of a difference with an interval; below, only counts are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """A measure over all units (`whole`), over a part of them (`part`), and `difference`, the part minus the whole.

    None where undefined. `low` and `high` bound the difference at `level`, two-sided; both are None with too few units
    or degrees of freedom (`df`), and if no value varies. `units` and `groups` are those of the whole; `left_out` and
    `groups_left_out` are the units outside of the part, in whole or with one of their questions, and their groups.
    `left` is the measure over what is left out; `counted` has its numerator and denominator, None for an average over
    slices.
    """

    whole: float | None
    part: float | None
    left: float | None
    counted: tuple[float, float] | None
    difference: float | None
    low: float | None
    high: float | None
    level: float
    df: float | None
    se: float | None
    units: int
    groups: int
    left_out: int
    groups_left_out: int

    @property
    def few(self) -> bool:
        """Whether too few units are left out, or kept, for more than counts."""
        return min(self.left_out, self.units - self.left_out) < LEAST_LEFT_OUT


def part_difference(
    table: UnitTable,
    part: UnitTable,
    *,
    binary: bool,
    bounded: bool = True,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
) -> PartDifference:
    """Compare a measure over a part of the units with the measure over all.

    `part` is `table` with numerators and denominators of 0 outside of the part. The measure is that of slice 0; with
    `over` it is the mean over these slices, weighted by `weights`, as in `mean_over`. `binary`: every unit is right or
    wrong. `bounded`: values are from 0 to 1; others get an interval by Student's t. ValueError for other tables.
    """
    import numpy as np

    if not table.differs_in_terms_alone(part):
        raise ValueError("the part must be a part of the table: only its numerators and denominators may differ")
    (table, _), (part, _) = by_unit(table), by_unit(part)
    slices = np.array([0] if over is None else list(over), dtype=np.intp)
    rest = replace(table, numerator=table.numerator - part.numerator, denominator=table.denominator - part.denominator)
    whole, factors, _ = _measured(table, slices, weights)
    value, kept, _ = _measured(part, slices, weights)
    left, _, counted = _measured(rest, slices, weights)
    # The coefficients of the part's and of the rest's own ratios in the difference of the two measures.
    shares = np.divide(_totals(rest, slices), _totals(table, slices), out=np.zeros(len(slices)), where=factors > 0)
    coefficients = np.concatenate([kept - factors * (1 - shares), -factors * shares])
    terms = _side_by_side(part, rest, slices)
    inside = (table.denominator > 0) & np.isin(table.slice, slices)
    outside = inside & (part.denominator < table.denominator)
    found = PartDifference(
        whole=defined(whole),
        part=defined(value),
        left=defined(left),
        counted=counted if over is None else None,
        difference=defined(value - whole),
        low=None,
        high=None,
        level=level,
        df=None,
        se=None,
        units=len(np.unique(table.unit[inside])),
        groups=len(np.unique(table.group[inside])),
        left_out=len(np.unique(table.unit[outside])),
        groups_left_out=len(np.unique(table.group[outside])),
    )
    if isnan(value - whole):
        return found
    joined = _joined(terms, coefficients, value - whole)
    together = clustered(joined)
    df, variance = float(together.df[0]), float(together.variance[0])
    found = replace(found, df=defined(df))
    if found.few or not df >= LEAST_DF or not variance > VARIES:
        return found
    if bounded:
        low, high = _mover(clustered(terms), coefficients, variance, binary=binary, level=level, joint=over is not None)
    else:
        low, high = (float(end[0]) - (value - whole) for end in student(together, level))
    return replace(found, low=value - whole + low, high=value - whole + high, se=sqrt(variance))


def _mover(
    estimates: Estimates, coefficients: NDArray[np.float64], variance: float, *, binary: bool, level: float, joint: bool
) -> tuple[float, float]:
    """Return the distances of the bounds from a sum of ratios times coefficients; `joint`: groups are in several."""
    import numpy as np

    used = np.abs(coefficients) > 0
    low, high = intervals(estimates, binary=binary, level=level)
    groups = np.where(used & (estimates.effective_groups > 0), estimates.effective_groups, 1.0)
    value = np.where(used, estimates.value, 0.0)
    without = np.isnan(low)
    few = wilson(np.clip(value, 0, 1) * groups, groups, level)
    below = np.where(used, value - np.where(without, few[0], low), 0.0)
    above = np.where(used, np.where(without, few[1], high) - value, 0.0)
    rises = coefficients > 0
    wider = 1.0
    if joint:
        own = np.where(used & ~np.isnan(estimates.variance), estimates.variance, 0.0)
        apart = float(coefficients**2 @ own)
        wider = sqrt(max(variance / apart, 1.0)) if apart > 0 else 1.0
    down, up = (
        float(np.sqrt((coefficients**2 * np.where(rises, first, second) ** 2).sum()))
        for first, second in ((below, above), (above, below))
    )
    return -wider * down, wider * up


def _side_by_side(part: UnitTable, rest: UnitTable, slices: NDArray[np.intp]) -> Influences:
    """The ratios of the part in each slice, then those of the rest; one measure each."""
    import numpy as np

    count = len(slices)
    place = np.full(part.slices, -1)
    place[slices] = np.arange(count)
    kept = place[part.slice] >= 0
    of = place[part.slice[kept]]
    return ratios(
        UnitTable(
            np.concatenate([part.numerator[kept], rest.numerator[kept]]),
            np.concatenate([part.denominator[kept], rest.denominator[kept]]),
            np.tile(part.unit[kept], 2),
            np.tile(part.group[kept], 2),
            np.concatenate([of, of + count]),
            2 * count,
        )
    )


def _joined(terms: Influences, coefficients: NDArray[np.float64], value: float) -> Influences:
    """The sum of ratios times coefficients, as one measure; ratios without a coefficient are left out."""
    import numpy as np

    used = np.flatnonzero(np.abs(coefficients) > 0)
    place = np.full(len(coefficients), -1)
    place[used] = np.arange(len(used))
    kept = place[terms.ratio] >= 0
    return Influences(
        np.array([value]),
        np.zeros(len(used), dtype=np.intp),
        coefficients[used],
        place[terms.ratio[kept]],
        *(getattr(terms, name)[kept] for name in ("group", "weight", "residual", "own")),
    )


def _totals(table: UnitTable, slices: NDArray[np.intp]) -> NDArray[np.float64]:
    return sums(table.slice, table.denominator, table.slices)[slices]


def _measured(
    table: UnitTable, slices: NDArray[np.intp], weights: Sequence[float] | None
) -> tuple[float, NDArray[np.float64], tuple[float, float]]:
    """Return a measure, the factor of each of its slices, and its numerator and denominator in all of them."""
    import numpy as np

    numerator, denominator = sums(table.slice, table.numerator, table.slices)[slices], _totals(table, slices)
    defined = denominator > 0
    factors = np.zeros(len(slices))
    if weights is None:
        factors[defined] = 1 / max(int(defined.sum()), 1)
    elif defined.all():
        factors = np.asarray(weights, dtype=float) / sum(weights)
    per_slice = np.divide(numerator, denominator, out=np.zeros(len(slices)), where=defined)
    value = float(factors @ per_slice) if factors.any() else nan
    return value, factors, (float(numerator.sum()), float(denominator.sum()))
