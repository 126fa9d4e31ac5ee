"""Items as collected tests: parametrization, tags, the limit and the shard."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medvqa.data import lexicon
from medvqa.items import Item, MedVQAError
from medvqa.plugin.ahead import ASKED, asks, item_of, query_of
from medvqa.plugin.state import state_of
from medvqa.session import selecting
from medvqa.session.checks import check_images
from medvqa.session.delivery import LeftOut
from medvqa.session.plan import Plan


def plan_of(config: pytest.Config) -> Plan:
    """The session's plan. Bad options raise CollectError here if none was typed, as they were not checked before."""
    try:
        return state_of(config).plan
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def items_for(plan: Plan, names: Sequence[str]) -> list[Item]:
    """The items of the benchmarks that a test's mark names, of all chosen ones if it names none (CollectError)."""
    try:
        return [item for name in names or plan.benchmarks for item in plan.items_of(name)]
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def parametrize(plan: Plan, metafunc: pytest.Metafunc, names: Sequence[str]) -> None:
    """One case for each item, called by the item's id, and for each of several techniques or samples, then by all.

    Ids of several benchmarks are told apart by name. A test that does not ask by `evaluate` has no technique.
    """
    items = items_for(plan, names)
    if asks(metafunc) and not plan.options.typed and not plan.setting.collects_only:
        _check_images(plan, {item.benchmark for item in items})
    benchmarks = len({item.benchmark for item in items})
    ids = [f"{item.benchmark}/{item.id}" if benchmarks > 1 else item.id for item in items]
    metafunc.parametrize("item", items, ids=ids)
    several = len(plan.techniques) > 1
    if (several or plan.samples) and asks(metafunc):
        if ASKED not in metafunc.fixturenames:
            metafunc.fixturenames.append(ASKED)
        asked = [(technique, sample) for technique in plan.techniques for sample in plan.samples or (0,)]
        called = [selecting.called(technique, sample, several=several) for technique, sample in asked]
        # A parameter of the session: pytest then sorts tests by technique and sample.
        metafunc.parametrize(ASKED, asked, ids=called, indirect=True, scope="session")


def _check_images(plan: Plan, names: set[str]) -> None:
    """CollectError for missing images; if an option was typed, they were looked for before collection."""
    try:
        for name in sorted(names):
            check_images(plan, name)
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def add_tags(nodes: Sequence[pytest.Item], *, keywords: bool) -> None:
    """Mark each item with its tags, for -m; add them to its keywords when -k was typed."""
    lexicon_mark = pytest.mark.lexicon
    marks: dict[object, pytest.MarkDecorator] = {}
    for node in nodes:
        item = item_of(node)
        if item is None:
            continue
        tags = selecting.tags_with_kind(item)
        # Equal tags are one mapping (`benchmarks.load`), and a key made of them would take more than what it finds.
        known = id(item.tags), item.benchmark, item.kind
        if known not in marks:
            marks[known] = lexicon_mark(**lexicon.mark_values(tags))
        node.add_marker(marks[known])
        if keywords:
            node.extra_keyword_matches.update(value for values in tags.values() for value in values)


def leave_out(plan: Plan, config: pytest.Config, nodes: list[pytest.Item]) -> LeftOut:
    """Deselect tests that would ask by a technique that is not defined for their item."""
    queries = [query_of(node, plan.techniques[0]) for node in nodes]
    stays = [
        query is None or not asks(node) or plan.applies(query)  # type: ignore[arg-type]
        for node, query in zip(nodes, queries, strict=True)
    ]
    left_out = selecting.counted(
        query for query, stay in zip(queries, stays, strict=True) if query is not None and not stay
    )
    _deselect(config, nodes, stays)
    return left_out


def reduce(plan: Plan, config: pytest.Config, nodes: list[pytest.Item]) -> None:
    """Apply --limit, then --shard; tests of another kind stay, in every share."""
    for kept_by in (selecting.limited, selecting.shared):
        items = [item_of(node) for node in nodes]
        kept = kept_by(plan, (item for item in items if item is not None))
        if kept is not None:
            _deselect(config, nodes, [item is None or (item.benchmark, item.id) in kept for item in items])


def _deselect(config: pytest.Config, nodes: list[pytest.Item], stays: Sequence[bool]) -> None:
    deselected = [node for node, stay in zip(nodes, stays, strict=True) if not stay]
    nodes[:] = [node for node, stay in zip(nodes, stays, strict=True) if stay]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
