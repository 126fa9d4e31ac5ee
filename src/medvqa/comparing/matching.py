"""The same questions of two runs, found by what was asked and not by id alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medvqa import metrics
from medvqa.comparing.sides import Side
from medvqa.data import selection
from medvqa.items import SCORED_OUTCOMES, Item, Result

Samples = Sequence[Result]
"""The results of one item by one technique: one, or one for each sample."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The items of one benchmark and technique that two runs have, sorted by the id of the first.

    `first` and `second` are their results, item by item; those of the second have the items of the first, so that tags
    and pairs are the same. Groups are joined: an old run may have recorded others (`_in_common_groups`). `alone_*` are
    the ids of items that one run has alone.
    """

    first: tuple[Samples, ...]
    second: tuple[Samples, ...]
    alone_first: tuple[str, ...]
    alone_second: tuple[str, ...]


def by_item(results: Iterable[Result], benchmark: str, technique: str) -> dict[str, list[Result]]:
    """The results of one benchmark and technique by the item's id, in the order given."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.item.benchmark == benchmark and result.technique == technique:
            found.setdefault(result.item.id, []).append(result)
    return found


def content(item: Item) -> tuple[Any, ...]:
    """What makes two questions the same: all that `records.data_digest` looks at but the id."""
    return (
        item.kind,
        item.question,
        tuple(item.options.items()),
        item.answers,
        tuple(image.digest or image.name for image in item.images),
    )


def match(first: Mapping[str, Samples], second: Mapping[str, Samples]) -> Matched:
    """Match items by content: those of one id first, then, in the order of their ids, those that are left."""
    partner = {id: id for id in sorted(first.keys() & second.keys()) if _same(first[id], second[id])}
    taken = set(partner.values())
    left: dict[tuple[Any, ...], list[str]] = {}
    for id in sorted(second.keys() - taken, reverse=True):
        left.setdefault(content(second[id][0].item), []).append(id)
    if left:
        for id in sorted(first.keys() - partner.keys()):
            if others := left.get(content(first[id][0].item)):
                partner[id] = others.pop()
    ids = sorted(partner)
    items = _in_common_groups([(first[id][0].item, second[partner[id]][0].item) for id in ids])
    return Matched(
        tuple(_about(item, first[id]) for id, item in zip(ids, items, strict=True)),
        tuple(_about(item, second[partner[id]]) for id, item in zip(ids, items, strict=True)),
        tuple(sorted(first.keys() - partner.keys())),
        tuple(sorted(second.keys() - set(partner.values()))),
    )


def _about(item: Item, samples: Samples) -> list[Result]:
    return [replace(result, item=item) for result in samples]


def _in_common_groups(pairs: Sequence[tuple[Item, Item]]) -> list[Item]:
    """The first item of each pair, in the groups that are left if what either of the two groupings joins is joined.

    A group that both runs have keeps its name in the first.
    """

    def names(number: int) -> list[str]:
        first, second = (item.cluster_id for item in pairs[number])
        return [f"{i} {name}" for i, name in enumerate((first, second)) if name is not None]

    joined = selection.components(filter(None, map(names, range(len(pairs)))))
    groups = [joined[found[0]].partition(" ")[2] if (found := names(n)) else None for n in range(len(pairs))]
    return [replace(item, cluster_id=group) for (item, _), group in zip(pairs, groups, strict=True)]


def _same(first: Samples, second: Samples) -> bool:
    return content(first[0].item) == content(second[0].item)


def unanswered(samples: Samples, others: Samples) -> bool:
    """Whether an item has no answer, or no score where the other run has one."""
    if any(result.score.outcome == "error" for result in samples):
        return True
    return not scored(samples) and scored(others)


def scored(samples: Samples) -> bool:
    """Whether at least one sample has a score."""
    return any(result.score.outcome in SCORED_OUTCOMES for result in samples)


def same_responses(first: Side, second: Side, samples: Samples, others: Samples) -> bool:
    """Whether all responses to an item are the same in both runs, were scored alike, and were cut off or not alike."""
    return [_response(first, each) for each in samples] == [_response(second, each) for each in others]


def _response(side: Side, result: Result) -> tuple[Any, ...] | None:
    if result.answer is None:
        return None
    return side.said(result), result.score.outcome, result.score.value, metrics.is_complete(result) is False
