"""How often intervals of confidence measures hold the truth: `python bench/confidence.py [--runs=N]`, 3 minutes.

A scripted model answers N questions with a confidence whose relation to being right is known. `calibrated`: right as
often as it says. `overconfident`: right 10 points less often: a calibration error of 10 %. `ties`: calibrated, with
confidences in steps of 10 points. `rare`: calibrated, and wrong in 4 % of answers. Questions are single, or in clusters
of 1 to 10 (a patient's, say) in which confidences and errors have correlation 0.3. True areas are those of two million
answers. Draws are seeded.

A line holds, for each measure, how many intervals of 95 % hold the truth, and in brackets how many paired differences
exclude 0 between two such models whose confidences and errors have correlation 0.5, in percent (nominal 95 and 5).
`risk` is the error rate of the surest 80 %, at the threshold that this took. `-`: fewer than half of the runs have an
interval. Standard errors are 0.7 points at the default of 1,000 runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from medvqa.statistics import confidence as st

Floats = NDArray[np.float64]
MODELS, QUESTIONS, DESIGNS = ("calibrated", "overconfident", "ties", "rare"), (100, 500, 2000), ("single", "clusters")
CLUSTER, SHARED, MANY, COVERAGE = 0.3, 0.5, 2_000_000, 0.8
NONE = st.Estimate(None)
NAMES = (*st.AREAS, "CE", "risk")


class Study:
    """Questions in groups, and models that answer them."""

    def __init__(self, draw: np.random.Generator, questions: int, design: str) -> None:
        self.draw = draw
        sizes = np.ones(questions, dtype=int) if design == "single" else draw.integers(1, 11, questions)
        self.group = np.repeat(np.arange(questions), sizes)[:questions]
        self.hard, self.sure = self.normal(), self.normal()

    def normal(self) -> Floats:
        """Return a standard normal number of each question, correlated within groups."""
        of_group = self.draw.standard_normal(len(self.group))[self.group]
        return sqrt(CLUSTER) * of_group + sqrt(1 - CLUSTER) * self.draw.standard_normal(len(self.group))

    def answered(self, model: str) -> tuple[Floats, Floats]:
        """Return the confidences of a model and its scores."""
        hard, sure = (sqrt(SHARED) * own + sqrt(1 - SHARED) * self.normal() for own in (self.hard, self.sure))
        least = 0.8 if model == "rare" else 0.1
        confidence = least + (1 - least) * expit(1.2 + 1.3 * sure)
        if model == "ties":
            confidence = np.round(confidence, 1)
        right = confidence - (0.1 if model == "overconfident" else 0.0)
        return confidence, (ndtri(np.clip(right, 1e-12, 1 - 1e-12)) > hard).astype(float)


class Truth:
    """The measures of a model over very many questions."""

    def __init__(self, model: str) -> None:
        confidence, correct = Study(np.random.default_rng(1), MANY, "single").answered(model)
        self.curve = st.curve(confidence, correct)
        self.values = [*st.areas(confidence, correct).mean(axis=1), 0.01 if model == "overconfident" else 0.0]

    def of(self, threshold: float) -> list[float]:
        """Return the true values, the last one for the threshold of a run."""
        place = len(self.curve.threshold) - int(np.searchsorted(self.curve.threshold[::-1], threshold - 1e-9))
        return [*self.values, float(self.curve.risk[max(place - 1, 0)])]


def found(study: Study, sides: Sequence[tuple[Floats, Floats]]) -> tuple[list[st.Estimate], list[st.Estimate], float]:
    """Return the estimates of the first model, the differences to the second, and the threshold."""
    group, (confidence, correct) = study.group, sides[0]
    areas = [st.areas(*side) for side in sides]
    coverage, _, thresholds = st.curve(confidence, correct)
    reached = int((coverage <= COVERAGE + 1e-12).sum())
    threshold = float(thresholds[reached - 1]) if reached else -np.inf
    given = confidence >= threshold
    sure = [st.have_intervals(each, group) for _, each in sides]
    own = [
        *(st.averaged(each, group, (0, 1)) if sure[0] else NONE for each in areas[0]),
        st.calibration(confidence, correct, group),
    ]
    own.append(st.averaged(1 - correct[given], group[given], (0, 1)) if reached else NONE)
    apart = [st.averaged(each, group) if all(sure) else NONE for each in areas[0] - areas[1]]
    apart.append(st.calibration_difference(*sides, group))
    return own, apart, threshold


def line(model: str, questions: int, design: str, runs: int, truth: Truth) -> str:
    """Return a row of the table."""
    holds = np.full((runs, len(NAMES)), np.nan)
    differs = np.full((runs, len(NAMES)), np.nan)
    for run in range(runs):
        study = Study(np.random.default_rng([questions, run, MODELS.index(model)]), questions, design)
        own, apart, threshold = found(study, [study.answered(model) for _ in range(2)])
        for k, (each, value) in enumerate(zip(own, truth.of(threshold), strict=True)):
            if each.low is not None and each.high is not None:
                holds[run, k] = each.low <= value + 1e-12 and value <= each.high
        for k, each in enumerate(apart):
            if each.low is not None and each.high is not None:
                differs[run, k] = not each.low <= 0 <= each.high
    cells = []
    for one, other in zip(holds.T, differs.T, strict=True):
        shown = f"{100 * np.nanmean(one):.1f}" if np.isfinite(one).mean() >= 0.5 else "-"
        shown += f" ({100 * np.nanmean(other):.1f})" if np.isfinite(other).mean() >= 0.5 else ""
        cells.append(f"{shown:<13}")
    return f"{model:<14}{questions:>6}  {design:<9}{''.join(cells)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    typed = parser.parse_args()
    print(f"{'model':<14}{'N':>6}  {'groups':<9}{''.join(f'{name:<13}' for name in NAMES)}")
    for model in MODELS:
        truth = Truth(model)
        for questions in QUESTIONS:
            for design in DESIGNS:
                print(line(model, questions, design, typed.runs, truth).rstrip(), flush=True)


if __name__ == "__main__":
    main()
