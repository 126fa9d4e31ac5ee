"""What places cost: an answer that is shared, the names of 200,000 logs, and a start that reads 10,000 logs.

    python bench/store.py [--items 5000] [--rounds 5] [--names 200000] [--logs 10000] [--answers 3]
                           [--together 3]

Needs `tox run -e counterparts`. Two runs of `medvqa run` alternate, one without --answers and one with
`--answers=s3://...` at moto on this machine: a benchmark made of text, whose model answers at once with a kilobyte.
CPU is user and system time of the run in microseconds an answer, without that of moto; wall time is that of the whole
process, in which moto works too. Medians of the rounds; the ratio is that of the medians.

Then so many names are listed in a folder, and so many logs of some answers are read from a folder, moto and Azurite, as
a run on a new machine does before its first question. The bare loop is 32 threads that get the same objects and do
nothing else: what the server takes, a simulation on this machine. Last, the logs of 100 runs with the same 4,550
questions are opened, as `--answers=RUN` does, for questions that the first one has and for one that none has. With
--together, so many runs begin at once and share a folder; a batch of 8 takes 0.4 s, so that one run alone takes 7
minutes. Ends with exit code 1 where listing takes over 60 s, reading over 30 s and over 1.5 times the bare loop,
opening over 0.5 s, or where an answer is not found.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
from harness import Cost

from medvqa.items import Answer
from medvqa.records import answer_places
from medvqa.records.answer_places import LIST, LogName, Place, PlaceReader
from medvqa.records.log import Log, LogHead
from medvqa.records.objects import FolderObjects
from medvqa.records.recall import LogFolder, StoredAnswers
from support.buckets import Bucket, azurite, moto, variables

LIMIT = 30.0
"""Seconds in which the logs must be read."""
MATCHING = 0.5
"""Seconds in which the logs of 100 matching runs must be opened."""
HEAD = LogHead(backend="simulated", model="simulated:", fingerprint="simulated 1", run="run", session="s", reuse="all")
ANSWER = Answer("A", thoughts=100 * "because ", usage={"input": 800.0, "output": 200.0})
SHORT = Answer("A", usage={"input": 800.0, "output": 2.0})
SAYS = """
ANSWER = Answer("A", thoughts=100 * "because ", usage={"input": 800.0, "output": 200.0})
"""


def run(folder: Path, items: int, *arguments: str, model: str = "", **environment: object) -> Cost:
    """Run `medvqa run` in a folder of its own. SystemExit with what it printed when it fails."""
    harness.write_suite(folder, SAYS)
    command = ("medvqa.cli", "run", "--plugin=conftest.py", "--benchmark=simulated", f"--model=simulated:{model}")
    return harness.session(folder, *command, *arguments, ITEMS=items, PUBLIC=1, **environment)


def cost_of_sharing(folder: Path, bucket: Bucket, items: int, rounds: int) -> None:
    """Print what sharing costs an answer, by runs that alternate."""
    costs: dict[str, list[Cost]] = {"run alone": [], "place": []}
    for number in range(rounds):
        for name, told in costs.items():
            place = bucket.under(f"cost{number}")
            arguments = (f"--answers={place.url}",) if name == "place" else ()
            told.append(run(folder / f"{name}{number}", items, *arguments, **place.environment))
            if "warning" in told[-1].output.lower():
                raise SystemExit(told[-1].output)
    for name, told in costs.items():
        each = [1e6 * statistics.median(getattr(cost, part) for cost in told) / items for part in ("cpu", "wall")]
        print(f"{name:14}{items:>8} answers {each[0]:8.0f} us CPU an answer {each[1]:8.0f} us wall", flush=True)
    for part in ("cpu", "wall"):
        local, shared = (statistics.median(getattr(cost, part) for cost in told) for told in costs.values())
        print(f"{part}: place / alone {shared / local:.2f}, {1e6 * (shared - local) / items:+.0f} us an answer")


def logs(folder: Path, each: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield as many objects of a place, each a log of `each` answers to questions of its own: name, content."""
    for number in range(count):
        log = Log(folder / "made", "main")
        log.begin_as(HEAD)
        keys = [f"{number * each + place:064x}" for place in range(each)]
        log.end(1, keys, [ANSWER] * each)
        log.close()
        name = LogName(f"20260101T000000.{number % 10**6:06}-{number:016x}")
        yield f"{HEAD.identity}/{name}", log.path.read_bytes()
        log.path.unlink()


async def put_all(bucket: Bucket, made: Iterator[tuple[str, bytes]]) -> None:
    """Put logs into a counterpart, eight at once."""
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


