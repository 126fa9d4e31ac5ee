"""The cluster bootstrap, a cross-check of the reported intervals.

Percentile intervals are not reported: with few groups, and near 0 and 1, their coverage is too low. Source: Cameron,
Gelbach and Miller (2008), Review of Economics and Statistics 90:414.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medvqa.statistics.influence import UnitTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

REPLICATES = 10_000
CELLS = 4_000_000
"""Draws held in memory at once, about 100 MB."""


def resampled(tables: Sequence[UnitTable], *, replicates: int = REPLICATES, seed: int = 0) -> list[NDArray[np.float64]]:
    """Return the ratios of every table, (replicates, slices), in samples of groups with replacement; NaN if undefined.

    The tables share their groups, and a replicate draws the same groups for all tables: `new - baseline` of two runs
    is a replicate of their difference. Source: Davison and Hinkley (1997), Bootstrap Methods and their Application,
    3.8. `seed` fixes the draws. Sums are in single precision: exact for counts up to 2^24, else to seven digits.
    Memory: 8 bytes times replicates times all slices, plus about 100 MB.
    """
    import numpy as np
    from scipy.sparse import csr_array, vstack

    groups = 1 + max((int(table.group.max(initial=-1)) for table in tables), default=-1)
    terms: list[csr_array] = []
    places: list[int] = []
    for table in tables:
        for values in (table.numerator, table.denominator):
            term = csr_array((values.astype(np.float32), (table.slice, table.group)), shape=(table.slices, groups))
            # Two runs usually have the same denominators: sum them once.
            same = (i for i, other in enumerate(terms) if other.shape == term.shape and (other != term).nnz == 0)
            places.append(next(same, len(terms)))
            terms += [term] if places[-1] == len(terms) else []
    starts = np.cumsum([0, *(term.shape[0] for term in terms)])
    stacked = vstack(terms).tocsr() if terms else csr_array((0, groups), dtype=np.float32)
    sampled = [np.full((replicates, table.slices), np.nan) for table in tables]
    done = 0
    for sums in drawn_sums(stacked, replicates, seed):
        for i, ratios in enumerate(sampled):
            numerator, denominator = (sums[:, starts[place] : starts[place + 1]] for place in places[2 * i : 2 * i + 2])
            np.divide(numerator, denominator, out=ratios[done : done + len(sums)], where=denominator > 0)
        done += len(sums)
    return sampled


def drawn_sums(terms: csr_array, replicates: int = REPLICATES, seed: int = 0) -> Iterator[NDArray[Any]]:
    """Yield the sums of terms, (rows, groups), in samples of groups with replacement: blocks of (samples, rows).

    The blocks have `replicates` samples in total, none if there are no groups. Sums are in the precision of the terms.
    `seed` fixes the draws, which depend only on the number of groups.
    """
    import numpy as np

    groups = terms.shape[1]
    draw = np.random.default_rng(seed)
    size = max(1, min(replicates, CELLS // max(groups, 1)))
    for start in range(0, replicates if groups else 0, size):
        rows = min(size, replicates - start)
        # The group of every draw, then the number of draws of every group: (rows, groups).
        drawn = draw.integers(0, groups, (rows, groups), dtype=np.int32)
        drawn += np.arange(rows, dtype=np.int32)[:, None] * groups
        times = np.bincount(drawn.ravel(), minlength=rows * groups).reshape(rows, groups)
        yield (terms @ np.ascontiguousarray(times.T, dtype=np.float32)).T


def percentile(values: NDArray[np.float64], level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the percentile interval of replicates, (replicates, slices): lower and upper bounds, (slices,) each.

    Ignores NaN; a slice without values gets NaN. Source: Efron and Tibshirani (1993), An Introduction to the
    Bootstrap, chapter 13.
    """
    import numpy as np

    interval = np.full((2, values.shape[1]), np.nan)
    defined = ~np.all(np.isnan(values), axis=0)
    interval[:, defined] = np.nanquantile(values[:, defined], [(1 - level) / 2, (1 + level) / 2], axis=0)
    return interval[0], interval[1]
