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
    units = [(unit, _rank(seed, items[unit[0]].benchmark, items[unit[0]].id)) for unit in _units(items)]
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
    items: Sequence[Item], places: Sequence[int], sitting: int, seed: int, reader: str
) -> list[tuple[int, int]]:
    """Return a reader's places in random order, each with its sitting from 1.

    Sittings have at most `sitting` items, and differ by at most one. Items of a pair, or with the same image, never
    follow each other, and are in different sittings if there are enough. UsageError if that cannot be.
    """
    kin = kin_of(items)
    ranked = sorted(places, key=lambda place: _rank(seed, reader, items[place].benchmark, items[place].id))
    number = -(-len(ranked) // sitting)
    sizes = [len(ranked) // number + (n < len(ranked) % number) for n in range(number)]
    order: list[int] = []
    for part in _spread(ranked, sizes, kin):
        if (arranged := _arranged(part, kin, kin[order[-1]] if order else None)) is None:
            break
        order += arranged
    if len(order) < len(ranked):
        whole = _arranged(ranked, kin, None)
        if whole is None:
            most = max(Counter(kin[place] for place in ranked).values())
            raise UsageError(
                f"{most} of the {len(ranked)} questions of reader {reader} share an image or a pair: some would follow "
                "each other; ask more questions (limit, select), or fewer of an image"
            )
        order = whole
    in_sitting = [sitting for sitting, size in enumerate(sizes, 1) for _ in range(size)]
    return list(zip(order, in_sitting, strict=True))


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


def _units(items: Sequence[Item]) -> list[list[int]]:
    """Return the places of items that one reader reads together: pairs, and single items."""
    units: defaultdict[tuple[str, str | None, str], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        units[item.benchmark, item.pair_id, item.id if item.pair_id is None else ""].append(place)
    return list(units.values())


def _spread(ranked: Sequence[int], sizes: Sequence[int], kin: Sequence[int]) -> list[list[int]]:
    """Divide items into sittings: each goes to one that has the fewest of its group, and then the most places left."""
    size_of = Counter(kin[place] for place in ranked)
    position = {place: n for n, place in enumerate(ranked)}
    sittings: list[list[int]] = [[] for _ in sizes]
    inside = Counter[tuple[int, int]]()
    for place in sorted(ranked, key=lambda place: (-size_of[kin[place]], kin[place])):
        free = [n for n, size in enumerate(sizes) if len(sittings[n]) < size]
        turn = position[place]
        chosen = min(free, key=lambda n: (inside[n, kin[place]], len(sittings[n]) - sizes[n], (turn + n) % len(sizes)))
        sittings[chosen].append(place)
        inside[chosen, kin[place]] += 1
    return [sorted(part, key=position.__getitem__) for part in sittings]


def _arranged(ranked: Sequence[int], kin: Sequence[int], last: int | None) -> list[int] | None:
    """Return the items in about this order, so that no two of a group follow each other, nor the first one `last`.

    None if no order does. A group that has more than half of the items left must come next.
    """
    left, rest, order = Counter(kin[place] for place in ranked), list(ranked), list[int]()
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
