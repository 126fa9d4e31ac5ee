"""Samples, shares and connected components of items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from heapq import heappop, heappush
from typing import TypeVar

from medvqa.items import Item, UsageError

Node = TypeVar("Node", str, int)


def components(groups: Iterable[Sequence[Node]]) -> dict[Node, Node]:
    """Join the members of each group; map every member to the smallest one that it is connected to.

    Independent of the order of groups and members, so that a cluster has the same name in every run.
    """
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
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


Unit = tuple[str, ...]
"""The name of items that are drawn as a whole."""


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

    units: defaultdict[Unit, list[Item]] = defaultdict(list)
    for item in items:
        units[_unit(item)].append(item)
    strata: defaultdict[str, list[tuple[bytes, Unit]]] = defaultdict(list)
    for unit, members in units.items():
        first = min(members, key=lambda item: item.id)
        value = next(iter(first.tags.get(dimension, ())), "") if dimension else ""
        key = "\0".join((str(seed), *unit)).encode(errors="surrogatepass")
        strata[value].append((blake2b(key).digest(), unit))

    # Order units by the middle of their place in their stratum, as a share of it: any limit then serves every
    # stratum in proportion.
    order: list[tuple[float, bytes, Unit]] = []
    for ranked in strata.values():
        total = sum(len(units[unit]) for _, unit in ranked)
        before = 0
        for digest, unit in sorted(ranked):
            order.append(((2 * before + len(units[unit])) / (2 * total), digest, unit))
            before += len(units[unit])

    drawn: set[Unit] = set()
    left = limit
    for _, _, unit in sorted(order):
        if len(units[unit]) <= left:
            drawn.add(unit)
            left -= len(units[unit])
    return [item for item in items if _unit(item) in drawn]


def halves(
    items: Sequence[Item], size: int, *, dimension: str | None, seed: int = 0, groups: bool = False
) -> tuple[list[Item], list[Item]]:
    """Divide the items of one benchmark into at most `size` items (training) and the rest (test).

    Whole pairs are drawn by `stratified`. `groups`: items that share a pair, a cluster or an image, also through
    others, stay together; the parts are then as alike in `dimension` as these groups allow (`_balanced`).
    """
    if groups:
        drawn = _balanced(items, size, dimension, seed)
    else:
        drawn = {item.id for item in stratified(items, size, dimension=dimension, seed=seed)}
    return [item for item in items if item.id in drawn], [item for item in items if item.id not in drawn]


def _balanced(items: Sequence[Item], size: int, dimension: str | None, seed: int) -> set[str]:
    """Return the ids of at most `size` items in whole groups, with about their share of each value of `dimension`.

    Groups go, the largest first, to the part that lacks more of their values, as in the iterative stratification of
    Sechidis et al. (2011), Machine Learning and Knowledge Discovery in Databases 3:145. Groups of one size are in the
    order of digests of the seed and their names.
    """
    group_of = _groups(items)
    members: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        members[group_of[item.id]].append(item)
    whole = _values(items, dimension)
    # Exact numbers: a tie must not depend on the order in which fractions are added.
    share = Fraction(size, len(items))
    lacking = [{value: part * count for value, count in whole.items()} for part in (share, 1 - share)]
    drawn: set[str] = set()
    for _, group in sorted(members.items(), key=lambda entry: (-len(entry[1]), _digest(f"{seed}\0{entry[0]}"))):
        counts = _values(group, dimension)
        # A value that is rare in the whole weighs as much as a frequent one.
        train, test = (sum(n * Fraction(part[value], whole[value]) for value, n in counts.items()) for part in lacking)
        chosen = 0 if train / share >= test / (1 - share) and len(drawn) + len(group) <= size else 1
        if chosen == 0:
            drawn.update(item.id for item in group)
        for value, n in counts.items():
            lacking[chosen][value] -= n
    return drawn


def _values(items: Iterable[Item], dimension: str | None) -> Counter[str]:
    """Count the items by their values in a dimension, and all items as ""."""
    return Counter(value for item in items for value in ("", *(item.tags.get(dimension, ()) if dimension else ())))


def straddling(train: Iterable[Item], test: Iterable[Item]) -> list[Item]:
    """Return the items of `test` that share a pair, a cluster or an image with `train`, also through others."""
    train, test = list(train), list(test)
    group_of = _groups([*train, *test])
    trained = {group_of[item.id] for item in train}
    return [item for item in test if group_of[item.id] in trained]


def _groups(items: Iterable[Item]) -> dict[str, str]:
    """Return the name of the group of each item of one benchmark, by id."""
    found = components([_joins(item) for item in items])
    return {name.removeprefix(_ID): group for name, group in found.items() if not name.startswith(_JOINT)}


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

    @property
    def suffix(self) -> str:
        """The end of the name of a shard's run: "-2of8"."""
        return f"-{self.number}of{self.of}"


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
    joints = [f"image\0{image.digest or image.file}" for image in item.images]
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


def _unit(item: Item) -> Unit:
    """Return the unit to draw as a whole: a pair, or an item without pair."""
    return (item.benchmark, "item", item.id) if item.pair_id is None else (item.benchmark, "pair", item.pair_id)
