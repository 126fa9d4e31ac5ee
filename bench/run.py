"""What a run costs beside its model: `medvqa run` and `pytest`, in turn, over the same questions; and its reports.

    python bench/run.py [--rows 26000] [--model echo:A] [--times 1]

The questions are those of a GMAI-MMBench table by bench/make_gmai.py. `medvqa report` draws the reports of as many
results with responses of about 300 characters (`harness.make_run`) anew. A line tells the CPU time of one session
(user, system and children) and the largest memory of a process; the last lines tell the ratio of the least times, and
the goals. Wall time says little on a machine with other work.
"""

from __future__ import annotations

import harness
import make_gmai

from medvqa.benchmarks import gmai_mmbench

DOORS = {"medvqa run": ("medvqa.cli", "run"), "pytest": (*harness.PYTEST, "-p", "no:benchmark")}
REPORT = "medvqa report"
GOALS = "at 26,000 questions: medvqa run 220 MB, medvqa report 3 s of CPU"


def main() -> None:
    typed = harness.options(__doc__, rows=26_000, model="echo:A", times=1)
    name = gmai_mmbench.VAL.name
    with harness.suite(benchmark=name) as folder:
        (folder / "conftest.py").unlink()
        make_gmai.write(folder / "data" / make_gmai.VAL, rows=typed.rows, size=1_000 * typed.rows)
        asked = (f"--model={typed.model}", f"--benchmark={name}", f"--data={folder / 'data'}")
        # The first session indexes the table.
        harness.session(folder, *DOORS["medvqa run"], *asked, "--limit=10")
        harness.make_run(folder / "large", typed.rows)
        least = dict.fromkeys([*DOORS, REPORT], float("inf"))
        for number in range(typed.times):
            for door in least:
                words = (
                    (*DOORS[door], *asked, f"--run={door[:6]}-{number}")
                    if door in DOORS
                    else ("medvqa.cli", "report", "large")
                )
                cost = harness.session(folder, *words, ok=(0, 1))
                least[door] = min(least[door], cost.cpu)
                times = f"{cost.cpu:8.2f} s CPU {cost.wall:8.2f} s {cost.peak_mb:6.0f} MB"
                print(f"{door:14}{typed.rows:>9} questions {times}", flush=True)
        print(f"medvqa run / pytest: {least['medvqa run'] / least['pytest']:.2f}")
        print(f"goals {GOALS}")


if __name__ == "__main__":
    main()
