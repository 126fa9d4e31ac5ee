"""The index of results.jsonl equals `run_folder.read` after any growth, replacement or truncation of the file."""

import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from medvqa.items import Answer, Item, QuestionKey, Result, Score
from medvqa.records import coverage, selected
from medvqa.records.lock import LOCK, live_holder
from medvqa.records.run_folder import RESULTS, answers_digest, encode, read, write_atomic, write_json
from medvqa.records.run_record import RUN
from medvqa.view import run_index
from medvqa.view.pace import pace
from medvqa.view.progress import run_progress, state_of
from medvqa.view.run_index import RunIndex, RunIndexes
from support.laws import examples
from support.runs import record

SCORES = {"correct": 1.0, "partial": 0.5, "wrong": 0.0, "error": None}


def result(item: str, outcome: str = "correct", said: str = "A", **fields: object) -> Result:
    question = Item(item, "slake", "single_choice", "Which one?", {"A": "a", "B": "b"}, ("A",))
    answer = None if outcome == "error" else Answer(said, seconds=0.5)
    return replace(Result("run", question, "0" * 64, answer, Score(SCORES[outcome], outcome, ("A",))), **fields)


def append(folder: Path, *results: Result) -> None:
    with (folder / RESULTS).open("ab") as file:
        file.writelines(encode(one) + b"\n" for one in results)


def counted(index: RunIndex) -> int:
    return sum(count.number for count in index.counts())


def check(index: RunIndex) -> None:
    """The index tells what `run_folder.read` reads."""
    index.catch_up()
    if not index.path.exists():
        assert counted(index) == 0
        return
    stored = read(index.folder)
    in_order = list(index.results(index.places()))
    assert in_order == list(stored.results)
    by_row = index.places("order by row")
    assert {place.key for place in by_row} == {one.key for one in stored.results}
    assert [place.outcome for place in index.places()] == [one.score.outcome for one in stored.results]
    assert index.unread == len(stored.unread)
    runs = Counter[str]()
    for count in index.counts():
        runs[count.run] += count.number
    assert runs == Counter(one.run for one in stored.results)
    scores = [one.score.value for one in stored.results if one.score.value is not None]
    assert sum(count.scored for count in index.counts()) == len(scores)
    assert sum(count.score for count in index.counts()) == pytest.approx(sum(scores))
    assert index.answers_digest() == answers_digest(stored.results)


