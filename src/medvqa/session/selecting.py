"""Select the questions of a session: by an expression or pytest's -k and -m, techniques, --limit and --shard."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from medvqa.decode import did_you_mean
from medvqa.items import Item, Query, Technique, UsageError, Variant
from medvqa.session.delivery import LeftOut
from medvqa.session.options import Options
from medvqa.session.plan import Plan
from medvqa.tags import lexicon, selection
from medvqa.tags.expressions import Expression

_T = TypeVar("_T")
BLOCK = 64
"""Questions that are asked in their order: some batches, whose prompts are alike."""
Stage = tuple[Technique, Variant, int]
"""Technique, variant and sample."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The queries of a session in order, and the numbers of questions without a defined technique.

    `empty_shard`: questions were selected, and all of them are in other shards.
    """

    queries: tuple[Query, ...]
    left_out: LeftOut
    empty_shard: bool = False


def select(plan: Plan, expression: Expression | None = None) -> Selected:
    """Select the questions of a run without tests, in the order in which pytest runs the tests that ship.

    `expression` is that of --select, None for all questions. UsageError if it names a dimension that no item has;
    DataError.
    """
    everything = [item for name in plan.benchmarks for item in plan.items(name)]
    if expression is not None:
        check_dimensions("--select", expression.dimensions, everything)
    calls = names_of(plan.stages(), several=len(plan.techniques) > 1)
    chosen = [
        query
        for technique, variant, sample in calls
        for item in matching(everything, expression, calls[technique, variant, sample])
        if plan.has(query := Query(item, technique, sample, variant))
    ]
    stays = [plan.applies(query) for query in chosen]
    left_out = counted(query for query, stay in zip(chosen, stays, strict=True) if not stay)
    chosen = [query for query, stay in zip(chosen, stays, strict=True) if stay]
    any_selected = bool(chosen)
    for reduce in (limited, shared):
        kept = reduce(plan, (query.item for query in chosen))
        if kept is not None:
            chosen = [query for query in chosen if (query.item.benchmark, query.item.id) in kept]
    return Selected(tuple(chosen), left_out, empty_shard=any_selected and not chosen)


def in_own_order(queries: Sequence[_T], session: str) -> list[_T]:
    """Return the queries in blocks, in an order of blocks that the id of a session draws.

    Runs that share a place read what the others have put. If all asked in one order, each would read only answers that
    it has by then itself; and from starts of their own, each would follow another until both ask the same.
    """
    blocks = [queries[start : start + BLOCK] for start in range(0, len(queries), BLOCK)]
    random.Random(session).shuffle(blocks)  # noqa: S311 - no secret
    return [query for block in blocks for query in block]


def in_drawn_order(queries: Sequence[_T], items: Sequence[Item], run: str) -> list[_T]:
    """Return the queries of --stop=early in the order of groups that a run's name draws; `items`: those of each."""
    from medvqa.comparing import gating

    order = gating.drawn(items, run)
    keys = [order[item.benchmark, item.id] for item in items]
    return [queries[place] for place in sorted(range(len(queries)), key=keys.__getitem__)]


def check_dimensions(option: str, names: Collection[str], items: Iterable[Item]) -> None:
    """UsageError for a dimension that no item has; `option` is the one that names it."""
    dimensions = {"benchmark", "kind"}.union(*{id(item.tags): item.tags for item in items}.values())
    for name in sorted(set(names) - dimensions):
        raise UsageError(f"{option}: no item has the dimension '{name}'{did_you_mean(name, sorted(dimensions))}")


def matching(items: Sequence[Item], expression: Expression | None, call: str = "") -> Sequence[Item]:
    """Return the items that an expression selects; `call` ends the names of their questions."""
    if expression is None:
        return items
    tags_of: dict[tuple[int, str, str], tuple[dict[str, lexicon.TagValues], str]] = {}
    matching = []
    for item in items:
        # Equal tags are one mapping (`benchmarks.load`): its id is a cheaper key than the tags.
        key = id(item.tags), item.benchmark, item.kind
        if key not in tags_of:
            own = tags_with_kind(item)
            tags_of[key] = lexicon.mark_values(own), "\n".join(value for values in own.values() for value in values)
        tags, words = tags_of[key]
        name = f"{item.id}-{call}" if call else item.id
        if expression.matches((f"[{name}]", f"[{item.benchmark}/{name}]", words), tags):
            matching.append(item)
    return matching


def called(technique: Technique, variant: Variant, sample: int, *, several: bool) -> str:
    """Return the end of a question's name, after the item's id; `several`: the run has several techniques."""
    names = [technique if several else "", variant.name, f"sample{sample}" if sample else ""]
    return "-".join(name for name in names if name)


ONCE = "once"
"""The end of a question's name if it is asked once, and others of the run in several ways."""


def names_of(stages: Sequence[Stage], *, several: bool) -> dict[Stage, str]:
    """Return the ends of questions' names by technique, variant and sample; `several` as for `called`."""
    return {stage: called(*stage, several=several) or (ONCE if len(stages) > 1 else "") for stage in stages}


def tags_with_kind(item: Item) -> dict[str, tuple[str, ...]]:
    """The tags by which an item can be selected: its own, its benchmark and its kind."""
    return {**item.tags, "benchmark": (item.benchmark,), "kind": (item.kind,)}


def counted(undefined: Iterable[Query]) -> LeftOut:
    """Count the questions that are left out because no technique is defined for them; each counts once."""
    questions = {query.key.question: query for query in undefined}
    counts = Counter((query.item.benchmark, query.technique, query.item.kind) for query in questions.values())
    left_out: LeftOut = {}
    for (benchmark, technique, kind), number in sorted(counts.items()):
        left_out.setdefault(benchmark, {}).setdefault(technique, {})[kind] = number
    return left_out


def limited(plan: Plan, items: Iterable[Item]) -> Collection[tuple[str, str]] | None:
    """The items (benchmark, id) that --limit keeps; None without --limit."""
    limit = plan.options.limit
    if limit is None:
        return None
    by_benchmark: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in items:
        by_benchmark[item.benchmark][item.id] = item
    return {
        (item.benchmark, item.id)
        for name, members in by_benchmark.items()
        for item in selection.stratified(
            list(members.values()), limit, dimension=next(iter(plan.benchmarks[name].dimensions), None)
        )
    }


def shared(plan: Plan, items: Iterable[Item]) -> Collection[tuple[str, str]] | None:
    """The items (benchmark, id) in the share of --shard; None without --shard."""
    if plan.shard is None:
        return None
    # Several questions may be about one item.
    distinct = {(item.benchmark, item.id): item for item in items}
    return {(item.benchmark, item.id) for item in selection.share(list(distinct.values()), plan.shard)}


def as_typed(options: Options, expression: str | None = None) -> tuple[str, ...]:
    """The options that select questions, as typed, for run.json."""
    values = (("--limit", options.limit), ("--shard", options.shard))
    return (
        *([] if expression is None else [f'--select="{expression}"']),
        *(f"{name}={value}" for name, value in values if value is not None),
    )
