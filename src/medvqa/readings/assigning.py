"""Assign questions to readers, and order each reader's questions: by a seed, alike on every machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from medvqa.items import Item, UsageError
from medvqa.tags import selection


def assign(items: Sequence[Item], readers: Sequence[str], overlap: int, seed: int) -> dict[str, list[int]]:
    """Return the places in `items` that each reader reads; each item has `overlap` readers.

    The items of a pair have the same readers. Numbers of items differ between readers by at most the size of the
    largest unit: 1, or 2 with pairs. Among the readers with the fewest items, those are drawn who have the fewest that
    share its images, then those who were least often drawn together.
    """
    kin = kin_of(items)
    loads = dict.fromkeys(readers, 0)
    together, shared = Counter[frozenset[str]](), Counter[tuple[str, int]]()
    assigned: dict[str, list[int]] = {reader: [] for reader in readers}
    by_unit: defaultdict[tuple[str, str | None, str], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        by_unit[unit_of(item)].append(place)
    units = [(unit, _rank(seed, items[unit[0]].benchmark, items[unit[0]].id)) for unit in by_unit.values()]
    for unit, rank in sorted(units, key=lambda each: (-len(each[0]), items[each[0][0]].benchmark, each[1])):
        drawn: list[str] = []
        while len(drawn) < overlap:
            left = [reader for reader in readers if reader not in drawn]
            met = {one: sum(together[frozenset((one, other))] for other in drawn) for one in left}
            reader = min(left, key=lambda one: (loads[one], shared[one, kin[unit[0]]], met[one], _rank(rank, one)))
            together.update(frozenset((reader, other)) for other in drawn)
            drawn.append(reader)
        for reader in drawn:
            loads[reader] += len(unit)
            shared[reader, kin[unit[0]]] += len(unit)
            assigned[reader] += unit
    return assigned


def ordered(
    items: Sequence[Item], places: Sequence[int], sitting: int, seed: int, reader: str, *, apart: bool = True
) -> list[tuple[int, int]]:
    """Return a reader's places in random order, each with its sitting from 1.

    Sittings have at most `sitting` items, and differ by at most one. Of n items of a pair, or with the same image, one
    is in each n-th of the order, and no two follow each other. If some would have to, UsageError if `apart`.
    """
    kin = kin_of(items)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for place in sorted(places, key=lambda place: _rank(seed, reader, items[place].benchmark, items[place].id)):
        groups[kin[place]].append(place)
    turns = {
        place: (number + int(_rank(reader, seed, items[place].benchmark, items[place].id), 16) / 16**32) / len(own)
        for own in groups.values()
        for number, place in enumerate(own)
    }
    ranked = sorted(places, key=turns.__getitem__)
    order = _arranged(ranked, kin)
    if order is None and apart:
        raise UsageError(
            f"{max(map(len, groups.values()))} of the {len(ranked)} questions of reader {reader} share an image or a "
            "pair: some would follow each other; ask more questions (limit, select), or fewer of an image"
        )
    number = -(-len(ranked) // sitting)
    return [(place, turn * number // len(ranked) + 1) for turn, place in enumerate(order or ranked)]


def kin_of(items: Sequence[Item]) -> list[int]:
    """Return for each item the number of its group: items that share a pair or an image, also through others."""
    holders: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        holders["", str(place)].append(place)
        if item.pair_id is not None:
            holders["pair", item.benchmark, item.pair_id].append(place)
        for image in item.images:
            holders["image", image.digest or image.path or image.name].append(place)
    found = selection.components(holders.values())
    return [found[place] for place in range(len(items))]


def unit_of(item: Item) -> tuple[str, str | None, str]:
    """Return a key that only the items of a pair share, which one reader reads together."""
    return item.benchmark, item.pair_id, item.id if item.pair_id is None else ""


def _arranged(ranked: Sequence[int], kin: Sequence[int]) -> list[int] | None:
    """Return the items in about this order, so that no two of a group follow each other; None if no order does.

    A group that has more than half of the items left must come next.
    """
    left, rest, order = Counter(kin[place] for place in ranked), list(ranked), list[int]()
    last = None
    while rest:
        forced = next((group for group, number in left.most_common(1) if 2 * number > len(rest)), None)
        fits = (n for n, place in enumerate(rest) if kin[place] != last and forced in (None, kin[place]))
        if (at := next(fits, None)) is None:
            return None
        order.append(rest.pop(at))
        last = kin[order[-1]]
        left[last] -= 1
    return order


def _rank(*values: object) -> str:
    """Return a text by which values are in random order, the same on every machine."""
    return blake2b("\0".join(map(str, values)).encode(errors="surrogatepass"), digest_size=16).hexdigest()
