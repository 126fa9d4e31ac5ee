"""The share of a measure that a run retains of another's: new / baseline, on the same units.

It is 1 + d / b, with d the paired difference and b the baseline. Its bounds are those values 1 + q at which d - q b is
0 at either bound, by MOVER (Zou and Donner 2008, Statistics in Medicine 27:1693; for ratios: Donner and Zou 2012,
Statistical Methods in Medical Research 21:347): with the distances D of the bound of d and B of that of b from their
values, and r the correlation of d and b, CR2 over groups,

    (d - q b)^2 = D^2 + q^2 B^2 - 2 r q D B.

With D and B multiples of standard errors, this is Fieller's theorem (1954). Here d has the bounds of `paired.compare`
and b those of `intervals`: so 1 is outside exactly if the difference is not 0 by its own interval, and a sample
without a change does not show that nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from medvqa.figures import Figure, defined
from medvqa.statistics.clustered import clustered
from medvqa.statistics.influence import UnitTable, difference
from medvqa.statistics.intervals import intervals
from medvqa.statistics.paired import Comparison, prepared


def retained(
    new: UnitTable,
    baseline: UnitTable,
    compared: Comparison,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    *,
    binary: bool,
) -> Figure:
    """Return the share retained of a measure of one slice, or of a mean `over` slices, of values from 0 to 1.

    It is undefined if the baseline is not shown to be above 0: if its interval, taken to be as wide on both sides as on
    the wider one, holds 0.

    `compared`: the comparison of both tables, of which more is better. `binary`: every unit of the baseline is right or
    wrong. `over` and `weights` as for `paired.compare`.
    """
    sides = [prepared(table, over=over, weights=weights).influences for table in (new, baseline)]
    estimates = clustered(sides[1])
    low, high = (float(end[0]) for end in intervals(estimates, binary=binary, level=2 * compared.level - 1))
    b, d = compared.baseline, compared.difference
    # NaN bounds are no bounds.
    if b is None or d is None or not b - max(b - low, high - b) > 0:
        return Figure(None)
    value = max(1 + d / b, 0.0)
    if compared.low is None or compared.high is None:
        return Figure(value)
    precisions = clustered(sides[0]), estimates, clustered(difference(*sides))
    own, other, both = (float(each.variance[0]) for each in precisions)
    product = sqrt(both * other)
    r = min(max((own - other - both) / (2 * product), -1.0), 1.0) if product > 0 else 0.0

    def bound(end: float, sign: int) -> float:
        """The lower (sign -1) or upper bound of d / b, of which `end` is that of d; both have the same sign."""
        far, near = abs(d - end), (high - b if (end > 0) == (sign < 0) else b - low)
        a, half, c = b * b - near * near, d * b - r * far * near, d * d - far * far
        return (half + sign * sqrt(max(half * half - a * c, 0.0))) / a

    ends = bound(compared.low, -1), bound(compared.high, 1)
    lowest, highest = (defined(max(1 + end, 0.0)) for end in ends)
    return Figure(value, lowest, highest)
