"""Whether judged means that few labels correct keep their promises: `python bench/promises judged`.

`covers`: the interval of 95 % of the corrected mean holds the true mean in at least 93 % of runs. A judge whose mean is
10 points too high scores 2,000 answers, people 120 of them, drawn at random (`simple`) or as `medvqa agreement` draws a
sheet (`sheet`, by the judge's score). Answers are independent, in patients of 30, or in patients of 1 to 10; people's
scores and the judge's errors have a latent correlation of 0.3 within a patient. Four judges differ in kappa, one with
scores of 0, 0.5 and 1. `width` is that of the corrected interval / that of people's scores alone, on average; in runs
with few disagreements both are the same.

`passes`: at a true loss of the margin, a gate whose margin is multiplied by the lower end of the reliability of such a
sheet passes in at most 5 % of runs; in brackets with the estimate in place of the lower end, and with no correction.

Draws are seeded. 1,000 runs take about four minutes of a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.metrics import cohen_kappa_score

from medvqa import statistics as st

Floats = NDArray[np.float64]
Groups = NDArray[np.intp]

N, LABELLED, ICC = 2000, 120, 0.3
LEAST = 0.93
JUDGES = ((0.6, 0.265, 0.01), (0.6, 0.3, 0.033), (0.4, 0.18, 0.02), (0.3, 0.157, 0.033))
"""True mean, share of wrong answers taken for right, and of right ones taken for wrong: all are 10 points too high."""
MARGIN, GATED, FLIPS = 0.06, 1500, 0.15


def grouped(draw: np.random.Generator, kind: str, n: int) -> Groups:
    """Return the group of each of n answers."""
    sizes = {"single": np.ones(n, int), "patients of 30": np.full(n, 30), "patients of 1-10": draw.integers(1, 11, n)}
    return np.repeat(np.arange(n), sizes[kind])[:n]


def latent(draw: np.random.Generator, group: Groups) -> Floats:
    """Return standard normal numbers, correlated within groups."""
    shared = draw.standard_normal(int(group.max()) + 1)[group]
    return np.asarray(sqrt(ICC) * shared + sqrt(1 - ICC) * draw.standard_normal(len(group)))


def judged(error: Floats, truth: NDArray[np.bool_], false: float, missed: float) -> Floats:
    """Return a judge's scores of right and wrong answers, from its latent errors."""
    return np.where(truth, error > ndtri(missed), error < ndtri(false)).astype(float)


def labels(draw: np.random.Generator, judge: Floats, truth: Floats, sheet: str) -> Floats:
    """Return people's scores of 120 answers, NaN for the others."""
    given, order = np.full(len(judge), np.nan), draw.permutation(len(judge))
    if sheet == "sheet":
        order = order[np.argsort(judge[order], kind="stable")]
        kept = order[(draw.integers(len(judge)) + np.arange(LABELLED) * len(judge)) // LABELLED % len(judge)]
    else:
        kept = order[:LABELLED]
    given[kept] = truth[kept]
    return given


def three_scores(draw: np.random.Generator, group: Groups) -> tuple[Floats, Floats]:
    """Return scores 0, 0.5 and 1 by a judge and by people, with the mean 0.5 by people; the judge gives too much."""
    truth = np.digitize(latent(draw, group), ndtri([1 / 3, 2 / 3])) / 2
    more = latent(draw, group) < ndtri(0.3)
    return np.minimum(truth + more / 2, 1), truth


def coverage(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield a line for each design, and whether it covers."""
    for case, kind, sheet in product(
        (*JUDGES, None), ("single", "patients of 30", "patients of 1-10"), ("simple", "sheet")
    ):
        draw = np.random.default_rng([N, LABELLED, len(kind), len(sheet)])
        held, alone, kappas, widths, biases = 0, 0, list[float](), list[float](), list[float]()
        for _ in range(runs):
            group = grouped(draw, kind, N)
            if case is None:
                mean, (judge, truth) = 0.5, three_scores(draw, group)
            else:
                mean, false, missed = case
                right = latent(draw, group) < ndtri(mean)
                judge, truth = judged(latent(draw, group), right, false, missed), right.astype(float)
            found = st.corrected_mean(st.LabelledScores(judge, labels(draw, judge, truth, sheet), group))
            _, low, high = found.corrected
            _, least, most = found.people
            assert None not in (low, high, least, most)
            held += low <= mean <= high
            alone += found.tuning is None
            widths.append((high - low) / (most - least))
            biases.append(float((judge - truth).mean()))
            if len(kappas) < 30:
                kappas.append(cohen_kappa_score(2 * judge, 2 * truth, weights="quadratic"))
        share = held / runs
        noise = sqrt(LEAST * (1 - LEAST) / runs)
        met = share >= LEAST - 2 * noise
        yield (
            f"{kind:<17}{sheet:<8}mean {100 * mean:2.0f}  bias {100 * np.mean(biases):+5.1f}  "
            f"kappa {np.mean(kappas):.2f}  covers {100 * share:5.1f} %  "
            f"width {np.mean(widths):.2f}  labels alone {100 * alone / runs:4.1f} %"
            f"{'' if met else '  MISSED'}",
            met,
        )


def passes(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the line of each judge about wrong PASS at a true loss of the margin, and whether they are few."""
    group = np.arange(GATED)
    for mean, false, missed in JUDGES:
        draw = np.random.default_rng([GATED, round(1000 * mean), round(1000 * false)])
        counts = np.zeros(3)
        for _ in range(runs):
            right = draw.random(GATED) < mean
            lost = right & (draw.random(GATED) < (FLIPS + MARGIN) / 2 / mean)
            gained = ~right & (draw.random(GATED) < (FLIPS - MARGIN) / 2 / (1 - mean))
            after = (right & ~lost) | gained
            # The judge errs on a response; an answer that did not change is scored alike.
            error = draw.standard_normal(GATED)
            again = np.where(lost | gained, draw.standard_normal(GATED), error)
            base, new = (judged(e, y, false, missed) for e, y in ((error, right), (again, after)))
            value, low, _ = st.reliability(
                st.LabelledScores(base, labels(draw, base, right.astype(float), "sheet"), group)
            )
            tables = [
                st.UnitTable(scores, np.ones(GATED), group, group, np.zeros_like(group)) for scores in (new, base)
            ]
            (comparison,) = st.compare(*tables, binary=True)
            for i, share in enumerate((low, value, 1.0)):
                assert share is not None
                rule = st.MarginRule(name="judged", comparison=comparison, margin=max(MARGIN * share, 1e-6))
                counts[i] += st.decide([rule]).outcome == "PASS"
        low_, estimate, blind = counts / runs
        met = low_ <= 0.05 + 2 * sqrt(0.05 * 0.95 / runs)
        yield (
            f"mean {100 * mean:2.0f}  reliability {1 - false - missed:.2f}  passes {100 * low_:4.1f} % "
            f"({100 * estimate:4.1f}, {100 * blind:4.1f}){'' if met else '  MISSED'}",
            met,
        )


def lines(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of both tables."""
    yield from (("covers", True), *coverage(runs), ("passes", True), *passes(runs))
