"""The coverage of a run: one definition of what is selected, answered, missing, finished and current."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.cli import main
from medvqa.items import Answer, Item, QuestionKey, Result, Score
from medvqa.records import run_folder, run_record
from medvqa.records.coverage import (
    Basis,
    Coverage,
    MetricsHead,
    ResultsReader,
    cover,
    cover_numbers,
    coverage_since,
    ended,
    select_from,
)
from medvqa.records.coverage import coverage as coverage_of
from medvqa.records.run_folder import RESULTS, Recorder
from medvqa.records.run_record import RUN, RunRecord
from medvqa.records.selected import SELECTED, add_selected, select
from support.runs import record


def keys(*names: str) -> list[QuestionKey]:
    return [QuestionKey("slake", name, "mc") for name in names]


TOLD = {"techniques": ["mc"], "finished": "2026-01-02", "benchmarks": {"slake": {"questions": {"mc": 9}}}}


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_coverage_is_complete_if_every_selected_question_has_a_result(selected: set[int], there: set[int]) -> None:
    wanted, have = (keys(*map(str, numbers)) for numbers in (selected, there))
    covered = cover(record(TOLD), wanted, have)
    lack = selected - there
    assert covered.complete == (not lack)
    assert covered.unselected == (len(there - selected) if selected else 0)
    assert bool(covered.more) == bool(covered.unselected)
    assert len(covered.missing) == len(lack)
    if selected:
        assert (covered.selected, covered.there) == (len(selected), len(selected & there))
    assert bool(covered.lines) == bool(lack)


def test_keys_that_are_lost_leave_a_run_unfinished() -> None:
    told = record(TOLD, selection={"questions": 3})
    covered = cover(told, (), keys("1", "2"))
    assert covered.lines == ("unfinished: 2 of 3 questions have a result",)
    assert cover(told, keys("4"), keys("1", "2", "3")).missing == ("slake/4",)
    assert cover(told, (), keys("1", "2", "3")).complete, "a folder that was copied in part"


@pytest.mark.parametrize("content", [b"damaged", b'["\xff", "1", "mc", "", 0]', b"[" * 100_000])
def test_a_damaged_file_of_keys_is_told_and_costs_no_report(tmp_path: Path, content: bytes) -> None:
    Recorder(tmp_path).close()
    run_folder.write_json(tmp_path / RUN, {**TOLD, "selection": {"questions": 3}})
    (tmp_path / SELECTED).write_bytes(content)
    covered = coverage_of(tmp_path)
    assert covered.selected == 3
    assert f"{tmp_path / SELECTED}: damaged" in covered.reasons[-1]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "unfinished: the run did not end, and its missing results are not known"),
        (
            {"merged": [{"name": "a", "finished": "2026-01-02"}, {"name": "b"}]},
            "unfinished: the run did not end, and its missing results are not known",
        ),
        ({"finished": "x", "missing": ["slake/1"]}, "unfinished: 1 question has no result"),
        ({"finished": "x", "options": {"shard": "2/3"}}, "shards 1, 3 of 3 are missing"),
    ],
)
def test_what_a_run_of_an_earlier_version_lacks_is_told(told: dict[str, Any], reason: str) -> None:
    covered = cover(record(told), (), ())
    assert covered.lines[0] == reason
    assert not covered.complete
    assert cover(record(finished="x"), (), ()).complete


def test_a_share_of_a_billion_is_told_in_few_words() -> None:
    told = record({"finished": "x", "options": {"shard": "1/999999999"}})
    assert cover(told, (), ()).absent == ("shards 2-999999999 of 999999999 are missing",)


def test_a_selection_counts_items_and_tells_how_they_were_chosen() -> None:
    twice = [QuestionKey("slake", name, "mc", sample=sample) for name in "ab" for sample in (1, 2)]
    run = record({"benchmarks": {"slake": {"questions": {"mc": 9}}, "other": {"questions": {"mc": 4}}, "old": {}}})
    chosen = select_from(twice, run, ["-k a", "-k a", "--limit=2"])
    assert record(selection=chosen.as_json()).selection == chosen
    assert chosen.line("slake", "mc") == "2 of 9, by -k a --limit=2"
    assert chosen.line("other", "mc") == "0 of 4, by -k a --limit=2"
    assert chosen.line("old", "mc") == ""
    assert (chosen.questions, chosen.whole, chosen.ranked_by_outcome) == (4, False, False)
    failed = select_from(twice, run, ["--lf"], by_outcome=True)
    assert failed.ranked_by_outcome
    nine = [QuestionKey("slake", str(number), "mc") for number in range(9)]
    whole = select_from(nine, record({"benchmarks": {"slake": {"questions": {"mc": 9}}}}), ["--lf"], by_outcome=True)
    assert whole.whole
    assert not whole.ranked_by_outcome
    assert whole.line("slake", "mc") == ""
    assert "every" not in whole.as_json()


def test_a_selection_of_some_samples_is_no_whole() -> None:
    """With --lf, each question may have a wrong sample, so that every item is there."""
    nine = [QuestionKey("slake", str(number), "mc", sample=1) for number in range(9)]
    run = record({"benchmarks": {"slake": {"questions": {"mc": 9}}}})
    part = select_from(nine, run, ["--lf"], by_outcome=True, every=False)
    assert record(selection=part.as_json()).selection == part
    assert (part.whole, part.ranked_by_outcome) == (False, True)
    assert part.line("slake", "mc") == "9 of 9, of some questions a part of the answers, by --lf"


# --- what is current ----------------------------------------------------------------------------------------------


def result(name: str, outcome: str = "correct") -> Result:
    item = Item(name, "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",))
    if outcome == "error":
        return Result("run", item, "0" * 64, None, Score(None, "error", (), "503"))
    return Result("run", item, "0" * 64, Answer("A"), Score(1.0, "correct", ("A",)))


def written(folder: Path, *results: Result, selected: tuple[str, ...] = ("1", "2")) -> RunRecord:
    """Append results to a run folder, and return its record."""
    recorder = Recorder(folder)
    for one in results:
        recorder.append(run_folder.encode(one))
    recorder.close()
    select(folder, "s1", keys(*selected))
    add_selected(folder)
    run = record(TOLD, name="run")
    run = record(run, selection=select_from(keys(*selected), run, ()).as_json())
    run_record.write_run(folder, run)
    return run


def drawn(folder: Path) -> MetricsHead:
    """What metrics.json says that is computed from a folder as it is now."""
    stored, covered = run_folder.read(folder), coverage_of(folder)
    errors = {"slake": {"correct": covered.number - covered.errors, "error": covered.errors}}
    return MetricsHead(Basis.of(folder, stored, covered), errors, covered.missing, covered.lines)


class Whole:
    """A reader that reads all of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def coverage(self) -> Coverage:
        return coverage_of(self.folder)

    def decisive_digest(self) -> tuple[str, int]:
        return run_folder.decisive_digest(run_folder.read(self.folder).results)


