"""The stream in real sessions: what is asked ahead of the tests, and what is not."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from medvqa.plugin.batch_scheduling import BatchScheduling
from medvqa.records import run_record
from support import processes
from support.sessions import SPREAD, folder, outcomes, run, text, written
from support.strangers import CONFTEST, TEST

pytestmark = pytest.mark.usefixtures("outside")

BACKENDS = '''
import json, os, pathlib, time

CALLS = pathlib.Path("calls")


class Logged(Majority):
    """Says A, and notes what it was asked: a line for each call."""

    name = title = "logged"

    def generate(self, prompts):
        with CALLS.open("a") as file:
            file.write(json.dumps([prompt.item for prompt in prompts]) + "\\n")
        return self._say(prompts)

    def _say(self, prompts):
        return [Answer("A") for _ in prompts]


class Poison(Logged):
    """Breaks at the items that are named."""

    def _say(self, prompts):
        if {prompt.item for prompt in prompts} & set(self.argument.split(",")):
            raise ValueError("poison")
        return super()._say(prompts)


class Hanging(Logged):
    """Never comes back from the items that are named."""

    def _say(self, prompts):
        if {prompt.item for prompt in prompts} & set(self.argument.split(",")):
            time.sleep(3600)
        return super()._say(prompts)


class Pool(Logged):
    concurrency = 3


class Moods(Moody):
    """Moody, as far as its answers go; some batches raise."""

    def generate(self, prompts):
        if len(prompts) > 1 and any(prompt.item.endswith("7") for prompt in prompts):
            raise MemoryError
        return super().generate(prompts)


def pytest_medvqa_backends():
    return [Logged, Poison, Hanging, Pool, Moods]
'''


@pytest.fixture
def slake(pytester: pytest.Pytester) -> pytest.Pytester:
    ours = CONFTEST.replace("def pytest_medvqa_backends", "def _none")
    pytester.makeconftest(ours + BACKENDS)
    pytester.makepyfile(test_slake=TEST)
    return pytester


def calls(pytester: pytest.Pytester) -> list[list[str]]:
    return [json.loads(line) for line in (pytester.path / "calls").read_text().splitlines()]


def asked(pytester: pytest.Pytester) -> Counter[str]:
    return Counter(item for call in calls(pytester) for item in call)


EVERY = Counter(f"q{n:02}" for n in range(24))


def test_the_questions_of_a_session_are_asked_in_full_batches(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=logged:x", "--batch-size=8").ret == 0
    assert [len(call) for call in calls(slake)] == [8, 8, 8]
    assert asked(slake) == EVERY
    about = json.loads((folder(slake) / "run.json").read_text())
    assert about["engine"] == {"batch_size": 8, "concurrency": 1}
    assert about["options"]["batch_size"] == 8


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("size", [1, 5, 32])
def test_every_question_is_asked_once(slake: pytest.Pytester, spread: tuple[str, ...], size: int) -> None:
    assert run(slake, "--model=logged:x", f"--batch-size={size}", *spread).ret == 0
    assert asked(slake) == EVERY
    assert max(map(len, calls(slake))) <= size
    assert size == 1 or max(map(len, calls(slake))) > 1


def test_measures_are_the_same_with_any_batches(slake: pytest.Pytester) -> None:
    found = set()
    for number, arguments in enumerate((["--batch-size=1"], ["--batch-size=7"], [], ["--batch-size=3", "-n2"])):
        run(slake, "--model=moods:x", f"--run=run{number}", *arguments)
        found.add(json.dumps(written(slake.path / "reports" / f"run{number}")["measures"]))
    assert len(found) == 1


def test_a_pool_is_asked_one_by_one(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=pool:x", "--concurrency=2").ret == 0
    assert asked(slake) == EVERY
    assert all(len(call) == 1 for call in calls(slake))
    assert json.loads((folder(slake) / "run.json").read_text())["engine"] == {"batch_size": 1, "concurrency": 2}


@pytest.mark.parametrize("spread", SPREAD)
def test_a_concurrency_that_the_model_has_not_is_refused(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=logged:x", "--concurrency=2", *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--concurrency=2: model 'logged' takes one batch at a time; try --batch-size" in text(result)
    assert not (slake.path / "calls").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batch-size=0",), "--batch-size=0: a whole number from 1 on is expected"),
        (("--concurrency=0",), "--concurrency=0: a whole number from 1 on is expected"),
        (("--deadline=0",), "--deadline=0: a number above 0 is expected"),
        (("--deadline=nan",), "--deadline=nan: a number above 0 is expected"),
        (("--deadline=inf",), "--deadline=inf: a number of at most 1,000,000,000 is expected"),
        (("--deadline=1e10",), "--deadline=10000000000: a number of at most 1,000,000,000 is expected"),
        (("--max-errors=-1",), "--max-errors=-1: a whole number from 0 on is expected; 0: never stop"),
    ],
)
def test_misuse_is_one_clear_line(slake: pytest.Pytester, arguments: tuple[str, ...], message: str) -> None:
    result = run(slake, "--model=logged:x", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in text(result)


# --- only what is selected ----------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("arguments", [("-k", "fundus_photography"), ("-m", "lexicon(modality='ct')"), ("--limit=6",)])
def test_what_is_deselected_is_not_asked(
    slake: pytest.Pytester, arguments: tuple[str, ...], spread: tuple[str, ...]
) -> None:
    assert run(slake, "--model=logged:x", *arguments, *spread).ret == 0
    assert asked(slake).total() == outcomes(folder(slake)).total() == 6


def test_lf_asks_what_failed(slake: pytest.Pytester) -> None:
    run(slake, "--model=logged:x", "--run=first")
    (slake.path / "calls").unlink()
    run(slake, "--model=logged:x", "--run=second", "--lf")
    assert asked(slake) == Counter(f"q{n:02}" for n in range(24) if n % 3)


def test_after_x_nothing_more_is_started(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=logged:x", "-x", "--batch-size=2")
    assert result.ret in (1, 2)
    assert outcomes(folder(slake)) == {"correct": 1, "wrong": 1}
    assert asked(slake).total() <= 8, "no more than three batches ahead"


def test_tests_that_do_not_run_are_not_asked_about(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import pytest

        @pytest.mark.vqa("slake")
        @pytest.mark.skipif("item.id" != "", reason="not today")
        def test_skipped(item, evaluate):
            evaluate(item)

        @pytest.mark.vqa("slake")
        def test_other(item):
            pass
        """
    )
    run(slake, "--model=logged:x")
    assert not (slake.path / "calls").exists()


