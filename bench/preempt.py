"""How long a run takes to end after SIGTERM, whatever it does: `python bench/preempt.py [--only=WORD OF A NAME]`.

Each session is started as users start it, and gets SIGTERM in one state: the seconds until all of its processes ended,
the exit code, the number of results on disk, and what the session did with its reports. What hangs never returns.
Fails if a session takes more than ten seconds, or leaves a process; native code that holds Python's lock in the only
process is the known exception.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import harness

from support.repositories import Repository
from support.servers import Reply, Server

LIMIT = 10.0
"""Seconds between SIGTERM and SIGKILL that schedulers grant at least."""
PATIENCE = 30
"""Seconds until a session is killed."""
HANG = 'pathlib.Path("hangs").touch(); time.sleep(3600)'
HOLD = 'pathlib.Path("hangs").touch(); import ctypes; ctypes.PyDLL(None).sleep(3600)'
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
LOADS = f"""
def load(self):
    {HANG}
Slow.load = load
"""
READS = f"""
before = items
def items(data):
    {HANG}
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
    """A state to be measured. SIGTERM goes to the started process, or to its whole group if the name says so.

    `adds`: the end of conftest.py. `until`: "hangs" once the code touched that file, or a number of results.
    """

    name: str
    adds: str = ""
    until: str | int = "hangs"
    items: int = 4000
    model: str = "slow:20"
    excepted: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The command, which the name begins with."""
        command = self.name.split("`")[1]
        return (*RUN, *SLOW) if command == "medvqa run" else (*harness.PYTEST, *command.split()[1:])


RUN, SLOW = ("medvqa.cli", "run"), ("--plugin=conftest.py", "--benchmark=slow")
MIDDLE, LARGE = AT.format(hang=HANG), {"items": 26_000, "model": "slow"}
HOLDS = AT.format(hang=HOLD)
GROUP = ", SIGTERM to the group"
STATES = (
    *(State(f"`{command}`, answering", until=64) for command in ("medvqa run", "pytest", "pytest -n 2")),
    State(f"`pytest -n 2`, answering{GROUP}", until=64),
    *(State(f"`{command}`, the model hangs", MIDDLE) for command in ("medvqa run", "pytest", "pytest -n 2")),
    State(f"`pytest -n 2`, the model hangs{GROUP}", MIDDLE),
    State("`medvqa run`, native code holds Python's lock", HOLDS, excepted=True),
    State("`pytest -n 2`, native code holds Python's lock", HOLDS),
    State("`medvqa run`, the model loads", LOADS),
    State("`pytest -n 2`, the models load", LOADS),
    *(State(f"`{command}`, data are read", READS) for command in ("medvqa run", "pytest", "pytest -n 2")),
    State("`medvqa run`, a server hangs (`openai`)", model="server"),
    State("`medvqa run`, 26,000 results, answering", FAST, until=26_000, items=27_000, model="slow"),
    State("`medvqa run`, 26,000 results, reports are drawn", FAST + DRAWS, **LARGE),
    State("`pytest -n 2`, 26,000 results, reports are drawn", FAST + DRAWS, **LARGE),
)


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

    def hang(number: int, request: object) -> Reply:
        (folder / "hangs").touch()
        time.sleep(3600)
        raise TimeoutError

    with Server(hang) as server:
        (folder / "models").mkdir()
        config = f'backend = "openai"\nargument = "none"\n[options]\nbase_url = "{server.url}"\n'
        (folder / "models" / "server.toml").write_text(config)
        words = (*state.words, f"--model={state.model}", "--run=first")
        session = harness.start(folder, *words, ITEMS=state.items, OPENAI_API_KEY="none")
        while not reached(repository, state) and session.poll() is None:
            time.sleep(0.02)
        time.sleep(0.2)
        if session.poll() is not None:
            raise SystemExit(f"{state.name}: the session ended by itself:\n{(folder / 'output').read_text()}")
        begun = time.monotonic()
        (os.killpg if state.name.endswith(GROUP) else os.kill)(session.pid, signal.SIGTERM)
        while time.monotonic() < begun + PATIENCE and (session.poll() is None or processes_of(session.pid)):
            time.sleep(0.05)
        took, left = time.monotonic() - begun, processes_of(session.pid)
        if left:
            os.killpg(session.pid, signal.SIGKILL)
            session.wait()
    output = (folder / "output").read_text()
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
