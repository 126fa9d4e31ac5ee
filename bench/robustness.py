"""How often intervals of robustness hold the truth: `python bench/robustness.py [--runs=N]`.

Simulated runs of a model whose robustness is known (tests/support/robust.py): 80 % right on clean images, 79, 75, 68,
60 and 50 % at levels 1 to 5 of a perturbation, and 76, 80 and 72 % in three forms of the questions; 60, 120 and 240
questions, one or four of a patient. A line has the share of runs whose interval of 95 % holds the truth, with its
Clopper-Pearson interval: the differences to the clean run and the shares retained at level 1 and at level 5, both of
the mean over levels, and the consistency over all forms. Draws are seeded. If the interval of a share ends below
LEAST, the script ends with exit code 1.

With 200 runs of each design (four minutes of a core), 93.5 to 98.5 % hold with one question a patient, and 94.5 to
99.5 % with four: the declared correlation of changes within groups makes intervals wide.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from medvqa import comparing
from medvqa import statistics as st
from medvqa.comparing import Robustness
from medvqa.figures import Figure
from support import robust

QUESTIONS, EACH, LEAST = (60, 120, 240), (1, 4), 0.93
RIGHT = {"": robust.CLEAN, **robust.CURVE, **robust.FORMS}
Held = tuple[float | None, float | None]


def intervals(found: Robustness) -> Iterator[tuple[str, float, Held]]:
    """Yield the intervals of a run with their names and the truth."""
    for row in found.changes:
        if row.kind == "image" and row.level in (None, 1, 5):
            truth = robust.MEAN if row.level is None else robust.CURVE[f"{row.name}:{row.level}"]
            level, change = "mean" if row.level is None else f"level {row.level}", row.compared.shown
            yield f"difference, {level}", truth - robust.CLEAN, (change.low, change.high)
            yield f"retained, {level}", truth / robust.CLEAN, _held(row.retained)
    (every,) = (each for each in found.consistency if len(each.forms) == len(robust.FORMS))
    yield "consistency", robust.consistency(robust.CLEAN, *robust.FORMS.values()), _held(every.share)


def _held(figure: Figure) -> Held:
    return figure.low, figure.high


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="simulated benchmarks of each design (default: 200)")
    runs, missed = parser.parse_args().runs, False
    print(f"{'questions':>9} {'a patient':>9}  {'interval of':<20} {'holds':>7}  95 % interval   without one")
    for number, each in product(QUESTIONS, EACH):
        draw, counts = np.random.default_rng([number, each]), dict[str, list[bool | None]]()
        for _ in range(runs):
            (found,) = comparing.robustness(robust.runs(RIGHT, number, each, draw), {"ward": robust.WARD})
            for name, truth, (low, high) in intervals(found):
                held = None if low is None or high is None else low <= truth <= high
                counts.setdefault(name, []).append(held)
        for name, held in counts.items():
            told = [each for each in held if each is not None]
            low, high = st.clopper_pearson(sum(told), max(len(told), 1), 0.975)
            missed |= high < LEAST
            share = f"{100 * sum(told) / max(len(told), 1):5.1f} %"
            within = f"{100 * float(low):.1f} to {100 * float(high):.1f}"
            print(f"{number:>9} {each:>9}  {name:<20} {share:>7}  {within:<14}  {len(held) - len(told)}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
