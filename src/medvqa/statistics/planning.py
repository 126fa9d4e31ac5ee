"""Plan a comparison of two runs by formula: the difference that units show, and the units that a difference needs.

The difference of right or wrong units has at most the variance deff x discordance / n. It is shown if it is t standard
errors from 0, t Student's quantile with the degrees of freedom of the groups (after Nam 1997, Biometrics 53:1422).
`simulation` has the power of the gate itself.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
POWER = 0.8
"""The power that makes a difference detectable and a margin passable."""
ROUNDS = 50
"""Most steps of `units_needed` to a number of units that fits its own degrees of freedom."""


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