def listing(folder: Path, count: int) -> bool:
    """Print how long so many names of a folder take to be listed; True within the limit."""
    model = folder / "names" / HEAD.identity
    model.mkdir(parents=True)
    for number in range(count):
        (model / str(LogName(f"20260101T000000.000000-{number:016x}"))).touch()
    place = FolderObjects(folder / "names")
    found, seconds, _ = harness.timed(lambda: sum(map(len, place.listed(HEAD.identity, "", 10 * LIST))))
    print(f"folder: {found:,} names listed in {seconds:.1f} s", flush=True)
    return found == count and seconds < LIST


def reading(folder: Path, buckets: Sequence[Bucket], count: int, each: int) -> bool:
    """Print how long it takes to read so many logs; True if all answers are found within the limit.

    A server that a bare loop keeps busy for longer than that is no measure: it may take half as long again.
    """
    disk = folder / "disk"
    disk.mkdir()
    place = answer_places.open_place(disk, {})
    place.check()
    for name, content in logs(folder, each, count):
        place.objects.put(name, content)
    met = fetched(place, folder, count * each) < LIMIT
    for bucket in buckets:
        full = bucket.under("full")
        asyncio.run(put_all(full, logs(folder, each, count)))
        with variables(full.environment):
            place = answer_places.open_place(full.url, os.environ)
        seconds, least = fetched(place, folder, count * each), bare(full)
        print(f"      a bare loop: {least:.1f} s", flush=True)
        met &= seconds < max(LIMIT, 1.5 * least)
    return met


def fetched(place: Place, folder: Path, items: int) -> float:
    """Print and return the seconds in which a new process reads a place. SystemExit if an answer is missing."""
    reader = PlaceReader(place, HEAD.identity, "bench", folder)
    _, wall, cpu = harness.timed(lambda: reader.read(print))
    found = sum(answer is not None for answer in reader.recall([f"{number:064x}" for number in range(items)]))
    if reader.unread or found != items:
        raise SystemExit(f"{place.name}: {found} of {items} answers, {len(reader.unread)} unread logs")
    print(f"{place.name.partition(':')[0][-12:]:12}{found} answers: {wall:.1f} s, {cpu:.1f} s CPU", flush=True)
    return wall


def matching(folder: Path, runs: int, answers: int) -> bool:
    """Print how long it takes to open the logs of so many runs, each with all answers; True within the limit."""
    for number in range(runs):
        log = Log(folder / f"run{number}", "main")
        log.begin_as(HEAD)
        log.end(1, [f"{key:064x}" for key in range(answers)], [SHORT] * answers)
        log.close()
    sources = [LogFolder(f"run{number}", folder / f"run{number}/answers") for number in range(runs)]

    def opened() -> StoredAnswers:
        stored = StoredAnswers(folder / "new", HEAD, sources)
        assert None not in stored.recall([f"{key:064x}" for key in range(answers)])
        return stored

    rounds = [harness.timed(opened) for _ in range(3)]
    least = min(seconds for _, seconds, _ in rounds)
    found, missing, _ = harness.timed(lambda: rounds[-1][0].recall(["f" * 64]))
    assert found == [None]
    more = f"an answer that none has: {missing:.2f} s more"
    print(f"{runs} matching runs of {answers:,} answers: opened in {least:.2f} s, {more}", flush=True)
    return least + missing < MATCHING


def together(folder: Path, runs: int, items: int = 8_000) -> None:
    """Print how many questions are asked where so many runs begin at once and share a place."""
    place = f"--answers=file://{folder / 'together'}"
    start = time.perf_counter()
    with ThreadPoolExecutor(runs) as threads:
        folders = [folder / f"machine{number}" for number in range(runs)]
        ended = list(threads.map(lambda each: run(each, items, place, "--batch-size=8", model="0.4,0"), folders))
    asked = [re.search(r"([0-9,]+) asked for", cost.output) for cost in ended]
    counts = [0 if match is None else int(match[1].replace(",", "")) for match in asked]
    print(
        f"{runs} runs of {items:,} questions begun at once: asked {sum(counts) / items:.2f} times in all {counts}, "
        f"{time.perf_counter() - start:.0f} s",
        flush=True,
    )


def main() -> int:
    typed = harness.options(__doc__, items=5_000, rounds=5, names=200_000, logs=10_000, answers=3, together=0)
    if typed.together:
        with tempfile.TemporaryDirectory() as name:
            together(Path(name), typed.together)
        return 0
    with tempfile.TemporaryDirectory() as name, moto() as s3, azurite() as azure:
        met = [matching(Path(name), 100, 4550), listing(Path(name), typed.names)]
        if typed.rounds:
            cost_of_sharing(Path(name), s3, typed.items, typed.rounds)
        met.append(reading(Path(name), [s3, azure], typed.logs, typed.answers))
    print(f"limits: {'met' if all(met) else 'missed'}")
    return not all(met)


if __name__ == "__main__":
    sys.exit(main())
