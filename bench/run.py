"""What a run costs beside its model: `medvqa run` and `pytest`, in turn, over the same questions.

    python bench/run.py [--rows 26000] [--model echo:A] [--times 1]

The questions are those of a GMAI-MMBench table by bench/make_gmai.py. A line tells the CPU time of one session: user,
system and children; the last line tells the ratio of the least of each. Wall time says little on a machine
with other work.
"""

from __future__ import annotations

import harness
import make_gmai

from medvqa.benchmarks import gmai_mmbench

DOORS = {"medvqa run": ("medvqa.cli", "run"), "pytest": (*harness.PYTEST, "-p", "no:benchmark")}


def main() -> None:
    typed = harness.options(__doc__, rows=26_000, model="echo:A", times=1)
    name = gmai_mmbench.VAL.name
    with harness.suite(benchmark=name) as folder:
        (folder / "conftest.py").unlink()
        make_gmai.write(folder / "data" / make_gmai.VAL, rows=typed.rows, size=1_000 * typed.rows)
        asked = (f"--model={typed.model}", f"--benchmark={name}", f"--data={folder / 'data'}")
        # The first session indexes the table.
        harness.session(folder, *DOORS["medvqa run"], *asked, "--limit=10")
        least = dict.fromkeys(DOORS, float("inf"))
        for number in range(typed.times):
            for door, words in DOORS.items():
                cost = harness.session(folder, *words, *asked, f"--run={words[0]}-{number}")
                least[door] = min(least[door], cost.cpu)
                print(f"{door:12}{typed.rows:>9} questions {cost.cpu:8.2f} s CPU {cost.wall:8.2f} s", flush=True)
        print(f"medvqa run / pytest: {least['medvqa run'] / least['pytest']:.2f}")


if __name__ == "__main__":
    main()
