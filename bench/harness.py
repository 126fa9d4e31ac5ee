"""What these scripts share: options, sessions and their costs, ways timed in turn, a simulated benchmark, made runs."""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa.benchmarks import gmai_mmbench
from medvqa.items import Answer, Image, Item, Result
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import RUN
from medvqa.tags import lexicon

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # for `support`

PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:html")
SUITE = """
import os, pathlib, time
from concurrent.futures import ThreadPoolExecutor
from medvqa import Backend, metrics, scoring
from medvqa.items import Answer, Benchmark, Image, Item, replace
from medvqa.protocols.prompts import Template

ASK = Template("simulated/mc", "{question}\\n{options}", "{letter}. {text}\\n")
SIZES = {"task": 18, "department": 19, "modality": 38, "granularity": 4, "label": 717}
OPTIONS = {"A": "naevus", "B": "melanoma", "C": "keratosis", "D": "none"}
ANSWER = Answer("A")
ITEMS, WRONG, WORDS = (float(os.environ.get(name, 0)) for name in ("ITEMS", "WRONG", "WORDS"))
HERE = pathlib.Path(__file__).parent

def items(data):
    for n in range(int(ITEMS)):
        tags = {name: (f"{name}_{n % size}",) for name, size in SIZES.items()}
        right = "B" if (n * 7919 % 1000) < 1000 * WRONG else "A"
        words = "very " * int(n * 7919 % WORDS) if WORDS else ""
        yield Item(str(n), "simulated", "single_choice", f"What is shown in {words}blurred image {n}?", OPTIONS,
                   (right,), (), tags)

class Simulated(Backend):
    name = title = "simulated"
    sends_to = None

    def load(self):
        # Seconds of a call, more for each prompt, and those of drafting a batch, which another thread does beforehand.
        self._call, self._each, self._drafting = [*map(float, filter(None, self.argument.split(","))), 0, 0, 0][:3]
        self._drafter, self._drafts = ThreadPoolExecutor(1), {}

    def fingerprint(self):
        return "simulated 1"

    def prepare(self, prompts):
        if self._drafting:
            self._drafts[tuple(map(id, prompts))] = self._drafter.submit(time.sleep, self._drafting)

    def generate(self, prompts):
        if self._drafting:
            key = tuple(map(id, prompts))
            draft = self._drafts.pop(key, None) or self._drafter.submit(time.sleep, self._drafting)
            draft.result()
        if self._call or self._each:
            time.sleep(self._call + self._each * len(prompts))
        return [ANSWER] * len(prompts)

class Staged(Simulated):
    name = "staged"

    def compute(self, prompts):
        replies = self.generate(prompts)
        return lambda: replies

def pytest_medvqa_backends():
    return [Simulated, Staged]

def pytest_medvqa_benchmarks():
    return [Benchmark(name="simulated", items=items, prompt=ASK.prompt, score=scoring.score_single_choice,
                      public="PUBLIC" in os.environ, metrics=(metrics.accuracy, *metrics.rates),
                      dimensions=tuple(SIZES)[:4])]
"""
"""A benchmark made of text and tags, and a model; its size and share of wrong answers come from the environment."""
TEST = """
import pytest

@pytest.mark.vqa("{benchmark}")
def test_it(item, evaluate):
    evaluate(item)
"""
BARE = """
import os, pytest

@pytest.mark.parametrize("n", range(int(os.environ["ITEMS"])))
def test_bare(n):
    pass
"""


