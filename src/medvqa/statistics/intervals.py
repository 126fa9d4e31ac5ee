"""Intervals of measures over grouped units, and one-sided bounds for the gate.

A measure from 0 to 1 gets a binomial interval at its effective number of units (Korn and Graubard 1998, Survey
Methodology 24:193; Dean and Pagano 2015, Journal of Survey Statistics and Methodology 3:484),

    n* = (n / deff) (z / t)^2 = r (1 - r) / V (z / t)^2, deff = V / (r (1 - r) / n),

with the quantiles z and t of the normal distribution and of Student's with the variance's degrees of freedom. The
interval estimate -+ t sqrt(V) would leave 0 to 1, with low coverage near the ends. The design effect of right or wrong
units is at least 1: a variance that is small by luck must not narrow the interval. Means of several answers and partial
credit vary less, so their design effect may be below 1. For macro averages see `macro`.

If fewer than `LEAST_DISCORDANT` groups deviate from the most frequent value, V is unreliable. Then deff is at least
n sum(h^2), h a group's share of the weights: the design effect if the units of a group were fully correlated. Near 0
and 1 the rarer values may be too few to fill three groups. Whole groups of them may then exist, unseen, and V shows
only single ones. So deff is at least that of units with the correlation `ENDS_ICC` in a group, times the unit's own
variance, if they fill up to two groups; the bound falls to 0 at three. With fewer than `LEAST_DF` degrees of freedom
there is no interval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from medvqa.statistics import macro
from medvqa.statistics.clustered import EQUAL, Estimates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]

LEAST_DF = 4.0
"""Satterthwaite's approximation fails below this (Tipton 2015, Psychological Methods 20:375)."""

LEAST_DISCORDANT = 5
"""Fewest groups that deviate, or changed between two runs, for a reliable variance between groups."""

ENDS_ICC = 0.3
"""The correlation of the units of a group that is assumed where the rarer values would fill at most two groups."""
FILLED = 3.0
"""The number of groups, filled by the rarer values, from which nothing is assumed."""

METHOD = "cr2-wilson-2"
"""The method's name in signatures of measures; change it whenever the same values may give other intervals."""
METHOD_OF_MACROS = "cr2-fay-feuer"
"""The name of the intervals of macro averages."""
METHOD_OF_NUMBERS = "cr2-student"
"""The name of the intervals of `student`."""

VARIES = 1e-24
"""A smaller variance is a rounding error: a millionth in one of a million units gives as much."""


def wilson(count: ArrayLike, n: ArrayLike, level: float = 0.95) -> Bounds:
    """Return Wilson's score interval without continuity correction: lower and upper bounds in [0, 1].

    `count` successes among `n` trials, arrays of one shape with 0 <= count <= n and n > 0; both may be fractional
    (effective sample sizes). `level` is the coverage, in (0, 1). Source: Newcombe (1998), Statistics in Medicine
    17:857, method 3; the same formula as `scipy.stats.binomtest(k, n).proportion_ci(level, "wilson")`, over arrays.
    Raises ValueError outside these ranges.
    """
    from statistics import NormalDist

    import numpy as np

    count, n = _counted("wilson", count, n, level)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = count / n
    centre = (2 * count + z * z) / (2 * (n + z * z))
    half = z * np.sqrt(4 * count * (1 - share) + z * z) / (2 * (n + z * z))
    # Exact at the ends, where rounding would miss 0 or 1 slightly.
    return np.where(count == 0, 0.0, centre - half), np.where(count == n, 1.0, centre + half)


def clopper_pearson(count: ArrayLike, n: ArrayLike, level: float = 0.95) -> Bounds:
    """Return Clopper and Pearson's one-sided bounds; the coverage of either bound is at least `level`.

    Arguments and errors as for `wilson`. Source: Clopper and Pearson (1934), Biometrika 26:404, by quantiles of the
    beta distribution, so that numbers may be fractional. Together they are the two-sided interval of level
    2 level - 1.
    """
    import numpy as np
    from scipy.special import betaincinv

    count, n = _counted("clopper_pearson", count, n, level)
    inside = (np.where(count > 0, count, 1.0), np.where(count < n, n - count, 1.0))
    low = np.where(count > 0, betaincinv(inside[0], n - count + 1, 1 - level), 0.0)
    return low, np.where(count < n, betaincinv(count + 1, inside[1], level), 1.0)


def intervals(estimates: Estimates, *, binary: bool, level: float = 0.95) -> Bounds:
    """Return two-sided intervals, Wilson's at n*: (measures,) each, NaN without enough degrees of freedom.

    `binary`: every unit is right or wrong, with any weights.
    """
    import numpy as np

    usable = _usable(estimates)
    if estimates.slices is not None:
        return _of_macro(estimates, estimates.slices, 0.5 + level / 2, binary=binary)
    low, high = wilson(*effective(estimates, 0.5 + level / 2, binary=binary), level)
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def within(estimates: Estimates, least: float, greatest: float) -> Bounds:
    """Return the intervals of `intervals` for means of numbers from `least` to `greatest`: (measures,) each."""
    import numpy as np

    width = greatest - least
    shares = replace(
        estimates,
        value=np.clip((estimates.value - least) / width, 0, 1),
        variance=estimates.variance / width**2,
        independent=estimates.independent / width**2,
    )
    low, high = intervals(shares, binary=False)
    return least + width * low, least + width * high


def student(estimates: Estimates, level: float = 0.95) -> Bounds:
    """Two-sided intervals by Student's t, for measures that are no fractions: (measures,) each, NaN without one."""
    import numpy as np
    from scipy.special import stdtrit

    usable = estimates.df >= LEAST_DF
    df, variance = np.where(usable, estimates.df, 1.0), np.where(usable, estimates.variance, np.nan)
    half = stdtrit(df, 0.5 + level / 2) * np.sqrt(variance)
    return estimates.value - half, estimates.value + half


