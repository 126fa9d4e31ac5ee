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

import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean

import harness

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
    told = {"cpu": usage.ru_utime + usage.ru_stime, "collecting": collecting, "peak": peak}
    name = f"told-{os.environ.get('PYTEST_XDIST_WORKER', 'controller')}.json"
    pathlib.Path(__file__).with_name(name).write_text(json.dumps(told))

# xdist ends a worker that takes ten seconds to go, which one of 130,000 items may on a busy machine.
def pytest_unconfigure():
    tell()

atexit.register(tell)
"""
COLUMNS = ("CPU ms", "controller", "worker", "collection", "MB", "MB worker", "wall ms", "growth")
IMPORT = "import pytest, time; t = time.perf_counter(); import medvqa.plugin; print(1000 * (time.perf_counter() - t))"


def measured(folder: Path, items: int, wrong: float, *words: str) -> tuple[list[float], float, float, float]:
    """Run one session; return CPU, wall and collecting seconds, and MB, in the order of COLUMNS."""
    wall = harness.session(folder, *harness.PYTEST, *words, ITEMS=items, WRONG=wrong).wall
    told = {path.stem: json.loads(path.read_text()) for path in folder.glob("told-*")}
    for name in told:
        (folder / f"{name}.json").unlink()
    controller = told.pop("told-controller")
    workers = list(told.values()) or [controller]
    cpu = sum(worker["cpu"] for worker in [controller, *told.values()])
    seconds = [cpu, controller["cpu"], *(mean(worker[part] for worker in workers) for part in ("cpu", "collecting"))]
    return seconds, wall, controller["peak"], max(worker["peak"] for worker in workers)


def main() -> None:
    typed = harness.options(__doc__, sizes=[5_000, 26_000, 130_000], workers=2, wrong=0.6)
    command = [sys.executable, "-c", IMPORT]
    milliseconds = [float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    print(f"import of the plugin: {min(milliseconds):.0f} ms")
    print(" " * 26 + "".join(f"{column:>12}" for column in COLUMNS), flush=True)
    before: dict[tuple[str, str], float] = {}
    asked = ("--model=simulated:", "--run=asked")
    with harness.suite(TELL) as suite, harness.suite() as bare:
        (bare / "conftest.py").write_text(TELL)
        (bare / "test_it.py").write_text(harness.BARE)
        sessions = {
            "bare": (bare, ("-p", "no:medvqa")),
            "asked": (suite, asked),
            "again": (suite, ("--model=simulated:", "--run=again", "--answers=asked")),
        }
        for items in typed.sizes:
            for spread in ["", *([f"-n{typed.workers}"] if typed.workers else [])]:
                for title, (folder, words) in sessions.items():
                    seconds, wall, *peaks = measured(folder, items, typed.wrong, *words, *filter(None, [spread]))
                    cells = [f"{1000 * each / items:.3f}" for each in seconds] + [f"{peak:.0f}" for peak in peaks]
                    cells.append(f"{1000 * wall / items:.3f}")
                    cells += [f"{seconds[0] / before[title, spread]:.2f}"] if (title, spread) in before else []
                    shown = "".join(f"{cell:>12}" for cell in cells)
                    print(f"{title:8}{items:>9} {spread:8}{shown}", flush=True)
                    before[title, spread] = seconds[0]
                shutil.rmtree(suite / "reports")


if __name__ == "__main__":
    main()