def options(doc: str | None, **defaults: Any) -> argparse.Namespace:
    """Read the command line: an option for each keyword, of the type of its default; a list takes several values."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        elif isinstance(default, list):
            parser.add_argument(flag, nargs="*", type=type(default[0]), default=default)
        else:
            parser.add_argument(flag, type=Path if default is None else type(default), default=default)
    return parser.parse_args()


@contextmanager
def suite(adds: str = "", benchmark: str = "simulated") -> Iterator[Path]:
    """Yield a folder with the simulated benchmark, its end `adds`, and its test."""
    with tempfile.TemporaryDirectory() as name:
        write_suite(Path(name), adds, benchmark)
        yield Path(name)


def write_suite(folder: Path, adds: str = "", benchmark: str = "simulated") -> None:
    """Write the simulated benchmark and its test into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conftest.py").write_text(SUITE + adds)
    (folder / "test_it.py").write_text(TEST.format(benchmark=benchmark))


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a session with its children, wall seconds, the largest memory of one process, what it printed."""

    cpu: float
    wall: float
    peak_mb: float
    output: str


def start(folder: Path, *module: str, **environment: object) -> subprocess.Popen[bytes]:
    """Start a module of Python in a process group of its own; its output is added to the file `output`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    told = {name: str(value) for name, value in environment.items()}
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=folder,
            env=own | {"OMP_NUM_THREADS": "1"} | told,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def session(folder: Path, *module: str, ok: Sequence[int] = (0,), **environment: object) -> Cost:
    """Run a module of Python in a folder to its end. SystemExit with what it printed unless its exit code is `ok`."""
    told = {name: str(value) for name, value in environment.items()}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *module],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"} | told,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        output.seek(0)
        told_by = output.read().decode()
    if process.returncode not in ok:
        raise SystemExit(f"{' '.join(module)} ended with {process.returncode}:\n{told_by[-5000:]}")
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024 / 1e6, told_by)


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what a call returns, its wall seconds and its CPU seconds."""
    start, cpu = time.perf_counter(), time.process_time()
    value = call()
    return value, time.perf_counter() - start, time.process_time() - cpu


def in_turn(ways: Sequence[Callable[[], Any]], rounds: int) -> list[tuple[Any, float, float]]:
    """Time ways in turn, round by round; return what each returned last, and its medians of wall and CPU seconds."""
    times = [[timed(way) for way in ways] for _ in range(rounds)]
    each = [list(zip(*own, strict=True)) for own in zip(*times, strict=True)]
    return [(values[-1], statistics.median(wall), statistics.median(cpu)) for values, wall, cpu in each]


def peak_gib() -> float:
    """Return the largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


LETTERS = "ABCDE"
SENTENCE = """
the image shows a lesion with an irregular border and mild asymmetry in the upper left lobe which suggests that there
is no evidence of acute haemorrhage but focal thickening of the wall near the margin may represent early infiltration
compared with surrounding tissue signal intensity appears increased while contrast enhancement is absent therefore
considering distribution size shape colour vessels nodules calcification effusion oedema we conclude most likely
"""
KNOWN = {gmai_mmbench.VAL.name: gmai_mmbench.VAL}


def results(n: int, seed: int = 0) -> Iterator[Result]:
    """Make results in the shape of GMAI-MMBench, with responses of about 300 characters.

    The model is right more often than not and says why; the seed decides what it says, not what it is asked.
    """
    draw, speak = random.Random(0), random.Random(seed + 1)
    known = lexicon.gmai_mmbench()
    branches = sorted(known.trees["task", "modality", "label"])
    departments, grains = (sorted(known.dimensions[name].values) for name in ("department", "granularity"))
    labels = [branch[2].replace("_", " ") for branch in branches]
    # More than a thousand words: no easier to deflate than prose.
    words = sorted({*SENTENCE.split(), *" ".join(labels).split()})
    for i in range(n):
        task, modality, label = draw.choice(branches)
        right = draw.choice(LETTERS[:4])
        texts = [label.replace("_", " ") if letter == right else draw.choice(labels) for letter in LETTERS[:4]]
        tags = {"task": task, "department": draw.choice(departments), "granularity": draw.choice(grains)}
        item = Item(
            id=f"{i:05}",
            benchmark=gmai_mmbench.VAL.name,
            kind="single_choice",
            question=f"This is a {modality} image. Which of the following options is the most appropriate?",
            options=dict(zip(LETTERS, texts, strict=False)),
            answers=(right,),
            images=(Image(f"gmai-mmbench/VAL.tsv row {i}"),),
            tags={name: (value,) for name, value in {**tags, "modality": modality, "label": label}.items()},
        )
        chosen = right if speak.random() < 0.5 else speak.choice("ABCD?")
        said = f"The answer is {chosen}. " if chosen != "?" else "I cannot tell. "
        length = speak.randint(100, 500) - len(said)
        while length > 0:
            word = speak.choice(words)
            said += word + " "
            length -= len(word) + 1
        answer = Answer(said.strip(), seconds=speak.uniform(0.2, 2), usage={"input": 900, "output": len(said) // 4})
        # Read from the letter alone: what is said beside it is noise that names other options.
        yield Result("large", item, f"{i:064x}", answer, gmai_mmbench.score(item, Answer(chosen)))


def make_run(folder: Path, n: int, seed: int = 0) -> None:
    """Write a run folder with `results`."""
    recorder = Recorder(folder)
    for result in results(n, seed):
        recorder.append(run_folder.encode(result))
    recorder.close()
    signature = {"data": "0" * 12, "technique": "mc"}
    about = {"items": n, "data_sha256": "0" * 64, "signature": signature, "prompts": {"mc": "gmai/mc"}}
    model, benchmarks = {"name": "generated", "fingerprint": str(seed)}, {gmai_mmbench.VAL.name: about}
    ended = "2026-01-01T00:00:00+00:00"
    run = {"name": folder.name, "model": model, "benchmarks": benchmarks, "finished": ended}
    run_folder.write_json(folder / RUN, run)
