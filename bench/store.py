"""What the shared answer store costs: an answer that is shared, and a start that reads 10,000 segments.

    python bench/store.py [--items 5000] [--rounds 5] [--segments 10000] [--answers 3]

Needs `tox run -e counterparts`. Two runs of `medvqa run` alternate, one with a local folder of answers and one with
`--answers=s3://...` at moto on this machine: a benchmark made of text, whose model answers at once. CPU is user and
system time of the run's processes in microseconds an answer, without that of moto; wall time is that of the whole
process. Medians of the rounds; the ratio is that of the medians.

Then so many segments are generated, straight into a folder and into moto, each of some answers by a process of its
own, and runs read them through file:// and s3:// and ask nothing. "reading" is the wall time of such a run
minus that of a run that finds the same answers in its local folder. Ends with exit code 1 where reading takes over 30 s.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.buckets import Bucket, moto

LIMIT = 30.0
"""Seconds in which the segments must be read."""
CONFTEST = """
import os
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("store/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "naevus", "B": "melanoma", "C": "keratosis", "D": "none"}
ANSWER = Answer("A", thoughts=100 * "because ", usage={"input": 800.0, "output": 200.0})

def items(data):
    for n in range(int(os.environ["ITEMS"])):
        yield Item(str(n), "store", "single_choice", f"What is shown in image {n}?", OPTIONS, ("A",))

class Instant(Backend):
    name = title = "instant"
    sends_to = None

    def fingerprint(self):
        return "instant-1"

    def generate(self, prompts):
        return [ANSWER] * len(prompts)

def pytest_medvqa_backends():
    return [Instant]

def pytest_medvqa_benchmarks():
    return [Benchmark(name="store", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates))]
"""


@dataclass(frozen=True)
class Cost:
    """CPU and wall seconds of one run."""

    cpu: float
    wall: float


def run(folder: Path, items: int, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[Cost, str]:
    """Run `medvqa run` in a folder of its own. SystemExit with what it printed when it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST)
    command = [
        sys.executable,
        "-m",
        "medvqa.cli",
        "run",
        "--plugin=conftest.py",
        "--benchmark=store",
        "--model=instant:",
        *arguments,
    ]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"ITEMS": str(items), "OMP_NUM_THREADS": "1"} | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall), done.stdout + done.stderr
