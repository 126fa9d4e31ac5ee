"""Pages of results, and the history of an item, equal what a plain reading of the run folders gives."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.items import OUTCOMES, Answer, DataError, Item, QuestionKey, Result, Score, UsageError
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.session.registry import Registry
from medvqa.view import history as histories
from medvqa.view import items, searching
from medvqa.view.items import ItemQuery
from medvqa.view.run_index import RunIndex, RunIndexes
from medvqa.view.run_list import RunFolders
from support.laws import examples

SAID = ("The answer is A.", 'A "quoted" \\ word', "Größe: É", "", "line\nbreak <b> & more", "中文")
IDS = ("1", "10", "100", "2", "é*", 'a"b', "x/y")


def result(item: str, number: int) -> Result:
    question = Item(item, ("slake", "own")[number % 2], "single_choice", f"Which one, {number}?", {"A": "a", "B": "b"})
    outcome = OUTCOMES[number % len(OUTCOMES)]
    value = {"correct": 1.0, "partial": 0.5, "error": None, "unscored": None}.get(outcome, 0.0)
    answer = None if outcome == "error" else Answer(SAID[number % len(SAID)], seconds=0.5)
    return Result("run", question, "", answer, Score(value, outcome), ("mc", "ff")[number % 3 == 0], sample=number % 2)


def write(folder: Path, results: list[Result]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [run_folder.encode(one) for one in results]
    # A stranger may have written it in another way.
    lines[::5] = [json.dumps(json.loads(line)).encode() for line in lines[::5]]
    (folder / RESULTS).write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    # Later lines replace some of the first.
    write(folder, [result(IDS[number % len(IDS)], number * 7 % 61) for number in range(90)])
    return folder


def expected(folder: Path, query: ItemQuery) -> list[QuestionKey]:
    """The keys of all matching results, in the order of the query."""
    last: dict[QuestionKey, Result] = {}
    lines: list[QuestionKey] = []
    for one in map(run_folder.decode, (folder / RESULTS).read_bytes().splitlines()):
        last[one.key] = one
        lines.append(one.key)
    keys = list(last) if query.order == "first" else list(dict.fromkeys(reversed(lines)))
    return [key for key in keys if matches(last[key], query)]


def matches(one: Result, query: ItemQuery) -> bool:
    named = one.item.id.startswith(query.id[:-1]) if query.id.endswith("*") else query.id in ("", one.item.id)
    texts = (one.item.question, one.answer.text if one.answer else "")
    return (
        named
        and query.benchmark in ("", one.item.benchmark)
        and query.technique in ("", one.technique)
        and (not query.outcomes or one.score.outcome in query.outcomes)
        and any(query.text.lower() in text.lower() for text in texts)
    )


QUERIES = st.builds(
    ItemQuery,
    start=st.integers(0, 40),
    count=st.integers(0, 40),
    order=st.sampled_from(items.ORDERS),
    benchmark=st.sampled_from(["", "slake", "own", "none"]),
    technique=st.sampled_from(["", "mc", "ff"]),
    outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=3).map(tuple),
    id=st.sampled_from(["", "1", "1*", "*", "é**", 'a"*', "é*", "none", "\x00", "x/y"]),
    text=st.sampled_from(
        ["", "answer", "WHICH ONE, 1", '"QUOTED" \\', "grösse", "\n", "break <B>", "中", "é", "none", "i"]
    ),
)


@given(QUERIES)
@examples(200)
def test_a_page_equals_a_plain_filter(run: Path, query: ItemQuery) -> None:
    page = items.page(RunIndex(run), query)
    keys = expected(run, query)
    assert [QuestionKey(row.benchmark, row.id, row.technique, row.variant, row.sample) for row in page.rows] == keys[
        query.start : query.start + query.count
    ]
    assert page.matching == len(keys)


def test_a_search_goes_on_over_new_lines_and_ends_in_time(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "PART", 100)
    folder = run.parent / "copied"
    folder.mkdir(exist_ok=True)
    (folder / RESULTS).write_bytes((run / RESULTS).read_bytes())
    index, query = RunIndex(folder), ItemQuery(text="answer", count=200)
    assert items.page(index, query).matching == len(expected(folder, query)) > 0
    with (folder / RESULTS).open("ab") as file:
        file.write(run_folder.encode(replace(result("new", 6))) + b"\n")
    assert [row.id for row in items.page(index, query).rows][-1] == "new"
    # A replaced file is searched anew.
    run_folder.write_atomic(folder / RESULTS, run_folder.encode(result("other", 6)) + b"\n")
    assert [row.id for row in items.page(index, query).rows] == ["other"]
    monkeypatch.setattr(searching, "SECONDS", -1)
    with pytest.raises(TimeoutError, match="took longer"):
        items.page(index, replace(query, text="another"))


def test_long_responses_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = replace(result("1", 0), answer=Answer("x" * 20_001, finish="length"))
    write(tmp_path, [long, result("2", 0)])
    (row, _) = items.page(RunIndex(tmp_path), ItemQuery()).rows
    assert (len(row.response), row.cut, row.truncated) == (20_000, 1, True)
    monkeypatch.setattr(items, "LONGEST_LINE", 10_000)
    (row, other) = items.page(RunIndex(tmp_path), ItemQuery()).rows
    assert "bytes" in row.why
    assert (row.response, other.id) == ("", "2")


def test_a_row_that_vanishes_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [result(item, 1) for item in "123"])
    index = RunIndex(tmp_path)
    index.catch_up()
    monkeypatch.setattr(index, "catch_up", lambda: None)
    path = tmp_path / RESULTS
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2].replace(b'"1"', b'"9"'))
    assert items.page(index, ItemQuery()).rows == []
    run_folder.write_atomic(path, b"")
    assert items.page(index, ItemQuery()).rows == []
    monkeypatch.undo()
    path.unlink()
    assert items.page(index, ItemQuery()).total == 0
    path.symlink_to(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        items.page(index, ItemQuery())


def test_the_parameters_of_an_address() -> None:
    query = ItemQuery.of({"start": "3", "count": "9", "order": "latest", "outcome": "wrong,error", "id": "q*"})
    assert query == ItemQuery(3, 9, "latest", outcomes=("wrong", "error"), id="q*")
    assert ItemQuery.of({}) == ItemQuery()


@pytest.mark.parametrize(
    "given",
    [
        {"start": "-1"},
        {"start": "٣"},
        {"start": "9" * 5000},
        {"count": "201"},
        {"order": "random"},
        {"outcome": "right"},
        {"technique": "MC"},
        {"text": "x" * 1001},
    ],
)
def test_wrong_parameters_are_named(given: Mapping[str, str]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(given))}"):
        ItemQuery.of(given)


# --- history ------------------------------------------------------------------------------------------------------


def runs(root: Path, **changes: Mapping[str, object]) -> RunFolders:
    """Runs with all ids, started in the order of their names; `changes` to the item 100 of each."""
    for number, (name, fields) in enumerate(changes.items()):
        question = Item("100", "slake", "single_choice", "Which one?", {"A": "a", "B": "b"}, ("A",))
        asked = Result("run", replace(question, **fields), "", Answer(f"A {name}"), Score(1.0, "correct"))  # type: ignore[arg-type]
        others = [replace(asked, item=replace(asked.item, id=item)) for item in IDS if item != "100"]
        write(root / name, [replace(asked, answer=Answer("earlier")), *others, asked, replace(asked, sample=2)])
        about = {"name": name, "started": f"2026-01-0{number + 1}T00:00:00+00:00", "benchmarks": {"slake": {}}}
        run_folder.write_json(root / name / RUN, about)
    return RunFolders(root, Registry.of([], installed=[]), RunIndexes())


def test_a_history_has_the_last_results_of_all_runs(tmp_path: Path) -> None:
    folders = runs(tmp_path, a={}, b={"question": "Another?"}, c={})
    (tmp_path / "c" / RESULTS).open("ab").write(b'{"id":"100"\n\xff "id":"100"\n')
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / RUN).write_text("{")
    found = histories.history(folders, "slake", "100")
    assert [(row.run, row.item.response, row.item.sample, row.same) for row in found.rows] == [
        (name, f"A {name}", sample, name != "b") for name in "cba" for sample in (0, 2)
    ]
    assert [line.partition(":")[0] for line in found.unread] == ["d"]
    assert histories.history(folders, "own", "100").rows == []
    for item in IDS:
        assert {row.item.id for row in histories.history(folders, "slake", item).rows} == {item}, item


def test_runs_that_a_history_does_not_reach_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = runs(tmp_path, a={}, b={})
    monkeypatch.setattr(histories, "SECONDS", -1.0)
    found = histories.history(folders, "slake", "100")
    assert found.rows == []
    assert [line.partition(":")[0] for line in found.unread] == ["b", "a"]
