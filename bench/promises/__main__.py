"""Whether the statistics keep their promises: `python bench/promises [PART...] [--quick]`.

Each part is a module beside this one: `lines(runs)` yields its designs with the simulated figures, and whether they
hold. All parts take about ten minutes of a core, --quick a tenth of that. The exit code is 1 if one is broken.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

RUNS = {"judged": 1000, "alike": 1000, "pooled": 500, "early": 4000, "subset": 1000}
"""The parts, and the simulated runs of each of their designs."""


def main() -> int:
    """Return 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[*RUNS, []], help=f"{', '.join(RUNS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs: wider, for a quick look")
    typed = parser.parse_args()
    broken = list[str]()
    for part in typed.part or RUNS:
        print(f"\n== {part}", flush=True)
        for line, met in import_module(part).lines(RUNS[part] // 10 if typed.quick else RUNS[part]):
            print(line, flush=True)
            broken += [] if met or part in broken else [part]
    print(f"\nbroken: {', '.join(broken)}" if broken else "\nall promises hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
