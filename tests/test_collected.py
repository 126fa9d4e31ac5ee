"""What a worker has collected is told to the controller whatever dies, and costs little to keep and send."""

import json
from types import SimpleNamespace
from typing import Any, cast

import execnet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.items import Benchmark, Item, Query, Technique
from medvqa.plugin.collected import names, pack
from medvqa.session.plan import Plan
from strangers import CONFTEST, TEST


def plan(several: bool) -> Plan:
    """The part of a plan that names what was collected: items of two benchmarks, sorted by id."""
    items = {
        name: tuple(item(name, f"q{n:02}") for n in range(size)) for name, size in {"slake": 40, "rad": 17}.items()
    }

    def name_of(query: Query) -> str:
        name = f"{query.item.benchmark}/{query.item.id}"
        return f"{name}-{query.technique}" if several else name

    return cast("Plan", SimpleNamespace(benchmarks=dict.fromkeys(items), items=items.__getitem__, name_of=name_of))


def item(benchmark: str, name: str) -> Item:
    return Item(name, benchmark, "single_choice", "What?")


QUERIES = st.builds(
    lambda benchmark, number, technique: Query(item(benchmark, f"q{number:02}"), technique),
    st.sampled_from(["slake", "rad", "stranger"]),
    st.integers(0, 50),
    st.sampled_from(["mc", "gd"]),
)


@given(queries=st.lists(QUERIES), several=st.booleans())
def test_what_was_collected_is_told_by_name(queries: list[Query], several: bool) -> None:
    """In any order, more than once, of tests that brought items of their own too."""
    asked = plan(several)
    sent = execnet.loads(execnet.dumps(pack(queries, asked)))
    assert json.loads(json.dumps(sent)) is not None
    assert set(names(sent, asked)) == {asked.name_of(query) for query in queries}


def test_it_is_small() -> None:
    items = tuple(item("slake", f"an item with a long name {n:06}") for n in range(130_000))
    asked = cast("Plan", SimpleNamespace(benchmarks={"slake": None}, items={"slake": items}.__getitem__))
    techniques: tuple[Technique, ...] = ("mc", "gd")
    packed = pack((Query(each, technique) for technique in techniques for each in items), asked)
    assert len(execnet.dumps(packed)) < 100_000


def test_equal_tags_are_one_mapping() -> None:
    def items(data: object) -> list[Item]:
        tags = [{"modality": (f"m{n % 2}",), "organ": (f"o{n % 3}",)} for n in range(12)]
        return [Item(f"q{n:02}", "slake", "short_answer", "What?", tags=each) for n, each in enumerate(tags)]

    loaded = benchmarks.load(
        Benchmark(name="slake", items=items, prompt=cast("Any", None), score=cast("Any", None), metrics=()),
        cast("Any", None),
    )
    assert [each.tags for each in loaded] == [each.tags for each in items(None)]
    assert len({id(each.tags) for each in loaded}) == 6
    assert len({id(values) for each in loaded for values in each.tags.values()}) == 5


KEPT = """
import json, pathlib, pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        stats = session.config.pluginmanager.get_plugin("terminalreporter").stats
        kept = [report for reports in stats.values() for report in reports]
        pathlib.Path("kept").write_text(json.dumps([len(kept), sum(hasattr(report, "medvqa") for report in kept)]))
"""


def test_a_worker_keeps_no_results(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST + KEPT)
    pytester.makepyfile(TEST)
    assert pytester.runpytest_subprocess("--model=stubborn:A", "--run=kept", "-n1", "-p", "no:html").ret == 0
    reports, with_results = json.loads((pytester.path / "kept").read_text())
    assert reports >= 24, "a worker's terminal reporter keeps all reports"
    assert with_results == 0
