"""The share of a measure that a run retains of another's: new / baseline, on the same units.

The bounds of a ratio x / b are the values q at which x - q b is 0 at either bound, by MOVER (Zou and Donner 2008,
Statistics in Medicine 27:1693; for ratios: Donner and Zou 2012, Statistical Methods in Medical Research 21:347): with
the distances X and B of the bounds of x and b from their values, and r their correlation, CR2 over groups,

    (x - q b)^2 = X^2 + q^2 B^2 - 2 r q X B.

With X and B multiples of standard errors, this is Fieller's theorem (1954). The share is n / b, and 1 + d / b with the
paired difference d. Its bounds are the wider ones of both, with those of `paired.compare` for d and those of
`intervals` for n and b: a sample without a change does not show that nothing changes, nor one without a right answer
that none is left. They end at 1 if d is not 0 by its own interval, so that the share never contradicts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from medvqa.figures import Figure
from medvqa.statistics.clustered import clustered
from medvqa.statistics.influence import UnitTable, difference
from medvqa.statistics.paired import Comparison, prepared


def retained(
    tables: tuple[UnitTable, UnitTable],
    alone: tuple[Figure, Figure],
    compared: Comparison,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> Figure:
    """Return the share retained of a measure of one slice, or of a mean `over` slices, of values from 0 to 1.

    `tables` and `alone`: the units and the measure of the new run and of the baseline. `compared`: their comparison, of
    which more is better. `over` and `weights` as for `paired.compare`. The share is undefined if the baseline is not
    shown to be above 0: if its interval, taken to be as wide on both sides as on the wider one, holds 0.
    """
    new, (b, low, high) = alone[0], (alone[1].value, alone[1].low, alone[1].high)
    d, least, most = compared.difference, compared.low, compared.high
    if b is None or d is None or low is None or high is None or b <= max(b - low, high - b):
        return Figure(None)
    if least is None or most is None or new.value is None or new.low is None or new.high is None:
        return Figure(max(1 + d / b, 0.0))
    sides = [prepared(table, over=over, weights=weights).influences for table in tables]
    n_n, b_b, d_d = (float(clustered(each).variance[0]) for each in (*sides, difference(*sides)))

    def bounds(x: float, ends: tuple[float, float], variance: float, covariance: float) -> tuple[float, ...]:
        """Return the bounds of x / b; either has the sign of that of x."""
        product, found = sqrt(variance * b_b), []
        r = min(max(covariance / product, -1.0), 1.0) if product > 0 else 0.0
        for sign, end in zip((-1, 1), ends, strict=True):
            far, near = abs(x - end), (high - b if (end > 0) == (sign < 0) else b - low)
            a, half, c = b * b - near * near, x * b - r * far * near, x * x - far * far
            found.append((half + sign * sqrt(max(half * half - a * c, 0.0))) / a)
        return tuple(found)

    change = bounds(d, (least, most), d_d, (n_n - b_b - d_d) / 2)
    share = bounds(new.value, (new.low, new.high), n_n, (n_n + b_b - d_d) / 2)
    lowest = max(min(1 + change[0], share[0]), 1.0 if least > 0 else 0.0)
    highest = max(1 + change[1], share[1])
    return Figure(max(1 + d / b, 0.0), lowest, min(highest, 1.0) if most < 0 else highest)
