"""How often intervals of readers cover, and how often a model against them errs: `python bench/readers.py [--runs=N]`.

Parts: `mean` (95 % intervals of random readers hold the mean of all readers), `model` (a model that is as good as all
readers is found to differ; with a margin of 10 points, a model that is worse by 10 passes, and one that is as good),
`alone` (intervals of these readers alone hold their mean on all cases; and that of all readers, which they do not
promise).

3, 4, 5 and 6 readers (`--readers=2`: others), 50, 100 and 200 questions; every reader reads all, or two readers a
question in equal shares, or two a question with unequal loads (each reader half as often as the one before); a question
a patient, or four. The mean reader is right in 70 or 90 %. A probit model draws the answers: readers' ability has the
variance 0.01, 0.06 or 0.2 (standard deviations of 3.5, 8.3 and 14.4 points at 70 %, of 1.8, 4.3 and 7.7 at 90 %); the
rest of variance 1 is patient 0.15, question 0.35, reader x patient 0.1, and reader x question with chance 0.4. Cases
hold half of it, as in structures of Roe and Metz (1997, Academic Radiology 4:298). A model shares patient and question,
and its own rest is 0.5. Draws are seeded.

A line holds the mean over the accuracies, abilities and patients, and the worst of them, each with its Monte Carlo
standard error in points. With 2,000 runs (0.1 to 0.2 for means, up to 1.1 for the worst; half an hour of a core), the
lowest and highest means over 50, 100 and 200 questions, and in brackets the worst study, in percent:

    design   readers   covers             differs, not true   passes at the margin   passes, as good
    all      2         88 to 92 (85)      8 to 12 (18)        3.5 to 4.1 (5.9)       24 to 39
    all      3         91 to 92 (87)      5 to 8 (12)         2.5 to 3.1 (4.9)       30 to 49
    all      4         92 to 93 (88)      5 to 6 (9)          2.1 to 2.8 (4.5)       37 to 60
    all      5         92 to 93 (88)      5 to 6 (9)          2.2 to 3.2 (5.5)       40 to 67
    all      6         92 to 93 (88)      5 to 6 (8)          2.2 to 2.8 (4.3)       42 to 71
    two      3         96 to 97 (94)      3 to 4 (6)          1.5 to 1.6 (2.2)       17 to 33
    two      4         96 (94)            4 to 5 (7)          1.7 to 2.1 (3.2)       24 to 46
    two      5         96 (94)            4 to 5 (7)          1.4 to 2.4 (3.3)       27 to 55
    two      6         95 to 96 (94)      4 to 5 (6)          1.9 to 2.5 (4.3)       31 to 61
    uneven   3 to 6    96 to 99 (95)      2 to 4 (6)          0.6 to 1.3 (1.8)       12 to 30
    nominal            95                 5                   2.5

Coverage is low where all read everything, as published (Obuchowski and Rockette, Hillis): with 2 or 3 readers, and at
90 % if readers differ much, since Student's interval is symmetric. With 2 readers, `two` and `uneven` are `all`.
These readers' own intervals (`alone`) hold their mean in 95 to 97 % (93), but that of all readers in 65 to 93 % (35).
Studies without an interval are left out: up to 2 % with 2 readers of 50 questions, hardly any with more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from medvqa.statistics import readers as st

Floats = NDArray[np.float64]

READERS, QUESTIONS = (3, 4, 5, 6), (50, 100, 200)
DESIGNS = ("all", "two", "uneven")
ACCURACIES, ABILITIES, EACH = (0.7, 0.9), (0.01, 0.06, 0.2), (1, 4)
PATIENT, QUESTION, READER_PATIENT, REST = 0.15, 0.35, 0.1, 0.4
MARGIN = 0.1


class Study:
    """Simulated studies of one design: scores of readers, and of models of a given accuracy."""

    def __init__(self, design: str, readers: int, questions: int, each: int, accuracy: float, ability: float) -> None:
        self.draw = np.random.default_rng([DESIGNS.index(design), readers, questions, each, int(100 * accuracy)])
        self.design, self.readers, self.questions, self.ability = design, readers, questions, ability
        self.accuracy, self.groups = accuracy, np.arange(questions) // each
        self.patients = int(self.groups.max()) + 1
        self.these_readers = 0.0
        """What the readers of the last study would score on all cases, each with the share of readings."""

    def seen(self) -> NDArray[np.bool_]:
        """Return who reads which question, (readers, questions)."""
        if self.design == "all":
            return np.ones((self.readers, self.questions), dtype=bool)
        seen = np.zeros((self.readers, self.questions), dtype=bool)
        if self.design == "two":
            pairs = np.array(list(combinations(range(self.readers), 2)))
            two = pairs[np.arange(self.questions) % len(pairs)]
            seen[two.T, self.draw.permutation(self.questions)] = True
            return seen
        # The first two of an order drawn with these weights (Efraimidis and Spirakis 2006).
        weight = 2.0 ** -np.arange(self.readers)
        order = np.argsort(self.draw.exponential(size=(self.questions, self.readers)) / weight, axis=1)
        seen[order[:, :2].T, np.arange(self.questions)] = True
        return seen

    def drawn(self, *models: float) -> tuple[Floats, list[Floats]]:
        """Return one study's scores, (readers, questions), and those of models with these accuracies."""
        draw, shape = self.draw, (self.readers, self.questions)
        case = sqrt(PATIENT) * draw.standard_normal(self.patients)[self.groups]
        case += sqrt(QUESTION) * draw.standard_normal(self.questions)
        of_patient = sqrt(READER_PATIENT) * draw.standard_normal((self.readers, self.patients))[:, self.groups]
        ability = sqrt(self.ability) * draw.standard_normal((self.readers, 1))
        level = ndtri(self.accuracy) * sqrt(1 + self.ability)
        right = level + ability + case + of_patient + sqrt(REST) * draw.standard_normal(shape) > 0
        seen = self.seen()
        scores = np.where(seen, right.astype(float), np.nan)
        self.these_readers = float(ndtr(level + ability)[:, 0] @ seen.mean(axis=1) / seen.mean(axis=1).sum())
        own = sqrt(READER_PATIENT + REST) * draw.standard_normal((len(models), self.questions))
        of_models = [(ndtri(each) + case + rest > 0).astype(float) for each, rest in zip(models, own, strict=True)]
        return scores, of_models


