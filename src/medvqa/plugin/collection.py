"""Turn items into collected tests: parametrization, tags, the limit and the shard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress

import pytest

from medvqa import benchmarks
from medvqa.items import ONE_WAY, Item, MedVQAError
from medvqa.plugin.ahead import ASKED, ITEM, ask, asks, item_of, query_of
from medvqa.plugin.process_state import state_of
from medvqa.session import selecting
from medvqa.session.checks import check_images
from medvqa.session.delivery import LeftOut
from medvqa.session.opening import Process
from medvqa.session.plan import Plan
from medvqa.tags import lexicon


def plan_of(config: pytest.Config) -> Plan:
    """Return the session's plan. If no option was typed, this checks the options and raises CollectError."""
    try:
        return state_of(config).plan
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def items_for(plan: Plan, names: Sequence[str]) -> list[Item]:
    """Return the items of the named benchmarks, of all chosen ones without a name (CollectError)."""
    for name in names:
        try:
            benchmarks.members(name, plan.registry.benchmarks)
        except MedVQAError as error:
            raise pytest.Collector.CollectError(
                f"{error}\nIf a file declares it, type --benchmark=FILE.toml and mark the test with a bare "
                "@pytest.mark.vqa, or add the file to conftest.py: medvqa.benchmark_file('FILE.toml')"
            ) from error
    try:
        return [item for name in names or plan.benchmarks for item in plan.items_of(name)]
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def parametrize(plan: Plan, metafunc: pytest.Metafunc, names: Sequence[str]) -> None:
    """Make one case for each item, and for each technique, variant or sample if there are several.

    The id names all of these.
    With several benchmarks, ids begin with the benchmark's name. A test without `evaluate` has no technique. pytest
    prints and keeps ids: those of data that are not declared public are rows of the table (`[row-17]`).
    """
    items = items_for(plan, names)
    if asks(metafunc) and not plan.options.typed and not plan.project.collects_only:
        _check_images(plan, {item.benchmark for item in items})
    of_several = len({item.benchmark for item in items}) > 1
    ids = [f"{item.benchmark}/{_named(plan, item)}" if of_several else _named(plan, item) for item in items]
    arguments = _item_arguments(metafunc)
    values = items if len(arguments) == 1 else [(item,) * len(arguments) for item in items]
    metafunc.parametrize(",".join(arguments), values, ids=ids)
    cases = plan.stages({item.benchmark for item in items})
    if cases != [(plan.techniques[0], ONE_WAY, 0)] and asks(metafunc):
        if ASKED not in metafunc.fixturenames:
            metafunc.fixturenames.append(ASKED)
        case_ids = list(selecting.names_of(cases, several=len(plan.techniques) > 1).values())
        # Session scope: pytest then sorts tests by technique, variant and sample.
        metafunc.parametrize(ASKED, cases, ids=case_ids, indirect=True, scope="session")


def _item_arguments(metafunc: pytest.Metafunc) -> list[str]:
    """Return the arguments of a test that get its item: `medvqa_item`, `item` or both.

    CollectError for an `item` that is a fixture of the repository, if pytest cannot replace it: it has params of its
    own, or a scope that outlasts a test.
    """
    taken = [name for name in ITEM if name in metafunc.fixturenames]
    own, item = ITEM
    theirs = metafunc.definition._fixtureinfo.name2fixturedefs.get(item)
    if own in taken and theirs:
        return [own]
    if item in taken and theirs and (theirs[-1].params is not None or theirs[-1].scope != "function"):
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: the repository has a fixture called '{item}'; take {own} in place of "
            f"{item}: def {metafunc.function.__name__}({own}, evaluate)"
        )
    return taken or [own]


def _check_images(plan: Plan, names: set[str]) -> None:
    """Raise CollectError for missing images. If an option was typed, they were checked before collection."""
    try:
        for name in sorted(names):
            check_images(plan, name)
    except MedVQAError as error:
        raise pytest.Collector.CollectError(str(error)) from error


