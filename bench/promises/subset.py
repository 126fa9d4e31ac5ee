"""Whether cheap subsets keep their promise: `python bench/promises subset`.

`covers`: the interval of 95 % holds the value of the whole benchmark for a new model in at least 93 % of draws. The
score of a question depends on its difficulty, on the model's skill and on chance; questions are single, in 20 groups of
30, or in pairs that count if both are right (drawn by pairs). 3, 5 or 10 models are known. The new model is `alike` or
`unlike`: it does not share the others' difficulties. Models of a `family` differ in 2 % of their answers from the first
one; unlike is 10 %.

`random` is the width of the interval / that of a random sample of as many: below 1 the subset is the better one.
`expected` is the standard error that is printed beforehand / the true one, for a model that is alike.

Draws are seeded. 1,000 runs take about two minutes of a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from medvqa.statistics import subset

Floats = NDArray[np.float64]
LEAST = 0.93
DESIGNS = {
    "single": (1500, 150),
    "20 x 30": (600, 60),
    "pairs": (176, 44),
    "family": (1500, 150),
}
"""Questions or pairs, and how many of these are drawn."""
MEANS = (0.0, 2.5)
"""Mean skill: about half of the answers are right, or 9 of 10."""


def answered(draw: np.random.Generator, kind: str, models: int, mean: float, *, unlike: bool) -> Floats:
    """Return the scores of known models and, in the last row, of a new one: (models + 1, units)."""
    units, each = DESIGNS[kind][0], 2 if kind == "pairs" else 1
    group = np.arange(units) // 30 if "30" in kind else np.arange(units)

    def difficulty() -> Floats:
        of_group = draw.standard_normal(group.max() + 1)[group] if "30" in kind else 0.0
        return np.asarray(1.5 * draw.standard_normal(units) + of_group)

    if kind == "family":
        # Checkpoints that answer nearly all questions as the first one does.
        first, changes = draw.random(units) < 0.7, 0.1 if unlike else 0.02
        return np.array(
            [first ^ (draw.random(units) < (0.02, changes)[place == models]) for place in range(models + 1)], float
        )
    shared = difficulty()
    rows = []
    for place in range(models + 1):
        own = difficulty() if unlike and place == models else shared
        logit = mean + 0.5 * draw.standard_normal() - own
        right = draw.random((each, units)) < 1 / (1 + np.exp(-logit))
        rows.append(right.all(axis=0).astype(float))
    return np.array(rows)


def lines(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield a line for each design, and whether it covers."""
    for kind, models, unlike, mean in product(DESIGNS, (3, 5, 10), (False, True), MEANS):
        if kind == "family" and mean:
            continue
        draw = np.random.default_rng([len(kind), models, unlike, int(mean)])
        number, held = DESIGNS[kind][1], 0
        errors, widths, by_chance, expected, means = (list[float]() for _ in range(5))
        for seed in range(runs):
            scores = answered(draw, kind, models, mean, unlike=unlike)
            truth = float(scores[-1].mean())
            part = subset.draw(scores[:-1], number, seed)
            found = estimated(part, scores[-1])
            held += found.low <= truth <= found.high
            errors.append(found.value - truth)
            widths.append(found.high - found.low)
            expected.append(part.error)
            means.append(truth)
            chance = draw.permutation(scores[-1])[:number]
            by_chance.append(2 * 1.96 * sqrt((1 - number / scores.shape[1]) * chance.var(ddof=1) / number))
        share = held / runs
        met = share >= LEAST - 2 * sqrt(LEAST * (1 - LEAST) / runs)
        error = sqrt(np.mean(np.square(errors)))
        yield (
            f"{kind:<14}{models:2d} models  new {'unlike' if unlike else 'alike':<7} mean {100 * np.mean(means):2.0f}  "
            f"covers {100 * share:5.1f} %  error {100 * error:4.1f}  bias {100 * np.mean(errors):+4.1f}  "
            f"width / random {np.mean(widths) / np.mean(by_chance):.2f}"
            + ("" if unlike else f"  expected / true {np.mean(expected) / error:.2f}")
            + ("" if met else "  MISSED"),
            met,
        )


def estimated(part: subset.Subset, new: Floats) -> subset.Whole:
    """Return the estimate of the whole from a new model's scores of the drawn units."""
    residual = (new - part.slope * part.predicted)[part.drawn]
    known = part.slope * float(part.predicted.mean())
    return subset.whole(residual, part.stratum[part.drawn], np.bincount(part.stratum), known)
