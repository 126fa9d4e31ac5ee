"""Kill a run twice, let it go on with other workers, and count what was asked twice.

    python bench/durability.py [--items 26000] [--milliseconds 5] [--workers 2] [--then 3] [--seed 1]

The model is simulated: a batch of 32 takes 5 ms a question. The whole process group of the run gets SIGKILL at two
moments drawn with the seed, and `pytest --run=NAME` goes on, at last with three workers. The measures must equal
those of a run that nobody disturbed. The model writes down what it is asked, so that what was asked twice is counted;
the CPU time of a run that reuses every answer is that of its processes, in milliseconds an item.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import harness

NOTES = """
CALLS = os.open(HERE / "calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
ask = Simulated.generate

def generate(self, prompts):
    os.write(CALLS, " ".join([*(prompt.item for prompt in prompts), "\\n"]).encode())
    return ask(self, prompts)

Simulated.generate = generate
"""


def asked(folder: Path) -> Counter[str]:
    """How often each item was asked."""
    calls = folder / "calls"
    return Counter(calls.read_text().split() if calls.exists() else ())


def kill(folder: Path, session: subprocess.Popen[bytes], questions: float) -> None:
    """Kill the process group of a session once so many questions were asked."""
    while asked(folder).total() < questions and session.poll() is None:
        time.sleep(0.05)
    if session.poll() is not None:
        raise SystemExit(f"ended before it was killed:\n{(folder / 'output').read_text()[-3000:]}")
    os.killpg(session.pid, signal.SIGKILL)
    session.wait()
    print(f"killed after {asked(folder).total():,} questions were asked", flush=True)


def main() -> None:
    typed = harness.options(__doc__, items=26000, milliseconds=5.0, workers=2, then=3, seed=1)
    chance = random.Random(typed.seed)
    words = (*harness.PYTEST, f"--model=simulated:0,{typed.milliseconds / 1000}")
    environment = {"ITEMS": typed.items, "WRONG": 0.6}
    with harness.suite(NOTES) as folder:
        for part in sorted(chance.uniform(0.05, 0.9) for _ in range(2)):
            session = harness.start(folder, *words, "--run=killed", f"-n{typed.workers}", **environment)
            kill(folder, session, part * typed.items)
        cost = harness.session(folder, *words, "--run=killed", f"-n{typed.then}", **environment)
        again = asked(folder).total() - typed.items
        print(f"the rest, -n {typed.then}: {cost.wall:.0f} s; asked twice: {again} questions, {again / 32:.1f} batches")
        cost = harness.session(folder, *words, "--run=again", "--answers=killed", **environment)
        each = 1000 * cost.cpu / typed.items
        print(f"all answers reused, serially: {each:.2f} ms CPU an item, {cost.wall:.0f} s")
        if asked(folder).total() != again + typed.items:
            raise SystemExit("a run with all answers stored asked the model")
        at_once = (*harness.PYTEST, "--model=simulated:", "--run=undisturbed", "--fresh")
        harness.session(folder, *at_once, **environment)
        first, *others = (
            json.loads((folder / "reports" / run / "metrics.json").read_text())["measures"]
            for run in ("killed", "undisturbed", "again")
        )
        same = all(measures == first for measures in others)
        print(f"measures equal those of an undisturbed run: {same}")
        if not same or max(asked(folder).values()) > 4 or again > 2 * 2 * typed.workers * 32:
            raise SystemExit("work was lost")


if __name__ == "__main__":
    main()
