"""Compare two runs on the same units: the difference, new minus baseline, with one-sided bounds.

A measure may leave units out that the other run counts, such as answers without a confidence. The difference is then
that of the two ratios, each over the units that count in its run, so that the differences of several runs add up.

The bounds are Tango's score interval (1998, Statistics in Medicine 17:891) at the effective number of units, n* = (n /
deff) (z / t)^2. Of right or wrong units, a share b is right in the new run alone and a share c in the baseline alone.
For other values from 0 to 1, b - c is the difference and b + c the mean square of the units' differences (at least the
size of the difference): a right or wrong unit with the same mean and variance. A t interval would fail if nearly all
units are unchanged: a sample without the rare large losses shows no variance. With fewer than `intervals.LEAST_DF`
degrees of freedom there are no bounds and no p.

deff is the CR2 variance of the difference divided by that of independent units, and at least

    1 + (n sum(h^2) - 1) icc,

h a group's share of the weights and icc the declared correlation of the changes of two units of a group (Kish 1965,
Survey Sampling, section 5.4). Few groups do not reveal it: of 20 groups of which one in 20 changes as a whole, 36 % of
samples show no such group. So the correlation is an assumption, and `largest_icc` tells how far a bound holds without
it. n sum(h^2) is 1 if each group is one unit: no change.

Numbers beyond 0 to 1 have the bounds difference -+ t se, with this least design effect, unless fewer than
`intervals.LEAST_DISCORDANT` effective groups changed. Macro averages have the bounds of `macro.difference_bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from medvqa.figures import defined
from medvqa.statistics import macro
from medvqa.statistics.clustered import EQUAL, Correction, Estimates, clustered, corrected
from medvqa.statistics.influence import Influences, UnitTable, by_unit, difference, mean_over, own_values, ratios, sums
from medvqa.statistics.intervals import LEAST_DF, LEAST_DISCORDANT, VARIES
from medvqa.statistics.planning import POWER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
    Tails = tuple[float, NDArray[np.float64]]

FLIP_ICC = 0.1
"""The declared correlation of the changes of two units of a group, if a rule declares no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference of a measure between a new run and a baseline, on units that count in either run.

    Fractions; `difference` is `new` - `baseline`. `low` and `high` are its one-sided bounds at `level`; `worse` is the
    one-sided p-value of no loss. They are None with too few degrees of freedom, or if undefined. `gained` and `lost`
    count the units whose value rose and fell; a group is discordant if one of its units changed. `se` is the standard
    error. `detectable` is the loss detected with 80 % power: (1.645 + 0.842) se at the level 0.95, and at least the
    distance to the bound. `counted`: the units that count in the new run, and in the baseline; `units`: in either.
    `method` is "tango" for right or wrong units, "score" for other values from 0 to 1, "counts"
    for macro averages and "t" for numbers beyond 0 to 1. `mcnemar` is McNemar's exact two-sided p-value of right or
    wrong units if all groups are single units.

    None for macro averages: `deff`, the design effect of the difference; `discordance`, the mean square of the units'
    differences; `n`, the number of independent units; `together`, the design effect if all units of a group changed
    together. `changes` is what the bounds of a macro average depend on, None for others.
    """

    baseline: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    worse: float | None
    level: float
    method: str
    units: int
    counted: tuple[int, int]
    groups: int
    discordant_groups: int
    gained: int
    lost: int
    deff: float | None
    df: float | None
    se: float | None
    detectable: float | None
    mcnemar: float | None
    discordance: float | None = None
    n: float | None = None
    together: float | None = None
    changes: macro.Changes | None = field(default=None, compare=False, repr=False)


def tango(gained: ArrayLike, lost: ArrayLike, n: ArrayLike, level: float = 0.95) -> Bounds:
    """Return Tango's score interval of the paired difference (gained - lost) / n: bounds in [-1, 1].

    Arrays of one shape with gained, lost >= 0, gained + lost <= n and n > 0; all may be fractional. Both bounds are
    one-sided: the two-sided interval of 95 % has the level 0.975. Source: Tango (1998), by bisection. Raises
    ValueError outside these ranges.
    """
    import numpy as np
    from scipy.special import ndtri

    b, c, n = np.broadcast_arrays(*(np.asarray(counts, float) for counts in (gained, lost, n)))
    if not (
        0.5 <= level < 1 and np.all(n > 0) and np.all(b >= 0) and np.all(c >= 0) and np.all(b + c <= n * (1 + 1e-12))
    ):
        raise ValueError("tango needs gained, lost >= 0, gained + lost <= n, n > 0 and a level in [0.5, 1)")
    z = float(ndtri(level))
    estimate = (b - c) / n

    def bound(end: float) -> NDArray[np.float64]:
        # Bisect between the estimate, where the score is 0, and the end, where the variance is 0.
        inner, outer = estimate.copy(), np.full_like(estimate, end)
        for _ in range(60):
            middle = (inner + outer) / 2
            inside = (b - c - n * middle) ** 2 <= z * z * score_variance(b, c, n, middle)
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        return np.asarray(inner)

    return bound(-1.0), bound(1.0)


def score_variance(
    b: NDArray[np.float64], c: NDArray[np.float64], n: NDArray[np.float64], delta: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the variance of b - c - n delta at the difference `delta`, with the ML estimate of c / n."""
    import numpy as np

    linear = (2 * n - b + c) * delta - b - c
    root = np.sqrt(np.maximum(linear**2 + 8 * n * c * delta * (1 - delta), 0))
    q = np.maximum((root - linear) / (4 * n), 0)
    return np.maximum(n * (2 * q + delta * (1 - delta)), 0)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """One run's part of a comparison, for comparisons with several others.

    `table` by unit; `influences` of its measures; `values`: the value of each row; `denominators`: their digest.
    """

    table: UnitTable
    influences: Influences
    values: NDArray[np.float64]
    over: Sequence[int] | None
    denominators: bytes


