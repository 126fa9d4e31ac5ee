"""How long a run takes to end after SIGTERM, whatever it does: `python bench/preempt.py [--only=WORD OF A NAME]`.

Each session is started as users start it, and gets SIGTERM in one state: the seconds until all of its processes ended,
the exit code, the number of results on disk, and what the session did with its reports. What hangs never returns.
Fails if a session takes more than ten seconds, or leaves a process; native code that holds Python's lock in the only
process is the known exception.
"""

from __future__ import annotations

import os
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import harness

from support.repositories import Repository

LIMIT = 10.0
"""Seconds between SIGTERM and SIGKILL that schedulers grant at least."""
PATIENCE = 30
"""Seconds until a session is killed."""
HANG = 'pathlib.Path("hangs").touch(); time.sleep(3600)'
HOLD = 'pathlib.Path("hangs").touch(); import ctypes; ctypes.PyDLL(None).sleep({seconds})'
"""Native code that holds Python's lock."""
AT = """
before = Slow.generate
def generate(self, prompts):
    answers = before(self, prompts)
    if "q00064" in [prompt.item for prompt in prompts]:
        {hang}
    return answers
Slow.generate = generate
"""
"""Hangs at a question in the middle."""
LOADS = """
def load(self):
    {hang}
Slow.load = load
"""
READS = """
before = items
def items(data):
    {hang}
    return before(data)
"""
DRAWS = """
import medvqa.report
draw = medvqa.report.write
def write(*arguments):
    pathlib.Path("hangs").touch()
    return draw(*arguments)
medvqa.report.write = write
"""
FAST = """
def generate(self, prompts):
    return [Answer("ABC"[int(prompt.item[1:]) % 3]) for prompt in prompts]
Slow.generate = generate
"""


@dataclass(frozen=True)
class State:
    """A state to be measured. `whom`: SIGTERM goes to the started `process`, or to its whole `group`.

    `adds`: the end of conftest.py. `until`: "hangs" once the code touched that file, or a number of results.
    """

    name: str
    words: str
    adds: str = ""
    until: str | int = "hangs"
    whom: str = "process"
    items: int = 4000
    model: str = "slow:20"
    excepted: bool = False


PYTEST = "-m pytest -p no:randomly -p no:html -p no:hypothesispytest"
RUN = "-m medvqa.cli run --plugin=conftest.py --benchmark=slow"
HOLDS = HOLD.format(seconds=3600)
STATES = (
    State("`medvqa run`, answering", RUN, until=64),
    State("`pytest`, answering", PYTEST, until=64),
    State("`pytest -n 2`, answering", f"{PYTEST} -n2", until=64),
    State("`pytest -n 2`, answering, SIGTERM to the group", f"{PYTEST} -n2", until=64, whom="group"),
    State("`medvqa run`, the model hangs", RUN, AT.format(hang=HANG)),
    State("`pytest`, the model hangs", PYTEST, AT.format(hang=HANG)),
    State("`pytest -n 2`, the model hangs", f"{PYTEST} -n2", AT.format(hang=HANG)),
    State("`pytest -n 2`, the model hangs, SIGTERM to the group", f"{PYTEST} -n2", AT.format(hang=HANG), whom="group"),
    State("`medvqa run`, native code holds Python's lock", RUN, AT.format(hang=HOLDS), excepted=True),
    State("`pytest -n 2`, native code holds Python's lock", f"{PYTEST} -n2", AT.format(hang=HOLDS)),
    State("`medvqa run`, the model loads", RUN, LOADS.format(hang=HANG)),
    State("`pytest -n 2`, the models load", f"{PYTEST} -n2", LOADS.format(hang=HANG)),
    State("`medvqa run`, data are read", RUN, READS.format(hang=HANG)),
    State("`pytest`, data are read", PYTEST, READS.format(hang=HANG)),
    State("`pytest -n 2`, data are read", f"{PYTEST} -n2", READS.format(hang=HANG)),
    State("`medvqa run`, a server hangs (`openai`)", RUN, model="openai"),
    State("`medvqa run`, 26,000 results, answering", RUN, FAST, until=26_000, items=27_000, model="slow"),
    State("`medvqa run`, 26,000 results, reports are drawn", RUN, FAST + DRAWS, items=26_000, model="slow"),
    State(
        "`pytest -n 2`, 26,000 results, reports are drawn", f"{PYTEST} -n2", FAST + DRAWS, items=26_000, model="slow"
    ),
)


