"""What comparing large runs takes: `python bench/compare.py [ITEMS [RUNS]]`, by default two runs of 26,000 items.

Two runs are compared without and with the bootstrap, more of them as one study. Generated results in the dimensions of
GMAI-MMBench's data; the limits of two runs are 20 s on two cores and 1 GB. Ends with exit code 1 where one is missed.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Iterator

from medvqa import comparing, metrics
from medvqa.items import Answer, Benchmark, Item, Prompt, Result, Score

SECONDS, BYTES = 20.0, 1e9
SIZES = {"task": 18, "department": 19, "modality": 38, "granularity": 4, "label": 717}
"""Number of values of each dimension, as in GMAI-MMBench."""
BENCHMARK = Benchmark(
    name="bench",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=lambda item, answer: Score(float(answer.text in item.answers), "correct"),
    metrics=(metrics.accuracy, metrics.macro_accuracy("task"), *metrics.rates),
    headline=("accuracy", "macro_accuracy"),
    dimensions=("task", "department", "modality", "granularity"),
)


def results(n: int, accuracy: float, seed: int) -> Iterator[Result]:
    """Answers to single-choice questions, two for each image; the seed decides who is right, not what is asked."""
    draw, tagger = random.Random(seed), random.Random(0)
    options = {letter: f"finding {letter}" for letter in "ABCDE"}
    for i in range(n):
        tags = {dimension: (f"{dimension}_{tagger.randrange(size)}",) for dimension, size in SIZES.items()}
        item = Item(f"{i:06}", "bench", "single_choice", f"Which? {i}", options, ("A",), (), tags, None, str(i // 2))
        right = draw.random() < accuracy
        score = Score(float(right), "correct" if right else "wrong", ("A" if right else "B",))
        yield Result("run", item, "", Answer("A" if right else "B. " + 30 * "because "), score)


def several(n: int, number: int) -> int:
    """Compare several runs; there is no limit."""
    sides = [comparing.Side(f"run {i}", {}, tuple(results(n, 0.5 + i / 100, i))) for i in range(number)]
    wall, cpu = time.perf_counter(), time.process_time()
    study = comparing.study(sides, {"bench": BENCHMARK}, flips=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{n} items, {number} runs, {study.tests} tests of one family: {wall:.1f} s, {cpu:.1f} s CPU")
    return 0


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 26_000
    if len(sys.argv) > 2:
        return several(n, int(sys.argv[2]))
    sides = [
        comparing.Side(name, {}, tuple(results(n, p, seed)))
        for seed, (name, p) in enumerate([("new", 0.53), ("baseline", 0.52)])
    ]
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    met = True
    for bootstrap in (False, True):
        wall, cpu = time.perf_counter(), time.process_time()
        found = comparing.compare(sides[0], sides[1], {"bench": BENCHMARK}, bootstrap=bootstrap)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        with_it = "with the bootstrap" if bootstrap else "without bootstrap"
        print(
            f"{n} items, two runs, {len(found.tables)} comparisons, {len(found.flips)} flips, {with_it}: {wall:.1f} s, "
            f"{cpu:.1f} s CPU, peak {peak:.2f} GiB, of which the results {held:.2f}"
        )
        met &= cpu < 2 * SECONDS and wall < SECONDS and peak * 2**30 < BYTES
    print(f"limits {SECONDS:g} s and {BYTES / 1e9:g} GB: {'met' if met else 'missed'}")
    return not met


if __name__ == "__main__":
    sys.exit(main())
