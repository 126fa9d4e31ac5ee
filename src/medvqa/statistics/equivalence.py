"""Show that two runs are alike: the difference of a measure is shown to be smaller than a margin, either way.

Two one-sided tests of 5 % (Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15:657), which reject just if the
two-sided interval of 90 % lies between minus the margin and the margin. The interval is that of `paired.compare` at the
level 0.95: of right or wrong units Tango's score interval.
"""

from __future__ import annotations

from dataclasses import dataclass

from medvqa.statistics import macro
from medvqa.statistics.paired import FLIP_ICC, Comparison, score_variance

EQUIVALENCE_LEVEL = 0.95
"""The level of either bound: together a two-sided interval of 90 %."""
Z_MOST = 40.0
"""The largest normal quantile that is tried: its p is 0 in double precision."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The test that a difference is smaller than `margin` (a fraction, more than 0), either way.

    `low` and `high`: the two-sided interval of 90 % of the difference; `p`: the larger p-value of both one-sided tests.
    None without bounds. `adjusted`: `p` after the correction for other pairs of runs; None before it.
    """

    margin: float
    low: float | None
    high: float | None
    p: float | None
    adjusted: float | None = None


def equivalence(comparison: Comparison, margin: float, icc: float = FLIP_ICC) -> Equivalence:
    """Test a difference, compared at `EQUIVALENCE_LEVEL` with the declared correlation `icc`, against a margin.

    Raises ValueError for a margin that is not between 0 and 1, another level, and for numbers beyond 0 to 1.
    """
    if not 0 < margin < 1 or comparison.level != EQUIVALENCE_LEVEL or comparison.method == "t":
        raise ValueError(
            f"equivalence needs a margin between 0 and 1, bounds of the level {EQUIVALENCE_LEVEL} and values from 0 to "
            f"1, not margin={margin}, level={comparison.level}, method={comparison.method}"
        )
    if comparison.low is None or comparison.high is None:
        return Equivalence(margin, None, None, None)
    test = _score_test if comparison.changes is None else _count_test
    return Equivalence(margin, comparison.low, comparison.high, test(comparison, margin, icc))


def _score_test(found: Comparison, margin: float, icc: float) -> float | None:
    """Return the p-value of Tango's score test at both margins; `icc` is part of the design effect."""
    import numpy as np
    from scipy.special import stdtr

    change, discordance, n, deff, df = found.difference, found.discordance, found.n, found.deff, found.df
    if change is None or discordance is None or n is None or deff is None or df is None:
        return None
    b, c, one = (np.array(each) for each in ((discordance + change) / 2, (discordance - change) / 2, 1.0))
    p = [
        stdtr(df, -(margin - sign * change) * np.sqrt(n / deff / score_variance(b, c, one, np.array(sign * margin))))
        for sign in (-1, 1)
    ]
    return float(max(p))


def _count_test(found: Comparison, margin: float, icc: float) -> float | None:
    """Return the smallest p-value at which the bounds of a macro average lie inside the margin, at most 0.5."""
    from scipy.special import ndtr

    if found.changes is None:
        return None
    slices, spread = found.changes.slices, found.changes.spread(icc)

    def inside(z: float) -> bool:
        low, high = macro.difference_bounds(slices, spread, ndtr(z))
        return bool(low[0] > -margin and high[0] < margin)

    least, most = 0.0, Z_MOST
    for _ in range(50):
        middle = (least + most) / 2
        least, most = (middle, most) if inside(middle) else (least, middle)
    return float(ndtr(-least))
