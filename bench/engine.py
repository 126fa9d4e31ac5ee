"""How busy a model is kept: pytest sessions against a bare loop over full batches, measured side by side.

    python bench/engine.py [--items 2000] [--batch-size 32] [--workers 2] [--rounds 3] [--call 20] [--each 1]

The model is simulated: a call sleeps 20 ms, and 1 ms more for each prompt. The bare loop cuts as many prompts into
batches and does nothing with the answers. A session is timed within its process (with workers, over all of them)
from the first call of a model to the end of the last test, so that neither counts what pytest needs to start.
"busy" is the bare loop's time, divided by the number of workers, over the session's: the median of the rounds.
"one at a time" is the session with --batch-size=1; it is long, so it asks a tenth of the items, and its time is scaled.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

Seconds = tuple[float, float]
"""Of a call, and more for each prompt."""

CONFTEST = """
import os, pathlib, time
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("engine/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "naevus", "B": "melanoma"}
MARKS = pathlib.Path(os.environ["MARKS"])
WORDS = int(os.environ["WORDS"])

def items(data):
    for n in range(int(os.environ["ITEMS"])):
        words = "very " * (n * 7919 % WORDS if WORDS else 0)
        yield Item(f"{n:06}", "engine", "single_choice", f"What is shown in the {words}blurred image?", OPTIONS, ("A",))

class Slow(Backend):
    name = title = "slow"
    sends_to = None

    def load(self):
        self._call, self._each = map(float, self.argument.split(","))

    def generate(self, prompts):
        mark("call")
        time.sleep(self._call + self._each * len(prompts))
        return [Answer("A")] * len(prompts)

moments = {}

def mark(name):
    moments.setdefault("call", time.monotonic())
    moments["end"] = time.monotonic()

def pytest_runtest_logfinish():
    if "call" in moments:
        mark("end")

def pytest_sessionfinish():
    if "call" in moments:
        (MARKS / str(os.getpid())).write_text(f"{moments['call']} {moments['end']}")

def pytest_medvqa_backends():
    return [Slow]

def pytest_medvqa_benchmarks():
    return [Benchmark(name="engine", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates))]
"""
TEST = """
import pytest

@pytest.mark.vqa("engine")
def test_engine(item, evaluate):
    evaluate(item)
"""


def bare(items: int, batch: int, model: Seconds) -> float:
    """Seconds of the loop that does nothing but full batches."""
    start = time.perf_counter()
    for first in range(0, items, batch):
        time.sleep(model[0] + model[1] * min(batch, items - first))
    return time.perf_counter() - start


def session(folder: Path, items: int, batch: int, words: int, spread: Sequence[str], model: Seconds) -> float:
    """Seconds from the first call to the end of the last test."""
    with tempfile.TemporaryDirectory() as marks:
        environment = os.environ | {"ITEMS": str(items), "MARKS": marks, "WORDS": str(words), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--model=slow:{model[0]},{model[1]}"]
        done = subprocess.run(
            [*command, f"--batch-size={batch}", *spread],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        moments = [list(map(float, path.read_text().split())) for path in Path(marks).iterdir()]
    return max(end for _, end in moments) - min(start for start, _ in moments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--call", type=float, default=20, help="milliseconds of a call")
    parser.add_argument("--each", type=float, default=1, help="milliseconds more for each prompt")
    asked = parser.parse_args()
    model = (asked.call / 1000, asked.each / 1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_it.py").write_text(TEST)
        spread = [f"-n{asked.workers}"]
        cases: dict[str, tuple[int, int, list[str], int]] = {
            "serial": (asked.batch_size, 0, [], 1),
            "serial, lengths vary": (asked.batch_size, 40, [], 1),
            f"-n {asked.workers}": (asked.batch_size, 0, spread, asked.workers),
            f"-n {asked.workers}, lengths vary": (asked.batch_size, 40, spread, asked.workers),
            "one at a time": (1, 0, [], 1),
        }
        print(f"{asked.items} items, batches of {asked.batch_size}, median of {asked.rounds} rounds")
        print(f"{'':24}{'bare loop s':>12}{'session s':>12}{'busy':>8}   of each round")
        for title, (batch, words, arguments, workers) in cases.items():
            part = 10 if batch == 1 else 1
            rounds = []
            for _ in range(1 if batch == 1 else asked.rounds):
                ideal = bare(asked.items, asked.batch_size, model) / workers
                rounds.append((ideal, part * session(folder, asked.items // part, batch, words, arguments, model)))
            busy = sorted(ideal / taken for ideal, taken in rounds)
            ideal, taken = (statistics.median(column) for column in zip(*rounds, strict=True))
            each = " ".join(f"{100 * value:.1f}" for value in busy)
            print(f"{title:24}{ideal:12.2f}{taken:12.2f}{100 * statistics.median(busy):7.1f}%   {each}", flush=True)


if __name__ == "__main__":
    main()
