"""Kill a run twice, let it go on with other workers, and count what was asked twice.

    python bench/durability.py [--items 26000] [--milliseconds 5] [--workers 2] [--then 3] [--seed 1]

The model is simulated: a batch of 32 takes 5 ms a question. The whole process group of the run gets SIGKILL at two
moments drawn with the seed, and `pytest --run=NAME` goes on, at last with three workers. The measures must equal
those of a run that nobody disturbed. The model writes down what it is asked, so that what was asked twice is counted;
the CPU time of a run that reuses every answer is that of its processes, in milliseconds an item.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

CONFTEST = """
import os, pathlib, time
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("durability/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "naevus", "B": "melanoma", "C": "keratosis"}
CALLS = os.open(pathlib.Path(__file__).with_name("calls"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def items(data):
    for n in range(int(os.environ["ITEMS"])):
        tags = {"modality": (f"modality_{n % 38}",), "department": (f"department_{n % 19}",)}
        yield Item(f"{n:06}", "durability", "single_choice", f"What is shown in image {n}?", OPTIONS, ("ABC"[n % 3],),
                   (), tags)

class Slow(Backend):
    name = title = "slow"
    sends_to = None

    def fingerprint(self):
        return "slow"

    def generate(self, prompts):
        ids = [prompt.item for prompt in prompts]
        os.write(CALLS, " ".join([*ids, "\\n"]).encode())
        time.sleep(float(self.argument) / 1000 * len(ids))
        return [Answer("ABCAABC"[int(id) % 7]) for id in ids]

def pytest_medvqa_backends():
    return [Slow]

def pytest_medvqa_benchmarks():
    return [Benchmark(name="durability", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("modality", "department"))]
"""
TEST = """
import pytest

@pytest.mark.vqa("durability")
def test_durability(item, evaluate):
    evaluate(item)
"""


def start(folder: Path, items: int, *arguments: str) -> subprocess.Popen[bytes]:
    """A session in a process group of its own; its output is appended to a file."""
    environment = os.environ | {"ITEMS": str(items), "OMP_NUM_THREADS": "1"}
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def finish(folder: Path, items: int, *arguments: str) -> tuple[float, float]:
    """A session to its end: CPU and wall seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    if start(folder, items, *arguments).wait() != 0:
        raise SystemExit((folder / "output").read_text()[-3000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - begun


def asked(folder: Path) -> Counter[str]:
    """How often each item was asked."""
    calls = folder / "calls"
    return Counter(calls.read_text().split() if calls.exists() else ())


def measures(folder: Path, run: str) -> object:
    return json.loads((folder / "reports" / run / "metrics.json").read_text())["measures"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=26000)
    parser.add_argument("--milliseconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--then", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(TEST)
        command = [f"--model=slow:{options.milliseconds}", "--run=killed"]
        for part in sorted(chance.uniform(0.05, 0.9) for _ in range(2)):
            session = start(folder, options.items, *command, f"-n{options.workers}")
            while asked(folder).total() < part * options.items and session.poll() is None:
                time.sleep(0.05)
            if session.poll() is not None:
                raise SystemExit(f"ended before it was killed:\n{(folder / 'output').read_text()[-3000:]}")
            os.killpg(session.pid, signal.SIGKILL)
            session.wait()
            print(f"killed after {asked(folder).total():,} questions were asked", flush=True)
        _, wall = finish(folder, options.items, *command, f"-n{options.then}")
        again = asked(folder).total() - options.items
        print(f"the rest, -n {options.then}: {wall:.0f} s; asked twice: {again} questions, {again / 32:.1f} batches")
        cpu, wall = finish(
            folder, options.items, f"--model=slow:{options.milliseconds}", "--run=again", "--answers=killed"
        )
        per = 1000 / options.items
        print(f"all answers reused, serially: {cpu * per:.2f} ms CPU an item, {wall:.0f} s")
        if asked(folder).total() != again + options.items:
            raise SystemExit("a run with all answers stored asked the model")
        finish(folder, options.items, "--model=slow:0", "--run=undisturbed", "--fresh")
        same = measures(folder, "killed") == measures(folder, "undisturbed") == measures(folder, "again")
        print(f"measures equal those of an undisturbed run: {same}")
        if not same or max(asked(folder).values()) > 4 or again > 2 * 2 * options.workers * 32:
            raise SystemExit("work was lost")


if __name__ == "__main__":
    main()
