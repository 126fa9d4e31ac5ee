"""Arrange results as units (questions or whole pairs) in slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import TYPE_CHECKING

from medvqa.items import Kind, QuestionKey, Result
from medvqa.metrics import references
from medvqa.metrics.references import Unit
from medvqa.statistics import UnitTable
from medvqa.tags import lexicon, selection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Slice = tuple[str, str]
"""(dimension, value)"""

EVERYTHING: Slice = ("", "")
"""The slice that holds every unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memberships:
    """The slices, groups and pairs of units, which follow from their items alone.

    - `blind`, (units,): True for a unit in a pair that only the image tells apart.
    - `unit`, `slice`, `weight`, (memberships,): one entry for each slice of each unit, sorted by slice. The weight is
      the number of the unit's questions in the slice, and 1 in EVERYTHING.
    - `cell`, (memberships,): the cell of each membership. Both questions of a pair in one slice share a cell.
    - `counted`, `group`, `slice_of`, (cells,): the observation, the independent group and the slice of each cell.

    Statistics count observations: a pair if the question has one, else the question.
    """

    blind: NDArray[np.bool_]
    unit: NDArray[np.intp]
    slice: NDArray[np.intp]
    weight: NDArray[np.float64]
    cell: NDArray[np.intp]
    counted: NDArray[np.intp]
    group: NDArray[np.intp]
    slice_of: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(Memberships):
    """The units that a metric is summed over (questions or whole pairs), and their slices.

    - `units`: the results of each unit. Of a question with several samples, the first.
    - `samples`: the results of each sample of each unit, sorted by unit. `of`, (samples,): the unit of each.
    - `kinds`: those of all questions.
    - `slices`: the slices in the order of the measures, EVERYTHING first.
    """

    units: Sequence[Unit]
    samples: Sequence[Unit]
    of: NDArray[np.intp]
    kinds: frozenset[Kind]
    slices: Sequence[Slice]

    @property
    def whole(self) -> bool:
        """Whether each observation is one answer or one pair of answers."""
        return self.single and len(self.counted) == len(self.unit)

    @property
    def single(self) -> bool:
        """Whether each unit has one sample."""
        import numpy as np

        return np.array_equal(self.of, np.arange(len(self.units)))

    def means(self, values: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the mean of `values`, (samples,), over the `counted` samples of each unit, 0 without any: (units,)."""
        import numpy as np

        if self.single:
            return values
        size = len(self.units)
        return np.bincount(self.of, values, size) / np.maximum(np.bincount(self.of, counted, size), 1)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum `values`, (units,), over each slice, times the weights: (slices,)."""
        import numpy as np

        # The order follows the ids, so rounding is the same in every run.
        return np.bincount(self.slice, self.weight * values[self.unit], len(self.slices)).astype(float, copy=False)

    def table(self, numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> UnitTable:
        """Return a table for `medvqa.statistics`, one row per cell, from the terms of the units, (units,) each."""
        import numpy as np

        def summed(values: NDArray[np.float64]) -> NDArray[np.float64]:
            weighted = self.weight * values[self.unit]
            if self.whole:
                return weighted
            return np.bincount(self.cell, weighted, len(self.counted)).astype(float, copy=False)

        terms = summed(numerators), summed(denominators)
        return UnitTable(*terms, self.counted, self.group, self.slice_of, len(self.slices))


@dataclass(frozen=True, slots=True)
class Layout:
    """The slices, pairs and groups of questions: runs on the same items share it."""

    slices: Sequence[Slice]
    pairs: Sequence[Sequence[int]]
    items_in: Memberships
    pairs_in: Memberships


def frames(questions: Sequence[Sequence[Result]], layout: Layout) -> Mapping[str, Frame]:
    """Return the frames of items ("item") and of whole pairs ("pair").

    `questions`: the samples of each, one result per key, sorted by key. `layout`: that of their items.
    """
    import numpy as np

    firsts = [samples[0] for samples in questions]
    kinds = frozenset(result.item.kind for result in firsts)

    def frame(
        units: Sequence[Unit], samples: Sequence[Unit], numbers: Sequence[int], memberships: Memberships
    ) -> Frame:
        return Frame(
            units=units,
            samples=units if len(samples) == len(units) else samples,
            of=np.repeat(np.arange(len(units)), numbers),
            kinds=kinds,
            slices=layout.slices,
            **{own.name: getattr(memberships, own.name) for own in fields(memberships)},
        )

    together = [_together(questions[a], questions[b]) for a, b in layout.pairs]
    return {
        "item": frame(
            list(zip(firsts)),
            [(result,) for samples in questions for result in samples],
            [len(samples) for samples in questions],
            layout.items_in,
        ),
        "pair": frame(
            [(firsts[a], firsts[b]) for a, b in layout.pairs],
            [unit for samples in together for unit in samples],
            [len(samples) for samples in together],
            layout.pairs_in,
        ),
    }


def by_question(rows: Sequence[Result]) -> list[list[Result]]:
    """Return the results of each question; `rows` are sorted by key."""
    if not any(result.variant or result.sample for result in rows):
        return [[result] for result in rows]
    return [list(samples) for _, samples in groupby(rows, key=lambda result: result.key.question)]


def layout_of(firsts: Sequence[Result], dimensions: Sequence[str], *, alone: bool = False) -> Layout:
    """Return the layout of questions, by a result of each, sorted by key. `dimensions` come first among the slices.

    `alone`: without slices of other dimensions. Results with one `cluster_id`, or of one pair, are in one group.
    """
    import numpy as np

    slices, row, slice_index = _memberships(firsts, dimensions, alone=alone)
    pairs = _pairs(firsts)
    pair_of = np.full(len(firsts), -1)
    for side in (0, 1):
        pair_of[[pair[side] for pair in pairs]] = np.arange(len(pairs))
    blind_pairs = np.array([references.blind_pair(firsts[a].item, firsts[b].item) for a, b in pairs], dtype=bool)
    counted, group = _observations(firsts)

    def placed(
        blind: NDArray[np.bool_],
        first: NDArray[np.intp],
        memberships: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]],
    ) -> Memberships:
        all_units = np.arange(len(first))
        unit, slice_index, weight = memberships
        unit, slice_index = np.concatenate([all_units, unit]), np.concatenate([np.zeros_like(all_units), slice_index])
        weight = np.concatenate([np.ones(len(all_units)), weight])
        observation = counted[first]
        order = np.lexsort((observation[unit], slice_index))
        unit, slice_index, weight = unit[order], slice_index[order], weight[order]
        starts_cell = (np.diff(slice_index, prepend=-1) > 0) | (np.diff(observation[unit], prepend=-1) != 0)
        return Memberships(
            blind=blind,
            unit=unit,
            slice=slice_index,
            weight=weight,
            cell=np.cumsum(starts_cell) - 1,
            counted=observation[unit][starts_cell],
            group=group[first][unit][starts_cell],
            slice_of=slice_index[starts_cell],
        )

    paired = pair_of[row] >= 0
    cells, slots = np.unique(pair_of[row][paired] * len(slices) + slice_index[paired], return_counts=True)
    in_blind_pair = np.append(blind_pairs, False)[pair_of]  # the last one for -1
    return Layout(
        slices,
        pairs,
        placed(in_blind_pair, np.arange(len(firsts)), (row, slice_index, np.ones(len(row)))),
        placed(
            blind_pairs,
            np.array([a for a, _ in pairs], dtype=np.intp),
            (*divmod(cells, len(slices)), slots.astype(float)),
        ),
    )


