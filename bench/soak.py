"""Kill sessions, go on with their runs, and count answers that were lost or asked again.

    python bench/soak.py [--kills 200] [--kinds pytest xdist run judge sweep bucket] [--items 400] [--seed 1]

Sessions of each kind get SIGKILL or SIGTERM at a random moment, alone, with their whole group, or one of their workers,
and are continued until all questions have a result. After each kill, every question that was asked must have its answer
in a log, but for those of the calls in flight. At the end, no log has an answer twice: nothing that was acknowledged is
asked again. `bucket` (moto stands for S3, `tox run -e counterparts`) goes on in a new folder each time, as on another
machine: there, answers may be asked again that were not put yet. Ends with exit code 1 if anything was lost.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import harness

from support.buckets import Bucket, moto
from support.repositories import Repository, alive

SIZE, CONCURRENT = 8, 2
"""Questions of a call, and calls that one process has in flight at most."""
PATIENCE = 120
"""Seconds that a session may take to end, or to begin to ask."""
OPEN = """

class Grader(Slow):
    name = title = "grader"

    def generate(self, prompts):
        return [Answer("<result>1.0</result>") for answer in super().generate(prompts)]


def asked_openly(data):
    for n in range(int(os.environ["ITEMS"])):
        yield Item(f"q{n:05}", "slow", "short_answer", f"Question {n}?", {}, ("liver",))


def pytest_medvqa_backends():
    return [Slow, Grader]


def pytest_medvqa_benchmarks():
    return [Benchmark(name="slow", items=asked_openly, prompt=Template("slow/open", "{question}").prompt,
                      score=scoring.unscored, judged=("short_answer",), metrics=(metrics.mean_score,), public=True)]