def test_a_test_that_skips_itself_leaves_the_others_their_answers(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import pytest

        @pytest.mark.vqa("slake")
        def test_slake(item, evaluate):
            if int(item.id[1:]) % 4:
                pytest.skip("one in four is enough")
            evaluate(item)
        """
    )
    assert run(slake, "--model=logged:x", "--batch-size=2").ret == 1, "questions without a result"
    assert outcomes(folder(slake)).total() == 6


def test_a_model_of_the_suites_own_is_asked_by_its_tests(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import threading
        import pytest
        from medvqa.items import Answer

        class Mine:
            name, capabilities = "mine", frozenset({"generate"})

            def generate(self, prompts):
                assert threading.current_thread() is threading.main_thread()
                return [Answer("B") for _ in prompts]

        @pytest.fixture(scope="session")
        def medvqa_model():
            return Mine()

        @pytest.mark.vqa("slake")
        def test_slake(item, evaluate):
            assert evaluate(item).answer.text == "B"
        """
    )
    assert run(slake, "--model=logged:x").ret == 0
    assert not (slake.path / "calls").exists()
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}


# --- when things go wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
def test_exactly_the_poison_items_end_in_error(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=poison:q05,q17", *spread)
    assert result.ret == 1
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 14, "error": 2}
    result.stdout.fnmatch_lines(["*2 items ended in error*q05: *conftest.py:*: ValueError: poison*"])