def groups(rows: Sequence[Result]) -> NDArray[np.intp]:
    """Return the number of each row's independent group, (rows,): one `cluster_id`, one pair, or one item."""
    return _observations(rows)[1]


def _together(first: Sequence[Result], second: Sequence[Result]) -> list[Unit]:
    """Return the variants and samples that both questions of a pair have."""
    others = {(result.variant, result.sample): result for result in second}
    return [(result, other) for result in first if (other := others.get((result.variant, result.sample)))]


def _observations(rows: Sequence[Result]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of each row's observation and of its group, (rows,) each."""
    import numpy as np

    observations: dict[object, int] = {}
    clusters: dict[object, int] = {}
    codes = [observations.setdefault(_observation(result), len(observations)) for result in rows]
    cluster_of: dict[int, int] = {}
    met: list[tuple[int, int]] = []
    for code, result in zip(codes, rows, strict=True):
        if result.item.cluster_id is not None:
            cluster = clusters.setdefault((result.item.benchmark, result.item.cluster_id), len(clusters))
            if cluster_of.setdefault(code, cluster) != cluster:
                # Both questions of a pair are one observation, so one group even if their clusters differ.
                met.append((cluster_of[code], cluster))
    joined, groups = selection.components(met), dict[int, int]()
    # An observation without a cluster is a group of its own.
    own = (cluster_of.get(code, -1 - code) for code in codes)
    numbers = [groups.setdefault(joined.get(cluster, cluster), len(groups)) for cluster in own]
    return np.array(codes, dtype=np.intp), np.array(numbers, dtype=np.intp)


def _observation(result: Result) -> object:
    item = result.item
    if item.pair_id is not None:
        return item.benchmark, "pair", item.pair_id
    return item.benchmark, "item", item.id


def _memberships(
    rows: Sequence[Result], dimensions: Sequence[str], *, alone: bool
) -> tuple[list[Slice], NDArray[np.intp], NDArray[np.intp]]:
    """Return all slices in order, then the row and the slice of each membership, (memberships,) each."""
    import numpy as np

    crossed = [dimension for dimension in dimensions if alone or lexicon.CROSSED in dimension]
    code_of: dict[Slice, int] = {}
    codes_of_tags: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    codes_of_rows: list[int] = []
    ends: list[int] = []
    for result in rows:
        own = {} if alone else {"kind": (result.item.kind,), **result.item.tags}
        own.update((dimension, lexicon.values_of(result.item, dimension)) for dimension in crossed)
        for tags in own.items():
            if (codes := codes_of_tags.get(tags)) is None:
                dimension, values = tags
                codes = [code_of.setdefault((dimension, value), len(code_of)) for value in dict.fromkeys(values)]
                codes_of_tags[tags] = codes
            codes_of_rows += codes
        ends.append(len(codes_of_rows))
    rank = {dimension: i for i, dimension in enumerate(dimensions)}
    slices = sorted(code_of, key=lambda pair: (rank.get(pair[0], len(rank)), pair))
    slice_index = np.empty(len(slices), dtype=np.intp)
    slice_index[[code_of[pair] for pair in slices]] = np.arange(1, len(slices) + 1)
    return [EVERYTHING, *slices], np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0)), slice_index[codes_of_rows]


def _pairs(rows: Sequence[Result]) -> list[list[int]]:
    """Return the two rows of each whole pair, sorted by pair."""
    members: dict[QuestionKey, list[int]] = {}
    for i, result in enumerate(rows):
        if result.item.pair_id is not None:
            members.setdefault(result.key.question._replace(item=result.item.pair_id), []).append(i)
    return [members[key] for key in sorted(members) if len(members[key]) == 2]
