r"""A measure over all units and over a part of them, such as those that no training set has: their difference.

Both are ratios of the same answers, so the difference is estimated with its own variance: d = r' - r, with r over all
units and r' over the part, is linearised as the sum over units of

    u = k x (y - r') / X' - x (y - r) / X,

y the unit's own ratio, x its denominator, X their sum, X' that of the part, and k 1 within the part, else 0. The
variance is G / (G - 1) times the sum of the squares of the groups' sums of u (Taylor linearisation with the with-
replacement estimator for clusters: Woodruff 1971, Journal of the American Statistical Association 66:411; Särndal,
Swensson and Wretman 1992, Model Assisted Survey Sampling, section 5.5). It takes the questions as a sample: another
sample would have another share of units in the part. A bootstrap of groups estimates the same.

Nearly all of the variance comes from the few units outside of the part, so Student's quantile has Satterthwaite's
degrees of freedom under independent units of equal variance: (sum of s)^2 / sum of s^2, s a group's sum of the squares
of k x / X' - x / X. With fewer than `LEAST_DF`, as with four groups outside of the part, there is no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING

from medvqa.statistics.influence import Table, by_unit, sums
from medvqa.statistics.intervals import LEAST_DF, VARIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """A measure over all units (`whole`), over a part of them (`part`), and `difference`, the part minus the whole.

    None where undefined. `low` and `high` bound the difference at `level`; both are None with fewer than LEAST_DF
    degrees of freedom (`df`), and if no value varies. `units` and `groups` are those of the whole; `left_out` and
    `groups_left_out` are the units outside of the part, in whole or with one of their questions, and their groups.
    """

    whole: float | None
    part: float | None
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


def part_difference(
    table: Table,
    part: Table,
    *,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    level: float = 0.95,
) -> PartDifference:
    """Compare a measure over a part of the units with the measure over all.

    `part` is `table` with numerators and denominators of 0 outside of the part. The measure is that of slice 0; with
    `over` it is the mean over these slices, weighted by `weights`, as in `mean_over`. ValueError for other tables.
    """
    import numpy as np
    from scipy.special import stdtrit

    places = ("unit", "group", "slice")
    if table.slices != part.slices or not all(
        np.array_equal(getattr(table, name), getattr(part, name)) for name in places
    ):
        raise ValueError("the part must be a part of the table: only its numerators and denominators may differ")
    (table, _), (part, _) = by_unit(table), by_unit(part)
    slices = np.array([0] if over is None else list(over), dtype=np.intp)
    whole, coefficient, influence = _linearised(table, slices, weights)
    value, minus, other = _linearised(part, slices, weights)
    coefficient, influence = minus - coefficient, other - influence
    counted = (table.denominator > 0) & np.isin(table.slice, slices)
    outside = counted & (part.denominator < table.denominator)
    _, group = np.unique(table.group[counted], return_inverse=True)
    groups = int(group.max(initial=-1)) + 1
    total = sums(group, influence[counted], groups)
    share = sums(group, coefficient[counted] ** 2, groups)
    variance = float((total**2).sum()) * groups / max(groups - 1, 1)
    squares = float((share**2).sum())
    df = float(share.sum()) ** 2 / squares if squares > 0 else nan
    known = not isnan(whole) and not isnan(value) and df >= LEAST_DF and variance > VARIES
    half = float(stdtrit(df, 0.5 + level / 2)) * sqrt(variance) if known else nan
    difference = value - whole
    return PartDifference(
        whole=_defined(whole),
        part=_defined(value),
        difference=_defined(difference),
        low=_defined(difference - half),
        high=_defined(difference + half),
        level=level,
        df=_defined(df),
        se=sqrt(variance) if known else None,
        units=len(np.unique(table.unit[counted])),
        groups=groups,
        left_out=len(np.unique(table.unit[outside])),
        groups_left_out=len(np.unique(table.group[outside])),
    )


def _linearised(
    table: Table, slices: NDArray[np.intp], weights: Sequence[float] | None
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return a measure, and the coefficient of each row's own ratio and its influence, (rows,) each."""
    import numpy as np

    totals = [sums(table.slice, terms, table.slices) for terms in (table.numerator, table.denominator)]
    defined = totals[1][slices] > 0
    shares = np.zeros(len(slices))
    if weights is None:
        shares[defined] = 1 / max(int(defined.sum()), 1)
    elif defined.all():
        shares = np.asarray(weights, dtype=float) / sum(weights)
    factor = np.zeros(table.slices)
    factor[slices] = shares
    per_slice = np.divide(totals[0], totals[1], out=np.zeros(table.slices), where=totals[1] > 0)
    inverse = np.divide(factor, totals[1], out=np.zeros(table.slices), where=totals[1] > 0)
    value = float(factor @ per_slice) if shares.any() else nan
    coefficient = table.denominator * inverse[table.slice]
    influence = (table.numerator - table.denominator * per_slice[table.slice]) * inverse[table.slice]
    return value, coefficient, influence


def _defined(value: float) -> float | None:
    return None if isnan(value) else value
