"""Plan a comparison of two runs by formula: the difference that units show, and the units that a difference needs.

The difference of right or wrong units has at most the variance deff x discordance / n. It is shown if it is t standard
errors from 0, t Student's quantile with the degrees of freedom of the groups (after Nam 1997, Biometrics 53:1422).
`simulation` has the power of the gate itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

from medvqa.statistics.influence import sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NORMAL = NormalDist()
POWER = 0.8
"""The power that makes a difference detectable and a margin passable."""
ROUNDS = 50
"""Most steps of `units_needed` to a number of units that fits its own degrees of freedom."""


EDGE = 1e-3
"""The least distance of a correlation from its ends when it is transformed: there, the transform is infinite."""


def passable_margin(
    n: float, discordance: float, deff: float = 1.0, *, df: float = inf, level: float = 0.95, power: float = POWER
) -> float:
    """Return the margin that passes with chance `power` at no change: 2.49 standard errors by default.

    `discordance` is the share of the `n` units that flip either way; `deff` as in `intervals`, 1 for independent
    units; `df`: degrees of freedom, by default those of the normal distribution. Raises ValueError outside of ranges.
    """
    if not (n > 0 and 0 <= discordance <= 1 and deff >= 1 and df > 0):
        raise ValueError(
            "planning needs n > 0, a discordance between 0 and 1, a design effect of at least 1, and df > 0, "
            f"not n={n}, discordance={discordance}, deff={deff}, df={df}"
        )
    return _quantiles(df, level, power) * sqrt(deff * discordance / n)


def units_needed(
    margin: float,
    discordance: float,
    deff: float = 1.0,
    *,
    size: float | None = None,
    level: float = 0.95,
    power: float = POWER,
) -> int:
    """Return the number of units with which the margin passes with chance `power` at no change.

    `size`: units for each effective group, so that `n` units have n / size - 1 degrees of freedom; None: the normal
    distribution.
    """
    if margin <= 0:
        raise ValueError(f"the margin must be above 0, not {margin}")
    needed = (passable_margin(1, discordance, deff, level=level, power=power) / margin) ** 2
    for _ in range(ROUNDS if size else 0):
        df = max(needed / (size or 1.0) - 1, 1.0)
        more = (passable_margin(1, discordance, deff, df=df, level=level, power=power) / margin) ** 2
        if more - needed < 0.5:
            break
        needed = more
    return ceil(needed)


def _quantiles(df: float, level: float, power: float) -> float:
    if not isfinite(df):
        return NORMAL.inv_cdf(level) + NORMAL.inv_cdf(power)
    from scipy.special import stdtrit

    return float(stdtrit(df, level) + stdtrit(df, power))


@dataclass(frozen=True, slots=True)
class FlipCorrelation:
    """The correlation of the changes between two runs within groups, estimated from these runs.

    `icc`: the intraclass correlation of the units' changes, from -1 to 1; `low` and `high`: its 95 % interval. All are
    None if it is undefined: no unit changed, or no group has two units. `units`, `flips` and
    `groups`: the numbers of units, of units that changed, and of groups.
    """

    icc: float | None
    low: float | None
    high: float | None
    units: int
    flips: int
    groups: int


def flip_correlation(change: NDArray[np.float64], group: NDArray[np.intp]) -> FlipCorrelation:
    """Estimate the correlation of the changes, (units,), of units that share a group, (units,), of unequal sizes.

    One-way analysis of variance: icc = (MSB - MSW) / (MSB + (n0 - 1) MSW) with n0 = (n - sum(n_g^2) / n) / (groups - 1)
    (Searle, Casella and McCulloch 1992, section 3.6). Its interval: the groups are left out one by one, on the scale
    log((1 + (n0 - 1) icc) / (1 - icc)) / 2 (Arvesen and Schmitz 1970, Biometrics 26:677), with Student's quantile. The
    exact F interval assumes normal changes; it held a correlation of 0.3 of flips in 61 to 86 % of simulations.
    """
    import numpy as np
    from scipy.special import stdtrit

    _, group, counts = np.unique(group, return_inverse=True, return_counts=True)
    size = counts.astype(float)
    groups, flips = len(size), int(np.count_nonzero(change))
    unknown = FlipCorrelation(None, None, None, len(change), flips, groups)
    if not flips or groups < 3 or len(change) == groups:
        return unknown
    total, square = sums(group, change, groups), sums(group, change**2, groups)

    def all_and_without(own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over all groups, then the sums without each of them."""
        return np.asarray(own.sum() - np.append(0.0, own))

    n, k = all_and_without(size), all_and_without(np.ones(groups))
    between = (all_and_without(total**2 / size) - all_and_without(total) ** 2 / n) / (k - 1)
    within = all_and_without(square - total**2 / size) / np.maximum(n - k, 1)
    n0 = (n - all_and_without(size**2) / n) / (k - 1)
    spread = between + (n0 - 1) * within
    icc = np.divide(between - within, spread, out=np.zeros_like(spread), where=spread > 0)
    inner = np.clip(icc, EDGE - 1 / n0[0], 1 - EDGE)
    scaled = np.log((1 + (n0[0] - 1) * inner) / (1 - inner)) / 2
    apart = scaled[1:] - scaled[1:].mean()
    reach = float(stdtrit(groups - 1, 0.975)) * sqrt((groups - 1) / groups * float(apart @ apart))
    low, high = (np.exp(2 * (scaled[0] + sign * reach)) for sign in (-1, 1))
    ends = [float((end - 1) / (end + n0[0] - 1)) if isfinite(end) else 1.0 for end in (low, high)]
    found = max(float(icc[0]), -1.0)
    return FlipCorrelation(found, max(min(ends[0], found), -1.0), max(ends[1], found), len(change), flips, groups)
