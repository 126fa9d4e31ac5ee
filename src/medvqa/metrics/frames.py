"""Units and slices: what is counted once, and where it is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.items import Result
from medvqa.metrics import references
from medvqa.metrics.references import References, Scorer, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Slice = tuple[str, str]
"""(dimension, value)"""

EVERYTHING: Slice = ("", "")
"""The slice that holds every unit."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The units of one sort and the slices that they are in.

    `slices` stand in the order of the measures, EVERYTHING first. The arrays have one entry for each slice of each
    unit, (memberships,): `weight` is the number of the unit's results in it, and 1 in EVERYTHING.
    """

    units: Sequence[Unit]
    slices: Sequence[Slice]
    unit: NDArray[np.intp]
    slice: NDArray[np.intp]
    weight: NDArray[np.float64]
    references: References

    def sums(self, values: NDArray[np.float64], power: int = 1) -> NDArray[np.float64]:
        """Sum `values` (units,) over each slice, times the weights to a power: (slices,)."""
        import numpy as np

        # In the order of the units, which is that of the ids: rounding is the same in every run.
        weighted = self.weight**power * values[self.unit]
        return np.bincount(self.slice, weighted, len(self.slices)).astype(float, copy=False)


def frames(rows: Sequence[Result], dimensions: Sequence[str], score: Scorer | None) -> Mapping[str, Frame]:
    """The frames of items ("item") and of whole pairs ("pair"); `rows` are sorted, one for each item and technique."""
    import numpy as np

    slices, row, place = _memberships(rows, dimensions)
    pairs = _pairs(rows)
    pair_of = np.full(len(rows), -1)
    for side in (0, 1):
        pair_of[[pair[side] for pair in pairs]] = np.arange(len(pairs))
    blind_pairs = np.array([references.blind_pair(rows[a].item, rows[b].item) for a, b in pairs], dtype=bool)
    blind = np.append(blind_pairs, False)[pair_of]  # the last one for -1
    majority = references.majority_answers(result.item for result in rows)

    def frame(
        units: Sequence[Unit],
        blind: NDArray[np.bool_],
        unit: NDArray[np.intp],
        place: NDArray[np.intp],
        weight: NDArray[np.float64],
    ) -> Frame:
        every = np.arange(len(units))
        return Frame(
            units,
            slices,
            np.concatenate([every, unit]),
            np.concatenate([np.zeros_like(every), place]),
            np.concatenate([np.ones(len(units)), weight]),
            references.of_units(units, blind.tolist(), majority, score),
        )

    paired = pair_of[row] >= 0
    cells, slots = np.unique(pair_of[row][paired] * len(slices) + place[paired], return_counts=True)
    return {
        "item": frame(list(zip(rows)), blind, row, place, np.ones(len(row))),
        "pair": frame(
            [(rows[a], rows[b]) for a, b in pairs], blind_pairs, *divmod(cells, len(slices)), slots.astype(float)
        ),
    }


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
    members: dict[tuple[str, str, str], list[int]] = {}
    for i, result in enumerate(rows):
        if result.item.pair_id is not None:
            members.setdefault((result.item.benchmark, result.item.pair_id, result.technique), []).append(i)
    return [members[key] for key in sorted(members) if len(members[key]) == 2]
