"""Indexing a large GMAI-MMBench table: MB/s beside a plain read of the same file, and peak memory.

    python bench/indexing.py [--bytes 2e9] [--rows 4550] [--folder DIR]

The table is written by `bench/make_gmai.py` and deleted afterwards. Both readings come from the page cache where the
file fits there. CPU is given beside wall time, which on a machine with other work says little.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
import make_gmai

TELL = """
import re, sys, time
from pathlib import Path

path = Path(sys.argv[1])
start, cpu = time.perf_counter(), time.process_time()
{work}
took = time.perf_counter() - start, time.process_time() - cpu
# Not ru_maxrss, which begins with the size of the process that started this one.
print(*took, int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
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


def main() -> None:
    typed = harness.options(__doc__, bytes=2e9, rows=4550, folder=None)
    with tempfile.TemporaryDirectory(dir=typed.folder) as name:
        path = Path(name) / make_gmai.VAL
        make_gmai.write(path, rows=typed.rows, size=int(typed.bytes))
        size = path.stat().st_size / 1e6
        print(f"{size:.0f} MB, {typed.rows} rows")
        print(f"{'':22}{'MB/s':>10}{'MB/s of CPU':>14}{'s of CPU':>10}{'peak MB':>10}")
        environment = {**os.environ, "XDG_CACHE_HOME": str(Path(name, "cache"))}
        for title, work in (("plain read", PLAIN), ("indexed", INDEX), ("index found again", INDEX)):
            command = [sys.executable, "-c", TELL.format(work=work), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            wall, cpu, peak = map(float, done.stdout.split())
            print(f"{title:22}{size / wall:10.0f}{size / cpu:14.0f}{cpu:10.2f}{peak:10.0f}", flush=True)


if __name__ == "__main__":
    main()
