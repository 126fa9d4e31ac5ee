"""What a run costs beside its model: `medvqa run` and `pytest`, in turn, over the same questions.

    python bench/run.py [--rows 26000] [--model echo:A] [--times 1]

The questions are those of a GMAI-MMBench table by bench/make_gmai.py. A line tells the CPU time of one session: user,
system and children; the last line tells the ratio of the least of each. Wall time says little on a machine
with other work.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEST = """
import pytest

@pytest.mark.vqa("gmai-mmbench-val")
def test_validation(item, evaluate):
    evaluate(item)
"""
QUIET = ("-q", "-p", "no:randomly", "-p", "no:benchmark", "-p", "no:cacheprovider")
DOORS = {"medvqa run": ("medvqa.cli", "run"), "pytest": ("pytest", *QUIET)}


def cpu(folder: Path, door: str, *arguments: str) -> tuple[float, float]:
    """CPU and wall seconds of one session. SystemExit with its output if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", *DOORS[door], *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    shutil.rmtree(folder / "reports", ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=26_000)
    parser.add_argument("--model", default="echo:A")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, beside = Path(name), Path(__file__).parent
        (folder / "test_it.py").write_text(TEST)
        make = [sys.executable, str(beside / "make_gmai.py"), str(folder / "data")]
        subprocess.run([*make, "--rows", str(options.rows), "--bytes", str(1_000 * options.rows)], check=True)
        typed = (f"--model={options.model}", "--benchmark=gmai-mmbench-val", f"--data={folder / 'data'}", "--run=one")
        least = dict.fromkeys(DOORS, float("inf"))
        # The first session indexes the table.
        cpu(folder, "medvqa run", *typed, "--limit=10")
        for _ in range(options.times):
            for door in DOORS:
                seconds, wall = cpu(folder, door, *typed)
                least[door] = min(least[door], seconds)
                print(f"{door:12}{options.rows:>9} questions {seconds:8.2f} s CPU {wall:8.2f} s", flush=True)
        print(f"medvqa run / pytest: {least['medvqa run'] / least['pytest']:.2f}")


if __name__ == "__main__":
    main()
