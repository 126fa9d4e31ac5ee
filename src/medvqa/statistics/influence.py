"""Measures as linearised sums of the units' contributions.

The error of a ratio r = sum(numerators) / sum(denominators) is, to first order, the sum of w (y - r) over the units: y
is the unit's own ratio and w its share of the denominators (Taylor linearisation: Woodruff 1971, Journal of the
American Statistical Association 66:411). A mean is a ratio with denominators of 1: (y - mean) / n. A macro average of
S ratios is a sum of ratios with factors 1/S, a difference of two one with factors 1 and -1; a unit in several ratios
contributes to all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class UnitTable:
    """The terms of units in slices: arrays of one shape, (rows,), with a row for every slice of an item.

    `unit` numbers the units (pairs, and items without a pair). `group` numbers independent groups: units that share
    images, patients or source cases are in one group. Rows of one unit in one slice are summed, for instance the two
    questions of a pair. `slice` is in [0, slices). A denominator of 0 leaves a row out.
    """

    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]
    unit: NDArray[np.intp]
    group: NDArray[np.intp]
    slice: NDArray[np.intp]
    slices: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for different shapes and numbers out of range."""
        import numpy as np

        columns = (self.numerator, self.denominator, self.unit, self.group, self.slice)
        if len({np.shape(column) for column in columns}) != 1 or np.ndim(self.unit) != 1:
            raise ValueError("the columns of a table must have one shape, (rows,)")
        if not (np.all(np.isfinite(self.numerator)) and np.all(np.isfinite(self.denominator))):
            raise ValueError("numerators and denominators must be finite")
        if np.any(self.denominator < 0) or np.any(self.group < 0) or np.any(self.unit < 0):
            raise ValueError("denominators, units and groups must not be negative")
        if np.any((self.slice < 0) | (self.slice >= self.slices)):
            raise ValueError(f"slices must be in [0, {self.slices})")

    def only(self, kept: NDArray[np.bool_]) -> UnitTable:
        """Return the table of some rows, (rows,)."""
        numbers = self.unit[kept], self.group[kept], self.slice[kept]
        return UnitTable(self.numerator[kept], self.denominator[kept], *numbers, self.slices)

    def in_slice(self, place: int) -> UnitTable:
        """Return the rows of a slice, as a table of one slice."""
        own = self.only(self.slice == place)
        return replace(own, slice=own.slice - place, slices=1)

    def differs_in_terms_alone(self, other: UnitTable) -> bool:
        """Whether two tables have equal units, groups and slices, row by row."""
        import numpy as np

        places = ((table.unit, table.group, table.slice) for table in (self, other))
        return self.slices == other.slices and all(map(np.array_equal, *places))


def by_unit(table: UnitTable) -> tuple[UnitTable, NDArray[np.intp]]:
    """Sum the rows of a unit in a slice: return a table sorted by slice and unit, and the rows per sum."""
    import numpy as np

    key = table.slice.astype(np.int64) * (int(table.unit.max(initial=0)) + 1) + table.unit
    if np.all(np.diff(key) > 0):
        return table, np.ones(len(key), dtype=np.intp)
    _, first, place, rows = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    summed = UnitTable(
        sums(place, table.numerator, len(first)),
        sums(place, table.denominator, len(first)),
        table.unit[first],
        table.group[first],
        table.slice[first],
        table.slices,
    )
    return summed, rows.astype(np.intp)


DIGITS = 12
"""Digits to which the values of units are compared: sums of the same fractions in another order are equal."""


def own_values(table: UnitTable) -> NDArray[np.float64]:
    """The value of each row of a table by unit, (rows,), rounded to `DIGITS`; NaN for a row that is left out."""
    import numpy as np

    values = np.full(len(table.unit), np.nan)
    np.divide(table.numerator, table.denominator, out=values, where=table.denominator > 0)
    return values.round(DIGITS)


def distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct keys, sorted, and the place of every key among them; np.unique, but fast for sorted keys."""
    import numpy as np

    step = np.diff(keys, prepend=-1)
    if np.all(step >= 0):
        return keys[step > 0], np.cumsum(step > 0) - 1
    values, place = np.unique(keys, return_inverse=True)
    return values, place


def sums(place: NDArray[np.intp], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Sum `values` by their place in [0, count); return (count,)."""
    import numpy as np

    # bincount of no values returns integers.
    return np.bincount(place, values, count).astype(float, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Influences:
    """Measures as sums of ratios times factors, with the contribution of every unit.

    `value` has the estimates, (measures,), NaN if undefined. `measure` and `factor` are the measure and the factor of
    every ratio, (ratios,). The other arrays have an entry for every unit of every ratio, (rows,). `weight` is the
    unit's share of the denominators, `own` its own ratio, and `residual` is `own` minus the ratio.
    """

    value: NDArray[np.float64]
    measure: NDArray[np.intp]
    factor: NDArray[np.float64]
    ratio: NDArray[np.intp]
    group: NDArray[np.intp]
    weight: NDArray[np.float64]
    residual: NDArray[np.float64]
    own: NDArray[np.float64]

    @property
    def influence(self) -> NDArray[np.float64]:
        """The linearised contribution of every row to its measure's error, (rows,); they sum to 0 in a measure."""
        return self.factor[self.ratio] * self.weight * self.residual


def ratios(table: UnitTable) -> Influences:
    """Return one measure per slice: the sum of its numerators over that of its denominators."""
    import numpy as np

    table, _ = by_unit(table)
    kept = table.denominator > 0
    of, numerator, denominator = table.slice[kept], table.numerator[kept], table.denominator[kept]
    total = sums(of, denominator, table.slices)
    value = np.full(table.slices, np.nan)
    np.divide(sums(of, numerator, table.slices), total, out=value, where=total > 0)
    own = numerator / denominator
    return Influences(
        value,
        np.arange(table.slices),
        np.ones(table.slices),
        of,
        table.group[kept],
        denominator / total[of],
        own - value[of],
        own,
    )


def mean_over(influences: Influences, places: Sequence[int], weights: Sequence[float] | None = None) -> Influences:
    """Return the macro average: one measure, the unweighted mean of the defined ratios among `places`.

    With `weights`, one for each place, it is their weighted mean, NaN unless all of them are defined. Raises ValueError
    unless every measure has one ratio, as returned by `ratios`, or for weights that are not positive.
    """
    import numpy as np

    if len(influences.measure) != len(influences.value):
        raise ValueError("a macro average needs one ratio a measure")
    defined = np.array([place for place in places if not np.isnan(influences.value[place])], dtype=np.intp)
    shares = np.full(len(defined), 1 / max(len(defined), 1))
    if weights is not None:
        if len(weights) != len(places) or not all(weight > 0 for weight in weights):
            raise ValueError("a weighted mean needs a positive weight for each place")
        defined = defined if len(defined) == len(places) else defined[:0]
        shares = np.array(weights, dtype=float)[: len(defined)] / sum(weights)
    new = np.full(len(influences.value), -1)
    new[defined] = np.arange(len(defined))
    kept = new[influences.ratio] >= 0
    return Influences(
        np.array([_mean(influences.value[defined], shares, weights)]),
        np.zeros(len(defined), dtype=np.intp),
        influences.factor[defined] * shares,
        new[influences.ratio[kept]],
        influences.group[kept],
        influences.weight[kept],
        influences.residual[kept],
        influences.own[kept],
    )


def _mean(values: NDArray[np.float64], shares: NDArray[np.float64], weights: Sequence[float] | None) -> float:
    if not len(values):
        return math.nan
    return float(values.mean() if weights is None else values @ shares)


LEAST_GROUPS_OF_SLICE = 5
"""Fewest groups with which a slice of a macro average has a variance of its own."""


def pooled(influences: Influences) -> Influences:
    """Return the same measures with small slices of macro averages joined, for their variance.

    A slice of one group has no variance, and one of few groups a bad one. So a measure's slices with fewer than
    `LEAST_GROUPS_OF_SLICE` groups are joined into one, with the smallest other slices until it has so many. Its
    variance includes that between the joined slices, so it is not too small on average (collapsed strata: Cochran 1977,
    Sampling Techniques, section 5A.12).
    """
    import numpy as np

    ratios = len(influences.measure)
    if ratios == len(influences.value):
        return influences
    stride = int(influences.group.max(initial=0)) + 1
    cells, _ = distinct(influences.ratio.astype(np.int64) * stride + influences.group)
    groups = np.bincount(cells // stride, minlength=ratios)
    # The ratios of two runs in a difference have factors of different signs and are not joined.
    measure = 2 * influences.measure + (influences.factor < 0)
    order = np.lexsort((groups, measure))
    first = np.maximum.accumulate(np.where(np.diff(measure[order], prepend=-1) > 0, np.arange(ratios), 0))
    before = np.cumsum(groups[order]) - groups[order]
    before = before - before[first]
    small = (groups[order] < LEAST_GROUPS_OF_SLICE) | ((before > 0) & (before < LEAST_GROUPS_OF_SLICE))
    place = np.empty(ratios, dtype=np.intp)
    place[order] = order[np.where(small, first, np.arange(ratios))]
    kept, place = np.unique(place, return_inverse=True)
    if len(kept) == ratios:
        return influences
    factor = sums(place, influences.factor, len(kept))
    ratio = place[influences.ratio]
    weight = influences.weight * influences.factor[influences.ratio] / factor[ratio]
    value = sums(ratio, weight * influences.own, len(kept))
    return replace(
        influences,
        measure=influences.measure[kept],
        factor=factor,
        ratio=ratio,
        weight=weight,
        residual=influences.own - value[ratio],
    )


def difference(new: Influences, baseline: Influences) -> Influences:
    """Return new minus baseline, measure by measure; both must number the groups alike.

    Raises ValueError for different numbers of measures.
    """
    return combination((new, baseline), (1.0, -1.0))


def combination(sides: Sequence[Influences], factors: Sequence[float]) -> Influences:
    """Return the sum of the sides' measures times their factors, measure by measure; all must number the groups alike.

    With the same weights in all sides, the result is the ratio of the units' sums, else a sum of all sides' ratios.
    Raises ValueError for different numbers of measures.
    """
    import numpy as np

    first, *others = sides
    for side in others:
        if len(side.value) != len(first.value):
            raise ValueError(f"{len(first.value)} measures cannot be compared with {len(side.value)}")

    def total(name: str) -> NDArray[np.float64]:
        terms = [factor * getattr(side, name) for side, factor in zip(sides, factors, strict=True)]
        return np.asarray(sum(terms[1:], start=terms[0]))

    if all(
        np.array_equal(getattr(first, name), getattr(side, name))
        for side in others
        for name in ("factor", "ratio", "group", "weight")
    ):
        return replace(first, value=total("value"), residual=total("residual"), own=total("own"))
    starts = np.cumsum([0, *(len(side.measure) for side in sides)])
    return Influences(
        total("value"),
        np.concatenate([side.measure for side in sides]),
        np.concatenate([factor * side.factor for side, factor in zip(sides, factors, strict=True)]),
        np.concatenate([side.ratio + start for side, start in zip(sides, starts.tolist(), strict=False)]),
        *(np.concatenate([getattr(side, name) for side in sides]) for name in ("group", "weight", "residual", "own")),
    )