"""
GRID = '[options]\nbenchmark = "slow"\n\n[grid]\nmodel = ["slow:{ms}", "slow:{ms}.5"]\n'
HASTE = """
from medvqa.records import exchange
exchange.Exchange.__init__.__kwdefaults__.update(first=0.3, every=0.5)
"""
KINDS = ("pytest", "xdist", "run", "judge", "sweep", "bucket")
_ANSWER = re.compile(rb"^[0-9a-f]{16} answer/([0-9a-f]{64}) .*\n", re.MULTILINE)


@dataclass
class Tally:
    """The sums of one kind. `gone`: questions whose calls were in flight; `unput`: answers in no bucket yet."""

    kills: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    stored: int = 0
    gone: int = 0
    unput: int = 0
    problems: list[str] = field(default_factory=list)


class Machine:
    """A repository in which one run is asked by sessions of one kind."""

    def __init__(self, folder: Path, kind: str, items: int, bucket: Bucket | None) -> None:
        folder.mkdir()
        self.kind = kind
        self.repository = Repository(folder, items, dict(bucket.environment) if bucket is not None else {})
        added = OPEN if kind == "judge" else HASTE if kind == "bucket" else ""
        with (folder / "conftest.py").open("a") as file:
            file.write(added)
        (folder / "grid.toml").write_text(GRID.format(ms=MS))
        self.words = {
            "pytest": PYTEST,
            "xdist": [*PYTEST, "-n2"],
            "run": RUN,
            "judge": [*RUN, "--judge=grader:1"],
            "sweep": ["medvqa.cli", "sweep", "grid.toml", "--plugin=conftest.py"],
            "bucket": [*PYTEST, "-n2", f"--answers={bucket.url}" if bucket is not None else ""],
        }[kind]

    def start(self) -> subprocess.Popen[bytes]:
        """Start a session in a process group of its own."""
        repository = self.repository
        return harness.start(repository.path, *self.words, ITEMS=repository.items, **repository.environment)

    @property
    def asked(self) -> int:
        """The number of questions that were asked, each as often as it was."""
        return self.repository.asked.total()

    @property
    def stored(self) -> Counter[bytes]:
        """How often each answer is in the logs of a run and a model."""
        found: Counter[bytes] = Counter()
        for path in self.repository.path.glob("reports/*/answers/*.log"):
            role = b"judge" if b'"role":"judge"' in (content := path.read_bytes()).partition(b"\n")[0] else b""
            found.update(path.parent.parent.name.encode() + role + key for key in _ANSWER.findall(content))
        return found


MS = 4
PYTEST = [*harness.PYTEST, "-p", "no:benchmark", f"--model=slow:{MS}", "--run=run"]
RUN = ["medvqa.cli", "run", "--plugin=conftest.py", "--benchmark=slow", f"--model=slow:{MS}", "--run=run"]


def kill(machine: Machine, session: subprocess.Popen[bytes], chance: random.Random) -> str | None:
    """Wait for a random moment, and kill; return how. None if the session ended before."""
    before, by = machine.asked, time.monotonic() + PATIENCE
    wanted = before + chance.randint(1, max(2, machine.repository.items // 6))
    while machine.asked < wanted and session.poll() is None and time.monotonic() < by:
        time.sleep(0.01)
    time.sleep(chance.random() / 20)
    if session.poll() is not None:
        return None
    workers = [pid for pid, _ in machine.repository.calls[-4:] if pid != session.pid and alive(pid)]
    whom = chance.choice(["controller", "group", *(["worker"] if workers else [])])
    sent = signal.SIGKILL if whom == "worker" else chance.choice([signal.SIGKILL, signal.SIGTERM])
    with contextlib.suppress(ProcessLookupError):
        if whom == "group":
            os.killpg(session.pid, sent)
        else:
            os.kill(workers[-1] if whom == "worker" else session.pid, sent)
    return f"{sent.name} {whom}"


def end(session: subprocess.Popen[bytes]) -> None:
    """Wait until a session has ended; workers of a killed controller end by themselves."""
    session.wait(PATIENCE)
    by = time.monotonic() + PATIENCE
    while time.monotonic() < by:
        try:
            os.killpg(session.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(session.pid, signal.SIGKILL)


def note(tally: Tally, machine: Machine, how: str, before: int) -> int:
    """Note what a kill has cost: questions that were asked and have no answer; return all of those."""
    gone = machine.asked - machine.stored.total()
    processes = 2 if machine.kind in ("xdist", "bucket") else 1
    most = processes * CONCURRENT * SIZE * (2 if machine.kind == "judge" else 1)
    if not 0 <= gone - before <= most:
        tally.problems.append(f"{how}: {gone - before} questions were asked and have no answer, at most {most} may")
    tally.gone += gone - before
    return gone


def soak(kind: str, kills: int, items: int, chance: random.Random, folder: Path, bucket: Bucket | None) -> Tally:
    """Kill sessions of one kind so often, in one run after the other."""
    tally, number = Tally(), 0
    while tally.kills.total() < kills and not tally.problems:
        number += 1
        place = bucket.under(f"run{number}") if bucket is not None else None
        machines, gone = [Machine(folder / f"{kind}{number}", kind, items, place)], 0
        while True:
            machine = machines[-1]
            session = machine.start()
            how = kill(machine, session, chance) if tally.kills.total() < kills else None
            end(session)
            if how is None:
                break
            tally.kills[how] += 1
            gone = note(tally, machine, how, gone)
            if place is not None:
                machines.append(Machine(folder / f"{kind}{number}-{len(machines)}", kind, items, place))
                gone = 0
        check(tally, machines, items)
        print(f"{kind}: {tally.kills.total()} kills, {len(tally.problems)} problems", flush=True)
        if tally.problems:
            print((machines[-1].repository.path / "output").read_text()[-2000:])
    return tally


def check(tally: Tally, machines: list[Machine], items: int) -> None:
    """Note what the sessions of a finished run have asked and stored."""
    last = machines[-1]
    runs = sorted(path for path in last.repository.path.glob("reports/*") if (path / "run.json").exists())
    for run in runs or [last.repository.folder("run")]:
        results = len(last.repository.results(run.name)) if (run / "results.jsonl").exists() else 0
        if results != items:
            tally.problems.append(f"{run}: {results} of {items} questions have a result")
    each = [machine.stored for machine in machines]
    for stored in each:
        tally.stored += len(stored)
        if twice := sum(count - 1 for count in stored.values()):
            tally.problems.append(f"{last.repository.path}: {twice} answers were stored, and asked for again")
    if len(machines) > 1:
        tally.unput += sum(map(len, each)) - len(set().union(*each))
    tally.asked += sum(machine.asked for machine in machines)


def main() -> int:
    """Print a table of all kinds."""
    options = harness.options(__doc__, kills=200, kinds=list(KINDS), items=400, seed=1)
    tallies = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        moto() if "bucket" in options.kinds else contextlib.nullcontext() as bucket,
    ):
        for number, kind in enumerate(options.kinds):
            kills = options.kills // len(options.kinds) + (number < options.kills % len(options.kinds))
            place = bucket if kind == "bucket" else None
            tallies[kind] = soak(kind, kills, options.items, random.Random(options.seed), Path(folder), place)
    print("| kind | kills | asked | stored | in flight | asked again as not put yet |\n|---|---|---|---|---|---|")
    for kind, tally in tallies.items():
        kills = ", ".join(f"{count} {how}" for how, count in sorted(tally.kills.items()))
        print(f"| {kind} | {kills} | {tally.asked:,} | {tally.stored:,} | {tally.gone:,} | {tally.unput:,} |")
    problems = [f"{kind}: {problem}" for kind, tally in tallies.items() for problem in tally.problems]
    print("\n".join(problems) or "nothing that was acknowledged was lost or asked again")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
