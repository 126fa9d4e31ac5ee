"""How long the measures of a large run take: `python bench/metrics.py [RESULTS]`, by default 100,000 results."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Iterator

from medvqa import metrics
from medvqa.items import Answer, Item, Result, Score

GOAL = 5.0
"""Seconds of CPU time for 100,000 results, intervals included; without them it was 2."""
LETTERS = "ABCDE"
SIZES = {"label": 717, "modality": 38, "task": 18, "department": 18, "granularity": 4, "text_only": 2}
"""Number of values of each dimension, as in GMAI-MMBench."""


def results(n: int) -> Iterator[Result]:
    """A run of three quarters single-choice questions, half of them in pairs, and one quarter multiple response."""
    draw = random.Random(0)
    for i in range(n):
        multiple = i % 8 > 5
        paired = i % 8 < 4
        item = Item(
            id=f"{i:06}",
            benchmark="bench",
            kind="multiple_response" if multiple else "single_choice",
            question="Which?",
            options={letter: f"finding {letter}" for letter in (LETTERS[:2] if paired else LETTERS)},
            answers=tuple(sorted(draw.sample(LETTERS, 2))) if multiple else ("AB"[i % 2],),
            tags={dimension: (f"{dimension}_{draw.randrange(size)}",) for dimension, size in SIZES.items()},
            pair_id=f"{i // 2:06}" if paired else None,
        )
        yield Result("run", item, "", Answer(""), score(item, Answer(draw.choice(list(item.options)))))


def score(item: Item, answer: Answer) -> Score:
    chosen = tuple(answer.text.split(","))
    right = len(set(chosen) & set(item.answers))
    value = 0.0 if right < len(chosen) else right / len(item.answers)
    return Score(value, "correct" if value == 1 else "partial" if value else "wrong", chosen)


def main() -> int:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    run = list(results(n))
    random.Random(1).shuffle(run)
    every = (
        metrics.accuracy,
        metrics.macro_accuracy("task"),
        metrics.mean_score,
        metrics.macro_score("task"),
        metrics.precision_mcls,
        metrics.recall_mcls,
        metrics.exact_match,
        metrics.set_accuracy,
        metrics.individual_accuracy,
        metrics.confusion,
        *metrics.rates,
    )
    gc.collect()  # what making the run left behind is not charged
    start, cpu = time.perf_counter(), time.process_time()
    found = metrics.measures(run, every, ("task",), benchmark="bench", signature={}, score=score)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{n} results, {len(every)} metrics, {len(found)} measures: {wall:.2f} s, {cpu:.2f} s CPU")
    goal = GOAL * n / 100_000
    print(f"goal {goal:.2f} s: {'met' if cpu < goal else 'missed'}")
    return cpu >= goal


if __name__ == "__main__":
    sys.exit(main())
