"""SIGTERM ends a run in time whatever its process does, and the run goes on where it stopped."""

import os
import shlex
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import processes
from support.repositories import Repository, alive, await_calls, kill_group

HANGS = """

import concurrent.futures, ctypes, hashlib
import medvqa.report

STATE = os.environ.get("STATE")
write, answer = medvqa.report.write, Slow.generate


def hang(*arguments):
    pathlib.Path("hangs").touch()
    time.sleep(300)


def load(self):
    pathlib.Path("hangs").touch()
    # Native code in the main thread: Python's own handlers of signals do not run before it returns.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


def generate(self, prompts):
    answers = answer(self, prompts)
    if any(prompt.item == "q00024" for prompt in prompts):
        if STATE == "lock":
            pathlib.Path("hangs").touch()
            ctypes.PyDLL(None).sleep(300)
        hang()
    return answers


if STATE == "load":
    Slow.load = load
if STATE == "close":
    Slow.close = hang
if STATE == "reports":
    medvqa.report.write = hang
if STATE in ("model", "lock"):
    Slow.generate = generate
if STATE == "exit":
    POOL = concurrent.futures.ThreadPoolExecutor()
    Slow.load = lambda self: POOL.submit(time.sleep, 300)
if STATE == "data":
    items = hang
"""
"""The end of conftest.py: what hangs for minutes."""
ITEMS = 160


@dataclass(frozen=True)
class Way:
    """A session, and its state when SIGTERM comes to its first process or to its whole group.

    `cut`: the session is cut off after nine seconds, and its reports are left to `medvqa report`.
    """

    state: str
    words: tuple[str, ...]
    group: bool = False
    cut: bool = False
    model: str = "slow:20"


PYTEST = ("pytest", "-p", "no:randomly", "-p", "no:html", "-p", "no:benchmark")
RUN = ("medvqa.cli", "run", "--plugin=conftest.py", "--benchmark=slow")
WAYS = {
    "pytest, model": Way("model", PYTEST),
    "pytest, load": Way("load", PYTEST, cut=True),
    "pytest, close": Way("close", PYTEST, cut=True),
    "pytest, reports": Way("reports", PYTEST, cut=True),
    "pytest, exit": Way("exit", PYTEST),
    "pytest, data": Way("data", PYTEST),
    "run, model": Way("model", RUN),
    "run, load": Way("load", RUN, cut=True),
    "run, data": Way("data", RUN),
    "run, server": Way("server", RUN, model="server"),
    "n2, model": Way("model", (*PYTEST, "-n2")),
    "n2, model, group": Way("model", (*PYTEST, "-n2"), group=True),
    "n2, lock": Way("lock", (*PYTEST, "-n2")),
    "n2, load": Way("load", (*PYTEST, "-n2")),
}


class Silent(socketserver.StreamRequestHandler):
    """Takes requests, and never answers a question."""

    def handle(self) -> None:
        if b"POST" in self.rfile.readline():
            self.server.asked.touch()  # type: ignore[attr-defined]
            time.sleep(300)
        self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.fixture
def silent() -> Iterator[socketserver.ThreadingTCPServer]:
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Silent) as server:
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def begin(repository: Repository, words: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start `python -m WORDS` in a session of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "MEDVQA_"))}
    return processes.Popen(
        [sys.executable, "-m", *words],
        cwd=repository.path,
        env=environment | {"ITEMS": str(repository.items)} | repository.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def preempt(repository: Repository, way: Way, server: socketserver.ThreadingTCPServer) -> subprocess.Popen[str]:
    """Start a session, and send it SIGTERM once it hangs, or once questions were answered."""
    with (repository.path / "conftest.py").open("a") as conftest:
        conftest.write(HANGS)
    hangs = repository.path / "hangs"
    if way.model == "server":
        (repository.path / "models").mkdir()
        (repository.path / "models" / "server.toml").write_text(
            f'backend = "openai"\nargument = "none"\n[options]\nbase_url = "http://127.0.0.1:{server.server_address[1]}/v1"\n'
        )
        server.asked = hangs  # type: ignore[attr-defined]
    repository.environment = {"STATE": way.state}
    session = begin(repository, (*way.words, f"--model={way.model}", "--run=first"))
    mid_run = way.state in ("close", "exit")
    while session.poll() is None and not (repository.lines("first") >= 8 if mid_run else hangs.exists()):
        time.sleep(0.02)
    assert session.poll() is None, session.communicate()[0]
    (os.killpg if way.group else os.kill)(session.pid, signal.SIGTERM)
    return session


def ended(session: subprocess.Popen[str]) -> str:
    """What a session printed until its end; its workers have its output, so they have ended too."""
    try:
        return session.communicate(timeout=60)[0]
    finally:
        if session.poll() is None:
            kill_group(session)


def of_group(leader: int) -> list[int]:
    """The living processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == leader and alive(int(path.name)):
                found.append(int(path.name))
        except ProcessLookupError:
            continue
    return found


def check_rest(repository: Repository, output: str) -> None:
    """Type the line that says how to go on: only questions that were in flight are asked again."""
    last_calls = {pid: set(questions) for pid, questions in repository.calls}
    repository.environment = {}
    line = next(line for line in output.splitlines() if line.startswith("to go on: "))
    program, *words = shlex.split(line.removeprefix("to go on: "))
    session = begin(repository, ({"pytest": "pytest", "medvqa": "medvqa.cli"}[program], *words))
    more = ended(session)
    assert session.returncode == 0, more
    twice = {question for question, times in repository.asked.items() if times > 1}
    assert twice <= set().union(*last_calls.values())
    assert len(repository.results("first")) == ITEMS
    assert repository.asked.total() == ITEMS + len(twice)


@pytest.mark.slow
def test_sigterm_ends_a_run_in_time_whatever_hangs(tmp_path: Path, silent: socketserver.ThreadingTCPServer) -> None:
    """What hangs takes seconds and no processor, so the sessions overlap."""
    runs: dict[str, tuple[Repository, subprocess.Popen[str]]] = {}
    for name, way in WAYS.items():
        repository = Repository(tmp_path / name.replace(", ", "-"), items=ITEMS)
        runs[name] = repository, preempt(repository, way, silent)
    outputs = {name: ended(session) for name, (_, session) in runs.items()}
    assert {name: session.returncode for name, (_, session) in runs.items()} == dict.fromkeys(runs, 2), outputs
    for name, way in WAYS.items():
        repository, session = runs[name]
        output = outputs[name]
        end = time.monotonic() + 30
        while left := of_group(session.pid):
            assert time.monotonic() < end, f"{name}: {left} outlive their session"
            time.sleep(0.02)
        assert "Traceback" not in output
        cut = "ended by a signal before the reports were drawn" in output and "medvqa report " in output
        if way.cut:
            assert cut, "what hangs for minutes was not waited for"
        if way.state == "data":
            assert "interrupted before anything was asked" in output
            assert not repository.folder("first").exists()
        else:
            assert "to go on: " in output
        assert repository.asked.keys() >= (repository.results("first").keys() if repository.lines("first") else set())
    for name in ("pytest, model", "run, model", "n2, lock"):
        check_rest(runs[name][0], outputs[name])


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
