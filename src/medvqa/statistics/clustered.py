r"""Variance over groups: CR2 with Satterthwaite's degrees of freedom, in closed form.

A ratio is the weighted least squares fit of a constant: weights w (here with the sum 1), design 1, hat matrix H = 1 w'.
For a group g, CR2 multiplies the residuals e by A_g = B_g^(-1/2), B_g the block of g in (I - H)(I - H)', so that the
variance has no bias when units are independent with equal variances (the working model): Bell and McCaffrey (2002),
Survey Methodology 28:169; Pustejovsky and Tipton (2018), Journal of Business & Economic Statistics 36:672, with Phi =
I. The R package clubSandwich documents it as `vcovCR(lm(y ~ 1, weights = w), cluster, "CR2")`.

With n units in g, W = sum_g w, s = sum_g w^2, and S = sum of w^2 over all units, B_g = I - 1 w' - w 1' + S 1 1' is the
identity outside of the plane of 1 and w. On Z = [1 w] it acts as the 2 x 2 matrix M in B_g Z = Z M,

    M = [[1 + S n - W, S W - s], [-n, 1 - W]],

and f(B_g) w = Z f(M) (0, 1)'. The square root of a 2 x 2 matrix is (M + d I) / sqrt(tr M + 2 d), d = sqrt(det M) (by
Cayley and Hamilton), so w' A_g e = sum_g (a + b w) e with the a and b below. With equal weights it is the group's sum
of influences over sqrt(1 - n_g / n).

The degrees of freedom are (tr P)^2 / |P|^2, P the variance as a quadratic form under the working model (Pustejovsky
and Tipton; Imbens and Kolesar 2016, Review of Economics and Statistics 98:701). With v_g = a + b w on g, t_g its sum
and z_g its product with w, P is s_g on the diagonal and -z_g t_h - t_g z_h + S t_g t_h off it. Except for its diagonal
P has rank two, so its norm needs only the sums of t t, t z and z z. Equal weights: 1 / (sum h^2 + (sum q)^2 - sum q^2)
with h = n_g / n and q = h^2 / (1 - h).

A measure of several ratios is the same fit with a constant for each ratio and a row for each unit of each ratio: H, A_g
and P are block-diagonal. The smallest slices of a macro average are joined (`influence.pooled`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from medvqa.statistics.influence import Influences, distinct, pooled, sums
from medvqa.statistics.macro import Slices, slices_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


EQUAL = 1e-9
"""Smaller differences are rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Measures with their precision; all arrays are (measures,).

    `variance` and `df` (degrees of freedom) are NaN if a ratio of the measure has fewer than two groups. `groups`
    counts the groups. `n` is the effective number of units, 0 if undefined: the variance of one unit divided by that of
    the measure under the working model. For one ratio it is Kish's 1 / sum of w^2 (1992, Journal of Official Statistics
    8:183), and with equal weights the number of units.

    `effective_groups` is 1 / sum of h^2, h a group's share of the weights: the effective number of units if the units
    of a group were fully correlated; 0 if undefined. `deviating()` counts the groups with another value than the most
    frequent one; the variance is estimated from these groups. It is a function, since differences do without it.
    `independent` is the variance if all units were independent. `slices` is how the units of macro averages lie in
    slices, None for other measures.
    """

    value: NDArray[np.float64]
    variance: NDArray[np.float64]
    df: NDArray[np.float64]
    groups: NDArray[np.intp]
    n: NDArray[np.float64]
    effective_groups: NDArray[np.float64]
    deviating: Callable[[], NDArray[np.intp]]
    independent: NDArray[np.float64]
    slices: Slices | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """The part of CR2 that depends only on weights and groups, shared by all measures with the same ones.

    `row` multiplies the residuals, (rows,). `block`, (rows,), numbers the group of a row within its measure;
    `measure`, (blocks,), is the measure of a block. The other fields are as in `Estimates`.
    """

    row: NDArray[np.float64]
    block: NDArray[np.intp]
    measure: NDArray[np.intp]
    df: NDArray[np.float64]
    groups: NDArray[np.intp]
    n: NDArray[np.float64]
    effective_groups: NDArray[np.float64]


def clustered(influences: Influences, correction: Correction | None = None) -> Estimates:
    """Return the CR2 variance and its degrees of freedom, in time and memory linear in the rows.

    `correction` comes from `influences`, or from measures with the same weights and groups; None computes it.
    """
    import numpy as np

    by = corrected(influences) if correction is None else correction
    score = sums(by.block, by.row * pooled(influences).residual, len(by.measure))
    variance = sums(by.measure, score**2, len(influences.value))
    undefined = np.isnan(influences.value) | np.isnan(by.df)
    return Estimates(
        influences.value,
        np.where(undefined, np.nan, variance),
        np.where(undefined, np.nan, by.df),
        by.groups,
        by.n,
        by.effective_groups,
        partial(_deviating, influences.own, by),
        sums(influences.measure[influences.ratio], influences.influence**2, len(influences.value)),
        slices_of(influences) if _is_mean(influences) else None,
    )


def _is_mean(influences: Influences) -> bool:
    """Return whether these are macro averages: measures with several ratios, none of them subtracted."""
    return len(influences.measure) > len(influences.value) and bool((influences.factor > 0).all())


def _deviating(own: NDArray[np.float64], by: Correction) -> NDArray[np.intp]:
    """Return, for every measure, the number of groups with a unit whose value is not the most frequent one."""
    import numpy as np

    size = np.maximum(np.bincount(by.block, minlength=len(by.measure)), 1)
    mean = sums(by.block, own, len(by.measure)) / size
    spread = sums(by.block, (own - mean[by.block]) ** 2, len(by.measure)) / size
    uniform = spread < EQUAL**2
    values, value = np.unique(np.round(mean[uniform] / EQUAL), return_inverse=True)
    # The number of uniform groups per value, and the largest of these numbers.
    alike, times = np.unique(by.measure[uniform] * max(len(values), 1) + value, return_counts=True)
    most = np.zeros(len(by.groups), dtype=np.intp)
    np.maximum.at(most, alike // max(len(values), 1), times)
    return by.groups - most


def corrected(influences: Influences) -> Correction:
    """Return the correction of measures, independent of their values."""
    import numpy as np

    influences = pooled(influences)
    ratios, measures, w = len(influences.measure), len(influences.value), influences.weight
    cell, ratio, block, measure = _cells(influences)
    n, share, squares = (sums(cell, terms, len(ratio)) for terms in (np.ones_like(w), w, w * w))
    total = sums(ratio, squares, ratios)
    alone = np.bincount(ratio, minlength=ratios) < 2
    # A ratio of one group has no variance: det M is 0.
    a, b = _factors(n, share, squares, total[ratio], alone[ratio])
    t, z = a * n + b * share, a * share + b * squares
    row = influences.factor[influences.ratio] * (a[cell] + b[cell] * w)
    del a, b, n

    # Of matrices over ratios, only the entries of ratios that share a block: few, and none besides the diagonal without
    # macro averages. `mirror` has the place of each in the transposed matrix.
    left, right = _pairs(block) if ratios > measures else (slice(None), slice(None))
    entries, place = distinct(ratio[left] * ratios + ratio[right])
    i, j = np.divmod(entries, ratios)
    mirror = np.searchsorted(entries, j * ratios + i)

    def products(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the products of every two ratios of a measure over blocks, (entries,)."""
        return sums(place, one[left] * other[right], len(entries))

    rank_two = total[ratio] * t * t - 2 * z * t
    tt, tz, zz = products(t, t), products(t, z), products(z, z)
    first, second = total[i] * tt - tz[mirror], total[i] * tz - zz
    norms = first * first[mirror] - second * tt - tt * second[mirror] + tz * tz[mirror]
    norms = norms + products(squares, squares) - products(rank_two, rank_two)
    factors = influences.factor**2
    trace = sums(influences.measure, factors * total, measures)
    norm = sums(influences.measure, factors * sums(i, norms * factors[j], ratios), measures)
    defined = (trace > 0) & (np.bincount(influences.measure, alone, measures) == 0)
    df = np.divide(trace**2, norm, out=np.full(measures, np.nan), where=defined)
    effective = np.divide(1, trace, out=np.zeros(measures), where=trace > 0)
    # In a difference of two runs, add a group's shares in both.
    together = sums(block, np.abs(influences.factor)[ratio] * share, len(measure))
    squared = sums(measure, together**2, measures)
    groups = np.divide(1, squared, out=np.zeros(measures), where=squared > 0)
    return Correction(row, block[cell], measure, df, np.bincount(measure, minlength=measures), effective, groups)


