r"""Bounds of macro averages, and of their difference between two runs.

A slice without an error adds nothing to a variance, and neither does a slice without a flip. Small slices have none by
chance: of three questions that are right with a probability of 95 %, all are right in 86 % of samples. So a macro
average over slices of 3, 3, 3, 100 and 300 questions had an interval that covered in 38 %.

Fay and Feuer (1997, Statistics in Medicine 16:791) bound a weighted sum of counts as if one more count had been seen in
the slice where a count weighs the most. This is their bound with a beta distribution in place of the gamma
distribution, since shares end at 1: for a sum m with the variance v, and w the largest weight of a count, the upper
bound is the quantile of the beta distribution with

    mean (m + w) / (1 + w), variance (v + w^2 (1 - m)) / ((1 + w)^2 (1 + 2 w)).

For n questions in one slice, v = m (1 - m) / n and w = 1 / n, this is Clopper and Pearson's bound. The lower bound is 1
minus the upper bound of 1 - m. MOVER (Zou and Donner 2008, Statistics in Medicine 27:1693) from Clopper and Pearson's
bounds of each slice errs where many slices are small: their skewness does not average out, so that one side of 18
slices of 10 questions misses in 8 %, and the other never.

Units of a group may share their outcome, in one slice and across slices. With the correlation c within groups,

    v = (1 - c) sum(a^2 s^2) + c sum over groups of (sum of a s)^2,

a the weight of a unit in the macro average and s^2 the variance in its slice. The CR2 variance yields an estimate of c,
with which one more count weighs between a unit and a whole group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.statistics.influence import Influences, distinct, sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]

Z_MOST = 8.0
"""The largest normal quantile of a p-value, 6e-16: the levels of bounds are exact to about 1e-16."""


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """How the units of macro averages lie in slices and groups; all arrays are (measures,).

    `independent` and `together` are the variances of units that are right or wrong: if units are independent, and if
    the units of a group have one outcome in all slices. `observed` is `independent` with the variances of the values
    themselves, which are smaller for partial credit. `unit` and `group` are the largest weights of a unit and of a
    group, as means over the units of a slice. `rise` and `fall` are the sums of the values above and below 0, for a
    difference the weights gained and lost; `rise_variance` and `fall_variance` those of Poisson counts.
    """

    independent: NDArray[np.float64]
    together: NDArray[np.float64]
    observed: NDArray[np.float64]
    unit: NDArray[np.float64]
    group: NDArray[np.float64]
    rise: NDArray[np.float64]
    fall: NDArray[np.float64]
    rise_variance: NDArray[np.float64]
    fall_variance: NDArray[np.float64]


def slices_of(influences: Influences) -> Slices:
    """Sum the units of every measure over slices and groups; values must be from -1 to 1."""
    import numpy as np

    ratios, measures = len(influences.measure), len(influences.value)
    ratio, own, w = influences.ratio, influences.own, influences.weight
    factor, of = np.abs(influences.factor), influences.measure[ratio]
    weight = factor[ratio] * w
    stride = int(influences.group.max(initial=0)) + 1
    blocks, block = distinct(of * stride + influences.group)
    kish = sums(ratio, w * w, ratios)
    mean, size = sums(ratio, w * own, ratios), sums(ratio, w * np.abs(own), ratios)
    most = np.maximum(size - mean**2, 0.0)
    spread = sums(ratio, w * influences.residual**2, ratios)
    shared = sums(block, weight, len(blocks))
    unit, group = np.zeros(measures), np.zeros(measures)
    np.maximum.at(unit, influences.measure, factor * kish)
    np.maximum.at(group, influences.measure, sums(ratio, w * shared[block], ratios))
    as_one = sums(block, weight * np.sqrt(most)[ratio], len(blocks))
    up, down = np.maximum(own, 0.0), np.maximum(-own, 0.0)
    return Slices(
        sums(influences.measure, factor**2 * kish * most, measures),
        sums((blocks // stride).astype(np.intp), as_one**2, measures),
        sums(influences.measure, factor**2 * kish * spread, measures),
        unit,
        group,
        *(sums(of, weight * values, measures) for values in (up, down)),
        *(sums(of, weight * weight * values, measures) for values in (up, down)),
    )


def _correlation(variance: NDArray[np.float64], slices: Slices) -> NDArray[np.float64]:
    """Return the correlation within groups that yields this variance, (measures,), from 0 to 1."""
    import numpy as np

    more = slices.together - slices.independent
    scale = np.divide(slices.independent, slices.observed, out=np.ones_like(more), where=slices.observed > 0)
    found = np.zeros_like(more)
    np.divide(variance * scale - slices.independent, more, out=found, where=more > 1e-12 * slices.together)
    return np.clip(np.nan_to_num(found), 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class MacroVariance:
    """The precision of macro averages, (measures,) each: `count` is the weight of one more count."""

    variance: NDArray[np.float64]
    df: NDArray[np.float64]
    count: NDArray[np.float64]

    def at(self, level: ArrayLike) -> NDArray[np.float64]:
        """Return the variance times (t / z)^2, with Student's and the normal quantile of a level."""
        import numpy as np
        from scipy.special import ndtri, stdtrit

        # At 0.5 both quantiles are 0, but their ratio is continuous; below, it is that of 1 minus the level.
        level = np.clip(np.maximum(level, np.subtract(1, level)), 0.5 + 1e-6, 1 - 1e-15)
        return np.asarray(self.variance * (stdtrit(self.df, level) / ndtri(level)) ** 2)


