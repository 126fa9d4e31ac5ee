"""Plan a comparison before it is run: chance of PASS, units needed, passable margins.

Normal approximation: the difference of right or wrong units has the variance deff (discordance - loss^2) / n, and a
rule passes if its one-sided bound is above -margin (after Nam 1997, Biometrics 53:1422). With few discordant units the
score interval passes slightly less often: docs/statistics.md has both.
"""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

NORMAL = NormalDist()
POWER = 0.8
"""The power that makes a difference detectable and a margin passable."""


def chance_of_pass(
    n: float, discordance: float, margin: float, deff: float = 1.0, *, loss: float = 0.0, level: float = 0.95
) -> float:
    """Return the chance that a baseline rule passes if the new model is worse by `loss` (0: no change).

    `discordance` is the share of the `n` units that flip either way; `deff` as in `intervals`, 1 for independent
    units; `margin` and `loss` are fractions. Raises ValueError outside these ranges.
    """
    se = _se(n, discordance, deff, loss)
    if margin <= 0:
        raise ValueError(f"the margin must be above 0, not {margin}")
    if se == 0:
        return float(margin > loss)
    return NORMAL.cdf((margin - loss) / se - NORMAL.inv_cdf(level))


def passable_margin(
    n: float, discordance: float, deff: float = 1.0, *, level: float = 0.95, power: float = POWER
) -> float:
    """Return the margin that passes with chance `power` at no change: 2.49 standard errors by default."""
    return (NORMAL.inv_cdf(level) + NORMAL.inv_cdf(power)) * _se(n, discordance, deff, 0.0)


def units_needed(
    margin: float, discordance: float, deff: float = 1.0, *, level: float = 0.95, power: float = POWER
) -> int:
    """Return the number of units with which the margin passes with chance `power` at no change."""
    if margin <= 0:
        raise ValueError(f"the margin must be above 0, not {margin}")
    return ceil((passable_margin(1, discordance, deff, level=level, power=power) / margin) ** 2)


def _se(n: float, discordance: float, deff: float, loss: float) -> float:
    if not (n > 0 and abs(loss) <= discordance <= 1 and deff >= 1):
        raise ValueError(
            "planning needs n > 0, a discordance between the loss and 1, and a design effect of at least 1, "
            f"not n={n}, discordance={discordance}, loss={loss}, deff={deff}"
        )
    return sqrt(deff * (discordance - loss**2) / n)