def covers(found: st.ReaderResult, value: float) -> bool | None:
    """Return whether the interval holds the value; None without one."""
    return None if found.low is None or found.high is None else found.low <= value <= found.high


def mean(study: Study) -> dict[str, bool | None]:
    scores, _ = study.drawn()
    return {"covers": covers(st.mean_of_readers(scores, study.groups), study.accuracy)}


def alone(study: Study) -> dict[str, bool | None]:
    scores, _ = study.drawn()
    found = st.mean_of_readers(scores, study.groups, fixed=True)
    return {"covers": covers(found, study.these_readers), "covers all readers": covers(found, study.accuracy)}


def model(study: Study) -> dict[str, bool | None]:
    scores, (equal, worse) = study.drawn(study.accuracy, study.accuracy - MARGIN)
    same, below = (st.against_model(each, scores, study.groups) for each in (equal, worse))
    return {
        "differs at no difference": None if same.p is None else same.p < 0.05,
        "passes at the margin": st.non_inferior(below, MARGIN),
        "passes at no difference": st.non_inferior(same, MARGIN),
    }


PARTS = {"mean": mean, "model": model, "alone": alone}
LOWEST_IS_WORST = {"covers", "covers all readers", "passes at no difference"}


def lines(part: str, runs: int, counts: Sequence[int]) -> Iterator[str]:
    """Return the lines of a part."""
    for design, readers, questions in product(DESIGNS, counts, QUESTIONS):
        shares: dict[str, list[float]] = {}
        undefined = 0
        for each, accuracy, ability in product(EACH, ACCURACIES, ABILITIES):
            study = Study(design, readers, questions, each, accuracy, ability)
            found = [PARTS[part](study) for _ in range(runs)]
            for name in found[0]:
                known = [run[name] for run in found if run[name] is not None]
                undefined += runs - len(known)
                shares.setdefault(name, []).append(sum(map(bool, known)) / max(len(known), 1))
        for name, every in shares.items():
            worst = min(every) if name in LOWEST_IS_WORST else max(every)
            errors = sqrt(sum(p * (1 - p) for p in every) / runs) / len(every), sqrt(worst * (1 - worst) / runs)
            means = f"{100 * sum(every) / len(every):5.1f} +- {100 * errors[0]:.1f}"
            said = f"{design:<7} {readers} readers {questions:>4} questions  {name:<26} {means}"
            yield f"{said}   worst {100 * worst:5.1f} +- {100 * errors[1]:.1f}   no interval: {undefined}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--readers", type=int, nargs="+", default=READERS)
    asked = parser.parse_args()
    for part in asked.parts or PARTS:
        print(f"\n{part}, {asked.runs} runs of each of {len(EACH) * len(ACCURACIES) * len(ABILITIES)} studies")
        for line in lines(part, asked.runs, asked.readers):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
