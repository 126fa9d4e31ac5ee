"""Compare two runs on the same units: the difference, new minus baseline, with one-sided bounds.

If units are right or wrong with the same weights in both runs, the bounds are Tango's score interval (1998, Statistics
in Medicine 17:891) at the effective number of units, n* = (n / deff) (z / t)^2: `gained` units are right in the new run
alone, `lost` units in the baseline alone. For any other measure the bounds are the difference -+ t sqrt(V), V the CR2
variance of the difference of influences. With fewer than `intervals.LEAST_DF` degrees of freedom there are no bounds
and no p.

A variance from a few changed groups does not reveal how often a whole group changes at once. In a simulation of 60
groups of 5 units that flip together, half of the losses of 2 points passed a margin of 2. So with fewer than
`intervals.LEAST_DISCORDANT` effective discordant groups, the bounds are at least as wide as if the units of a group
were fully correlated. (If most changes are in one group, the effective number is near 1.) For right or wrong units,
deff is then at least n sum(h^2), h a group's share of the weights. For other measures the bounds contain Tango's at
1 / sum(h^2) units, since values from 0 to 1 differ with at most the variance of right or wrong units. For groups of
one unit n sum(h^2) is 1: no change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from medvqa.statistics import macro
from medvqa.statistics.clustered import Correction, Estimates, clustered, corrected
from medvqa.statistics.influence import Influences, Table, by_unit, difference, mean_over, own_values, ratios, sums
from medvqa.statistics.intervals import LEAST_DF, LEAST_DISCORDANT
from medvqa.statistics.planning import POWER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]

FLIP_ICC = 0.1
"""The declared correlation of the changes of two units of a group, if a rule declares no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference of a measure between a new run and a baseline, on units that count in either run.

    Fractions; `difference` is `new` - `baseline`. `low` and `high` are its one-sided bounds at `level`; `worse` is the
    one-sided p-value of no loss. They are None with too few degrees of freedom, or if undefined. `gained` and `lost`
    count the units whose value rose and fell; a group is discordant if one of its units changed. `se` is the standard
    error. `detectable` is the loss detected with 80 % power: (1.645 + 0.842) se at the level 0.95, and with few
    discordant groups at least the distance to the bound. `method` is "tango" for right or wrong units, "counts" for
    macro averages (`macro.difference_bounds`), else "t". With
    "tango", `deff` is the design effect of the difference, and `mcnemar` McNemar's exact two-sided p-value if all
    groups are single units.
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
    groups: int
    discordant_groups: int
    gained: int
    lost: int
    deff: float | None
    df: float | None
    se: float | None
    detectable: float | None
    mcnemar: float | None


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

    `table` by unit; `influences` of its measures; `values`: the value of each row; `denominators` identifies them.
    """

    table: Table
    influences: Influences
    values: NDArray[np.float64]
    over: Sequence[int] | None
    denominators: bytes


def prepared(table: Table, *, over: Sequence[int] | None = None, weights: Sequence[float] | None = None) -> Prepared:
    """Prepare a run for `compare`, whose arguments these are."""
    table, _ = by_unit(table)
    influences = ratios(table) if over is None else mean_over(ratios(table), over, weights)
    return Prepared(table, influences, own_values(table), over, table.denominator.tobytes())


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """The part of comparisons that depends on denominators alone, by these.

    Only for tables with equal units, groups and slices, and equal `over` and `weights`.
    """

    corrections: dict[bytes, Correction] = field(default_factory=dict)
    counts: dict[bytes, tuple[NDArray[np.intp], NDArray[np.intp]]] = field(default_factory=dict)


def compare(
    new: Table,
    baseline: Table,
    *,
    binary: bool,
    level: float = 0.95,
    icc: float = FLIP_ICC,
    over: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
) -> list[Comparison]:
    """Compare two runs in every slice, or with `over` their macro averages over these slices (one comparison).

    `weights` are those of `over`, as for `mean_over`. The tables may differ only in numerators and denominators, else
    ValueError. `binary`: every unit is right or wrong. `level` is the level of either bound, `icc` the declared
    correlation of the changes of two units of a group.
    """
    sides = (prepared(table, over=over, weights=weights) for table in (new, baseline))
    return compare_prepared(*sides, binary=binary, level=level, icc=icc, weights=weights)


def compare_prepared(
    new_run: Prepared,
    baseline_run: Prepared,
    *,
    binary: bool,
    level: float = 0.95,
    icc: float = FLIP_ICC,
    weights: Sequence[float] | None = None,
    shared: Shared | None = None,
) -> list[Comparison]:
    """Compare two prepared runs, as `compare` does; `shared` saves time over several comparisons."""
    import numpy as np
    from scipy.special import ndtri, stdtr, stdtrit

    new, baseline, over = new_run.table, baseline_run.table, new_run.over
    _check_same_places(new, baseline)
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
    se = np.sqrt(np.where(usable, estimates.variance, np.nan))
    tails = ndtri(level), stdtrit(df, level)
    # In a sum of both runs' ratios the effective number is halved, and groups' shares count twice.
    times = len(influences.factor) / max(len(sides[0].factor), 1)
    n = np.where(usable, estimates.n * times, 1.0)
    groups = np.where(usable, estimates.effective_groups * times**2, 1.0)
    few = flips.effective < LEAST_DISCORDANT
    if score := binary and over is None and np.array_equal(new.denominator, baseline.denominator):
        total = sums(new.slice, new.denominator, new.slices)
        b, c = (_shares(new, total, flipped) for flipped in (flips.rose, flips.fell))
        independent = (b + c - (b - c) ** 2) / n
        deff = np.divide(estimates.variance, independent, out=np.ones_like(n), where=usable & (independent > 0))
        deff = np.fmax(deff, np.where(few, np.fmax(n / groups, 1.0), 1.0))
        low, high, statistic = _score_bounds(b, c, n / deff, tails, level)
        se = np.where(few & usable, np.sqrt(deff * independent), se)
    elif over is not None:
        deff, few = np.full(len(n), np.nan), np.ones(len(n), dtype=bool)
        if estimates.slices is None or len(influences.factor) > len(sides[0].factor):
            estimates = replace(estimates, slices=macro.slices_of(_changes(new, baseline, over, weights)))
        low, high, statistic, se = averaged(estimates, usable, binary=binary, level=level, icc=icc)
    else:
        deff = np.full(len(n), np.nan)
        low, high = (np.clip(estimates.value + sign * tails[1] * se, -1, 1) for sign in (-1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.where(estimates.value == 0, 0.0, estimates.value / se)
        b, c = _contributions(new, baseline, over, weights)
        wider_low, wider_high, score_statistic = _score_bounds(b, c, groups, tails, level)
        low, high = np.where(few, np.fmin(low, wider_low), low), np.where(few, np.fmax(high, wider_high), high)
        nearer = few & (np.abs(score_statistic) < np.abs(statistic))
        statistic = np.where(nearer, score_statistic, statistic)
        se = np.where(few & usable, np.fmax(se, np.sqrt(np.maximum(b + c - (b - c) ** 2, 0) / groups)), se)
    detectable = (ndtri(level) + ndtri(POWER)) * se
    detectable = np.where(few & usable, np.fmax(detectable, estimates.value - low), detectable)
    worse = stdtr(df, statistic)
    method = "tango" if score else "t" if over is None else "counts"
    exact = np.where(score & (flips.groups == flips.units), _mcnemar(flips.gained, flips.lost), np.nan)
    low, high, worse, deff = (np.where(usable, values, np.nan) for values in (low, high, worse, deff))
    return [
        Comparison(
            baseline=_number(sides[1].value[i]),
            new=_number(sides[0].value[i]),
            difference=_number(estimates.value[i]),
            low=_number(low[i]),
            high=_number(high[i]),
            worse=_number(worse[i]),
            level=level,
            method=method,
            units=int(flips.units[i]),
            groups=int(flips.groups[i]),
            discordant_groups=int(flips.discordant[i]),
            gained=int(flips.gained[i]),
            lost=int(flips.lost[i]),
            deff=_number(deff[i]),
            df=_number(estimates.df[i]),
            se=_number(se[i]),
            detectable=_number(detectable[i]),
            mcnemar=_number(exact[i]),
        )
        for i in range(len(estimates.value))
    ]


def _check_same_places(new: Table, baseline: Table) -> None:
    import numpy as np

    places = ("unit", "group", "slice")
    if new.slices != baseline.slices or not all(
        np.array_equal(getattr(new, name), getattr(baseline, name)) for name in places
    ):
        raise ValueError("only the numerators and denominators of two runs may differ")


def _score_bounds(
    b: NDArray[np.float64],
    c: NDArray[np.float64],
    n: NDArray[np.float64],
    tails: tuple[float, NDArray[np.float64]],
    level: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return Tango's bounds for the shares `b` gained and `c` lost of `n` units, and the score of no difference.

    `tails` are the quantiles of the normal and of Student's distribution at `level`.
    """
    import numpy as np

    trials = n * (tails[0] / tails[1]) ** 2
    low, high = tango(b * trials, c * trials, trials, level)
    return low, high, np.divide((b - c) * np.sqrt(n), np.sqrt(b + c), out=np.zeros_like(n), where=b + c > 0)