@pytest.mark.parametrize("spread", SPREAD)
def test_errors_in_a_row_stop_the_run(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    every = ",".join(EVERY)
    result = run(slake, f"--model=poison:{every}", "--max-errors=3", "--batch-size=1", *spread)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    line = r"3 errors in a row, the last: model '\w+': conftest.py:\d+: ValueError: poison \(--max-errors=3\)"
    assert re.search(line, text(result))
    assert re.fullmatch(line, run_record.read_run(folder(slake)).last_session.stopped)
    assert 3 <= outcomes(folder(slake))["error"] < 12
    assert len(written(folder(slake))["missing"]) == 24 - outcomes(folder(slake)).total()


def test_errors_that_are_not_in_a_row_do_not(slake: pytest.Pytester) -> None:
    odd = ",".join(name for name in EVERY if int(name[1:]) % 3)
    assert run(slake, f"--model=poison:{odd}", "--max-errors=3").ret == 1
    assert outcomes(folder(slake)) == {"correct": 8, "error": 16}


def test_no_number_of_errors_stops_a_run_that_may_have_all(slake: pytest.Pytester) -> None:
    assert run(slake, f"--model=poison:{','.join(EVERY)}", "--max-errors=0").ret == 1
    assert outcomes(folder(slake)) == {"error": 24}


# One worker: with two, the other one may take all tests that would follow the error.
@pytest.mark.slow
@pytest.mark.parametrize("spread", [(), ("-n1",)])
def test_a_model_that_hangs_holds_up_neither_tests_nor_the_end(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    arguments = ["--model=hanging:q12", "--deadline=0.5", "--batch-size=2", "--max-errors=4"]
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:benchmark", *arguments, *spread]
    done = processes.run(command, cwd=slake.path, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "errors in a row, the last: model 'logged' hangs: a call never came back (--max-errors=4)" in done.stdout
    lines = [json.loads(line) for line in (folder(slake) / "results.jsonl").read_text().splitlines()]
    whys = {line["item"]["id"]: line["score"]["why"] for line in lines if line["score"]["outcome"] == "error"}
    assert whys["q12"] == "no answer within 0.5 s"


@pytest.mark.slow
def test_ctrl_c_ends_a_run_that_waits_for_an_answer(slake: pytest.Pytester) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--model=hanging:q02", "--batch-size=2"]
    session = processes.Popen(command, cwd=slake.path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while session.poll() is None and not ((slake.path / "calls").exists() and "q02" in asked(slake)):
        time.sleep(0.1)
    time.sleep(0.5)
    os.kill(session.pid, signal.SIGINT)
    output, _ = session.communicate(timeout=250)
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert outcomes(folder(slake)).total() == 2, "what was answered before is kept"


@pytest.mark.parametrize("dist", ["load", "loadfile", "loadscope", "loadgroup"])
def test_every_way_of_spreading_works(slake: pytest.Pytester, dist: str) -> None:
    slake.runpytest_subprocess("-p", "no:randomly", "--model=logged:x", "-n2", f"--dist={dist}", "--batch-size=4")
    assert set(asked(slake)) == set(EVERY)
    assert max(asked(slake).values()) == 1
    assert outcomes(folder(slake)).total() == 24
    assert Path(slake.path / "calls").exists()


# --- how tests reach workers --------------------------------------------------------------------------------


class Worker:
    """A worker as the scheduler sees it."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self) -> None:
        self.handed: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.handed += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize("batch", [8, 32])
def test_workers_have_full_batches_ahead_until_the_tests_run_out(pytester: pytest.Pytester, batch: int) -> None:
    config = pytester.parseconfig("-n2")
    config.option.tx = ["2*popen"]
    config.option.maxschedchunk = None
    scheduler, workers, total = BatchScheduling(config), [Worker(), Worker()], 1000
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, [f"test[{n}]" for n in range(total)])
    scheduler.batch = batch
    scheduler.schedule()
    done: list[int] = []
    while not scheduler.tests_finished:
        for worker in workers:
            pending = scheduler.node2pending[worker]
            if len(pending) > 1:  # xdist's workers hold back their last test
                done.append(pending[0])
                scheduler.mark_test_complete(worker, pending[0])
                assert len(pending) >= batch or not scheduler.pending
    assert sorted(done + [n for worker in workers for n in scheduler.node2pending[worker]]) == list(range(total))
    assert abs(len(workers[0].handed) - len(workers[1].handed)) <= batch
    assert all(worker.shutting_down for worker in workers)


def test_what_cannot_be_sent_to_a_dead_worker_comes_back_with_its_death(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("-n2")
    config.option.tx = ["2*popen"]
    config.option.maxschedchunk = None

    class Dead(Worker):
        def send_runtest_some(self, indices: list[int]) -> None:
            raise OSError("cannot send (already closed?)")

    scheduler, dead, alive = BatchScheduling(config), Dead(), Worker()
    for worker in (dead, alive):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, [f"test[{n}]" for n in range(40)])
    scheduler.schedule()
    assert scheduler.remove_node(dead) == "test[0]"
    scheduler.mark_test_pending("test[0]")
    while scheduler.pending:
        scheduler.mark_test_complete(alive, scheduler.node2pending[alive][0])
    assert sorted(alive.handed) == list(range(40))
