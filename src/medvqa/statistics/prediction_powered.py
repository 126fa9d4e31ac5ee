"""Correct a judge's scores by the scores that people gave to few of the same answers.

A judge scores all N answers, people n of them. The corrected mean is that of PPI++ (Angelopoulos, Duchi and Zrnic 2023,
arXiv 2311.01453). With the judge's scores f and people's scores y, it is

    tuning * mean of f over N + mean of (y - tuning * f) over n.

It has no bias, whatever the judge's errors, if the labelled answers are like the others. The tuning is the slope of y
over f, limited to [0, 1]; at 0 the labels stand alone. The paper's lambda is (1 - n / N) times it, for a mean of f over
the N - n answers without labels.

Labelled answers have the weights N_h / n_h of strata h, as in StratPPI (arXiv 2406.04291). The strata are the judge's
scores, so the labelled answers get the judge's scores of all, even if people skip more answers of one score than of
another (poststratification: Cochran 1977, Sampling Techniques, section 5A.9).

The corrected mean is a sum of two ratios. `clustered` gives its variance: a group counts once, with its labelled and
its other answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from medvqa.figures import defined
from medvqa.statistics.clustered import EQUAL, clustered
from medvqa.statistics.estimating import estimate
from medvqa.statistics.influence import DIGITS, Influences, UnitTable, combination, ratios
from medvqa.statistics.intervals import LEAST_DISCORDANT, intervals, student

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Ends = tuple[float | None, float | None, float | None]
"""A number and the ends of its interval of 95 %."""
LEAST_LABELLED = 10
"""Fewest groups with a label for an interval."""
LEAST_OF_STRATUM = 5
"""Fewest labels of a stratum; the judge's scores with fewer join the one with the most."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledScores:
    """Scores from 0 to 1 by a judge, `judge`, and by people, `label`, NaN for answers that they did not score.

    `group` numbers independent groups. All arrays are (answers,). `stratified`: weigh the labelled answers by strata of
    the judge's scores; else all have the weight 1. Raises ValueError for other values, and without a label.
    """

    judge: Floats
    label: Floats
    group: NDArray[np.intp]
    stratified: bool = True

    def __post_init__(self) -> None:
        """Check the scores."""
        import numpy as np

        known = np.concatenate([self.judge, self.label[~np.isnan(self.label)]])
        if len(known) == len(self.judge) or not np.all((known >= 0) & (known <= 1)):
            raise ValueError("scores must be from 0 to 1, and one answer at least must have a label")

    @property
    def known(self) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
        """The answers with a label: the judge's scores, people's, weights with the mean 1, and groups, (n,) each."""
        import numpy as np

        labelled = ~np.isnan(self.label)
        weight = np.ones(int(labelled.sum()))
        if self.stratified:
            scores, place = np.unique(self.judge.round(DIGITS), return_inverse=True)
            counts = np.bincount(place[labelled], minlength=len(scores))
            small = counts < LEAST_OF_STRATUM
            joined = small | (small.any() & (counts == counts.max()))
            stratum = np.where(joined, len(scores), np.arange(len(scores)))[place]
            ratio = np.bincount(stratum) / np.maximum(np.bincount(stratum[labelled], minlength=stratum.max() + 1), 1)
            weight = ratio[stratum[labelled]] * labelled.mean()
        return self.judge[labelled], self.label[labelled], weight, self.group[labelled]


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """The mean of a judge's scores, of people's, and of both: value and ends of the interval of 95 %, or None.

    `judge` is the mean over all `n` answers, `people` the weighted mean over the `labelled` ones. `corrected` uses
    both. `reliability` is the judge's (`reliability`). `groups` counts the independent groups with a label,
    `disagreements` those of them with an answer that judge and people score differently. With fewer than
    `LEAST_DISCORDANT` of these, the judge's error is unknown, so `corrected` is `people` and `tuning` None.
    """

    judge: Ends
    people: Ends
    corrected: Ends
    reliability: Ends
    labelled: int
    n: int
    groups: int
    disagreements: int
    tuning: float | None


