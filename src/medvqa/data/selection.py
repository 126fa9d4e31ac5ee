"""Samples, shares and connected components of items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappop, heappush

from medvqa.items import Item, UsageError


def components(groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """Join the members of each group; map every member to the smallest one that it is connected to.

    Independent of the order of groups and members, so that a cluster has the same name in every run.
    """
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = node = parent[parent[node]]
        return node

    for group in groups:
        for member in group:
            # The smaller root stays a root, hence it ends as the smallest member of its component.
            low, high = sorted((root(group[0]), root(member)))
            parent[high] = low
    return {node: root(node) for node in parent}


def stratified(items: Sequence[Item], limit: int, *, dimension: str | None, seed: int = 0) -> list[Item]:
    """Draw at most `limit` items in their given order, with whole pairs and in proportion to a dimension's values.

    An item belongs to the first of its values in `dimension`, a pair to that of its item with the smallest id. The draw
    depends on ids and `seed` alone. Webster's method rounds the shares: with largest remainders, a stratum can lose an
    item when the limit grows. If all or no items come in pairs, a smaller draw is a part of a larger one. If the last
    place would split a pair, one item fewer is drawn. Raises UsageError for a limit below 1.
    """
    if limit < 1:
        raise UsageError(f"--limit={limit}: at least 1 item is needed")
    if limit >= len(items):
        return list(items)

    units: defaultdict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for item in items:
        units[_unit(item)].append(item)
    strata: defaultdict[str, list[tuple[bytes, tuple[str, str, str]]]] = defaultdict(list)
    for unit, members in units.items():
        first = min(members, key=lambda item: item.id)
        value = next(iter(first.tags.get(dimension, ())), "") if dimension else ""
        key = "\0".join((str(seed), *unit)).encode(errors="surrogatepass")
        strata[value].append((blake2b(key).digest(), unit))

    # Order units by the middle of their place in their stratum, as a share of it: any limit then serves every
    # stratum in proportion.
    order: list[tuple[float, bytes, tuple[str, str, str]]] = []
    for ranked in strata.values():
        total = sum(len(units[unit]) for _, unit in ranked)
        before = 0
        for digest, unit in sorted(ranked):
            order.append(((2 * before + len(units[unit])) / (2 * total), digest, unit))
            before += len(units[unit])

    drawn: set[tuple[str, str, str]] = set()
    left = limit
    for _, _, unit in sorted(order):
        if len(units[unit]) <= left:
            drawn.add(unit)
            left -= len(units[unit])
    return [item for item in items if _unit(item) in drawn]


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `of` shares of a run, numbered from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read "2/8"; UsageError for a text that is no share."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal()):
            raise UsageError(f"--shard={text}: a share is written NUMBER/COUNT, for instance --shard=2/8")
        if not 1 <= int(number) <= int(of):
            raise UsageError(f"--shard={text}: shards are numbered from 1 to their count, 1/{of} to {of}/{of}")
        return cls(int(number), int(of))

    def __str__(self) -> str:
        """Return the share as typed: "2/8"."""
        return f"{self.number}/{self.of}"


_ID, _JOINT = "0", "1"
"""First letters of nodes. Ids of items sort before joints, so that an id names each component."""


def share(items: Sequence[Item], shard: Shard) -> list[Item]:
    """Return a share of each benchmark, in the given order; the shares of all numbers are a partition of the items.

    Items of one benchmark that share a pair, a cluster or an image, also through others, stay together. Shares of a
    benchmark differ by at most the size of its largest such component: components go, the largest first, to
    the share with the fewest items (Graham, SIAM J. Appl. Math. 17:416, 1969). The result depends on the sizes of the
    components and their smallest ids alone, not on the order of the items.
    """
    if shard.of == 1:
        return list(items)
    by_benchmark: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_benchmark[item.benchmark].append(item)
    drawn: set[tuple[str, str]] = set()
    for benchmark, members in by_benchmark.items():
        drawn.update((benchmark, id) for id in _share_of(members, shard))
    return [item for item in items if (item.benchmark, item.id) in drawn]


def _share_of(items: Iterable[Item], shard: Shard) -> set[str]:
    """The ids in a share of one benchmark's items."""
    members: defaultdict[str, list[str]] = defaultdict(list)
    for id, component in components([_joins(item) for item in items]).items():
        if not id.startswith(_JOINT):
            members[component].append(id.removeprefix(_ID))
    placed = [(0, number) for number in range(1, shard.of + 1)]
    drawn: set[str] = set()
    for _, ids in sorted(members.items(), key=lambda group: (-len(group[1]), _digest(group[0]), group[0])):
        size, number = heappop(placed)
        heappush(placed, (size + len(ids), number))
        if number == shard.number:
            drawn.update(ids)
    return drawn


def _joins(item: Item) -> list[str]:
    """The item, and its pair, cluster and images, as nodes of one graph."""
    joints = [f"image\0{image.digest or image.name}" for image in item.images]
    for kind, name in (("pair", item.pair_id), ("cluster", item.cluster_id)):
        if name is not None:
            joints.append(f"{kind}\0{name}")
    return [_ID + item.id, *(_JOINT + joint for joint in joints)]


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass")).digest()


def broken_pairs(items: Iterable[Item]) -> tuple[str, ...]:
    """Return the sorted ids of pairs with only one item in `items`: they have no set score."""
    sizes = Counter((item.benchmark, item.pair_id) for item in items if item.pair_id is not None)
    return tuple(sorted({pair for (_, pair), size in sizes.items() if size == 1}))


def _unit(item: Item) -> tuple[str, str, str]:
    """Return the unit to draw as a whole: a pair, or an item without pair."""
    return (item.benchmark, "item", item.id) if item.pair_id is None else (item.benchmark, "pair", item.pair_id)