def bounds(estimates: Estimates, *, binary: bool, level: float = 0.95) -> Bounds:
    """Return one-sided lower and upper bounds, Clopper and Pearson's at n*: (measures,) each; NaN as `intervals`."""
    import numpy as np

    usable = _usable(estimates)
    if estimates.slices is not None:
        return _of_macro(estimates, estimates.slices, level, binary=binary)
    low, high = clopper_pearson(*effective(estimates, level, binary=binary), level)
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def p_below(estimates: Estimates, limit: float, *, binary: bool) -> NDArray[np.float64]:
    """Return one-sided p-values for measures below a limit, (measures,), NaN without a bound.

    p is 1 minus the largest level whose upper bound is below the limit. So p is at most alpha exactly if the upper
    bound of `bounds` at the level 1 - alpha is below the limit.
    """
    import numpy as np
    from scipy.special import betaincinv

    low, high = np.zeros_like(estimates.value), np.ones_like(estimates.value)
    for _ in range(50):
        alpha = (low + high) / 2
        if estimates.slices is not None:
            upper = _of_macro(estimates, estimates.slices, 1 - alpha, binary=binary)[1]
        else:
            count, n = effective(estimates, 1 - alpha, binary=binary)
            upper = np.where(count < n, betaincinv(count + 1, np.where(count < n, n - count, 1.0), 1 - alpha), 1.0)
        low, high = np.where(upper < limit, low, alpha), np.where(upper < limit, alpha, high)
    return np.where(_usable(estimates), high, np.nan)


def _of_macro(estimates: Estimates, slices: macro.Slices, level: ArrayLike, *, binary: bool) -> Bounds:
    """Return the one-sided bounds of macro averages, (measures,) each; NaN as `intervals`."""
    import numpy as np

    usable, few = _usable(estimates), estimates.deviating() < LEAST_DISCORDANT
    df = np.where(usable, estimates.df, 1.0)
    icc = ENDS_ICC * _near_ends(estimates)
    precision = macro.spread(estimates.variance, df, slices, binary=binary, few=few, icc=icc)
    low, high = macro.bounds(np.where(usable, estimates.value, 0.0), precision, level)
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def mirrored(estimates: Estimates) -> Estimates:
    """Return the estimates of 1 - value: lower bounds become upper ones."""
    return replace(estimates, value=1 - estimates.value)


def effective(estimates: Estimates, quantile: ArrayLike, *, binary: bool) -> Bounds:
    """Return successes and trials at n* for the quantile of z and t, (measures,) each; 0 of 1 without an interval."""
    import numpy as np
    from scipy.special import ndtri, stdtrit

    usable = _usable(estimates)
    value, df = np.where(usable, estimates.value, 0.0), np.where(usable, estimates.df, 1.0)
    # At 0.5 both quantiles are 0, but their ratio is continuous.
    quantile = np.where(np.abs(np.asarray(quantile) - 0.5) < 1e-6, 0.5 + 1e-6, quantile)
    narrower = (ndtri(quantile) / stdtrit(df, quantile)) ** 2
    n = np.where(usable, estimates.n / design_effect(estimates, binary=binary) * narrower, 1.0)
    return np.clip(value, 0, 1) * n, n


def design_effect(estimates: Estimates, *, binary: bool) -> NDArray[np.float64]:
    """Return the variance divided by that of as many independent units that are right or wrong.

    At least 1 if `binary`; with few deviating groups, at least the design effect of fully correlated groups; near 0 and
    1, at least that of groups with the correlation `ENDS_ICC`.
    """
    import numpy as np

    n = np.where(estimates.n > 0, estimates.n, 1.0)
    groups = np.where(estimates.effective_groups > 0, estimates.effective_groups, 1.0)
    value, together = np.clip(estimates.value, 0, 1), n / groups
    independent = value * (1 - value) / n
    varies = (independent > 0) & (estimates.variance >= VARIES)
    ratio = np.divide(estimates.variance, independent, out=together.copy(), where=varies)
    ratio = np.where(estimates.deviating() < LEAST_DISCORDANT, np.maximum(ratio, together), ratio)
    own = np.divide(estimates.independent, independent, out=np.ones_like(n), where=varies)
    ratio = np.maximum(ratio, _near_ends(estimates) * own * (1 + (together - 1) * ENDS_ICC))
    return np.maximum(ratio, 1.0) if binary else ratio


def _near_ends(estimates: Estimates) -> NDArray[np.float64]:
    """Return 1 where the rarer values fill at most two groups, 0 from `FILLED` on, and between them what is between."""
    import numpy as np

    groups = np.where(estimates.effective_groups > 0, estimates.effective_groups, 1.0)
    value = np.clip(estimates.value, 0, 1)
    return np.clip(FILLED - groups * np.minimum(value, 1 - value), 0, 1)


def _usable(estimates: Estimates) -> NDArray[np.bool_]:
    """Return whether there are enough degrees of freedom and the value is in [0, 1]."""
    return (estimates.df >= LEAST_DF) & (estimates.value >= -EQUAL) & (estimates.value <= 1 + EQUAL)


def _counted(name: str, count: ArrayLike, n: ArrayLike, level: float) -> Bounds:
    import numpy as np

    count, n = np.asarray(count, float), np.asarray(n, float)
    if not (0 < level < 1 and np.all(n > 0) and np.all(count >= 0) and np.all(count <= n)):
        raise ValueError(f"{name} needs 0 <= count <= n, n > 0 and a level between 0 and 1")
    return count, n
