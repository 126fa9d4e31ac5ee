"""What one item costs beyond the model, in CPU and memory of each process, at sizes up to 130,000 items.

    python bench/scale.py [--sizes 5000 26000 130000] [--workers 2] [--wrong 0.6]

Each line is one pytest session, in processes of its own, over a benchmark made of nothing but text and tags, which a
model answers at once. "bare" is the same number of parametrized tests with the plugin switched off: what pytest itself
costs. "again" is the session once more with the answers of the first (`--answers`). CPU is user and system time in
milliseconds an item: of all processes, of the one that was started (the controller, with workers), and of the mean
worker; "collection" is the part of it that the mean worker collects in (serially: the only process). Memory is the
peak of each process in MB. "growth" is the ratio of a size's CPU time to that of the size before; linear is the ratio
of the sizes. Wall time is that of the whole session, and on a machine with other work says little.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TELL = """
import atexit, json, os, pathlib, re, resource, time
import pytest

collecting = 0.0

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    global collecting
    start = time.process_time()
    result = yield
    collecting = time.process_time() - start
    return result

def tell():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    # Not ru_maxrss, which begins with the size of the process that started this one.
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
    told = {"worker": os.environ.get("PYTEST_XDIST_WORKER"), "cpu": usage.ru_utime + usage.ru_stime,
            "collecting": collecting, "peak": peak}
    pathlib.Path(os.environ["TOLD"], str(os.getpid())).write_text(json.dumps(told))

# xdist ends a worker that takes ten seconds to go, which one of 130,000 items may on a busy machine.
def pytest_unconfigure():
    tell()

atexit.register(tell)
"""
SUITE = """
import os

from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("scale/mc", "{question}\\n{options}", "{letter}. {text}\\n")
SIZES = {"task": 18, "department": 19, "modality": 38, "granularity": 4, "label": 717}
OPTIONS = {"A": "naevus", "B": "melanoma", "C": "keratosis", "D": "none"}

def items(data):
    count, wrong = int(os.environ["ITEMS"]), float(os.environ["WRONG"])
    for n in range(count):
        tags = {name: (f"{name}_{n % size}",) for name, size in SIZES.items()}
        right = "B" if (n * 7919 % 1000) < 1000 * wrong else "A"
        yield Item(str(n), "scale", "single_choice", f"What is shown in image {n}?", OPTIONS, (right,), (), tags)

class Instant(Backend):
    name = title = "instant"
    sends_to = None

    def fingerprint(self):
        return "instant-1"

    def generate(self, prompts):
        return [Answer("A")] * len(prompts)

def pytest_medvqa_backends():
    return [Instant]

def pytest_medvqa_benchmarks():
    return [Benchmark(name="scale", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=tuple(SIZES)[:4])]
"""
TEST = """
import pytest

@pytest.mark.vqa("scale")
def test_scale(item, evaluate):
    evaluate(item)
"""
BARE = """
import os, pytest

@pytest.mark.parametrize("n", range(int(os.environ["ITEMS"])))
def test_bare(n):
    pass
"""
COLUMNS = ("CPU ms", "controller", "worker", "collection", "MB", "MB worker", "wall ms", "growth")


@dataclass(frozen=True)
class Cost:
    """Seconds and megabytes of one session: of all processes, the one that was started, and its mean worker."""

    items: int
    cpu: float
    controller: float
    worker: float
    collecting: float
    peak: float
    peak_worker: float
    wall: float

    def row(self, before: Cost | None) -> str:
        each = (self.cpu, self.controller, self.worker, self.collecting)
        cells = [f"{1000 * seconds / self.items:.3f}" for seconds in each]
        cells += [f"{self.peak:.0f}", f"{self.peak_worker:.0f}", f"{1000 * self.wall / self.items:.3f}"]
        cells.append(f"{self.cpu / before.cpu:.2f}" if before is not None else "")
        return "".join(f"{cell:>12}" for cell in cells)


def session(folder: Path, items: int, wrong: float, *arguments: str) -> Cost:
    """Run one pytest session. SystemExit with what it printed when it fails."""
    with tempfile.TemporaryDirectory() as told:
        environment = os.environ | {"ITEMS": str(items), "WRONG": str(wrong), "TOLD": told, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, *arguments]
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - start
        if done.returncode != 0:
            raise SystemExit(
                f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        processes = [json.loads(path.read_text()) for path in Path(told).iterdir()]
    (controller,) = (process for process in processes if process["worker"] is None)
    workers = [process for process in processes if process["worker"] is not None] or [controller]
    return Cost(
        items=items,
        cpu=sum(process["cpu"] for process in processes),
        controller=controller["cpu"],
        worker=sum(worker["cpu"] for worker in workers) / len(workers),
        collecting=sum(worker["collecting"] for worker in workers) / len(workers),
        peak=controller["peak"],
        peak_worker=max(worker["peak"] for worker in workers),
        wall=wall,
    )


PYTEST = ("-m", "pytest", "-p", "no:cacheprovider")
ASK = ("--model=instant:",)
IMPORT = "import pytest, time; t = time.perf_counter(); import medvqa.plugin; print(1000 * (time.perf_counter() - t))"


def import_ms() -> float:
    """Milliseconds that the plugin adds to the start of every session, the least of five."""
    command = [sys.executable, "-c", IMPORT]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5))


def measure(folder: Path, sizes: Sequence[int], spreads: Sequence[tuple[str, ...]], wrong: float) -> None:
    suite, bare = folder / "suite", folder / "bare"
    for where, files in ((suite, {"conftest.py": TELL + SUITE, "test_it.py": TEST}), (bare, {"test_it.py": BARE})):
        where.mkdir()
        for name, text in ({"conftest.py": TELL} | files).items():
            (where / name).write_text(text)
    print(f"import of the plugin: {import_ms():.0f} ms")
    print(" " * 26 + "".join(f"{column:>12}" for column in COLUMNS), flush=True)
    before: dict[tuple[str, tuple[str, ...]], Cost] = {}

    def show(title: str, spread: tuple[str, ...], cost: Cost) -> None:
        print(f"{title:8}{cost.items:>9} {' '.join(spread):8}" + cost.row(before.get((title, spread))), flush=True)
        before[title, spread] = cost

    for items in sizes:
        for spread in spreads:
            show("bare", spread, session(bare, items, wrong, *PYTEST, "-q", "-p", "no:medvqa", *spread))
            show("asked", spread, session(suite, items, wrong, *PYTEST, *ASK, "--run=asked", *spread))
            again = ("--run=again", "--answers=asked")
            show("again", spread, session(suite, items, wrong, *PYTEST, *ASK, *again, *spread))
            shutil.rmtree(suite / "reports")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[5_000, 26_000, 130_000])
    parser.add_argument("--workers", type=int, default=2, help="0: serially only")
    parser.add_argument("--wrong", type=float, default=0.6, help="share of wrong answers, whose tests fail")
    options = parser.parse_args()
    spreads: list[tuple[str, ...]] = [(), (f"-n{options.workers}",)] if options.workers else [()]
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options.sizes, spreads, options.wrong)


if __name__ == "__main__":
    main()
