"""What comparing large runs takes: `python bench/compare.py [ITEMS [RUNS]]`, by default six runs of 26,000 items.

Each run is read by `comparing.load_runs`, and all of them are compared as one study with the values of each unit, as
for a page; then two of them with the bootstrap. Generated results in the shape of GMAI-MMBench. The goals are those of
six runs of 26,000 items (300 MB) and of 260,000 (2 GB), and 20 s of CPU and 1 GB for two runs of 26,000. Ends with exit
code 1 where one is missed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness

from medvqa import comparing

SECONDS, BYTES, STUDY_BYTES = 20.0, 1e9, {26_000: 300e6, 260_000: 2e9}


def main() -> int:
    n, number = map(int, (sys.argv[1:] + ["26000", "6"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name, f"run{seed}") for seed in range(number)]
        for seed, folder in enumerate(folders):
            harness.make_run(folder, n, seed)
        sides, _, reading = harness.timed(lambda: comparing.load_runs(folders))
        held = harness.peak_gib()
        study, wall, cpu = harness.timed(lambda: comparing.study(sides, harness.KNOWN, flips=False))
        peak = harness.peak_gib() * 2**30
        print(
            f"{n} items, {number} runs, {study.tests} tests of one family: read in {reading:.1f} s CPU, compared in "
            f"{wall:.1f} s, {cpu:.1f} s CPU; peak {peak / 1e6:,.0f} MB, {held * 2**30 / 1e6:,.0f} MB when read"
        )
        met = True
        if number <= 6 and n in STUDY_BYTES:
            met = peak < STUDY_BYTES[n]
            print(f"goal {STUDY_BYTES[n] / 1e6:,.0f} MB: {'met' if met else 'missed'}")
        if n > 26_000:
            return not met
        del study
        found, wall, cpu = harness.timed(lambda: comparing.compare(sides[1], sides[0], harness.KNOWN, bootstrap=True))
        peak = harness.peak_gib() * 2**30
        print(
            f"two runs with the bootstrap, {len(found.tables)} comparisons, {len(found.flips)} flips: {wall:.1f} s, "
            f"{cpu:.1f} s CPU, peak {peak / 1e6:,.0f} MB"
        )
        fast = cpu < SECONDS and peak < BYTES
        print(f"goals {SECONDS:g} s of CPU and {BYTES / 1e6:,.0f} MB: {'met' if fast else 'missed'}")
    return not (met and fast)


if __name__ == "__main__":
    sys.exit(main())
