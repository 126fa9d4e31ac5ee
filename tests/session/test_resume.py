"""Nothing lost: sessions that are killed, poisoned and starved, and what goes on after them.

Every session is a pytest of its own in a stranger's repository, whose model writes down what it is asked.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.scoring import rules
from support import pages
from support.repositories import TEST, Repository, alive, await_calls, await_results, kill_group


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def check_asks(repository: Repository) -> None:
    """No item was asked twice but those in flight when their process died: its last call."""
    last = {pid: number for number, (pid, _) in enumerate(repository.calls)}
    asked: dict[str, int] = {}
    for number, (_, items) in enumerate(repository.calls):
        for item in items:
            assert item not in asked or last[repository.calls[asked[item]][0]] == asked[item], item
            asked[item] = number


# --- going on -----------------------------------------------------------------------------------------------


def test_a_new_run_reuses_what_is_stored_and_fresh_asks_anew(repository: Repository) -> None:
    assert repository.run("--model=slow:0", "--run=first")[0] == 0
    assert set(repository.asked.values()) == {1}
    code, output = repository.run("--model=slow:0", "--run=second", "--answers=first", "-n2", "--batch-size=3")
    assert code == 0
    assert set(repository.asked.values()) == {1}
    assert "Answers: 40 stored ones reused, 0 asked for." in output
    assert (repository.session("second")["reused"], repository.session("second")["asked"]) == (40, 0)
    assert "answers: 40 of 40 were stored: 40 from first" in output
    assert repository.session("second")["answers_from"] == {"first": 40}
    assert repository.measures("first") == repository.measures("second")
    assert not (repository.folder("second") / "answers").exists(), "nothing is copied"
    code, output = repository.run("--model=slow:0", "--run=third", "--answers=first", "--fresh")
    assert code == 0
    assert set(repository.asked.values()) == {2}
    assert "reused" not in output


def test_without_answers_a_new_run_asks_everything(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    code, output = repository.run("--model=slow:0", "--run=second")
    assert code == 0
    assert set(repository.asked.values()) == {2}
    assert "stored" not in output


def test_borrowed_answers_are_found_again_where_their_run_is_gone(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first", "-k", "not q0003")
    repository.run("--model=slow:0", "--run=second", "--answers=first", "-k", "not q0003")
    shutil.rmtree(repository.folder("first"))
    code, output = repository.run("--model=slow:0", "--run=second", "-n2")
    assert code == 0
    assert set(repository.asked.values()) == {1}
    assert (repository.session("second")["reused"], repository.session("second")["asked"]) == (30, 10)
    # And a run that names this one gets all of them.
    repository.run("--model=slow:0", "--run=third", f"--answers={repository.folder('second')}", "--answers=third")
    assert set(repository.asked.values()) == {1}
    assert repository.session("third")["answers_from"] == {"second": 40}
    code, output = repository.run("--model=slow:0", "--run=fourth", "--answers=first")
    assert code == 4
    assert re.search(r"--answers=first: .*/reports/first is no run\. Name the folder of a run", output)


def test_another_model_borrows_nothing(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    repository.environment = {"FINGERPRINT": "other"}
    _, output = repository.run("--model=slow:0", "--run=second", "--answers=first")
    assert set(repository.asked.values()) == {2}
    assert "answers: 0 of 40 were stored: 0 from first" in output


def test_lf_scores_anew_without_asking(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    code, _ = repository.run("--model=slow:0", "--run=second", "--answers=first", "--lf")
    assert code == 0
    assert set(repository.asked.values()) == {1}
    assert "correct" not in repository.outcomes("second")
    repository.run("--model=slow:0", "--run=third", "--answers=first", "--lf", "--fresh")
    assert repository.asked.total() == 40 + len(repository.results("third"))


def test_second_attempts_at_wrong_answers_reach_no_other_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked again until they are right, they would be somebody's first answers."""
    repository.run("--model=slow:0", "--run=first")
    repository.run("--model=slow:0", "--run=second", "--lf")
    again = len(repository.results("second"))
    assert 0 < again < 40
    _, output = repository.run("--model=slow:0", "--run=third", "--answers=second")
    assert "answers: 0 of 40 were stored: 0 from second" in output
    repository.run("--model=slow:0", "--run=fresh", "--fresh", "-k", "q0000")
    monkeypatch.chdir(repository.path)
    main(["merge", "reports/fresh", "-o", "merged"])
    _, output = repository.run("--model=slow:0", "--run=fourth", "--answers=merged")
    assert "answers: 0 of 40 were stored: 0 from merged" in output


