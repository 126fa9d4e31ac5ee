"""What comparing large runs takes: `python bench/compare.py [ITEMS [RUNS]]`, by default two runs of 26,000 items.

Two runs are compared without and with the bootstrap, more of them as one study. Generated results in the shape of
GMAI-MMBench; the limits of two runs are 20 s on two cores and 1 GB. Ends with exit code 1 where one is missed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness

from medvqa import comparing

SECONDS, BYTES = 20.0, 1e9


def main() -> int:
    n, number = map(int, (sys.argv[1:] + ["26000", "2"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, f"run{seed}") for seed in range(number)]
        for seed, folder in enumerate(folders):
            harness.make_run(folder, n, seed)
        sides = [comparing.load(folder) for folder in folders]
    held = harness.peak_gib()
    if number > 2:
        study, wall, cpu = harness.timed(lambda: comparing.study(sides, harness.KNOWN, flips=False))
        print(f"{n} items, {number} runs, {study.tests} tests of one family: {wall:.1f} s, {cpu:.1f} s CPU")
        return 0
    met = True
    for bootstrap, said in ((False, "without bootstrap"), (True, "with the bootstrap")):
        found, wall, cpu = harness.timed(lambda b=bootstrap: comparing.compare(*sides, harness.KNOWN, bootstrap=b))
        peak = harness.peak_gib()
        print(
            f"{n} items, two runs, {len(found.tables)} comparisons, {len(found.flips)} flips, {said}: {wall:.1f} s, "
            f"{cpu:.1f} s CPU, peak {peak:.2f} GiB, of which the results {held:.2f}"
        )
        met &= cpu < 2 * SECONDS and wall < SECONDS and peak * 2**30 < BYTES
    print(f"limits {SECONDS:g} s and {BYTES / 1e9:g} GB: {'met' if met else 'missed'}")
    return not met


if __name__ == "__main__":
    sys.exit(main())
