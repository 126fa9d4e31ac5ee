"""Draw a part of a benchmark that predicts the whole, and estimate the whole from a new model's scores of the part.

The answers of K known models to all questions are at hand. Their mean score of a unit (a question or a pair) predicts
the score of a new model. Units are sorted by it, and cut into strata of about `PER_STRATUM` draws. In each stratum all
have the same chance to be drawn.

With the new model's score y and the predicted score x, the whole is estimated by the difference estimator

    slope * mean of x over all units + weighted mean of (y - slope * x) over the drawn units

with the weights N_h / n_h of stratum h (Särndal, Swensson and Wretman 1992, Model Assisted Survey Sampling, section
6.3). Draw and slope do not depend on the new model's answers, so whatever it does, there is no bias; only the width
depends on how well the known models predict it. The variance is over draws from these very questions, with the
correction for a finite population: the interval is for the value of the whole benchmark, not for other questions or
patients. So groups of questions make no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.statistics.influence import sums
from medvqa.statistics.intervals import LEAST_DISCORDANT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.intp]

PER_STRATUM = 4
"""Units that are drawn from a stratum, about: two at least are needed for a variance."""
LEAST_DRAWN = 10
"""Fewest units of a subset."""
LEAST_MODELS = 5
"""Fewest models for a correlation of a question with the rest; below 10 it is weak."""


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """A part that was drawn. `stratum`, `drawn` and `predicted`, the mean score of the known models, are (units,).

    `slope` multiplies what is predicted. `error` is the expected standard error: each known model predicted by the
    others; `random_error` that of a random sample of as many units.
    """

    stratum: Numbers
    drawn: NDArray[np.bool_]
    predicted: Floats
    slope: float
    error: float
    random_error: float


@dataclass(frozen=True, slots=True)
class Whole:
    """The estimated value of the whole benchmark with its interval of 95 %, and its standard error."""

    value: float
    low: float
    high: float
    error: float


def draw(scores: Floats, number: int, seed: int = 0) -> Subset:
    """Draw `number` units by the scores of known models, (models, units), in [0, 1]; it depends on these and `seed`.

    Raises ValueError with fewer than two models, and unless `number` is from `LEAST_DRAWN` to the number of units.
    """
    import numpy as np

    models, units = scores.shape
    if models < 2 or not LEAST_DRAWN <= number <= units:
        raise ValueError(f"at least two models, and {LEAST_DRAWN} to {units} units are needed")
    others = [(scores.sum(axis=0) - own) / (models - 1) for own in scores]
    spread = sum(float(one.var()) for one in others)
    together = sum(
        float(np.mean((own - own.mean()) * (one - one.mean()))) for own, one in zip(scores, others, strict=True)
    )
    slope = max(together / spread, 0.0) if spread > 0 else 0.0
    expected = list[float]()
    rng = np.random.default_rng(seed)
    # Each model is predicted as a new one would be: it has no part in the strata.
    for own, one in zip(scores, others, strict=True):
        stratum, take = _strata(one, number, rng)
        expected.append(_variance(own - slope * one, stratum, take, np.bincount(stratum)))
    by_chance = (1 - number / units) * scores.var(axis=1, ddof=1) / number
    predicted = scores.mean(axis=0)
    stratum, take = _strata(predicted, number, rng)
    drawn = np.zeros(units, dtype=np.bool_)
    for place, count in enumerate(take.tolist()):
        drawn[rng.choice(np.flatnonzero(stratum == place), count, replace=False)] = True
    error, random_error = (float(np.sqrt(np.mean(variances))) for variances in (expected, by_chance))
    return Subset(stratum, drawn, predicted, slope, error, random_error)


def whole(residual: Floats, stratum: Numbers, of: Numbers, known: float) -> Whole:
    """Return the estimate of the whole from the drawn units' scores minus slope times prediction, `residual`, (units,).

    `stratum`, (units,), is that of each drawn unit and `of`, (strata,), the number of units of each stratum in the
    whole. `known`: slope times the mean prediction over all units.

    With fewer than `LEAST_DISCORDANT` wrong predictions (by more than half), the variance is at least that of their
    share with two more of four more units (Agresti and Coull 1998, The American Statistician 52:119).
    ValueError if a stratum has fewer than two drawn units.
    """
    import numpy as np
    from scipy.special import stdtrit

    take = np.bincount(stratum, minlength=len(of))
    if len(take) != len(of) or np.any(take < 2) or np.any(take > of):
        raise ValueError("each stratum needs two drawn units, and no more than it has")
    mean = float((of / take)[stratum] @ residual / of.sum())
    variance = _variance(residual, stratum, take, of)
    wrong = int((np.abs(residual - mean) > 0.5).sum())
    if wrong < LEAST_DISCORDANT:
        share = (wrong + 2) / (len(residual) + 4)
        variance = max(variance, (1 - take.sum() / of.sum()) * share * (1 - share) / len(residual))
    # The degrees of freedom are those of equal variances: estimated ones are too uncertain.
    factor = of**2 * (1 - take / of) / take
    df = factor.sum() ** 2 / (factor**2 / (take - 1)).sum() if factor.any() else 1.0
    error = float(np.sqrt(variance))
    half = float(stdtrit(df, 0.975)) * error
    value, low, high = (float(np.clip(known + mean + end, 0, 1)) for end in (0.0, -half, half))
    return Whole(value, low, high, error)


def rest_correlations(scores: Floats) -> Floats:
    """Return the correlation over models of each unit's score with the model's mean of the other units, (units,).

    This is the corrected point-biserial correlation. `scores` is (models, units). NaN with fewer than `LEAST_MODELS`
    models, and where all models have the same score.
    """
    import numpy as np

    models, units = scores.shape
    if models < LEAST_MODELS or units < 2:
        return np.full(units, np.nan)
    rest = scores.sum(axis=1, keepdims=True) - scores
    own, rest = scores - scores.mean(axis=0), rest - rest.mean(axis=0)
    spread = np.sqrt((own**2).sum(axis=0) * (rest**2).sum(axis=0))
    found = np.full(units, np.nan)
    np.divide((own * rest).sum(axis=0), spread, out=found, where=spread > 1e-9)
    return found


def _strata(predicted: Floats, number: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the stratum of each unit, (units,), and how many are drawn from each, (strata,)."""
    import numpy as np

    units, strata = len(predicted), max(number // PER_STRATUM, 1)
    order = np.lexsort((rng.random(units), predicted.round(9)))
    cuts = np.arange(strata + 1) * units // strata
    stratum = np.empty(units, dtype=np.intp)
    stratum[order] = np.repeat(np.arange(strata), np.diff(cuts))
    return stratum, np.diff(cuts * number // units)


def _variance(values: Floats, stratum: Numbers, take: Numbers, of: Numbers) -> float:
    """Return the variance of an estimated mean: `take` of `of` units are drawn from each stratum, (strata,).

    `values` and `stratum` are of the drawn units, or of all.
    """
    import numpy as np

    there = np.bincount(stratum, minlength=len(of))
    centred = values - (sums(stratum, values, len(of)) / np.maximum(there, 1))[stratum]
    spread = sums(stratum, centred**2, len(of)) / np.maximum(there - 1, 1)
    return float((of**2 * (1 - take / of) * spread / take).sum() / of.sum() ** 2)
