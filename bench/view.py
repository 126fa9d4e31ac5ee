"""Memory and times of `medvqa view` with large runs: `python bench/view.py [--items N] [--runs N] [--keep DIR]`.

A run in the shape of GMAI-MMBench with responses of about 300 characters (bench/harness.py), and ten runs of 26,000
questions, are generated and served by a real server. A client then reads the list, the progress, 100 pages at random
places and filters, searches of texts, and the history of an item. Lines are appended to the large run under its lock,
and the list and the progress are polled until they tell them. The peak of the server's memory is read from /proc
before and after the page of the run is drawn, which is done by a child process of its own. `--keep` leaves the folders
in DIR, and takes those that are there.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import harness

from medvqa.benchmarks import gmai_mmbench
from medvqa.items import OUTCOMES, QuestionKey
from medvqa.records import coverage, run_folder, run_record, selected
from medvqa.records.lock import Lock
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN

PAGES, MEMORY, PAGE, HISTORY = 100, 300, 100, 1000
"""Pages that are read; the goals: MB of the server, ms of a page, ms of the history of an item in ten runs."""
POLL = 0.1
"""Seconds between two questions for what changed; a page waits 2 seconds."""
NAME = gmai_mmbench.VAL.name


def make(root: Path, items: int, runs: int) -> None:
    """The large run and the smaller ones, unless they are there."""
    root.mkdir(parents=True, exist_ok=True)
    large(root / "large", items)
    if runs:
        large(root / "small-0", 26_000)
    for number in range(1, runs):
        if not (root / f"small-{number}").exists():
            shutil.copytree(root / "small-0", root / f"small-{number}")


def large(folder: Path, items: int) -> None:
    """A finished run with the keys that it selected."""
    if folder.exists():
        return
    harness.make_run(folder, items)
    keys = [QuestionKey(NAME, f"{number:05}", "mc") for number in range(items)]
    selected.select(folder, "s", keys)
    selected.add_selected(folder)
    run = {**run_record.read_run(folder).as_json(), "name": "large", "finished": "2026-01-01T01:00:00+00:00"}
    run["benchmarks"][NAME]["questions"] = {"mc": items}
    run_folder.write_json(folder / RUN, run)
    chosen = coverage.select_from(keys, run_record.read_run(folder), ())
    run_folder.write_json(folder / RUN, {**run, "selection": chosen.as_json()})


class Client:
    """Requests with the cookie of the server."""

    def __init__(self, address: str) -> None:
        self._origin = address.partition("/?")[0]
        self._opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())
        self._opener.open(address)

    def open(self, path: str) -> Any:
        return self._opener.open(self._origin + path, timeout=600)

    def get(self, path: str, **parameters: object) -> dict:
        return json.loads(self.open(f"{path}?{urlencode(parameters)}").read())


@contextmanager
def server(root: Path) -> Iterator[tuple[int, Client]]:
    """A server of the folder: its process, and a client."""
    command = [sys.executable, "-m", "medvqa.cli", "view", str(root), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = next(word for word in process.stdout.readline().split() if word.startswith("http"))
        try:
            yield process.pid, Client(address)
        finally:
            started = time.perf_counter()
            process.terminate()
            process.wait()
            print(f"  ended in {time.perf_counter() - started:.1f} s")


def peak(pid: int) -> float:
    """The largest memory that a process has had, in MB; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")), 0.0)