def test_a_damaged_answer_is_told_when_its_run_goes_on(repository: Repository) -> None:
    """Also one that is found while the model is loaded, before anything is asked."""
    repository.run("--model=slow:0", "--run=first")
    (path,) = (repository.folder("first") / "answers").glob("*.log")
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if b" answer/" in line)
    lines[number] = lines[number].replace(b'"', b"'", 1)
    path.write_bytes(b"".join(lines))
    (repository.folder("first") / "results.jsonl").unlink()
    repository.run("--model=slow:0", "--run=first")
    assert repository.asked.total() == 41
    (told,) = json.loads((repository.folder("first") / "run.json").read_text())["unread_answers"]
    assert told.endswith(f"line {number + 1}: the checksum does not match")
    assert "stored answers cannot be read, the first: " in (repository.folder("first") / "summary.md").read_text()


def test_a_run_goes_on_with_more_benchmarks_and_other_workers(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first", "-k", "q0000")
    assert len(repository.results("first")) == 10
    code, _ = repository.run("--model=slow:0", "--run=first", "-n2", "--batch-size=5")
    assert code == 0
    assert len(repository.results("first")) == 40
    assert set(repository.asked.values()) == {1}
    about = json.loads((repository.folder("first") / "run.json").read_text())
    assert [(s["workers"], s["asked"], s["reused"]) for s in about["sessions"]] == [(0, 10, 0), (2, 30, 10)]
    lines = (repository.folder("first") / "results.jsonl").read_text().splitlines()
    assert len(lines) == 40, "a result that is known is not written again"
    repository.run("--model=slow:0", "--run=first", "--benchmark=phantom", "--benchmark=slow", "-k", "q0000")
    assert set(json.loads((repository.folder("first") / "run.json").read_text())["benchmarks"]) >= {"slow"}


def test_a_run_that_goes_on_is_scored_by_one_rule(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    before = repository.outcomes("first")
    code, _ = repository.run("--model=slow:0", "--run=first", "--extraction=official", "-k", "q0000")
    assert code == 0
    assert repository.outcomes("first") == {"correct": 14, "wrong": 26}
    repository.run("--model=slow:0", "--run=first", "-k", "q0001")
    assert repository.outcomes("first") == before
    assert set(repository.asked.values()) == {1}


def test_a_run_keeps_the_edition_of_the_rules_that_read_its_answers(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    file = repository.folder("first") / "run.json"
    about = json.loads(file.read_text())
    assert about.pop("reading_rules") == rules.EDITION
    file.write_text(json.dumps(about))
    repository.run("--model=slow:0", "--run=first", "-k", "q0001")
    assert "reading_rules" not in json.loads(file.read_text()), "a run of the first edition that goes on"
    plugin = f"--plugin={repository.path / 'conftest.py'}"
    assert main(["rescore", plugin, str(repository.folder("first")), "--extraction=sound"]) == 0
    assert json.loads(file.read_text())["reading_rules"] == rules.EDITION
    assert set(repository.asked.values()) == {1}


def test_lost_results_are_made_again_from_the_answers(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    results = repository.folder("first") / "results.jsonl"
    before = sorted(results.read_text().splitlines())
    results.unlink()
    assert repository.run("--model=slow:0", "--run=first")[0] == 0
    assert sorted(results.read_text().splitlines()) == before
    assert set(repository.asked.values()) == {1}


@pytest.mark.parametrize(
    ("arguments", "environment", "difference"),
    [
        (["--model=slow:1"], {}, "the model's argument was '0' and is '1'"),
        (["--model=nameless:0"], {}, "the model's backend was 'slow' and is 'nameless'"),
        (["--model=slow:0"], {"ITEMS": "41"}, "slow: the data set was "),
        (["--model=slow:0"], {"FINGERPRINT": "other"}, "the model's fingerprint was 'slow weights' and is 'other'"),
    ],
)
def test_a_run_does_not_go_on_as_another(
    repository: Repository, arguments: list[str], environment: dict[str, str], difference: str
) -> None:
    repository.run("--model=slow:0", "--run=first")
    before = (repository.folder("first") / "results.jsonl").read_text()
    repository.environment = environment
    code, output = repository.run("--run=first", *arguments)
    assert code == 4
    assert re.search(rf"run 'first' cannot go on: {difference}.*Name another with --run=NAME", output)
    assert set(repository.asked.values()) == {1}
    assert (repository.folder("first") / "results.jsonl").read_text() == before


def test_a_model_without_a_fingerprint_shares_nothing_between_runs(repository: Repository) -> None:
    repository.run("--model=nameless:0", "--run=first", "-k", "q0000")
    repository.run("--model=nameless:0", "--run=first")
    assert set(repository.asked.values()) == {1}
    repository.run("--model=nameless:0", "--run=second", "--answers=first")
    assert set(repository.asked.values()) == {2}


def test_errors_are_not_stored(repository: Repository) -> None:
    repository.environment = {"FAILS": "q00003 q00011"}
    code, output = repository.run("--model=slow:0", "--run=first")
    assert code == 1
    assert repository.outcomes("first")["error"] == 2
    assert "to go on: pytest" in output
    repository.environment = {}
    before = repository.asked
    assert repository.run("--model=slow:0", "--run=first")[0] == 0
    assert repository.asked - before == {"q00003": 1, "q00011": 1}
    assert "error" not in repository.outcomes("first")


def test_a_tests_own_questions_are_stored_too(repository: Repository) -> None:
    (repository.path / "test_slow.py").write_text(
        TEST
        + """
from medvqa.items import Prompt

@pytest.mark.vqa("slow")
def test_own(item, model):
    prompt = Prompt("What?", item=item.id)
    first, second = model.generate([prompt, prompt])
    assert first == second == model.generate([prompt])[0]
"""
    )
    for name, answers in (("first", ()), ("second", ["--answers=first"])):
        assert repository.run("--model=slow:0", f"--run={name}", "-k", "test_own", *answers)[0] == 0
    assert set(repository.asked.values()) == {2}, "two samples, and each asked once"


def test_two_runs_at_once_share_answers(repository: Repository) -> None:
    for number in range(2):
        (repository.folder(f"run{number}") / "answers").mkdir(parents=True)
        (repository.folder(f"run{number}") / "results.jsonl").touch()
    sessions = [repository.start("--model=slow:1", f"--run=run{n}", f"--answers=run{1 - n}", "-n2") for n in range(2)]
    outputs = [session.communicate(timeout=200)[0] for session in sessions]
    assert [session.returncode for session in sessions] == [0, 0], outputs
    assert repository.measures("run0") == repository.measures("run1")
    asked = repository.asked.total()
    assert repository.run("--model=slow:1", "--run=run2", "--answers=run0", "--answers=run1")[0] == 0
    assert repository.asked.total() == asked


def test_damaged_lines_cost_their_own_questions(repository: Repository) -> None:
    repository.run("--model=slow:0", "--run=first")
    (path,) = repository.stored()
    content = bytearray(path.read_bytes())
    content[content.index(b" answer/") + 100] ^= 1
    path.write_bytes(content[: content.rindex(b" answer/") + 100])
    # The results have all answers, too.
    (repository.folder("first") / "results.jsonl").unlink()
    code, output = repository.run("--model=slow:0", "--run=second", "--answers=first")
    assert code == 0
    assert "Answers: 38 stored ones reused, 2 asked for." in output
    assert "2 lines of stored answers cannot be read, the first: " in output
    assert Counter(repository.asked.values()) == {1: 38, 2: 2}
    assert repository.measures("first") == repository.measures("second")


@pytest.mark.slow
def test_what_a_killed_session_asked_counts_to_what_the_run_used(repository: Repository) -> None:
    for spread, held in (("-n0", "q00016"), ("-n2", "q00032")):
        repository.environment = {"USAGE": "1", "HOLDS": held}
        session = repository.start("--model=slow:5", "--run=first", spread)
        # A session is noted with its first result.
        await_results(repository, "first", 1, session)
        while held not in repository.asked and session.poll() is None:
            time.sleep(0.02)
        kill_group(session)
    repository.environment = {"USAGE": "1"}
    code, output = repository.run("--model=slow:5", "--run=first")
    assert code == 0
    about = json.loads((repository.folder("first") / "run.json").read_text())
    assert about["usage"] == {"input": 120, "cost": 20}, "each of 40 questions counts once"
    assert sum(each["asked"] for each in about["sessions"]) == 40
    assert "Used: 120 tokens input, cost 20 by the prices of the config." in output
    # And once for all.
    repository.run("--model=slow:5", "--run=first")
    assert json.loads((repository.folder("first") / "run.json").read_text())["usage"] == about["usage"]


def test_a_model_that_never_answered_leaves_no_empty_folders(repository: Repository) -> None:
    repository.environment = {"FAILS": " ".join(f"q{n:05}" for n in range(40))}
    assert repository.run("--model=nameless:0", "--run=first", "-n2")[0] == 1
    assert sorted(path.name for path in repository.folder("first").iterdir() if path.is_dir()) == []


SKIPPED = TEST.replace("    evaluate(item)", "    pytest.skip('not today')\n    evaluate(item)")


@pytest.mark.parametrize("spread", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("test", [SKIPPED, TEST.replace("def test", "@pytest.mark.skip\ndef test")], ids=["in", "mark"])
def test_a_run_whose_questions_are_all_skipped_says_so(repository: Repository, test: str, spread: str) -> None:
    (repository.path / "test_slow.py").write_text(test)
    code, output = repository.run("--model=slow:0", "--run=first", spread)
    assert code == 1
    assert "! nothing was asked: 40 questions were selected, and skipped" in output
    assert not (repository.folder("first")).exists()
    assert "run folder" not in output


def test_tests_that_ask_nothing_need_no_answers(repository: Repository) -> None:
    of_data = TEST.replace("evaluate(item)", "assert item.answers").replace("item, evaluate", "item")
    (repository.path / "test_slow.py").write_text(of_data)
    assert repository.run("--model=slow:0", "--run=first")[0] == 0


@pytest.mark.slow
def test_where_nothing_was_typed_skipped_questions_fail_nothing(repository: Repository) -> None:
    """They may be a few among a repository's tests."""
    pytest.importorskip("torch", reason="the default model needs the extra hf")
    (repository.path / "conftest.py").write_text("")
    (repository.path / "test_slow.py").write_text(SKIPPED.replace('"slow"', '"phantom-mediconfusion"'))
    code, output = repository.run()
    assert code == 0
    assert "! nothing was asked: 72 questions were selected, and skipped" in output


# --- disks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["./file", "/proc/answers"])
def test_a_place_that_cannot_be_made_is_told_before_anything_is_asked(repository: Repository, place: str) -> None:
    (repository.path / "file").write_text("")
    code, output = repository.run("--model=slow:0", "--run=first", f"--answers={place}")
    assert code in (2, 4)
    assert f"{'--answers=' if place == './file' else 'answers cannot be stored in '}" in output
    assert "Traceback" not in output
    assert repository.calls == []


@pytest.mark.parametrize("folder", ["reports", "reports/first/answers"])
def test_a_folder_that_cannot_be_written_is_told_before_anything_is_asked(repository: Repository, folder: str) -> None:
    (repository.path / folder).parent.mkdir(parents=True, exist_ok=True)
    (repository.path / folder).write_text("")
    code, output = repository.run("--model=slow:0", "--run=first")
    assert code in (2, 4)
    assert "answers cannot be stored in" in output
    assert "Traceback" not in output
    assert repository.calls == []


FULL = """
import os
from medvqa.records.log import Log

whole = Log._write
left = [int(os.environ["WRITES"])]

def write(log, content):
    left[0] -= 1
    if left[0] <= 0:
        log._file = os.open("/dev/full", os.O_WRONLY)
    whole(log, content)

Log._write = write
"""


@pytest.mark.parametrize("spread", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["serial", "n2"])
def test_a_full_disk_stops_the_run_with_a_line_and_loses_nothing(
    repository: Repository, spread: tuple[str, ...]
) -> None:
    conftest = (repository.path / "conftest.py").read_text()
    (repository.path / "conftest.py").write_text(conftest + FULL)
    repository.environment = {"WRITES": "3"}
    code, output = repository.run("--model=slow:0", "--run=first", *spread)
    assert code == 2
    assert re.search(r"answers cannot be stored in .*: No space left on device", output)
    assert "Traceback" not in output
    assert "to go on: pytest" in output
    (repository.path / "conftest.py").write_text(conftest)
    assert repository.run("--model=slow:0", "--run=first", *spread)[0] == 0
    check_asks(repository)
    assert sum(repository.outcomes("first").values()) == 40
    assert "error" not in repository.outcomes("first")


def test_a_share_that_goes_away_stops_the_run_with_a_line(repository: Repository) -> None:
    repository.items = 400
    repository.environment = {"LOSES": "q00020"}
    code, output = repository.run("--model=slow:5", "--run=first")
    assert code == 2
    # A look at the store comes once a second.
    assert re.search(r"Interrupted: answers cannot be stored in .*: No such file or directory", output)
    assert "Traceback" not in output
    assert "to go on: pytest" in output
    repository.environment = {}
    assert repository.run("--model=slow:0", "--run=second")[0] == 0


# --- poison -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("poison", ["q00008", "q00012", "q00015", "q00008 q00013"])
def test_exactly_the_question_that_kills_ends_in_error(repository: Repository, poison: str) -> None:
    """At the start, in the middle and at the end of a batch, and two in one."""
    repository.environment = {"POISON": poison}
    code, output = repository.run("--model=slow:0", "--run=first", "-n2")
    assert code == 1, output
    results = repository.results("first")
    errors = {name: r["score"]["why"] for name, r in results.items() if r["score"]["outcome"] == "error"}
    assert set(errors) == set(poison.split()), output
    assert set(errors.values()) == {"the worker died twice on this question, the second time when it was asked alone"}
    assert len(results) == 40
    assert "crashed while running" not in output
    assert " failed" not in output
    repository.environment = {}
    assert repository.run("--model=slow:0", "--run=first", "-n2")[0] == 0
    assert "error" not in repository.outcomes("first")
    check_asks(repository)


@pytest.mark.slow
def test_a_serial_run_that_dies_goes_on_and_ends(repository: Repository) -> None:
    repository.environment = {"POISON": "q00020"}
    codes = [repository.run("--model=slow:0", "--run=first")[0] for _ in range(4)]
    assert codes == [-signal.SIGKILL] * 3 + [1]
    assert [name for name, r in repository.results("first").items() if r["score"]["outcome"] == "error"] == ["q00020"]
    assert len(repository.results("first")) == 40
    check_asks(repository)


@pytest.mark.slow
def test_a_test_that_kills_its_worker_by_itself_is_blamed(repository: Repository) -> None:
    (repository.path / "test_slow.py").write_text(
        TEST.replace("evaluate(item)", "item.id == 'q00030' and __import__('os')._exit(1)\n    evaluate(item)")
    )
    code, output = repository.run("--model=slow:0", "--run=first", "-n2")
    assert code == 1
    assert "crashed while running" in output
    assert "1 item of this run has no result: slow/q00030." in output
    assert len(repository.results("first")) == 39


@pytest.mark.slow
def test_a_run_whose_workers_may_not_be_replaced_ends_and_says_so(repository: Repository) -> None:
    repository.environment = {"POISON": " ".join(f"q{n:05}" for n in range(0, 40, 4))}
    code, output = repository.run("--model=slow:0", "--run=first", "-n2", "--max-worker-restart=3")
    assert code == 1, output
    assert "maximum crashed workers reached: 3" in output
    assert "to go on: pytest" in output
    repository.environment = {}
    assert repository.run("--model=slow:0", "--run=first", "-n2")[0] == 0
    assert len(repository.results("first")) == 40
    check_asks(repository)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("poison", "line"), [("q00000", "the workers died before anything"), ("q00020", "items of this")]
)
def test_a_run_whose_only_worker_died_is_not_complete(repository: Repository, poison: str, line: str) -> None:
    repository.environment = {"POISON": poison}
    code, output = repository.run("--model=slow:0", "--run=first", "-n1", "--max-worker-restart=0", "--batch-size=1")
    assert code == 1, output
    assert line in output
    assert "to go on: pytest" in output


# --- kills --------------------------------------------------------------------------------------------------


def test_ctrl_c_writes_the_reports_and_says_how_to_go_on(repository: Repository) -> None:
    repository.items = 200  # two seconds of asking: a busy machine still interrupts it
    session = repository.start("--model=slow:10", "--run=first", "-v")
    results = repository.folder("first") / "results.jsonl"
    while not (results.exists() and results.stat().st_size) and session.poll() is None:
        time.sleep(0.01)
    os.killpg(session.pid, signal.SIGINT)
    output, _ = session.communicate(timeout=60)
    assert session.returncode == 2
    command = next(line for line in output.splitlines() if line.startswith("to go on: ")).removeprefix("to go on: ")
    assert command.endswith("--model=slow:10 --run=first -v")
    assert repository.measures("first")
    assert repository.run("--model=slow:10", "--run=first")[0] == 0
    assert set(repository.asked.values()) == {1}, "what was in flight had a moment to finish"


@pytest.mark.slow
@pytest.mark.parametrize("spread", [[], ["-n2"]], ids=["serial", "n2"])
def test_a_second_ctrl_c_ends_the_waiting(repository: Repository, spread: list[str]) -> None:
    repository.environment = {"HOLDS": "q00016"}
    session = repository.start("--model=slow:5", "--run=first", "--batch-size=4", *spread)
    await_results(repository, "first", 8, session)
    while "q00016" not in repository.asked and session.poll() is None:
        time.sleep(0.02)
    for _ in range(2):
        os.killpg(session.pid, signal.SIGINT)
        time.sleep(1.5)
    output, _ = session.communicate(timeout=60)
    assert session.returncode == 2, output
    assert "to go on: pytest" in output
    assert "Traceback" not in output
    assert repository.measures("first")


@pytest.mark.slow
def test_a_worker_that_is_terminated_alone_is_replaced_and_nobody_is_suspected(repository: Repository) -> None:
    repository.items = 120
    session = repository.start("--model=slow:10", "--run=first", "-n2")
    await_calls(repository, 4, session)
    os.kill(repository.calls[-1][0], signal.SIGTERM)
    output, _ = session.communicate(timeout=200)
    assert session.returncode == 0, output
    assert output.count("replacing crashed worker") == 1
    assert set(repository.asked.values()) == {1}, "what was in flight had a moment to finish"
    alone = sum(len(items) == 1 for _, items in repository.calls)
    assert alone < 8, "a suspected batch has eight questions; a worker that starts or ends may ask one alone"


SLOW_REPORT = """

from medvqa import report

whole = report.write

def write(*arguments):
    pathlib.Path("writing").touch()
    time.sleep(2)
    return whole(*arguments)

report.write = write
"""


@pytest.mark.slow
def test_signals_do_not_stop_the_reports(repository: Repository) -> None:
    with (repository.path / "conftest.py").open("a") as conftest:
        conftest.write(SLOW_REPORT)
    session = repository.start("--model=slow:0", "--run=first")
    while not (repository.path / "writing").exists() and session.poll() is None:
        time.sleep(0.02)
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
        os.killpg(session.pid, number)
        time.sleep(0.2)
    output, _ = session.communicate(timeout=60)
    assert session.returncode == 0, output
    assert repository.measures("first")


@pytest.mark.slow
def test_a_terminal_that_is_closed_leaves_the_reports(repository: Repository) -> None:
    """pytest leads the terminal's session, so that the kernel sends it SIGHUP, and its output goes nowhere."""
    lead = "import os, sys; os.login_tty(0); os.execv(sys.executable, sys.argv[1:])"
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--model=slow:30", "--run=first"]
    master, terminal = os.openpty()
    session = subprocess.Popen(
        [sys.executable, "-c", lead, *command],
        cwd=repository.path,
        env=os.environ | {"ITEMS": "40"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        text=True,
    )
    os.close(terminal)
    await_results(repository, "first", 8, session)
    os.close(master)
    assert session.wait(timeout=60) == 2
    assert 8 <= len(repository.results("first")) < 40
    assert repository.measures("first")


@pytest.mark.slow
def test_a_run_that_ignores_sighup_goes_on(repository: Repository) -> None:
    """nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        session = repository.start("--model=slow:10", "--run=first", "-n2")
    finally:
        signal.signal(signal.SIGHUP, before)
    await_results(repository, "first", 8, session)
    os.killpg(session.pid, signal.SIGHUP)
    output, _ = session.communicate(timeout=60)
    assert session.returncode == 0, output


@pytest.mark.slow
def test_all_workers_may_die_at_once(repository: Repository) -> None:
    gate = repository.path / "closed"
    gate.touch()
    repository.environment = {"GATE": str(gate)}
    session = repository.start("--model=slow:0", "--run=first", "-n2")
    while len({pid for pid, _ in repository.calls}) < 2 and session.poll() is None:
        time.sleep(0.02)
    for pid in {pid for pid, _ in repository.calls}:
        os.kill(pid, signal.SIGKILL)
    gate.unlink()
    output, _ = session.communicate(timeout=200)
    assert session.returncode == 0, output
    assert output.count("replacing crashed worker") == 2
    assert len(repository.results("first")) == 40
    check_asks(repository)


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["pytest_collection_modifyitems", "pytest_collection_finish"])
def test_workers_may_die_while_they_collect(repository: Repository, hook: str) -> None:
    with (repository.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\n\nimport pytest\n\n@pytest.hookimpl(trylast=True)\n"
            f"def {hook}(config=None, session=None):\n"
            "    told = getattr(config or session.config, 'workerinput', {})\n"
            "    if told.get('workerid') in ('gw0', 'gw1'):\n"
            "        os._exit(1)\n"
        )
    code, output = repository.run("--model=slow:0", "--run=first", "-n2")
    assert code == 0, output
    assert output.count("replacing crashed worker") == 2
    assert len(repository.results("first")) == 40
    assert set(repository.asked.values()) == {1}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The measures of as many items."""
    repository = Repository(tmp_path_factory.mktemp("undisturbed"), items=ITEMS)
    assert repository.run("--model=slow:0", "--run=run")[0] == 0
    return repository.measures("run")


ITEMS = 480
WORKER, CONTROLLER, GROUP = "worker", "controller", "group"
SPREADS: dict[str, list[str]] = {
    "serial": [],
    **{dist: ["-n2", f"--dist={dist}"] for dist in ("load", "loadscope", "loadgroup")},
}
"""Without loadfile, which is loadscope where, as here, all tests are functions of one file."""
ENDS = [
    (CONTROLLER, signal.SIGKILL),
    (GROUP, signal.SIGTERM),
    (CONTROLLER, signal.SIGTERM),
    (GROUP, signal.SIGKILL),
]
"""What ends a session."""


def kill(repository: Repository, session: subprocess.Popen[str], whom: str, number: int, chance: random.Random) -> bool:
    """Wait for some calls, and for some milliseconds; whether there was somebody left to kill."""
    await_calls(repository, len(repository.calls) + chance.randint(1, 5), session)
    time.sleep(chance.uniform(0, 0.03))
    if session.poll() is not None:
        return False
    if whom == WORKER:
        with_life = [pid for pid, _ in reversed(repository.calls) if alive(pid)]
        try:
            os.kill(with_life[0], number)
        except (IndexError, ProcessLookupError):
            return False
    else:
        (os.killpg if whom == GROUP else os.kill)(session.pid, number)
    return True


def check_ended(repository: Repository, session: subprocess.Popen[str], number: int, before: int) -> None:
    """Whatever ended a session, all of its processes end; SIGTERM leaves reports and says how to go on."""
    output, _ = session.communicate(timeout=60)
    end = time.monotonic() + 60
    while any(alive(pid) for pid, _ in repository.calls):
        assert time.monotonic() < end, "workers outlive their controller"
        time.sleep(0.05)
    if number == signal.SIGTERM:
        assert session.returncode == 2, output
        assert "to go on: pytest" in output
        assert "Traceback" not in output
        assert not (repository.folder("run") / ".lock").exists()
        if repository.lines("run") > before:
            assert (repository.folder("run") / "summary.md").exists()


def check_report(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    """A report that is drawn of an unfinished run says how much of it is there."""
    folder = repository.folder("run")
    if not (folder / "run.json").exists():
        return
    capsys.readouterr()
    code = main(["report", f"--plugin={repository.path / 'conftest.py'}", str(folder)])
    there = len(repository.results("run"))
    if there < ITEMS:
        assert code == 1
        wanted = re.compile(
            f"unfinished: ({there} of {ITEMS} |the run did not end, and its missing results are not known)"
        )
        status = pages.Page((folder / "index.html").read_text()).block("head")["sections"][0]["blocks"][0]
        state, _, _ = status["title"].partition(":")
        page = "\n".join(f"{state.lower()}: {line}" for line in status["lines"])
        for text in (capsys.readouterr().out, (folder / "summary.md").read_text(), page):
            assert wanted.search(text)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("spread", SPREADS)
def test_whatever_is_killed_a_run_goes_on_to_the_same_measures(
    tmp_path_factory: pytest.TempPathFactory,
    undisturbed: list[dict[str, Any]],
    spread: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In each run three workers are killed and four sessions, or seven serial ones.

    Two runs are enough, unless a slow machine lets many of their workers end before they are killed.
    """
    monkeypatch.setenv("ITEMS", str(ITEMS))
    kills: list[bool] = []
    command = ["--model=slow:15", "--run=run", *SPREADS[spread]]
    ends = ENDS if SPREADS[spread] else [*ENDS, *ENDS[:3]]
    signals = [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL] if SPREADS[spread] else []
    workers = [(WORKER, worker_signal) for worker_signal in signals]

    for number in range(5):
        if sum(kills) >= 12:
            break
        chance = random.Random(f"{spread} {number}")
        repository = Repository(tmp_path_factory.mktemp("killed"), items=ITEMS)
        for session_number, (whom, signal_number) in enumerate(chance.sample(ends, len(ends))):
            before = repository.lines("run")
            session = repository.start(*command)
            targets = [*(workers if session_number == 0 else []), (whom, signal_number)]
            kills.extend(kill(repository, session, *target, chance) for target in targets)
            check_ended(repository, session, signal_number, before)
            check_report(repository, capsys)
        code, output = repository.run(*command)
        # A question that was asked alone at the third death is taken for one that kills, until the run goes on; and
        # loadscope and its kin cannot take the test of a dead worker back.
        for _ in range(2):
            if code:
                assert code == 1, output
                check_report(repository, capsys)
                code, output = repository.run(*command)
        assert code == 0, output
        check_asks(repository)
        assert len(repository.results("run")) == ITEMS
        assert repository.measures("run") == undisturbed
    asked = repository.asked.total()
    _, output = repository.run("--model=slow:15", "--run=again", "--answers=run")
    assert f"Answers: {ITEMS} stored ones reused, 0 asked for." in output
    assert repository.asked.total() == asked
    assert sum(kills) >= 12


DURABILITY = Path(__file__).parents[2] / "bench" / "durability.py"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_whose_group_is_killed_twice_goes_on_with_other_workers_and_loses_nothing() -> None:
    """The script's full size is 26,000 questions; at any size it fails when more than was in flight is asked twice."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
    done = subprocess.run(
        [sys.executable, DURABILITY, "--items=2000", "--milliseconds=3", "--seed=4"],
        env=environment | {"PYTEST_ADDOPTS": "-p no:randomly -p no:html -p no:benchmark"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("killed after ") == 2
    assert "measures equal those of an undisturbed run: True" in done.stdout