def prepared(
    table: UnitTable, *, over: Sequence[int] | None = None, weights: Sequence[float] | None = None
) -> Prepared:
    """Prepare a run for `compare`, whose arguments these are."""
    table, _ = by_unit(table)
    influences = ratios(table) if over is None else mean_over(ratios(table), over, weights)
    return Prepared(table, influences, own_values(table), over, sha256(table.denominator.tobytes()).digest())


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """The part of comparisons that depends on denominators alone, by these.

    Only for tables with equal units, groups and slices, and equal `over` and `weights`.
    """

    corrections: dict[bytes, Correction] = field(default_factory=dict)
    counts: dict[bytes, tuple[NDArray[np.intp], NDArray[np.intp]]] = field(default_factory=dict)


def compare(
    new: UnitTable,
    baseline: UnitTable,
    *,
    binary: bool,
    level: float = 0.95,
    icc: float = FLIP_ICC,
    bounded: bool = True,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> list[Comparison]:
    """Compare two runs in every slice, or with `over` their macro averages over these slices (one comparison).

    `weights` are those of `over`, as for `mean_over`. The tables may differ only in numerators and denominators, else
    ValueError. `binary`: every unit is right or wrong. `level` is the level of either bound, `icc` the declared
    correlation of the changes of two units of a group. `bounded`: all values are from 0 to 1; other numbers are
    compared in units of their range, 0 included, if that is beyond 1.
    """
    tables, scale = [new, baseline], 1.0 if bounded else _range((new, baseline))
    if scale > 1:
        tables = [replace(table, numerator=table.numerator / scale) for table in tables]
    sides = (prepared(table, over=over, weights=weights) for table in tables)
    binary = binary and scale == 1
    return compare_prepared(*sides, binary=binary, level=level, icc=icc, weights=weights, scale=scale)


def _range(tables: Sequence[UnitTable]) -> float:
    """Return the range of the rows' values and 0, which no change of a unit exceeds; at least 1."""
    import numpy as np

    kept = [table.denominator > 0 for table in tables]
    values = [table.numerator[own] / table.denominator[own] for table, own in zip(tables, kept, strict=True)]
    whole = np.concatenate([np.zeros(1), *values])
    return max(1.0, float(whole.max() - whole.min()))


def compare_prepared(
    new_run: Prepared,
    baseline_run: Prepared,
    *,
    binary: bool,
    level: float = 0.95,
    icc: float = FLIP_ICC,
    weights: Sequence[float] | None = None,
    shared: Shared | None = None,
    scale: float = 1.0,
) -> list[Comparison]:
    """Compare two prepared runs, as `compare` does; `shared` saves time over several comparisons.

    `scale`: the unit of numbers beyond 0 to 1, in which both runs are prepared.
    """
    import numpy as np
    from scipy.special import ndtri, stdtrit

    new, baseline, over = new_run.table, baseline_run.table, new_run.over
    if not new.differs_in_terms_alone(baseline):
        raise ValueError("only the numerators and denominators of two runs may differ")
    sides = new_run.influences, baseline_run.influences
    influences = difference(*sides)
    shared = Shared() if shared is None else shared
    alike = new_run.denominators if new_run.denominators == baseline_run.denominators else b""
    if alike and alike not in shared.corrections:
        shared.corrections[alike] = corrected(influences)
    estimates = clustered(influences, shared.corrections.get(alike))
    flips = _flips(new_run, baseline_run, shared, alike)
    usable = estimates.df >= LEAST_DF
    df = np.where(usable, estimates.df, 1.0)
    tails = ndtri(level), stdtrit(df, level)
    # In a sum of both runs' ratios the effective number is halved, and groups' shares count twice.
    times = len(influences.factor) / max(len(sides[0].factor), 1)
    n = np.where(usable, estimates.n * times, 1.0)
    groups = np.where(usable, estimates.effective_groups * times**2, 1.0)
    changes = None
    if over is None:
        found = _scored((new_run, baseline_run), estimates, (n, groups), usable, tails, level, icc)
        method = "tango" if binary and np.array_equal(new.denominator, baseline.denominator) else "score"
    else:
        if len(influences.factor) > len(sides[0].factor):
            influences = _changes(new, baseline, over, weights)
        changes = macro.changes_of(influences, estimates.variance, df, binary=binary)
        found, method = _averaged(changes, usable, level, icc), "counts"
    if scale > 1:
        found, method, changes = _unbounded(found, estimates, flips.effective < LEAST_DISCORDANT, tails), "t", None
    values = sides[0].value, sides[1].value
    return _comparisons(values, estimates, flips, found, level, method, changes, scale)


def _comparisons(
    values: Bounds,
    estimates: Estimates,
    flips: _Flips,
    found: _Differences,
    level: float,
    method: str,
    changes: macro.Changes | None,
    scale: float,
) -> list[Comparison]:
    """Return the comparisons of all measures, whose `values` are those of the new run and of the baseline."""
    import numpy as np
    from scipy.special import ndtri, stdtr

    usable = estimates.df >= LEAST_DF
    detectable = np.fmax((ndtri(level) + ndtri(POWER)) * found.se, estimates.value - found.low)
    worse = np.where(usable, stdtr(np.where(usable, estimates.df, 1.0), found.statistic), np.nan)
    single = flips.groups == flips.units
    exact = np.where((method == "tango") & single, _mcnemar(flips.gained, flips.lost), np.nan)
    return [
        Comparison(
            baseline=defined(scale * values[1][i]),
            new=defined(scale * values[0][i]),
            difference=defined(scale * estimates.value[i]),
            low=defined(scale * found.low[i]),
            high=defined(scale * found.high[i]),
            worse=defined(worse[i]),
            level=level,
            method=method,
            units=int(flips.units[i]),
            counted=(int(flips.counted[0][i]), int(flips.counted[1][i])),
            groups=int(flips.groups[i]),
            discordant_groups=int(flips.discordant[i]),
            gained=int(flips.gained[i]),
            lost=int(flips.lost[i]),
            deff=defined(found.deff[i]),
            df=defined(estimates.df[i]),
            se=defined(scale * found.se[i]),
            detectable=defined(scale * detectable[i]),
            mcnemar=defined(exact[i]),
            discordance=defined(found.discordance[i]) if scale == 1 else None,
            n=defined(found.n[i]),
            together=defined(found.together[i]),
            changes=changes if usable[i] else None,
        )
        for i in range(len(estimates.value))
    ]


def largest_icc(comparison: Comparison, margin: float) -> float | None:
    """Return the largest correlation of changes within groups at which a loss of `margin` is still ruled out.

    1.0: at any. None if the comparison does not rule it out.
    """
    import numpy as np
    from scipy.special import stdtrit

    low, change, df, discordance = comparison.low, comparison.difference, comparison.df, comparison.discordance
    n, together = comparison.n, comparison.together
    if low is None or low <= -margin or change is None or df is None:
        return None
    if comparison.changes is not None:
        return macro.largest_icc(comparison.changes, margin, comparison.level)
    if discordance is None or n is None or together is None:
        return None
    b, c, one, at = (np.array(each) for each in ((discordance + change) / 2, (discordance - change) / 2, 1.0, -margin))
    # Tango's bound of N units is the margin where (N (change + margin))^2 = z^2 N variance.
    units = float(stdtrit(df, comparison.level)) ** 2 * float(score_variance(b, c, one, at)) / (change + margin) ** 2
    if together <= 1 + EQUAL or units * together <= n:
        return 1.0
    return min((n / units - 1) / (together - 1), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    """The bounds of differences, (comparisons,) each, NaN where undefined; the fields as in `Comparison`.

    `statistic` is the difference over its standard error if there is no difference.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    statistic: NDArray[np.float64]
    se: NDArray[np.float64]
    deff: NDArray[np.float64]
    discordance: NDArray[np.float64]
    n: NDArray[np.float64]
    together: NDArray[np.float64]


def _scored(
    runs: tuple[Prepared, Prepared],
    estimates: Estimates,
    sizes: tuple[NDArray[np.float64], NDArray[np.float64]],
    usable: NDArray[np.bool_],
    tails: Tails,
    level: float,
    icc: float,
) -> _Differences:
    """Return Tango's bounds in every slice; `sizes` are the effective numbers of units and of groups."""
    import numpy as np

    n, groups = sizes
    value = np.where(usable, estimates.value, 0.0)
    square = np.where(usable, _mean_square(*runs), 0.0)
    # Rounding errors are no changes.
    discordance = np.where(square - np.abs(value) < 1e-12, np.abs(value), np.minimum(square, 1.0))
    independent = np.maximum(square - value**2, 0) / n
    together = np.maximum(n / groups, 1.0)
    floor = 1 + (together - 1) * icc
    ratio = np.divide(estimates.variance, independent, out=np.ones_like(n), where=usable & (independent > VARIES))
    deff = np.fmax(ratio, floor)
    b, c = (np.maximum(discordance + sign * value, 0) / 2 for sign in (1, -1))
    low, high, statistic = _score_bounds(b, c, n / deff, tails, level)
    se = np.sqrt(deff * independent)
    return _Differences(
        *(np.where(usable, v, np.nan) for v in (low, high, statistic, se, deff, discordance, n, together))
    )


def _unbounded(found: _Differences, estimates: Estimates, few: NDArray[np.bool_], tails: Tails) -> _Differences:
    """Return the bounds difference -+ t se, but Tango's where few groups changed."""
    import numpy as np

    low, high = (estimates.value + sign * tails[1] * found.se for sign in (-1, 1))
    statistic = np.divide(estimates.value, found.se, out=np.zeros_like(found.se), where=found.se > 0)
    return replace(
        found,
        low=np.where(few, found.low, low),
        high=np.where(few, found.high, high),
        statistic=np.where(few, found.statistic, statistic),
    )


def _mean_square(new_run: Prepared, baseline_run: Prepared) -> NDArray[np.float64]:
    """Return the weighted mean square of the units' differences, (slices,).

    If a unit has different weights in the two runs, its difference is that of its influences over its mean weight.
    """
    import numpy as np

    slices, of = new_run.table.slices, new_run.table.slice
    change, weight, value = np.zeros(len(of)), np.zeros(len(of)), np.zeros(slices)
    for run, sign in ((new_run, 1), (baseline_run, -1)):
        table, ratio = run.table, np.nan_to_num(run.influences.value)
        total = sums(of, table.denominator, slices)
        share = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
        change += sign * share[of] * (table.numerator - table.denominator * ratio[of])
        weight += share[of] * table.denominator / 2
        value += sign * ratio
    square = np.divide(change**2, weight, out=np.zeros_like(change), where=weight > 0)
    return sums(of, square, slices) + value**2


def _averaged(changes: macro.Changes, usable: NDArray[np.bool_], level: float, icc: float) -> _Differences:
    """Return the bounds of macro averages."""
    import numpy as np
    from scipy.special import stdtrit

    precision = changes.spread(icc)
    low, high = macro.difference_bounds(changes.slices, precision, level)
    # `worse` is Student's tail of the statistic.
    statistic = stdtrit(changes.df, macro.p_worse(changes.slices, precision))
    found = (np.where(usable, each, np.nan) for each in (low, high, statistic, np.sqrt(precision.variance)))
    return _Differences(*found, *[np.full(len(low), np.nan)] * 4)


def _score_bounds(
    b: NDArray[np.float64],
    c: NDArray[np.float64],
    n: NDArray[np.float64],
    tails: Tails,
    level: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return Tango's bounds for the shares `b` gained and `c` lost of `n` units, and the score of no difference.

    `tails` are the quantiles of the normal and of Student's distribution at `level`.
    """
    import numpy as np

    trials = n * (tails[0] / tails[1]) ** 2
    low, high = tango(b * trials, c * trials, trials, level)
    return low, high, np.divide((b - c) * np.sqrt(n), np.sqrt(b + c), out=np.zeros_like(n), where=b + c > 0)


def _changes(new: UnitTable, baseline: UnitTable, over: Sequence[int], weights: Sequence[float] | None) -> Influences:
    """Return the macro average of the units' changes; a unit weighs as much as on average in the two runs."""
    import numpy as np

    of, inside = new.slice, np.isin(np.arange(new.slices), np.asarray(over, dtype=np.intp))
    weight, change = np.zeros(len(of)), np.zeros(len(of))
    for table, sign in ((new, 1), (baseline, -1)):
        total = sums(of, table.denominator, table.slices)
        defined, factor = inside & (total > 0), np.zeros(table.slices)
        factor[list(over)] = 1 / max(int(defined.sum()), 1) if weights is None else np.asarray(weights) / sum(weights)
        share = np.divide(factor, total, out=np.zeros_like(total), where=defined)[of]
        weight += share * table.denominator / 2
        change += sign * share * table.numerator
    kept = weight > 0
    places, ratio = np.unique(of[kept], return_inverse=True)
    weight, change = weight[kept], change[kept]
    factor = sums(ratio, weight, len(places))
    value = np.divide(sums(ratio, change, len(places)), factor, out=np.zeros_like(factor), where=factor > 0)
    own = change / weight
    return Influences(
        np.array([change.sum()]),
        np.zeros(len(places), dtype=np.intp),
        factor,
        ratio,
        new.group[kept],
        weight / factor[ratio],
        own - value[ratio],
        own,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Flips:
    """Changed units: `rose` and `fell` per row, (rows,), and counts per comparison; `counted` of either run.

    `effective` is the effective number of discordant groups, (sum of f)^2 / sum of f^2 with f the changed units of a
    group. It is their number if changes are spread evenly, and near 1 if one group holds nearly all.
    """

    rose: NDArray[np.bool_]
    fell: NDArray[np.bool_]
    units: NDArray[np.intp]
    counted: tuple[NDArray[np.intp], NDArray[np.intp]]
    groups: NDArray[np.intp]
    discordant: NDArray[np.intp]
    effective: NDArray[np.float64]
    gained: NDArray[np.intp]
    lost: NDArray[np.intp]


def _flips(new_run: Prepared, baseline_run: Prepared, shared: Shared, alike: bytes) -> _Flips:
    """Count changed units in every slice, or once in the slices of `over` together.

    `alike`: the denominators of both runs if they are equal, else b"".
    """
    import numpy as np

    new, baseline, over = new_run.table, baseline_run.table, new_run.over
    counted = (new.denominator > 0) | (baseline.denominator > 0)
    both = (new.denominator > 0) & (baseline.denominator > 0)
    rose, fell = new_run.values > baseline_run.values, new_run.values < baseline_run.values
    if over is None:
        of, comparisons = new.slice, new.slices
    else:
        of, comparisons = np.zeros_like(new.slice), 1
        counted &= np.isin(new.slice, np.asarray(over, dtype=np.intp))

    def distinct(number: NDArray[np.intp], mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        stride = int(number.max(initial=0)) + 1
        # For nearly sorted keys a stable sort is much faster than np.unique.
        keys = np.sort((of.astype(np.int64) * stride + number)[mask & counted], kind="stable")
        first = np.diff(keys, prepend=-1) > 0
        return np.bincount(keys[first] // stride, minlength=comparisons)

    def effective(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        stride = int(new.group.max(initial=0)) + 1
        keys, flips = np.unique((of.astype(np.int64) * stride + new.group)[mask & counted], return_counts=True)
        total, squares = (sums(keys // stride, flips.astype(float) ** power, comparisons) for power in (1, 2))
        return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)

    units, groups = shared.counts.get(alike) or (distinct(new.unit, counted), distinct(new.group, counted))
    own = units, units
    if alike:
        shared.counts[alike] = units, groups
    else:
        own = distinct(new.unit, new.denominator > 0), distinct(new.unit, baseline.denominator > 0)
    changed = rose | fell | (counted & ~both)
    return _Flips(
        rose,
        fell,
        units,
        own,
        groups,
        distinct(new.group, changed),
        effective(changed),
        distinct(new.unit, rose),
        distinct(new.unit, fell),
    )


def _mcnemar(gained: NDArray[np.intp], lost: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return twice the smaller binomial tail, at most 1: `scipy.stats.binomtest(gained, gained + lost).pvalue`."""
    import numpy as np
    from scipy.special import betainc

    less, more = np.minimum(gained, lost), np.maximum(gained, lost)
    return np.where(more > 0, np.minimum(2 * betainc(np.maximum(more, 1), less + 1, 0.5), 1.0), 1.0)
