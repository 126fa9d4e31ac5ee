"""Items as collected tests: parametrization, tags, the limit and the shard."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from medvqa.data import lexicon, selection
from medvqa.items import Benchmark, Item, MedVQAError
from medvqa.plugin.ahead import ASKED, asks, item_of, query_of
from medvqa.plugin.state import state_of
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
        called = [
            "-".join([*([technique] if several else []), *([f"sample{sample}"] if sample else [])])
            for technique, sample in asked
        ]
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
        tags = {**item.tags, "benchmark": (item.benchmark,), "kind": (item.kind,)}
        # Equal tags are one mapping (`benchmarks.load`), and a key made of them would take more than what it finds.
        known = id(item.tags), item.benchmark, item.kind
        if known not in marks:
            marks[known] = lexicon_mark(**lexicon.mark_values(tags))
        node.add_marker(marks[known])
        if keywords:
            node.extra_keyword_matches.update(value for values in tags.values() for value in values)


def leave_out(plan: Plan, config: pytest.Config, nodes: list[pytest.Item]) -> LeftOut:
    """Deselect what would be asked by a technique that is not defined for its item."""
    counts: Counter[tuple[str, str, str]] = Counter()
    stays = []
    for node in nodes:
        query = query_of(node, plan.techniques[0])
        stay = query is None or not asks(node) or plan.applies(query)  # type: ignore[arg-type]
        stays.append(stay)
        if query is not None and not stay and query.sample <= 1:
            counts[query.item.benchmark, query.technique, query.item.kind] += 1
    _deselect(config, nodes, stays)
    left_out: LeftOut = {}
    for (benchmark, technique, kind), number in sorted(counts.items()):
        left_out.setdefault(benchmark, {}).setdefault(technique, {})[kind] = number
    return left_out


def apply_limit(plan: Plan, config: pytest.Config, nodes: list[pytest.Item], limit: int) -> None:
    """Deselect all but `limit` items of each benchmark; tests of another kind stay."""
    by_benchmark: dict[str, dict[str, Item]] = defaultdict(dict)
    for node in nodes:
        if (item := item_of(node)) is not None:
            by_benchmark[item.benchmark][item.id] = item
    kept = {
        (item.benchmark, item.id)
        for name, items in by_benchmark.items()
        for item in selection.stratified(
            list(items.values()), limit, dimension=_headline_dimension(plan.benchmarks[name])
        )
    }
    _deselect(config, nodes, [(item := item_of(node)) is None or (item.benchmark, item.id) in kept for node in nodes])


def apply_shard(config: pytest.Config, nodes: list[pytest.Item], shard: selection.Shard) -> None:
    """Deselect all but a share of each benchmark's items; tests of another kind stay, in every share."""
    # Several tests may ask about one item.
    items = {(item.benchmark, item.id): item for node in nodes if (item := item_of(node)) is not None}
    kept = {(item.benchmark, item.id) for item in selection.share(list(items.values()), shard)}
    _deselect(config, nodes, [(item := item_of(node)) is None or (item.benchmark, item.id) in kept for node in nodes])


def _deselect(config: pytest.Config, nodes: list[pytest.Item], stays: Sequence[bool]) -> None:
    deselected = [node for node, stay in zip(nodes, stays, strict=True) if not stay]
    nodes[:] = [node for node, stay in zip(nodes, stays, strict=True) if stay]
    if deselected:
        config.hook.pytest_deselected(items=deselected)


def _headline_dimension(benchmark: Benchmark) -> str | None:
    return benchmark.dimensions[0] if benchmark.dimensions else None