class Server(socketserver.ThreadingTCPServer):
    """Accepts requests, and never answers them."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, folder: Path) -> None:
        """`folder` gets the file `hangs` once a question has come."""
        asked = threading.Event()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = self.rfile.readline()
                if b"POST" in head:
                    (folder / "hangs").touch()
                    asked.wait(3600)
                else:
                    self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def processes_of(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def start(repository: Repository, words: str) -> subprocess.Popen[str]:
    """A session as a user starts it, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, *words.split()],
        cwd=repository.path,
        env=os.environ | {"ITEMS": str(repository.items), "OPENAI_API_KEY": "none"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def reached(repository: Repository, state: State) -> bool:
    """Whether the state is reached in which SIGTERM is to come."""
    if isinstance(state.until, int):
        return repository.lines("first") >= state.until
    return (repository.path / state.until).exists()


def measure(state: State, folder: Path) -> tuple[float, str, int]:
    """Seconds until the end, the rest of the row, and the number of processes left."""
    repository = Repository(folder, items=state.items)
    with (folder / "conftest.py").open("a") as conftest:
        conftest.write(state.adds)
    model = state.model
    if model == "openai":
        port = Server(folder).server_address[1]
        (folder / "models").mkdir()
        (folder / "models" / "server.toml").write_text(
            f'backend = "openai"\nargument = "none"\n[options]\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        )
        model = "server"
    session = start(repository, f"{state.words} --model={model} --run=first")
    while not reached(repository, state) and session.poll() is None:
        time.sleep(0.02)
    time.sleep(0.2)
    if session.poll() is not None:
        raise SystemExit(f"{state.name}: the session ended by itself:\n{session.communicate()[0]}")
    begun = time.monotonic()
    (os.killpg if state.whom == "group" else os.kill)(session.pid, signal.SIGTERM)
    output = ""
    try:
        output, _ = session.communicate(timeout=PATIENCE)
        while processes_of(session.pid) and time.monotonic() < begun + PATIENCE:
            time.sleep(0.05)
    except subprocess.TimeoutExpired:
        pass
    took, left = time.monotonic() - begun, processes_of(session.pid)
    if left:
        os.killpg(session.pid, signal.SIGKILL)
        output += session.communicate()[0] or ""
    if "Traceback" in output or os.environ.get("SHOW"):
        print(output)
    return took, f"{session.returncode} | {repository.lines('first'):,} | {reports(repository, output)}", len(left)


def reports(repository: Repository, output: str) -> str:
    """What a session did with its reports, from its last lines and its folder."""
    drawn = (repository.folder("first") / "index.html").exists()
    if "before the reports were drawn" in output:
        return "left to `medvqa report`"
    return "drawn" if drawn else "none: nothing was asked" if repository.lines("first") == 0 else "missing"


def main() -> int:
    """Print a table of all states."""
    typed = harness.options(__doc__, only="")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| state | seconds | exit code | results | reports |\n|---|---:|---:|---:|---|")
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for number, state in enumerate(STATES):
            if typed.only in state.name:
                took, row, left = measure(state, Path(folder) / str(number))
                if (took > LIMIT or left) and not state.excepted:
                    failed.append(state.name)
                print(f"| {state.name} | {took:.1f} | {row} |", flush=True)
    for name in failed:
        print(f"too late, or processes left: {name}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