def spread(
    variance: NDArray[np.float64],
    df: NDArray[np.float64],
    slices: Slices,
    *,
    binary: bool,
    few: NDArray[np.bool_] | None = None,
    icc: ArrayLike = 0.0,
) -> MacroVariance:
    """Return the precision of macro averages with this CR2 variance.

    `binary`: every unit is right or wrong, so the variance is at least that of independent units. `few`: measures whose
    variance comes from too few groups; the units of each of their groups count as one outcome. `icc`: the least
    correlation within groups.
    """
    import numpy as np

    few = np.zeros(len(variance), dtype=bool) if few is None else few
    icc = np.asarray(icc)
    within = np.where(few, 1.0, np.maximum(_correlation(variance, slices), icc))
    correlated = slices.independent + icc * (slices.together - slices.independent)
    if not binary:
        correlated *= np.divide(
            slices.observed, slices.independent, out=np.ones_like(variance), where=slices.independent > 0
        ) * (icc > 0)
    least = np.where(few, slices.together, correlated)
    return MacroVariance(np.fmax(variance, least), df, (1 - within) * slices.unit + within * slices.group)


def _upper(
    mean: NDArray[np.float64], variance: NDArray[np.float64], count: NDArray[np.float64], level: ArrayLike
) -> NDArray[np.float64]:
    """Return the upper bounds of weighted sums from 0 to 1; `count` > 0 is the weight of one more count."""
    import numpy as np
    from scipy.special import betaincinv

    mean, w = np.clip(mean, 0.0, 1.0), np.clip(count, 1e-12, 1.0)
    inside = mean < 1 - 1e-12
    m = np.where(inside, mean, 0.0)
    v = np.minimum(variance, m * (1 - m))
    n = (m + w) * (1 + 2 * w) * (1 - m) / (v + w**2 * (1 - m)) - 1
    a = n * (m + w) / (1 + w)
    return np.where(inside, betaincinv(a, n - a, level), 1.0)


def bounds(value: NDArray[np.float64], spread: MacroVariance, level: ArrayLike) -> Bounds:
    """Return the one-sided bounds of macro averages, (measures,) each."""
    variance = spread.at(level)
    return 1 - _upper(1 - value, variance, spread.count, level), _upper(value, variance, spread.count, level)


def difference_bounds(slices: Slices, spread: MacroVariance, level: ArrayLike) -> Bounds:
    """Return the one-sided bounds of the differences of two runs, (measures,) each.

    MOVER from the bounds of the weights gained and lost, which share the variance as Poisson counts would.
    """
    import numpy as np

    total, variance = slices.rise_variance + slices.fall_variance, spread.at(level)
    share = np.divide(slices.rise_variance, total, out=np.full_like(total, 0.5), where=total > 0)
    (gained_low, gained_high), (lost_low, lost_high) = (
        (1 - _upper(1 - weight, own, spread.count, level), _upper(weight, own, spread.count, level))
        for weight, own in ((slices.rise, share * variance), (slices.fall, (1 - share) * variance))
    )
    difference = slices.rise - slices.fall
    low = difference - np.hypot(slices.rise - gained_low, lost_high - slices.fall)
    high = difference + np.hypot(gained_high - slices.rise, slices.fall - lost_low)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """What the bounds of differences of macro averages depend on: the units' changes, CR2 variances and their df."""

    slices: Slices
    variance: NDArray[np.float64]
    df: NDArray[np.float64]
    binary: bool

    def spread(self, icc: float) -> MacroVariance:
        """Return the precision with this least correlation of changes within groups."""
        return spread(self.variance, self.df, self.slices, binary=self.binary, icc=icc)


def changes_of(
    influences: Influences, variance: NDArray[np.float64], df: NDArray[np.float64], *, binary: bool
) -> Changes:
    """Return the changes of units between two runs; `influences` are of the differences of their values."""
    return Changes(slices_of(influences), variance, df, binary)


def largest_icc(changes: Changes, margin: float, level: float) -> float:
    """Return the largest correlation of changes within groups at which a loss of `margin` is ruled out, of one measure.

    0 if it is ruled out at no correlation.
    """
    least, most, icc = 0.0, 1.0, 1.0
    for _ in range(30):
        low, _ = difference_bounds(changes.slices, changes.spread(icc), level)
        least, most = (icc, most) if low[0] > -margin else (least, icc)
        icc = (least + most) / 2
    return least


def p_worse(slices: Slices, spread: MacroVariance) -> NDArray[np.float64]:
    """Return the one-sided p-values of no loss, (measures,).

    For a loss, p is 1 minus the largest level at which `difference_bounds` exclude no change; for a gain, that level.
    """
    import numpy as np
    from scipy.special import ndtr

    lost = slices.rise < slices.fall
    least, most = np.zeros_like(slices.rise), np.full_like(slices.rise, Z_MOST)
    for _ in range(40):
        middle = (least + most) / 2
        low, high = difference_bounds(slices, spread, ndtr(middle))
        excluded = np.where(lost, high < 0, low > 0)
        least, most = np.where(excluded, middle, least), np.where(excluded, most, middle)
    return np.asarray(ndtr(np.where(lost, -least, least)))