def never() -> ResultsReader:
    raise AssertionError("a result was read")


@pytest.mark.parametrize("results", [[], [result("1")], [result("1"), result("2", "error")]])
def test_numbers_of_the_present_results_are_current_without_reading_one(tmp_path: Path, results: list[Result]) -> None:
    run = written(tmp_path, *results)
    covered = coverage_since(drawn(tmp_path), tmp_path, run, never)
    whole = coverage_of(tmp_path)
    assert covered.current
    assert (covered.finished, covered.complete, covered.lines) == (whole.finished, whole.complete, whole.lines)
    assert (covered.number, covered.errors) == (whole.number, whole.errors) == (len(results), len(results) // 2)


@pytest.mark.parametrize(
    ("change", "current"),
    [
        (lambda path: path.write_bytes(b"".join(reversed(path.read_bytes().splitlines(keepends=True)))), True),
        (lambda path: path.write_bytes(path.read_bytes() * 2), True),
        (lambda path: path.write_bytes(path.read_bytes() + run_folder.encode(result("2", "error"))), False),
        (lambda path: path.write_bytes(path.read_bytes().splitlines(keepends=True)[0]), False),
        (lambda path: path.unlink(), False),
    ],
    ids=["other order", "lines repeated", "appended", "cut off", "gone"],
)
def test_the_digest_of_the_decisive_lines_tells_whether_numbers_are_current(
    tmp_path: Path, change: Callable[[Path], object], current: bool
) -> None:
    run = written(tmp_path, result("1"), result("2"))
    before = drawn(tmp_path)
    change(tmp_path / RESULTS)
    if not (tmp_path / RESULTS).exists():
        (tmp_path / RESULTS).touch()
    covered = coverage_since(before, tmp_path, run, lambda: Whole(tmp_path))
    assert covered.current is current
    assert replace(covered, current=None) == coverage_of(tmp_path)


def test_new_keys_leave_numbers_current_and_the_run_unfinished(tmp_path: Path) -> None:
    """A session that died after it selected its questions."""
    run = written(tmp_path, result("1"), result("2"))
    before = drawn(tmp_path)
    select(tmp_path, "s2", keys("1", "3"))
    covered = coverage_since(before, tmp_path, run, lambda: Whole(tmp_path))
    assert (covered.current, covered.finished, covered.missing) == (True, False, ("slake/3",))


def test_files_of_earlier_versions_do_not_tell_their_results(tmp_path: Path) -> None:
    run = written(tmp_path, result("1"), result("2"))
    before = drawn(tmp_path)
    before.results = None
    covered = coverage_since(before, tmp_path, run, never)
    assert (covered.current, covered.finished, covered.number) == (None, True, 2)
    assert coverage_since(None, tmp_path, run, lambda: Whole(tmp_path)) == coverage_of(tmp_path)


def test_missing_questions_may_be_counted_and_not_named() -> None:
    told = record(TOLD, selection={"questions": 3})
    covered = cover_numbers(told, 3, 2, 2)
    assert (covered.selected, covered.there, covered.missing, covered.finished) == (3, 1, (), False)
    assert covered.lines == ("unfinished: 1 of 3 questions have a result",)
    assert covered.more == "1 of its results is of a question that it did not select"


def test_a_run_ended_if_its_last_session_did() -> None:
    assert ended(record(finished="2026-01-02", sessions=[{}]))
    assert ended(record(merged=[{"name": "a"}])), "nobody asks the parts again"
    assert not ended(record(sessions=[{}]))
    assert not ended(record(merged=[{"name": "a"}], sessions=[{}])), "joined, and continued by a session that died"


def test_results_that_were_not_selected_are_told_beside_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--model=echo:A", "--benchmark=phantom-mediconfusion", "--limit=4", "--run=first"]) == 0
    assert "did not select" not in capsys.readouterr().out
    path = tmp_path / "reports/first/results.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    line["item"]["id"] = "zzz"
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert main(["report", "reports/first"]) == 0
    assert "! 1 of its results is of a question that it did not select." in capsys.readouterr().out
