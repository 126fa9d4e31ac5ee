"""Items as collected tests: parametrization, tags, and the limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from medvqa import lexicon, selection
from medvqa.items import Benchmark, Item, MedVQAError
from medvqa.plugin.ahead import item_of
from medvqa.plugin.plan import Plan


def items_for(plan: Plan, names: Sequence[str]) -> list[Item]:
    """The items of the benchmarks that a test's mark names; what is wrong with them is a collection error."""
    try:
        return [item for name in names for item in plan.items_of(name)]
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def parametrize(plan: Plan, metafunc: pytest.Metafunc, names: Sequence[str]) -> None:
    """One case for each item, called by the item's id; ids of several benchmarks are told apart by name."""
    items = items_for(plan, names)
    several = len({item.benchmark for item in items}) > 1
    metafunc.parametrize("item", items, ids=[f"{item.benchmark}/{item.id}" if several else item.id for item in items])


def add_tags(nodes: Sequence[pytest.Item], *, keywords: bool) -> None:
    """Mark each item with its tags, for -m; add them to its keywords when -k was typed."""
    marks: dict[object, pytest.MarkDecorator] = {}
    for node in nodes:
        item = item_of(node)
        if item is None:
            continue
        tags = {**item.tags, "benchmark": (item.benchmark,), "kind": (item.kind,)}
        known = tuple(tags.items())
        if known not in marks:
            marks[known] = pytest.mark.lexicon(**lexicon.mark_values(tags))
        node.add_marker(marks[known])
        if keywords:
            node.extra_keyword_matches.update(value for values in tags.values() for value in values)


def apply_limit(plan: Plan, config: pytest.Config, nodes: list[pytest.Item], limit: int) -> None:
    """Deselect all but `limit` items of each benchmark; tests of another kind stay."""
    by_benchmark: dict[str, list[Item]] = defaultdict(list)
    for node in nodes:
        if (item := item_of(node)) is not None:
            by_benchmark[item.benchmark].append(item)
    kept = {
        (item.benchmark, item.id)
        for name, items in by_benchmark.items()
        for item in selection.stratified(items, limit, dimension=_headline_dimension(plan.benchmarks[name]))
    }
    stays = [(item := item_of(node)) is None or (item.benchmark, item.id) in kept for node in nodes]
    deselected = [node for node, stay in zip(nodes, stays, strict=True) if not stay]
    nodes[:] = [node for node, stay in zip(nodes, stays, strict=True) if stay]
    config.hook.pytest_deselected(items=deselected)


def _headline_dimension(benchmark: Benchmark) -> str | None:
    return benchmark.dimensions[0] if benchmark.dimensions else None
