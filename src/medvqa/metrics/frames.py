"""Units and slices: what is counted once, and where it is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from medvqa.items import QuestionKey, Result
from medvqa.metrics import references
from medvqa.metrics.references import Unit
from medvqa.statistics import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Slice = tuple[str, str]
"""(dimension, value)"""

EVERYTHING: Slice = ("", "")
"""The slice that holds every unit."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Units that a metric is summed over, single questions or whole pairs, and their slices.

    `units` holds the results of each unit, the first of each question where these were asked several times; `samples`
    those of all samples, and `of`, (samples,), which unit each belongs to, sorted. `blind`, (units,), says which units
    are, or belong to, pairs that only the image tells apart.

    `slices` stand in the order of the measures, EVERYTHING first. `unit`, `slice` and `weight` have one entry for each
    slice of each unit, (memberships,), sorted by slice: the weight is the number of the unit's questions in it, and 1
    in EVERYTHING.

    What statistics count once is the pair if there is one, else the question: the memberships of both questions of a
    pair in one slice share a cell. `cell`, (memberships,), says which; `counted`, `group` and `slice_of`, (cells,),
    number what a cell counts, what of it is independent of all else, and its slice.
    """

    units: Sequence[Unit]
    samples: Sequence[Unit]
    of: NDArray[np.intp]
    blind: NDArray[np.bool_]
    slices: Sequence[Slice]
    unit: NDArray[np.intp]
    slice: NDArray[np.intp]
    weight: NDArray[np.float64]
    cell: NDArray[np.intp]
    counted: NDArray[np.intp]
    group: NDArray[np.intp]
    slice_of: NDArray[np.intp]

    @property
    def whole(self) -> bool:
        """Whether everything that is counted once is one answer or one pair of answers."""
        return self.single and len(self.counted) == len(self.unit)

    @property
    def single(self) -> bool:
        """Whether each unit has one sample."""
        import numpy as np

        return np.array_equal(self.of, np.arange(len(self.units)))

    def means(self, values: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The mean of `values`, (samples,), over those of each unit that are `counted`, 0 without any: (units,)."""
        import numpy as np

        if self.single:
            return values
        size = len(self.units)
        return np.bincount(self.of, values, size) / np.maximum(np.bincount(self.of, counted, size), 1)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum `values`, (units,), over each slice, times the weights: (slices,)."""
        import numpy as np

        # In an order that ids decide: rounding is the same in every run.
        return np.bincount(self.slice, self.weight * values[self.unit], len(self.slices)).astype(float, copy=False)

    def table(self, numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> Table:
        """The terms of the units, (units,) each, for `medvqa.statistics`: one row for each cell."""
        import numpy as np

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            weighted = self.weight * values[self.unit]
            if self.whole:
                return weighted
            return np.bincount(self.cell, weighted, len(self.counted)).astype(float, copy=False)

        terms = summed(numerators), summed(denominators)
        return Table(*terms, self.counted, self.group, self.slice_of, len(self.slices))


def frames(rows: Sequence[Result], dimensions: Sequence[str]) -> Mapping[str, Frame]:
    """The frames of items ("item") and of whole pairs ("pair").

    `rows` are sorted by key, one for each; `dimensions` come first among the
    slices. Groups are joined by `cluster_id`, where there is one, and by pairs.
    """
    import numpy as np

    asked = [list(samples) for _, samples in groupby(rows, key=lambda result: result.key.question)]
    firsts = [samples[0] for samples in asked]
    slices, row, place = _memberships(firsts, dimensions)
    pairs = _pairs(firsts)
    pair_of = np.full(len(firsts), -1)
    for side in (0, 1):
        pair_of[[pair[side] for pair in pairs]] = np.arange(len(pairs))
    blind_pairs = np.array([references.blind_pair(firsts[a].item, firsts[b].item) for a, b in pairs], dtype=bool)
    counted, group = _counted(firsts)

    def frame(
        units: Sequence[Unit],
        samples: Sequence[Sequence[Unit]],
        blind: NDArray[np.bool_],
        first: NDArray[np.intp],
        memberships: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]],
    ) -> Frame:
        every = np.arange(len(units))
        unit, place, weight = memberships
        unit, place = np.concatenate([every, unit]), np.concatenate([np.zeros_like(every), place])
        weight = np.concatenate([np.ones(len(every)), weight])
        code = counted[first]
        order = np.lexsort((code[unit], place))
        unit, place, weight = unit[order], place[order], weight[order]
        new = (np.diff(place, prepend=-1) > 0) | (np.diff(code[unit], prepend=-1) != 0)
        return Frame(
            units,
            [unit for each in samples for unit in each],
            np.repeat(every, [len(each) for each in samples]),
            blind,
            slices,
            unit,
            place,
            weight,
            np.cumsum(new) - 1,
            code[unit][new],
            group[first][unit][new],
            place[new],
        )

    paired = pair_of[row] >= 0
    cells, slots = np.unique(pair_of[row][paired] * len(slices) + place[paired], return_counts=True)
    whole = np.append(blind_pairs, False)[pair_of]  # the last one for -1
    return {
        "item": frame(
            list(zip(firsts)),
            [[(result,) for result in samples] for samples in asked],
            whole,
            np.arange(len(firsts)),
            (row, place, np.ones(len(row))),
        ),
        "pair": frame(
            [(firsts[a], firsts[b]) for a, b in pairs],
            [_together(asked[a], asked[b]) for a, b in pairs],
            blind_pairs,
            np.array([a for a, _ in pairs], dtype=np.intp),
            (*divmod(cells, len(slices)), slots.astype(float)),
        ),
    }


def _together(first: Sequence[Result], second: Sequence[Result]) -> list[Unit]:
    """The samples of a pair: those that both questions have."""
    others = {result.sample: result for result in second}
    return [(result, others[result.sample]) for result in first if result.sample in others]


def _counted(rows: Sequence[Result]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of what each row is counted as, and of the group that it is in, (rows,) each."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    counted: dict[object, int] = {}
    clusters: dict[object, int] = {}
    codes = [counted.setdefault(_once(result), len(counted)) for result in rows]
    # Both questions of a pair are one observation, and so of one group, whatever their clusters are called.
    edges = [
        (code, clusters.setdefault((result.item.benchmark, result.item.cluster_id), len(clusters)))
        for code, result in zip(codes, rows, strict=True)
        if result.item.cluster_id is not None
    ]
    size = len(counted) + len(clusters)
    one, other = np.array(edges, dtype=np.intp).reshape(-1, 2).T
    joined = coo_array((np.ones(len(edges)), (one, other + len(counted))), shape=(size, size))
    _, group = connected_components(joined, directed=False)
    code = np.array(codes, dtype=np.intp)
    return code, group.astype(np.intp)[code]


def _once(result: Result) -> object:
    item = result.item
    if item.pair_id is not None:
        return item.benchmark, "pair", item.pair_id
    return item.benchmark, "item", item.id


def _memberships(
    rows: Sequence[Result], dimensions: Sequence[str]
) -> tuple[list[Slice], NDArray[np.intp], NDArray[np.intp]]:
    """All slices in their order, and for each slice of each row the row and the slice, (memberships,) each."""
    import numpy as np

    found: dict[Slice, int] = {}
    of_tags: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    seen: list[int] = []
    ends: list[int] = []
    for result in rows:
        for tags in {"kind": (result.item.kind,), **result.item.tags}.items():
            if (codes := of_tags.get(tags)) is None:
                dimension, values = tags
                codes = [found.setdefault((dimension, value), len(found)) for value in dict.fromkeys(values)]
                of_tags[tags] = codes
            seen += codes
        ends.append(len(seen))
    order = {dimension: place for place, dimension in enumerate(dimensions)}
    slices = sorted(found, key=lambda each: (order.get(each[0], len(order)), each))
    place = np.empty(len(slices), dtype=np.intp)
    place[[found[each] for each in slices]] = np.arange(1, len(slices) + 1)
    return [EVERYTHING, *slices], np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0)), place[seen]


def _pairs(rows: Sequence[Result]) -> list[list[int]]:
    """The two rows of each pair that is whole, sorted by pair."""
    members: dict[QuestionKey, list[int]] = {}
    for i, result in enumerate(rows):
        if result.item.pair_id is not None:
            members.setdefault(result.key.question._replace(item=result.item.pair_id), []).append(i)
    return [members[key] for key in sorted(members) if len(members[key]) == 2]