def children(pid: int) -> list[int]:
    """The children of a process, and theirs."""
    try:
        words = " ".join((task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()).split()
    except OSError:
        return []
    own = [int(word) for word in words]
    return [*own, *(below for child in own for below in children(child))]


def used(pid: int) -> float:
    """The CPU time of a process in ms; threads that have ended do not count."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e6


def timed(pid: int, name: str, call: Callable[[], object], times: int = 1, goal: float = 0) -> None:
    """Print the time of a call, or median and slowest of several, and the most CPU time that the server took for it."""
    taken, cpu = [], []
    for _ in range(times):
        before, started = used(pid), time.perf_counter()
        call()
        taken.append(1000 * (time.perf_counter() - started))
        cpu.append(used(pid) - before)
    slowest = f", slowest {max(taken):.0f}" if times > 1 else ""
    aim = f" (goal: {goal:.0f})" if goal else ""
    line = f"  {name:<45} {statistics.median(taken):7.0f} ms{slowest}{aim}"
    print(f"{line}; CPU of the server {max(cpu):.0f}", flush=True)


def pages(pid: int, client: Client, items: int) -> None:
    """Pages at random places, with filters of all kinds in turn."""
    draw = random.Random(0)
    filters = itertools.cycle(
        [
            lambda: {"start": draw.randrange(items)},
            lambda: {"start": draw.randrange(items), "order": "latest"},
            lambda: {"outcome": draw.choice(OUTCOMES[:3]), "start": draw.randrange(1000)},
            lambda: {"outcome": "wrong,unparsed", "order": "latest", "count": 200},
            lambda: {"id": f"{draw.randrange(items):05}"},
            lambda: {"id": f"{draw.randrange(100):02}*", "benchmark": NAME},
        ]
    )
    timed(pid, f"{PAGES} pages", lambda: client.get("/api/runs/large/items", **next(filters)()), PAGES, PAGE)


def live(pid: int, client: Client, folder: Path, items: int) -> None:
    """Append results under the lock, and ask for the list and the progress as two pages do, until both tell them."""
    lock = Lock(folder)
    lock.acquire()
    lines = list(itertools.islice(harness.results(items + 500, seed=3), items, items + 500))
    total, taken, version = items, [], client.get("/api/runs")["version"]
    cpu = used(pid)
    with (folder / RESULTS).open("ab") as file:
        size = file.tell()
        for start in range(0, len(lines), 50):
            begun = time.perf_counter()
            file.write(b"".join(run_folder.encode(line) + b"\n" for line in lines[start : start + 50]))
            file.flush()
            total, listed = total + 50, 0
            while listed < total and time.perf_counter() - begun < 60:
                time.sleep(POLL)
                answer = client.get("/api/runs", since=version)
                version = answer["version"]
                listed = max([listed, *(run["answered"] for run in answer["runs"] if run["name"] == "large")])
            assert client.get("/api/runs/large/progress")["answered"] == total
            taken.append(1000 * (time.perf_counter() - begun))
    lock.release()
    cpu = (used(pid) - cpu) / len(taken)
    print(f"  50 appended results are told after {statistics.median(taken):.0f} ms; CPU of the server {cpu:.0f}")
    os.truncate(folder / RESULTS, size)


def main() -> int:
    typed = harness.options(__doc__, items=130_000, runs=10, keep=None, no_drawing=False)
    with tempfile.TemporaryDirectory() as temporary:
        root = typed.keep or Path(temporary, "reports")
        make(root, typed.items, typed.runs)
        size = (root / "large" / RESULTS).stat().st_size / 1e6
        print(f"{typed.items:,} items ({size:.0f} MB), and {typed.runs} runs of 26,000")
        with server(root) as (pid, client):
            measure(pid, client, root, typed.items, drawing=not typed.no_drawing)
    return 0


def measure(pid: int, client: Client, root: Path, items: int, *, drawing: bool) -> None:
    """Use the server as a person would, and print times and memory."""
    print(f"  memory once it is started {peak(pid):.0f} MB")
    timed(pid, "list of runs, the first", lambda: whole(client))
    timed(pid, "list of runs", lambda: client.get("/api/runs"), 5)
    timed(pid, "progress, the first: reads the whole file", lambda: client.get("/api/runs/large/progress"))
    timed(pid, "progress", lambda: client.get("/api/runs/large/progress"), 5)
    pages(pid, client, items)
    for text in ("oedema", "the answer is b", "no such words", "größe"):
        timed(pid, f"search of {text!r}", lambda text=text: client.get("/api/runs/large/items", text=text), goal=PAGE)
    item = {"benchmark": NAME, "id": "00017"}
    timed(pid, "history of an item in all runs", lambda: client.get("/api/history", **item), 5, HISTORY)
    live(pid, client, root / "large", items)
    print(f"  memory of the server at its peak {peak(pid):.0f} MB (goal: {MEMORY})")
    if drawing:
        drawn(pid, client)


def whole(client: Client) -> None:
    """Ask for the list until all runs are read."""
    while client.get("/api/runs").get("unread"):
        time.sleep(POLL)


def drawn(pid: int, client: Client) -> None:
    """The page of the large run, and the memory of the child that draws it."""
    largest, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            largest[0] = max([largest[0], *map(peak, children(pid))])

    watcher = threading.Thread(target=watch)
    watcher.start()
    timed(pid, "page of the run, drawn by a child", lambda: client.get("/api/bundle", run="large"))
    ended.set()
    watcher.join()
    print(f"  memory of the child at its peak {largest[0]:.0f} MB, of the server then {peak(pid):.0f} MB")


if __name__ == "__main__":
    raise SystemExit(main())