def add_tags(plan: Plan, nodes: Sequence[pytest.Item], *, keywords: bool) -> None:
    """Mark each item with its tags, for -m; add them to its keywords if -k was typed."""
    lexicon_mark = pytest.mark.lexicon
    marks: dict[object, pytest.MarkDecorator] = {}
    for node in nodes:
        query = query_of(node, plan.techniques[0])
        if query is None:
            continue
        item = query.item
        tags = selecting.tags_with_kind(item)
        # Items with equal tags share one mapping (`benchmarks.load`), so its id is a cheap key.
        key = id(item.tags), item.benchmark, item.kind
        if key not in marks:
            marks[key] = lexicon_mark(**lexicon.mark_values(tags))
        node.add_marker(marks[key])
        if keywords:
            node.extra_keyword_matches.update(value for values in tags.values() for value in values)
            # -k finds a question by its id also where the name of its test has the row.
            node.extra_keyword_matches.add(node.name.replace(_named(plan, item), item.id, 1))


def _named(plan: Plan, item: Item) -> str:
    """The name of an item's test: its id, or its row if its data are not declared public."""
    benchmark = plan.benchmarks.get(item.benchmark)
    return item.id if benchmark is None or benchmark.public else plan.place(item).replace(" ", "-")


_MARK = re.compile(r"\blexicon\s*\(([^()]*)\)")
_NAME = re.compile(r"(\w+)\s*=")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")


def check_marks(expression: str, nodes: Sequence[pytest.Item]) -> None:
    """UsageError if an expression of -m names a dimension that no item has: it would select nothing, or everything."""
    names = {name for call in _MARK.findall(_TEXT.sub("", expression)) for name in _NAME.findall(call)}
    if names and (items := [item for node in nodes if (item := item_of(node)) is not None]):
        selecting.check_dimensions("-m", names, items)


def leave_out(plan: Plan, config: pytest.Config, nodes: list[pytest.Item]) -> LeftOut:
    """Deselect tests whose technique is not defined for their item; return their numbers."""
    queries = [query_of(node, plan.techniques[0]) for node in nodes]
    known = [query is None or plan.has(query) for query in queries]
    _deselect(config, nodes, known)
    queries = list(compress(queries, known))
    stays = [
        query is None or not asks(node) or plan.applies(query)  # type: ignore[arg-type]
        for node, query in zip(nodes, queries, strict=True)
    ]
    left_out = selecting.counted(
        query for query, stay in zip(queries, stays, strict=True) if query is not None and not stay
    )
    _deselect(config, nodes, stays)
    return left_out


def order(nodes: list[pytest.Item], process: Process, *, drawn: bool) -> None:
    """Ask in the `drawn` order of --stop=early, or else in another order than other runs that share a place.

    Tests of another kind stay where they are.
    """
    items = [item_of(node) for node in nodes]
    places = [place for place, item in enumerate(items) if item is not None]
    asking = [nodes[place] for place in places]
    if drawn:
        moved = selecting.in_drawn_order(asking, [item for item in items if item is not None], process.folder.name)
    else:
        moved = selecting.in_own_order(asking, process.session)
    for place, node in zip(places, moved, strict=True):
        nodes[place] = node


def reduce(plan: Plan, config: pytest.Config, nodes: list[pytest.Item]) -> bool:
    """Apply --limit, then --shard. Tests of another kind stay, in every shard.

    Return whether the shard is empty: tests ask questions, and all of them are in other shards.
    """
    asking = ask(nodes)
    for kept_by in (selecting.limited, selecting.shared):
        kept = kept_by(plan, (item for node in nodes if (item := item_of(node)) is not None))
        if kept is not None:
            items = [item_of(node) for node in nodes]
            _deselect(config, nodes, [item is None or (item.benchmark, item.id) in kept for item in items])
    return plan.shard is not None and asking and all(item_of(node) is None for node in nodes)


def _deselect(config: pytest.Config, nodes: list[pytest.Item], stays: Sequence[bool]) -> None:
    deselected = [node for node, stay in zip(nodes, stays, strict=True) if not stay]
    nodes[:] = compress(nodes, stays)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
