"""Intervals of measures whose units come in groups, and one-sided bounds for the gate.

A measure from 0 to 1 gets a binomial interval at its effective number of units (Korn and Graubard 1998, Survey
Methodology 24:193; Dean and Pagano 2015, Journal of Survey Statistics and Methodology 3:484),

    n* = (n / deff) (z / t)^2 = r (1 - r) / V (z / t)^2, deff = V / (r (1 - r) / n),

with the quantiles z and t of the normal distribution and of Student's with the variance's degrees of freedom. The
estimate -+ t sqrt(V) would leave 0 to 1 and cover too seldom near the ends. The design effect of units that are right
or wrong is at least 1, as a variance that is small by luck should narrow nothing. Means of several answers, partial
credit and macro averages vary less than right or wrong units, so theirs may be below 1.

If fewer than `LEAST_DISCORDANT` groups deviate from the commonest value, V says little of the others. Then deff is at
least n sum(h^2), h a group's share of the weights: the design effect if the units of a group were fully correlated.
With fewer than `LEAST_DF` degrees of freedom there is no interval.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from medvqa.statistics.clustered import EQUAL, Estimates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]

LEAST_DF = 4.0
"""Below, Satterthwaite's approximation fails (Tipton 2015, Psychological Methods 20:375)."""

LEAST_DISCORDANT = 5
"""Groups that deviate, or changed between two runs. Below, their variance is no evidence of how groups vary."""

METHOD = "cr2-wilson"
"""The name of the intervals in signatures of measures. It changes when the same values may give other intervals."""
METHOD_OF_NUMBERS = "cr2-student"
"""The same for `student`."""

VARIES = 1e-24
"""A variance below comes from rounding: a millionth in one of a million units gives as much."""


def wilson(count: ArrayLike, n: ArrayLike, level: float = 0.95) -> Bounds:
    """Wilson's score interval without continuity correction: lower and upper bounds, fractions in [0, 1].

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
    # Exact at the ends, where rounding would leave a bound a little beside 0 or 1.
    return np.where(count == 0, 0.0, centre - half), np.where(count == n, 1.0, centre + half)


def clopper_pearson(count: ArrayLike, n: ArrayLike, level: float = 0.95) -> Bounds:
    """Clopper and Pearson's one-sided bounds, each of which is on the safe side with probability `level` or more.

    Arguments and errors as for `wilson`. Source: Clopper and Pearson (1934), Biometrika 26:404, by quantiles of the
    beta distribution, so that numbers may be fractional. The two are their two-sided interval of level 2 level - 1.
    """
    import numpy as np
    from scipy.special import betaincinv

    count, n = _counted("clopper_pearson", count, n, level)
    inside = (np.where(count > 0, count, 1.0), np.where(count < n, n - count, 1.0))
    low = np.where(count > 0, betaincinv(inside[0], n - count + 1, 1 - level), 0.0)
    return low, np.where(count < n, betaincinv(count + 1, inside[1], level), 1.0)


def intervals(found: Estimates, *, binary: bool, level: float = 0.95) -> Bounds:
    """Two-sided intervals, Wilson's at n*: (measures,) each, NaN where there is none.

    `binary`: every unit is right or wrong, with any weights.
    """
    import numpy as np

    usable = _usable(found)
    low, high = wilson(*effective(found, 0.5 + level / 2, binary=binary), level)
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def student(found: Estimates, level: float = 0.95) -> Bounds:
    """Two-sided intervals by Student's t, for measures that are no fractions: (measures,) each, NaN without one."""
    import numpy as np
    from scipy.special import stdtrit

    usable = found.df >= LEAST_DF
    df, variance = np.where(usable, found.df, 1.0), np.where(usable, found.variance, np.nan)
    half = stdtrit(df, 0.5 + level / 2) * np.sqrt(variance)
    return found.value - half, found.value + half


def bounds(found: Estimates, *, binary: bool, level: float = 0.95) -> Bounds:
    """One-sided lower and upper bounds of that level, Clopper and Pearson's at n*: (measures,) each."""
    import numpy as np

    usable = _usable(found)
    low, high = clopper_pearson(*effective(found, level, binary=binary), level)
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def p_below(found: Estimates, limit: float, *, binary: bool) -> NDArray[np.float64]:
    """One-sided p-values of measures below a limit, (measures,): 1 - the largest level whose upper bound is below it.

    So it is at most alpha just where the upper bound of `bounds` at the level 1 - alpha is below the limit. NaN where
    there is no bound.
    """
    import numpy as np
    from scipy.special import betaincinv

    low, high = np.zeros_like(found.value), np.ones_like(found.value)
    for _ in range(50):
        alpha = (low + high) / 2
        count, n = effective(found, 1 - alpha, binary=binary)
        upper = np.where(count < n, betaincinv(count + 1, np.where(count < n, n - count, 1.0), 1 - alpha), 1.0)
        low, high = np.where(upper < limit, low, alpha), np.where(upper < limit, alpha, high)
    return np.where(_usable(found), high, np.nan)


def mirrored(found: Estimates) -> Estimates:
    """The same of 1 - value: lower bounds become upper ones."""
    return replace(found, value=1 - found.value)


def effective(found: Estimates, quantile: ArrayLike, *, binary: bool) -> Bounds:
    """Successes and trials at n* for the quantile of z and t, (measures,) each; 0 of 1 where there is no interval."""
    import numpy as np
    from scipy.special import ndtri, stdtrit

    usable = _usable(found)
    value, df = np.where(usable, found.value, 0.0), np.where(usable, found.df, 1.0)
    # At 0.5 both quantiles are 0; their ratio is continuous there.
    quantile = np.where(np.abs(np.asarray(quantile) - 0.5) < 1e-6, 0.5 + 1e-6, quantile)
    narrower = (ndtri(quantile) / stdtrit(df, quantile)) ** 2
    n = np.where(usable, found.n / design_effect(found, binary=binary) * narrower, 1.0)
    return np.clip(value, 0, 1) * n, n


def design_effect(found: Estimates, *, binary: bool) -> NDArray[np.float64]:
    """How many times the variance is that of as many independent units that are right or wrong.

    At least 1 if `binary`, and with few groups that deviate at least that of groups whose units are fully correlated.
    """
    import numpy as np

    n = np.where(found.n > 0, found.n, 1.0)
    independent = found.value * (1 - found.value) / n
    together = n / np.where(found.effective_groups > 0, found.effective_groups, 1.0)
    varies = (independent > 0) & (found.variance >= VARIES)
    ratio = np.divide(found.variance, independent, out=together.copy(), where=varies)
    ratio = np.where(found.deviating < LEAST_DISCORDANT, np.maximum(ratio, together), ratio)
    return np.maximum(ratio, 1.0) if binary else ratio


def _usable(found: Estimates) -> NDArray[np.bool_]:
    """Whether there are degrees of freedom enough, and the value is a fraction."""
    return (found.df >= LEAST_DF) & (found.value >= -EQUAL) & (found.value <= 1 + EQUAL)


def _counted(name: str, count: ArrayLike, n: ArrayLike, level: float) -> Bounds:
    import numpy as np

    count, n = np.asarray(count, float), np.asarray(n, float)
    if not (0 < level < 1 and np.all(n > 0) and np.all(count >= 0) and np.all(count <= n)):
        raise ValueError(f"{name} needs 0 <= count <= n, n > 0 and a level between 0 and 1")
    return count, n
