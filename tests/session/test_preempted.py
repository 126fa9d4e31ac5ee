"""SIGTERM ends a run in time whatever its process does, and the run goes on where it stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.repositories import Repository, await_calls, await_results, kill_group

# Native code that holds the main thread: Python's own handlers of signals do not run before it returns.
HANGS = {
    "load": """
import hashlib

def load(self):
    pathlib.Path("hangs").touch()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

Slow.load = load
""",
    "close": """
Slow.close = lambda self: time.sleep(300)
""",
    "exit": """
import concurrent.futures

POOL = concurrent.futures.ThreadPoolExecutor()
Slow.load = lambda self: POOL.submit(time.sleep, 300)
""",
    "reports": """
import medvqa.report
medvqa.report.write = lambda *arguments: time.sleep(300)
""",
    "model": "",
}
"""What hangs for minutes -> the end of conftest.py."""


def start(repository: Repository, hangs: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a session, and return once questions were answered, or once the model hangs while it is loaded."""
    with (repository.path / "conftest.py").open("a") as conftest:
        conftest.write(HANGS[hangs])
    if hangs == "model":
        repository.environment = {"HOLDS": "q00024"}
    session = repository.start("--model=slow:5", "--run=first", *arguments)
    if hangs == "load":
        while not (repository.path / "hangs").exists() and session.poll() is None:
            time.sleep(0.02)
    else:
        await_results(repository, "first", 8, session)
    return session


def ended(session: subprocess.Popen[str]) -> str:
    """What a session printed until its end; its workers have its output, so they have ended too."""
    try:
        return session.communicate(timeout=60)[0]
    finally:
        if session.poll() is None:
            kill_group(session)


@pytest.mark.slow
def test_sigterm_ends_a_run_in_time_whatever_hangs(tmp_path: Path) -> None:
    """All at once: each takes nine seconds, and no processor."""
    runs: dict[tuple[str, tuple[str, ...]], tuple[Repository, subprocess.Popen[str]]] = {}
    ways: list[tuple[str, Sequence[str]]] = [*((hangs, ()) for hangs in HANGS), ("model", ("-n2",)), ("load", ("-n2",))]
    for hangs, arguments in ways:
        repository = Repository(tmp_path / "-".join([hangs, *arguments]), items=4000)
        runs[hangs, tuple(arguments)] = repository, start(repository, hangs, *arguments)
    for _, session in runs.values():
        os.kill(session.pid, signal.SIGTERM)
    outputs = {way: ended(session) for way, (_, session) in runs.items()}
    assert {way: session.returncode for way, (_, session) in runs.items()} == dict.fromkeys(runs, 2), outputs
    for (hangs, arguments), output in outputs.items():
        assert "Traceback" not in output
        cut = "ended by a signal before the reports were drawn" in output and "medvqa report " in output
        assert "to go on: pytest" in output
        if not (arguments or hangs == "model"):
            assert cut, "what hangs for minutes was not waited for"


@pytest.mark.slow
def test_a_run_in_two_halves_has_the_measures_of_a_whole_one(tmp_path: Path) -> None:
    """The second half is asked in another folder, by another number of workers, with the first half's answers."""
    answers = f"--answers={tmp_path / 'shared'}"
    whole, first, second = (Repository(tmp_path / name, items=120) for name in ("whole", "first", "second"))
    assert whole.run("--model=slow:0", "--run=one")[0] == 0
    session = first.start("--model=slow:10", "--run=one", "-n2", answers)
    await_calls(first, 6, session)
    os.killpg(session.pid, signal.SIGTERM)
    output = ended(session)
    assert session.returncode == 2, output
    assert 0 < len(first.results("one")) < 120
    code, output = second.run("--model=slow:10", "--run=one", answers)
    assert code == 0, output
    assert not first.asked.keys() & second.asked.keys() - set(first.calls[-1][1] + first.calls[-2][1])
    assert second.measures("one") == whole.measures("one")
