"""Measures as linearised sums of what each unit contributes.

The error of a ratio r = sum(numerators) / sum(denominators) is, to first order, the sum of w (y - r) over the units: y
is the unit's own ratio and w its share of the denominators (Taylor linearisation: Woodruff 1971, Journal of the
American Statistical Association 66:411). A mean is a ratio with denominators of 1: (y - mean) / n. A macro average of
S ratios, and a difference of two, are sums of ratios with the factors 1/S, and 1 and -1; a unit that is in several of
them contributes to each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The terms of units in slices: arrays of one shape, (rows,), one row for each slice that something is in.

    `unit` numbers what is counted once (the pair if there is one, else the item), `group` what is independent: a
    group holds the units that share images, patients or source cases. Rows of one unit in one slice are summed, as
    the two questions of a pair. `slice` is in [0, slices). A denominator of 0 leaves a row out.
    """

    numerator: NDArray[np.float64]
    denominator: NDArray[np.float64]
    unit: NDArray[np.intp]
    group: NDArray[np.intp]
    slice: NDArray[np.intp]
    slices: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError for shapes that differ and numbers out of range."""
        import numpy as np

        rows = (self.numerator, self.denominator, self.unit, self.group, self.slice)
        if len({np.shape(each) for each in rows}) != 1 or np.ndim(self.unit) != 1:
            raise ValueError("the columns of a table must have one shape, (rows,)")
        if not (np.all(np.isfinite(self.numerator)) and np.all(np.isfinite(self.denominator))):
            raise ValueError("numerators and denominators must be finite")
        if np.any(self.denominator < 0) or np.any(self.group < 0) or np.any(self.unit < 0):
            raise ValueError("denominators, units and groups must not be negative")
        if np.any((self.slice < 0) | (self.slice >= self.slices)):
            raise ValueError(f"slices must be in [0, {self.slices})")


def by_unit(table: Table) -> tuple[Table, NDArray[np.intp]]:
    """Sum the rows of each unit in each slice: a table sorted by slice and unit, and the number of rows in each sum."""
    import numpy as np

    key = table.slice.astype(np.int64) * (int(table.unit.max(initial=0)) + 1) + table.unit
    if np.all(np.diff(key) > 0):
        return table, np.ones(len(key), dtype=np.intp)
    _, first, place, rows = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    summed = Table(
        sums(place, table.numerator, len(first)),
        sums(place, table.denominator, len(first)),
        table.unit[first],
        table.group[first],
        table.slice[first],
        table.slices,
    )
    return summed, rows.astype(np.intp)


def distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The different keys, sorted, and the place of each key among them; faster than np.unique if `keys` are sorted."""
    import numpy as np

    step = np.diff(keys, prepend=-1)
    if np.all(step >= 0):
        return keys[step > 0], np.cumsum(step > 0) - 1
    found, place = np.unique(keys, return_inverse=True)
    return found, place


def sums(place: NDArray[np.intp], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Sum `values` by their place in [0, count): (count,)."""
    import numpy as np

    # Without values bincount counts, as integers.
    return np.bincount(place, values, count).astype(float, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Influences:
    """Measures, each a sum of ratios times a factor, with the contribution of every unit.

    `value` has the estimates, (measures,), NaN where undefined. `measure` and `factor` say of each ratio, (ratios,),
    where it is summed and with which factor. The other arrays have one entry for each unit of each ratio, (rows,):
    `weight` is its share of the denominators, `own` its own ratio, `residual` its own ratio minus the ratio.
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
        """The linearised contribution of each row to its measure's error, (rows,); their sum is 0 in each measure."""
        return self.factor[self.ratio] * self.weight * self.residual


def ratios(table: Table) -> Influences:
    """One measure for each slice: the sum of its numerators over that of its denominators."""
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


def mean_over(found: Influences, places: Sequence[int]) -> Influences:
    """The macro average: one measure, the unweighted mean of those ratios of `places` that are defined.

    Raises ValueError unless `found` has one ratio a measure, as from `ratios`.
    """
    import numpy as np

    if len(found.measure) != len(found.value):
        raise ValueError("a macro average needs one ratio a measure")
    defined = np.array([place for place in places if not np.isnan(found.value[place])], dtype=np.intp)
    new = np.full(len(found.value), -1)
    new[defined] = np.arange(len(defined))
    kept = new[found.ratio] >= 0
    return Influences(
        np.array([found.value[defined].mean() if len(defined) else np.nan]),
        np.zeros(len(defined), dtype=np.intp),
        found.factor[defined] / max(len(defined), 1),
        new[found.ratio[kept]],
        found.group[kept],
        found.weight[kept],
        found.residual[kept],
        found.own[kept],
    )


def difference(new: Influences, baseline: Influences) -> Influences:
    """Measure by measure, new minus baseline; a group has the same number in both.

    With the same weights it is the ratio of the units' differences, else a sum of both runs' ratios. Raises ValueError
    for different numbers of measures.
    """
    import numpy as np

    if len(new.value) != len(baseline.value):
        raise ValueError(f"{len(new.value)} measures cannot be compared with {len(baseline.value)}")
    value = new.value - baseline.value
    if all(
        np.array_equal(getattr(new, name), getattr(baseline, name)) for name in ("factor", "ratio", "group", "weight")
    ):
        return replace(new, value=value, residual=new.residual - baseline.residual, own=new.own - baseline.own)
    return replace(
        new,
        value=value,
        measure=np.concatenate([new.measure, baseline.measure]),
        factor=np.concatenate([new.factor, -baseline.factor]),
        ratio=np.concatenate([new.ratio, baseline.ratio + len(new.measure)]),
        group=np.concatenate([new.group, baseline.group]),
        weight=np.concatenate([new.weight, baseline.weight]),
        residual=np.concatenate([new.residual, baseline.residual]),
        own=np.concatenate([new.own, baseline.own]),
    )