def corrected_mean(scores: LabelledScores) -> CorrectedMean:
    """Return the mean of a judge's scores, corrected by labels."""
    import numpy as np

    judge, label, weight, group = scores.known
    groups, disagreements = (len(np.unique(of)) for of in (group, group[np.abs(judge - label) > EQUAL]))
    people = _ends(_table(label, weight, group), known=groups >= LEAST_LABELLED)
    corrected, used = people, None
    if disagreements >= LEAST_DISCORDANT:
        used = tuning(scores)
        estimates = clustered(powered(scores, used))
        low, high = student(estimates)
        value, *ends = (defined(np.clip(end[0], 0, 1)) for end in (estimates.value, low, high))
        corrected = (value, ends[0], ends[1]) if groups >= LEAST_LABELLED else (value, None, None)
    everything = _ends(_table(scores.judge, np.ones(len(scores.judge)), scores.group))
    counts = len(label), len(scores.judge), groups, disagreements
    return CorrectedMean(everything, people, corrected, reliability(scores), *counts, used)


def tuning(scores: LabelledScores) -> float:
    """Return the slope of people's scores over the judge's, in [0, 1]: their covariance / the variance over all.

    With the weight 1, (1 - n / N) times it is the lambda of PPI++ for a mean; 0 if the judge's scores are all equal.
    """
    judge, label, weight, _ = scores.known
    spread = float(scores.judge.var(ddof=1)) if len(scores.judge) > 1 else 0.0
    covariance = _mean((judge - _mean(judge, weight)) * (label - _mean(label, weight)), weight)
    return min(max(covariance / spread, 0.0), 1.0) if spread > EQUAL**2 else 0.0


def powered(scores: LabelledScores, used: float) -> Influences:
    """Return the corrected mean with this tuning, as the sum of two ratios with their units' contributions."""
    import numpy as np

    judge, label, weight, group = scores.known
    everything = _table(scores.judge, np.ones(len(scores.judge)), scores.group)
    return combination((ratios(everything), ratios(_table(label - used * judge, weight, group))), (used, 1.0))


def reliability(scores: LabelledScores) -> Ends:
    """Return the share of a true difference that the judge's scores show: the slope of its scores over people's.

    For right or wrong answers it is sensitivity + specificity - 1. It is 1 - D / E with D the covariance of y and y - f
    and E the variance of y over the labelled answers. As for kappa (`judging.coefficients`), the interval is Wilson's
    for D, with the variance of D - (D / E) E: it is no point if judge and people agree everywhere. All is None if
    people's scores are all equal, the interval with fewer than `LEAST_LABELLED` groups.
    """
    import numpy as np

    judge, label, weight, group = scores.known
    from_mean, error = label - _mean(label, weight), label - judge
    spread = _mean(from_mean**2, weight)
    if spread <= EQUAL**2:
        return None, None, None
    own = ratios(_table(from_mean * error, weight, group))
    share = float(own.value[0]) / spread
    residual = from_mean * (error - _mean(error, weight)) - own.value[0] - share * (from_mean**2 - spread)
    # A judge that exaggerates differences counts as one that shows them.
    linear = replace(own, value=np.maximum(own.value, 0.0), residual=residual)
    (low,), (high,) = intervals(clustered(linear), binary=False)
    if len(np.unique(group)) < LEAST_LABELLED or np.isnan(low):
        return min(1 - share, 1.0), None, None
    return min(1 - share, 1.0), float(1 - high / spread), float(1 - low / spread)


def _mean(values: Floats, weight: Floats) -> float:
    return float((values * weight).sum() / weight.sum())


def _table(values: Floats, weight: Floats, group: NDArray[np.intp]) -> UnitTable:
    """Return answers as units of their own, in one slice."""
    import numpy as np

    units = np.arange(len(values))
    return UnitTable(values * weight, weight, units, group, np.zeros_like(units))


def _ends(table: UnitTable, *, known: bool = True) -> Ends:
    estimated = estimate(table, binary=bool(((table.numerator == 0) | (table.numerator == table.denominator)).all()))
    value, low, high = (defined(end[0]) for end in (estimated.value, estimated.low, estimated.high))
    return (value, low, high) if known else (value, None, None)
