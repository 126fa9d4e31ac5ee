"""CPU and wall time that one item costs beyond the model, at two sizes, with right and with wrong answers.

    python bench/overhead.py [--sizes 5000 25000] [--workers 2]

Each figure is one pytest session in a process of its own over a benchmark made of nothing but text and tags,
answered by `echo:A` at once. CPU is user and system time of the session and its workers. "growth" is the ratio
of the larger size's time to the smaller's; with sizes 5,000 and 25,000 it is 5 where time is linear.
"bare" is the same number of parametrized tests with the plugin switched off: what pytest itself costs.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFTEST = """
import dataclasses, os
from medvqa import metrics, scoring
from medvqa.items import Benchmark, Item
from medvqa.prompts import Template

ASK = Template("overhead/mc", "{question}\\n{options}", "{letter}. {text}\\n")

SIZES = {"task": 18, "department": 19, "modality": 38, "granularity": 4, "label": 717}

def items(data):
    count, wrong = int(os.environ["ITEMS"]), float(os.environ["WRONG"])
    for n in range(count):
        tags = {name: (f"{name}_{n % size}",) for name, size in SIZES.items()}
        right = "B" if (n * 7919 % 1000) < 1000 * wrong else "A"
        yield Item(str(n), "overhead", "single_choice", f"What is shown in image {n}?",
                   {"A": "naevus", "B": "melanoma", "C": "keratosis", "D": "none"}, (right,), (), tags)

def pytest_medvqa_benchmarks():
    return [Benchmark(name="overhead", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=tuple(SIZES)[:4])]
"""
TEST = """
import pytest

@pytest.mark.vqa("overhead")
def test_overhead(item, evaluate):
    evaluate(item)
"""
BARE = """
import os, pytest

@pytest.mark.parametrize("n", range(int(os.environ["ITEMS"])))
def test_bare(n):
    pass
"""


def session(folder: Path, items: int, *arguments: str, wrong: float = 0.0) -> tuple[float, float]:
    """CPU and wall seconds of one pytest session."""
    environment = os.environ | {"ITEMS": str(items), "WRONG": str(wrong), "OMP_NUM_THREADS": "1"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


IMPORT = "import pytest, time; t = time.perf_counter(); import medvqa.plugin; print(1000 * (time.perf_counter() - t))"


def import_ms() -> float:
    """Milliseconds that the plugin adds to the start of every session, the least of five."""
    command = [sys.executable, "-c", IMPORT]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs=2, type=int, default=[5000, 25000])
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        suite, bare = Path(name, "suite"), Path(name, "bare")
        for folder, files in ((suite, {"conftest.py": CONFTEST, "test_it.py": TEST}), (bare, {"test_it.py": BARE})):
            folder.mkdir()
            for file, text in files.items():
                (folder / file).write_text(text)
        spread = (f"-n{options.workers}",)
        cases: dict[str, tuple[Path, tuple[str, ...], float]] = {
            "bare, serial": (bare, ("-q", "-p", "no:medvqa"), 0.0),
            "all right, serial": (suite, ("--model=echo:A",), 0.0),
            "60 % wrong, serial": (suite, ("--model=echo:A",), 0.6),
            f"bare, -n {options.workers}": (bare, ("-q", "-p", "no:medvqa", *spread), 0.0),
            f"all right, -n {options.workers}": (suite, ("--model=echo:A", *spread), 0.0),
            f"60 % wrong, -n {options.workers}": (suite, ("--model=echo:A", *spread), 0.6),
        }
        print(f"import of the plugin: {import_ms():.0f} ms")
        small, large = options.sizes
        print(f"{'':22}{'ms CPU an item':>24}{'ms wall an item':>24}{'growth':>16}")
        print(f"{'':22}{small:>12}{large:>12}{small:>12}{large:>12}{'CPU':>8}{'wall':>8}")
        for title, (folder, arguments, wrong) in cases.items():
            (cpu_s, wall_s), (cpu_l, wall_l) = (session(folder, n, *arguments, wrong=wrong) for n in (small, large))
            per = [
                1000 * seconds / n for seconds, n in ((cpu_s, small), (cpu_l, large), (wall_s, small), (wall_l, large))
            ]
            print(
                f"{title:22}"
                + "".join(f"{value:12.3f}" for value in per)
                + f"{cpu_l / cpu_s:8.2f}{wall_l / wall_s:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