class Following(RuleBasedStateMachine):
    """Any interleaving of what may happen to the file and of reading it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / RESULTS
        self.index = RunIndex(self.folder)
        self.number = 0

    def line(self, item: str, outcome: str) -> bytes:
        # Each answer is another one, as in a session.
        self.number += 1
        return encode(result(item, outcome, f"A {self.number}")) + b"\n"

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    @rule(item=st.sampled_from(["1", "2", "é\xff", ""]), outcome=st.sampled_from(list(SCORES)), cut=st.integers(0, 400))
    def write(self, item: str, outcome: str, cut: int) -> None:
        line = self.line(item, outcome)
        # About half of the lines come in two parts, the second of which may never come.
        self.append(line[: max(len(line) - cut, 0)] if cut < 200 else line)

    @rule(data=st.sampled_from([b"\n", b"}\n", b"{}\n", b" ", b"[" * 300 + b"\n", b'{"item": NaN}\n', b"\xff\n"]))
    def spoil(self, data: bytes) -> None:
        self.append(data)

    @rule(items=st.lists(st.sampled_from(["1", "3"]), max_size=3), whole=st.booleans())
    def put_another(self, items: list[str], whole: bool) -> None:
        content = b"".join(self.line(item, "wrong") for item in items)
        write_atomic(self.path, content if whole else content[:-1])

    @rule(share=st.floats(0, 1))
    def shorten(self, share: float) -> None:
        if self.path.exists():
            os.truncate(self.path, int(share * self.path.stat().st_size))

    @rule()
    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    @rule()
    def compare(self) -> None:
        check(self.index)

    def teardown(self) -> None:
        check(self.index)
        self.path.unlink(missing_ok=True)
        self.folder.rmdir()


TestFollowing = Following.TestCase
TestFollowing.settings = settings(examples(100), stateful_step_count=20, deadline=None)


def test_a_version_rises_with_each_change_and_stays_without(tmp_path: Path) -> None:
    index = RunIndex(tmp_path)
    versions = []
    for change in (
        lambda: append(tmp_path, result("1")),
        lambda: append(tmp_path, result("1", "wrong")),
        lambda: (tmp_path / RESULTS).unlink(),
    ):
        change()
        index.catch_up()
        versions.append(index.version)
        index.catch_up()
        assert index.version == versions[-1]
    assert versions == sorted(set(versions))


def test_a_line_that_was_changed_in_its_place_is_read_anew(tmp_path: Path) -> None:
    append(tmp_path, result("1", said="A"), result("2", said="x" * 5000))
    index = RunIndex(tmp_path)
    check(index)
    content = (tmp_path / RESULTS).read_bytes().replace(b'"value":1.0', b'"value":0.5', 1)
    with (tmp_path / RESULTS).open("r+b") as file:
        file.write(content)
    os.utime(tmp_path / RESULTS, (1, 1))
    check(index)


def test_a_line_that_is_too_long_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "MAX_LINE", 5000)
    append(tmp_path, result("1"), result("2", said="x" * 20_000), result("3"))
    index = RunIndex(tmp_path)
    index.catch_up()
    assert [place.key.item for place in index.places()] == ["1", "3"]
    assert index.unread == 1
    append(tmp_path, result("4"))
    index.catch_up()
    assert counted(index) == 3


def test_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    append(tmp_path / "real", result("1"))
    for make in (lambda at: at.symlink_to(tmp_path / "real" / RESULTS), os.mkfifo):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        make(folder / RESULTS)
        index = RunIndex(folder)
        index.catch_up()
        assert "cannot be read" in index.problem
        assert counted(index) == 0


def test_indexes_used_least_recently_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "ROWS", 3)
    indexes = RunIndexes()
    kept = []
    for name in "abc":
        (tmp_path / name).mkdir()
        append(tmp_path / name, result("1"), result("2"))
        indexes.of(tmp_path / name).catch_up()
        assert counted(indexes.of(tmp_path / name)) == 2
        kept.append(indexes.of(tmp_path / name))
    assert indexes.of(tmp_path / "c") is kept[2]
    assert indexes.of(tmp_path / "a") is not kept[0]


# --- progress and state -------------------------------------------------------------------------------------------


def run_folder(folder: Path, keys: list[QuestionKey], **about: object) -> None:
    run = {"name": "run", "benchmarks": {"slake": {"items": 3, "questions": {"mc": 3}}}, **about}
    selection = coverage.select_from(keys, record(run), ["--limit=3"])
    selected.select(folder, "s1", keys)
    selected.add_selected(folder)
    write_json(folder / RUN, {**run, "selection": selection.as_json()})


@pytest.mark.parametrize("stranger", [False, True])
def test_progress_agrees_with_the_coverage_and_counts_of_the_folder(tmp_path: Path, stranger: bool) -> None:
    keys = [result(item).key for item in "123"]
    run_folder(tmp_path, keys, sessions=[{"started": "2026-01-01T00:00:00+00:00"}])
    index = RunIndexes().of(tmp_path)
    assert run_progress(index, "r").answered == 0
    for one in (result("1"), result("2", "error"), result("2", "partial"), result("3", run="x" if stranger else "run")):
        append(tmp_path, one)
        progress = run_progress(index, "r")
        covered = coverage.coverage(tmp_path)
        assert (progress.state == "finished") == covered.finished
        assert (progress.answered, progress.selected) == (covered.there, covered.selected)
        assert progress.why == "; ".join(covered.reasons)
    (part,) = progress.parts
    assert part.outcomes == {"correct": 2, "partial": 1}
    assert (part.score, part.scored, part.selected) == (2.5, 3, 3)
    assert progress.since == "2026-01-01T00:00:00+00:00"
    assert progress.unread == 0
    (tmp_path / RUN).write_text('{"name": 3}')
    assert run_progress(index, "r").state == "unreadable"


def test_the_rate_is_that_of_the_last_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(run_index.time, "monotonic", lambda: clock[0])
    append(tmp_path, *(result(str(number)) for number in range(50)))
    index = RunIndex(tmp_path)
    index.catch_up()
    assert index.rate() is None, "what was there before is no growth"
    for number in range(30):
        clock[0] += 10
        append(tmp_path, result(f"new {number}"))
        index.catch_up()
    assert index.rate() == pytest.approx(0.1, rel=0.2)
    clock[0] += 61
    assert index.rate() is None


def test_the_pace_is_told_of_groups_of_answers_as_they_came(tmp_path: Path) -> None:
    def answered(number: int) -> Result:
        seconds = None if number == 7 else float(number % 10)
        return result(f"{number}", answer=Answer("A", seconds=seconds, usage={"output": 50.0} if number < 60 else None))

    append(tmp_path, *map(answered, range(120)), result("error", "error"))
    seconds, tokens = pace(RunIndex(tmp_path)).plots
    middle, high = seconds.series
    assert [(point.x, point.y) for point in middle.points[:2]] == [(1.5, 1), (4.5, 4)]
    assert [(point.x, point.y) for point in high.points[:2]] == [(1.5, 2), (4.5, 5)]
    assert middle.points[2].label == "answers 7 to 9: 7 seconds", "of one that has no time nothing is told"
    assert [point.y for point in tokens.series[0].points] == [50] * 20
    (tmp_path / "two").mkdir()
    append(tmp_path / "two", *map(answered, range(2)))
    assert [series.title for plot in pace(RunIndex(tmp_path / "two")).plots for series in plot.series] == ["answer"] * 2
    assert pace(RunIndex(tmp_path / "none")).plots == []


def test_a_run_is_running_while_the_process_of_its_lock_lives(tmp_path: Path) -> None:
    hold = "import sys; from pathlib import Path; from medvqa.records import lock\n"
    hold += "lock.Lock(Path(sys.argv[1])).acquire(); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        assert state_of(tmp_path, finished=True) == "running"
        process.kill()
    assert (tmp_path / LOCK).exists()
    assert state_of(tmp_path, finished=True) == "finished"
    assert state_of(tmp_path, finished=False) == "unfinished"


@pytest.mark.parametrize(
    "lock",
    [
        b"",
        b"\xff",
        b"[" * 4000,
        {"pid": -1},
        {"pid": 2**80},
        {"host": "elsewhere"},
        # The number of a process that began later: the holder is dead.
        {"since": "2001-01-01 00:00:00+00:00"},
        {"since": "never"},
    ],
)
def test_a_lock_of_no_living_holder_is_none(tmp_path: Path, lock: bytes | dict[str, object]) -> None:
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": "2999-01-01 00:00:00+00:00"}
    (tmp_path / LOCK).write_bytes(msgspec.json.encode(holder))
    assert live_holder(tmp_path) is not None
    content = lock if isinstance(lock, bytes) else msgspec.json.encode(holder | lock)
    (tmp_path / LOCK).write_bytes(content)
    assert live_holder(tmp_path) is None