def averaged(
    estimates: Estimates, usable: NDArray[np.bool_], *, binary: bool, level: float, icc: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of differences of macro averages, their statistics for "no loss", and their standard errors.

    `estimates` of the differences, with the `slices` of the units' changes; `usable`: the measures with bounds.
    """
    import numpy as np
    from scipy.special import stdtrit

    slices, df = estimates.slices, np.where(usable, estimates.df, 1.0)
    if slices is None:
        raise ValueError("a difference of macro averages needs the changes of its slices")
    precision = macro.spread(estimates.variance, df, slices, binary=binary, icc=icc)
    low, high = macro.difference_bounds(slices, precision, level)
    # `worse` is Student's tail of the statistic.
    statistic, se = stdtrit(df, macro.p_worse(slices, precision)), np.sqrt(precision.variance)
    low, high, statistic, se = (np.where(usable, values, np.nan) for values in (low, high, statistic, se))
    return low, high, statistic, se


def _changes(new: Table, baseline: Table, over: Sequence[int], weights: Sequence[float] | None) -> Influences:
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


def _contributions(
    new: Table, baseline: Table, over: Sequence[int] | None, weights: Sequence[float] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares gained and lost of every difference, summed over units with values from 0 to 1."""
    import numpy as np

    change = np.zeros(len(new.slice))
    for table, sign in ((new, 1), (baseline, -1)):
        total = sums(table.slice, table.denominator, table.slices)
        weight = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
        if over is not None:
            inside = np.isin(np.arange(table.slices), np.asarray(over, dtype=np.intp)) & (total > 0)
            share = np.zeros(table.slices)
            share[list(over)] = 1 / max(int(inside.sum()), 1) if weights is None else np.asarray(weights) / sum(weights)
            weight = np.where(inside, weight * share, 0.0)
        change += sign * weight[table.slice] * table.numerator
    of, comparisons = (new.slice, new.slices) if over is None else (np.zeros_like(new.slice), 1)
    gained, lost = (sums(of, np.maximum(sign * change, 0), comparisons) for sign in (1, -1))
    # At most all units change.
    most = np.maximum(gained + lost, 1.0)
    return gained / most, lost / most


@dataclass(frozen=True, slots=True, eq=False)
class _Flips:
    """Changed units: `rose` and `fell` per row, (rows,), and counts per comparison.

    `effective` is the effective number of discordant groups, (sum of f)^2 / sum of f^2 with f the changed units of a
    group. It is their number if changes are spread evenly, and near 1 if one group holds nearly all.
    """

    rose: NDArray[np.bool_]
    fell: NDArray[np.bool_]
    units: NDArray[np.intp]
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

    counts = shared.counts.get(alike) or (distinct(new.unit, counted), distinct(new.group, counted))
    if alike:
        shared.counts[alike] = counts
    changed = rose | fell | (counted & ~both)
    return _Flips(
        rose,
        fell,
        *counts,
        distinct(new.group, changed),
        effective(changed),
        distinct(new.unit, rose),
        distinct(new.unit, fell),
    )


def _shares(table: Table, total: NDArray[np.float64], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    import numpy as np

    part = sums(table.slice, table.denominator * mask, table.slices)
    return np.divide(part, total, out=np.zeros_like(total), where=total > 0)


def _mcnemar(gained: NDArray[np.intp], lost: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return twice the smaller binomial tail, at most 1: `scipy.stats.binomtest(gained, gained + lost).pvalue`."""
    import numpy as np
    from scipy.special import betainc

    less, more = np.minimum(gained, lost), np.maximum(gained, lost)
    return np.where(more > 0, np.minimum(2 * betainc(np.maximum(more, 1), less + 1, 0.5), 1.0), 1.0)


def _number(value: float) -> float | None:
    return None if value != value else float(value)