def _cells(influences: Influences) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the cell of each row, the ratio and the block of each cell, and the measure of each block.

    A cell is a group within a ratio, a block a group within a measure.
    """
    import numpy as np

    stride = int(influences.group.max(initial=0)) + 1
    cells, cell = distinct(influences.ratio.astype(np.int64) * stride + influences.group)
    ratio, group = np.divmod(cells, stride)
    blocks, block = distinct(influences.measure[ratio] * stride + group)
    return cell, ratio, block, blocks // stride


def _factors(
    n: NDArray[np.float64],
    share: NDArray[np.float64],
    squares: NDArray[np.float64],
    S: NDArray[np.float64],
    alone: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a and b of each cell, by the number of its units and the sums of their weights and squared weights."""
    import numpy as np

    root = np.where(alone, np.nan, np.sqrt((1 - share) ** 2 + n * np.maximum(S - squares, 0)))
    scale = root * np.sqrt(2 + S * n - 2 * share + 2 * root)
    return (squares - S * share) / scale, (1 + S * n - share + root) / scale


def _pairs(block: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the cells of all pairs within a block, (pairs,) each, a cell with itself included, block by block."""
    import numpy as np

    order = np.argsort(block, kind="stable")
    size = np.bincount(block)
    each = size[block[order]]
    left = np.repeat(order, each)
    before = np.arange(len(left)) - np.repeat(np.cumsum(each) - each, each)
    return left, order[(np.cumsum(size) - size)[block[left]] + before]
