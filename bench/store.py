"""What the shared answer store costs: an answer that is shared, and a start that reads 10,000 segments.

    python bench/store.py [--items 5000] [--rounds 5] [--segments 10000] [--answers 3]

Needs `tox run -e counterparts`. Two runs of `medvqa run` alternate, one with a local folder of answers and one with
`--answers=s3://...` at moto on this machine: a benchmark made of text, whose model answers at once with a kilobyte.
CPU is user and system time of the run in microseconds an answer, without that of moto; wall time is that of the whole
process, in which moto works too. Medians of the rounds; the ratio is that of the medians.

Then so many segments are generated straight into a folder, moto and Azurite, each of some answers and by a process of
its own, and read through file://, s3:// and az:// as a run on a new machine does before its first question. The bare
loop is 32 threads that get the same objects and do nothing else: what the server takes, a simulation on this machine.
Ends with exit code 1 where reading takes over 30 s and over 1.5 times the bare loop, or where an answer is not found.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from medvqa import records
from medvqa.records.segments import SegmentName, segment
from support.buckets import Bucket, azurite, moto, variables

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
                      metrics=(metrics.accuracy, *metrics.rates), public=True)]
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


def cost_of_sharing(folder: Path, bucket: Bucket, items: int, rounds: int) -> None:
    """Print what sharing costs an answer, by runs that alternate."""
    costs: dict[str, list[Cost]] = {"local folder": [], "shared store": []}
    for number in range(rounds):
        for name, told in costs.items():
            place = bucket.under(f"cost{number}")
            arguments = (f"--answers={place.url}",) if name == "shared store" else ()
            cost, output = run(folder / f"{name}{number}", items, *arguments, environment=place.environment)
            told.append(cost)
            if "warning" in output.lower():
                raise SystemExit(output)
    for name, told in costs.items():
        each = [1e6 * statistics.median(getattr(cost, part) for cost in told) / items for part in ("cpu", "wall")]
        print(f"{name:14}{items:>8} answers {each[0]:8.0f} us CPU an answer {each[1]:8.0f} us wall", flush=True)
    for part in ("cpu", "wall"):
        local, shared = (statistics.median(getattr(cost, part) for cost in told) for told in costs.values())
        print(f"{part}: shared / local {shared / local:.2f}, {1e6 * (shared - local) / items:+.0f} us an answer")


def segments(answers: Path, each: int) -> Iterator[tuple[str, bytes]]:
    """Yield segments of `each` answers of a local folder, every one as if another process had put it: name, content."""
    (file,) = answers.glob("*/*.answers")
    head, *lines = file.read_bytes().splitlines(keepends=True)
    for number, start in enumerate(range(0, len(lines), each)):
        name = SegmentName(f"20260101T000000.{number:06}", f"{number:016x}", len(head))
        model = file.parent.name
        yield f"{model}/{name}", segment(model, head, b"".join(lines[start : start + each]))


async def put_all(bucket: Bucket, made: Iterator[tuple[str, bytes]]) -> None:
    """Put segments into moto, eight at once."""
    import obstore

    store = bucket.store()

    async def work() -> None:
        for name, content in made:
            await obstore.put_async(store, name, content, mode="create")

    await asyncio.gather(*(work() for _ in range(8)))


def bare(bucket: Bucket) -> float:
    """Seconds in which 32 threads get all objects of a bucket."""
    import obstore

    store, start = bucket.store(), time.perf_counter()
    with ThreadPoolExecutor(32) as threads:
        names = (entry["path"] for page in obstore.list(store) for entry in page)
        assert sum(threads.map(lambda name: len(obstore.get(store, name).bytes()), names))
    return time.perf_counter() - start


def reading(folder: Path, buckets: Sequence[Bucket], count: int, each: int) -> bool:
    """Print how long it takes to read so many segments; True if all answers are found within the limit.

    A server that a bare loop keeps busy for longer than that is no measure: it may take half as long again.
    """
    items, first, disk = count * each, folder / "first", folder / "disk"
    run(first, items)
    for name, content in segments(first / "reports/.answers", each):
        path = disk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (model,) = (path.name for path in disk.iterdir())
    met = fetched(f"file://{disk}", {}, folder / "file", model, items) < LIMIT
    for bucket in buckets:
        full = bucket.under("full")
        asyncio.run(put_all(full, segments(first / "reports/.answers", each)))
        seconds, least = fetched(full.url, full.environment, folder / full.url[:2], model, items), bare(full)
        print(f"      a bare loop: {least:.1f} s", flush=True)
        met &= seconds < max(LIMIT, 1.5 * least)
    return met


def fetched(url: str, environment: Mapping[str, str], local: Path, model: str, items: int) -> float:
    """Print and return the seconds in which a new machine reads a store. SystemExit if an answer is missing."""
    with variables(environment):
        store = records.SharedStore(records.open_bucket(records.Address.of(url), os.environ), local)
    (local / model).mkdir(parents=True)
    wall, cpu = time.perf_counter(), time.process_time()
    unread = records.fetch(store, model, "bench")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    lines = [line for path in (local / model).iterdir() for line in path.read_bytes().splitlines()]
    found = len({line.split(b" ")[1] for line in lines} - {b"about"})
    if unread or found != items:
        raise SystemExit(f"{url}: {found} of {items} answers, {len(unread)} unread segments")
    print(f"{url.partition(':')[0]:6}{found} answers: {wall:.1f} s, {cpu:.1f} s CPU", flush=True)
    return wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--answers", type=int, default=3, help="answers in a segment")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, moto() as s3, azurite() as azure:
        cost_of_sharing(Path(name), s3, options.items, options.rounds)
        met = reading(Path(name), [s3, azure], options.segments, options.answers)
    print(f"limit of {LIMIT:g} s for reading all: {'met' if met else 'missed'}")
    return not met


if __name__ == "__main__":
    sys.exit(main())
