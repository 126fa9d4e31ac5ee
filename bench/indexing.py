"""Indexing a large GMAI-MMBench table: MB/s beside a plain read of the same file, and peak memory.

    python bench/indexing.py [--bytes 2e9] [--rows 4550] [--folder DIR]

The table is written by `bench/make_gmai.py` and deleted afterwards. Both readings come from the page cache where the
file fits there. CPU is given beside wall time, which on a machine with other work says little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE = Path(__file__).with_name("make_gmai.py")
TELL = """
import json, re, sys, time
from pathlib import Path

path = Path(sys.argv[1])
start, cpu = time.perf_counter(), time.process_time()
{work}
took = time.perf_counter() - start, time.process_time() - cpu
# Not ru_maxrss, which begins with the size of the process that started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps([*took, peak]))
"""
PLAIN = """
with path.open("rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
"""
INDEX = """
from medvqa.tables import image_cells
image_cells.read(path, root=path.parent)
"""


def measured(work: str, path: Path) -> tuple[float, float, float]:
    """Wall and CPU seconds, and peak MB, of a fresh process with a cache folder of its own."""
    command = [sys.executable, "-c", TELL.format(work=work), str(path)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(path.parent / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    wall, cpu, peak = map(float, done.stdout.strip().strip("[]").split(","))
    return wall, cpu, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--rows", type=int, default=4550)
    parser.add_argument("--folder", type=Path, help="where there is room (default: the folder of temporary files)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        make = [sys.executable, MAKE, name, f"--rows={options.rows}", f"--bytes={options.bytes}"]
        subprocess.run([str(part) for part in make], check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(name, "gmai-mmbench").glob("*.tsv")
        size = path.stat().st_size / 1e6
        print(f"{size:.0f} MB, {options.rows} rows")
        print(f"{'':22}{'MB/s':>10}{'MB/s of CPU':>14}{'s of CPU':>10}{'peak MB':>10}")
        for title, work in (("plain read", PLAIN), ("indexed", INDEX), ("index found again", INDEX)):
            wall, cpu, peak = measured(work, path)
            print(f"{title:22}{size / wall:10.0f}{size / cpu:14.0f}{cpu:10.2f}{peak:10.0f}", flush=True)


if __name__ == "__main__":
    main()
