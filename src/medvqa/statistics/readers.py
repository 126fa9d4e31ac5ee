"""Accuracy of several readers, and a model against them: readers and cases are both random (MRMC).

`scores` are (readers, questions), NaN where a reader did not read a question. Cases are `groups` of questions, such as
patients; the variance leaves out whole groups, never single questions. All functions analyse one array of values per
reader: the scores, the differences of two tests, or the model's score minus the reader's. A model is no reader, so its
difference to the readers is analysed by reader (Hillis 2007, Statistics in Medicine 26:596, section 5.3).

If every reader read every question, the variance is Obuchowski and Rockette's (1995, Communications in Statistics
24:285) with Hillis's degrees of freedom,

    V = MS / r + max(Cov2, 0),  df = V² / ((MS / r)² / (r - 1)),

with MS the variance of the r readers' means and Cov2 the mean jackknife covariance of two readers. The difference of
two tests has F = t² of their analysis of variance.

The degrees of freedom are at most those of the cases, 1 / sum(h²) - 1, h a case's share of the readings.

Otherwise V is the U-statistic of degree (1, 1) (Gallas, Pennello and Myers 2007, Journal of the Optical Society of
America A 24:B70; iMRMC's `jointD`): the squared mean minus the mean product of two readings that share neither reader
nor case, all taken from the mean of such readings. That changes nothing if all readers read equally much. Taken from 0,
V would be another one for errors than for scores, and with unequal loads below 0 in nearly half of all studies. The
part of readers is the same over pairs that share no reader, and what V is above it is the part of cases. With crossed
readers these are MS / r and Cov2.

No degrees of freedom are published for it. Hillis's let 5 to 12 % of tests at no difference reject with 3 readers; here
the quantile is Cochran and Cox's (1950, Experimental Designs), the mean of Student's quantiles for the two parts,
weighted by them. The part of readers has Satterthwaite's degrees of freedom for equal variances of readers, r - 1 with
equal loads. The interval of a mean is Wilson's, at as many independent answers as have this Student's interval, as for
every measure (`intervals`).

There is no interval with one reader, with fewer than `LEAST_DF` degrees of freedom of the cases, or if nothing varies.

For these readers alone (`fixed`), a question's value is the mean of its readers, and the intervals are those of every
run (`estimate`, `compare`). `bench/readers.py` simulates how often all these cover and err.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING

from medvqa.figures import defined
from medvqa.statistics.estimating import estimate
from medvqa.statistics.influence import UnitTable
from medvqa.statistics.intervals import LEAST_DF, VARIES, wilson
from medvqa.statistics.paired import compare

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Groups = NDArray[np.intp]

LEAST_READERS = 5
"""With fewer readers, the result for these readers alone stands beside that of random readers."""

_SIMULATED = {2: (85, 18), 3: (87, 12), 4: (88, 9)}
"""Readers -> lowest coverage and highest share of wrong differences where all read everything (`bench/readers.py`)."""

CROSSED, NOT_CROSSED, FIXED = "Obuchowski-Rockette", "U-statistic", "these readers alone"


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """A mean score of readers, or a mean difference, with its interval and a two-sided test of 0; None if undefined.

    Without a value, all are None; without an interval, all but the value. The mean is over questions of the mean over
    each question's readers. `readers` read something; `cases`: the number of groups of questions that somebody read.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    df: float | None = None
    t: float | None = None
    p: float | None = None
    readers: int = 0
    cases: int = 0
    method: str = ""


def mean_of_readers(scores: Floats, groups: Groups, *, fixed: bool = False, level: float = 0.95) -> ReaderResult:
    """Return the readers' mean score; for these readers alone if `fixed`.

    `scores`: (readers, questions) in [0, 1], NaN where not read. `groups`: the case of each question, 0 or more.
    """
    _check(scores, groups)
    values, groups = _read(scores, groups)
    found = ReaderResult(None)
    if fixed and values.size:
        table = _table(values, groups)
        estimated = estimate(table, binary=_binary(values), level=level)
        low, high, df = (defined(each[0]) for each in (estimated.low, estimated.high, estimated.precision.df))
        found = ReaderResult(defined(estimated.value[0]))
        if low is not None:
            found = replace(found, low=low, high=high, se=sqrt(estimated.precision.variance[0]), df=df)
    elif values.size:
        found = _of_random_readers(values, groups, level)
        found = found if crossed(values) else _by_wilson(found, level)
    return _within(found, 0.0, values, groups, fixed=fixed)


def two_tests(one: Floats, other: Floats, groups: Groups, *, fixed: bool = False, level: float = 0.95) -> ReaderResult:
    """Return the difference of two tests, `one` minus `other`, that the same readers read.

    Both are scores as for `mean_of_readers`. A reading counts if it is in both.
    """
    _check(one, groups)
    _check(other, groups)
    differences, kept = _read(one - other, groups)
    found = ReaderResult(None)
    if fixed and differences.size:
        found = _of_these_readers(one, other, groups, level)
    elif differences.size:
        found = _of_random_readers(differences, kept, level)
    return _within(found, -1.0, differences, kept, fixed=fixed)


def against_model(
    model: Floats, scores: Floats, groups: Groups, *, fixed: bool = False, level: float = 0.95
) -> ReaderResult:
    """Return the difference of a model and readers, model minus readers, over the questions that both answered.

    `model`: (questions,), NaN without a score; the other arguments are those of `mean_of_readers`.
    """
    import numpy as np

    return two_tests(np.broadcast_to(model, np.shape(scores)), scores, groups, fixed=fixed, level=level)


def non_inferior(difference: ReaderResult, margin: float) -> bool | None:
    """Return whether the difference is shown to be above -`margin`; None without an interval.

    The lower end of the two-sided interval decides: at 95 %, a model that is worse by the margin passes in 2.5 %.
    ValueError for a margin of 0 or less.
    """
    if not margin > 0:
        raise ValueError(f"the margin must be above 0, not {margin}")
    return None if difference.low is None else difference.low > -margin


def warning(readers: int, *, crossed: bool) -> str:
    """Return the sentence that warns of few random readers; "" from `LEAST_READERS` on."""
    if not 0 < readers < LEAST_READERS:
        return ""
    if readers == 1:
        return "One reader shows nothing about other readers: the result is that of this reader alone."
    beside = "Read the result of these readers alone beside it."
    if not crossed:
        return f"With {readers} readers, the interval for all readers of their kind is wide. {beside}"
    covered, found = _SIMULATED[readers]
    return (
        f"With {readers} readers, the interval for all readers of their kind may be too narrow: in simulations it held "
        f"the true value in {covered} % of studies at worst, not 95 %, and up to {found} % of models as good as the "
        f"readers seemed to differ, not 5 %. {beside}"
    )


def crossed(scores: Floats) -> bool:
    """Return whether every reader read every question that somebody read; a reader of nothing does not count."""
    import numpy as np

    seen = ~np.isnan(scores)
    return bool(seen[np.ix_(seen.any(axis=1), seen.any(axis=0))].all())


def jackknife(values: Floats, groups: Groups) -> tuple[Floats, Floats]:
    """Return the means of rows of values, (rows, questions), and their covariance, (rows, rows), without NaN.

    Leaves out one group of questions at a time; `groups` has two or more.
    """
    import numpy as np

    _, place = np.unique(groups, return_inverse=True)
    sizes = np.bincount(place)
    sums = np.stack([np.bincount(place, row) for row in values])
    without = (sums.sum(axis=1, keepdims=True) - sums) / (sizes.sum() - sizes)
    deviations = without - without.mean(axis=1, keepdims=True)
    return values.mean(axis=1), deviations @ deviations.T * (len(sizes) - 1) / len(sizes)


def obuchowski_rockette(
    theta: Floats, covariance: Floats, *, level: float = 0.95, most_df: float = float("inf")
) -> ReaderResult:
    """Return the mean over random readers, from each reader's figure and their covariance over cases.

    `theta`, (readers,), two readers or more: accuracies or other figures, such as areas under a curve, or their
    differences between two tests or to a model. `covariance`: (readers, readers), from a jackknife over cases.
    """
    readers = len(theta)
    of_readers = float(theta.var(ddof=1)) / readers
    of_cases = float(covariance.sum() - covariance.trace()) / (readers * (readers - 1))
    variance = of_readers + max(of_cases, 0.0)
    df = most_df if of_readers < VARIES else min(variance**2 * (readers - 1) / of_readers**2, most_df)
    return _student(float(theta.mean()), variance, df, level)


def u_statistic(weights: Floats, values: Floats) -> tuple[float, float]:
    """Return the U-statistic's variance of the sum of weights times values, and its part of pairs of two readers.

    Both are (readers, cases): the summed weight of a reader's readings of a case, all weights together 1, and their
    weighted mean value, any number where the weight is 0. Two readers or more share a case with others.
    """
    total = float((weights * values).sum())

    def two_readers(one: Floats, other: Floats) -> float:
        return float(one.sum() * other.sum() - one.sum(axis=1) @ other.sum(axis=1))

    def two_cases(one: Floats, other: Floats) -> float:
        same_case = float(one.sum(axis=0) @ other.sum(axis=0) - (one * other).sum())
        return two_readers(one, other) - same_case

    def variance(pairs: Callable[[Floats, Floats], float]) -> float:
        count = pairs(weights, weights)
        centre = pairs(weights * values, weights) / count
        centred = weights * (values - centre)
        return (total - centre) ** 2 - pairs(centred, centred) / count

    return variance(two_cases), variance(two_readers)


def _of_random_readers(values: Floats, groups: Groups, level: float) -> ReaderResult:
    """Return the mean of values, (readers, questions), without empty rows and columns."""
    import numpy as np
    from scipy.special import stdtridf, stdtrit

    seen = ~np.isnan(values)
    weight = np.where(seen, 1 / (seen.sum(axis=0) * seen.shape[1]), 0.0)
    value = float((weight * np.where(seen, values, 0.0)).sum())
    _, place = np.unique(groups, return_inverse=True)
    cells = np.zeros((2, len(values), int(place.max()) + 1))
    for cell, terms in zip(cells, (weight, weight * np.where(seen, values, 0.0)), strict=True):
        np.add.at(cell.T, place, terms.T)
    cases_df = 1 / float((cells[0].sum(axis=0) ** 2).sum()) - 1
    if len(values) < 2 or cases_df < LEAST_DF:
        return ReaderResult(value)
    if seen.all():
        return obuchowski_rockette(*jackknife(values, groups), level=level, most_df=cases_df)
    weights = cells[0]
    both, of_readers = u_statistic(weights, cells[1] / np.where(weights > 0, weights, 1.0))
    variance = max(both, of_readers, 0.0)
    share = 0.0 if variance < VARIES else max(of_readers, 0.0) / variance
    of_readers_t, of_cases_t = stdtrit([_readers_df(weights.sum(axis=1)), cases_df], 0.5 + level / 2)
    df = stdtridf(0.5 + level / 2, share * of_readers_t + (1 - share) * of_cases_t)
    return _student(value, variance, float(df), level)


def _readers_df(share: Floats) -> float:
    """Return Satterthwaite's degrees of freedom of the part of readers, who have these shares of the readings.

    `u_statistic` is a quadratic form of the readers' means, taken as independent with equal variances.
    """
    import numpy as np

    count = 1 - share @ share
    centre = share * (1 - share) / count
    pairs = np.outer(share, share) - np.diag(share**2)
    centred = np.eye(len(share)) - centre
    form = np.outer(share - centre, share - centre) - centred.T @ pairs @ centred / count
    return float(np.trace(form) ** 2 / (form**2).sum())


def _by_wilson(found: ReaderResult, level: float) -> ReaderResult:
    """Return a mean of scores with Wilson's interval of as many independent answers as have Student's interval."""
    from statistics import NormalDist

    if found.value is None or found.high is None:
        return found
    z, half = NormalDist().inv_cdf(0.5 + level / 2), found.high - found.value
    value = min(max(found.value, 0.0), 1.0)
    trials = max(value * (1 - value) * (z / half) ** 2, VARIES)
    low, high = wilson(value * trials, trials, level)
    return replace(found, low=float(low), high=float(high))


def _of_these_readers(one: Floats, other: Floats, groups: Groups, level: float) -> ReaderResult:
    import numpy as np

    both = ~np.isnan(one - other)
    sides = [_read(np.where(both, side, np.nan), groups) for side in (one, other)]
    tables = [_table(values, kept) for values, kept in sides]
    binary = all(_binary(values) for values, _ in sides)
    (found,) = compare(tables[0], tables[1], binary=binary, level=0.5 + level / 2)
    if found.low is None or found.worse is None:
        return ReaderResult(found.difference)
    t = found.difference / found.se if found.difference is not None and found.se else None
    p = 2 * min(found.worse, 1 - found.worse)
    return ReaderResult(found.difference, found.low, found.high, found.se, found.df, t, p)


def _student(value: float, variance: float, df: float, level: float) -> ReaderResult:
    from scipy.special import stdtr, stdtrit

    if variance < VARIES:
        return ReaderResult(value)
    se = sqrt(variance)
    t, half = value / se, float(stdtrit(df, 0.5 + level / 2)) * se
    return ReaderResult(value, value - half, value + half, se, df, t, 2 * float(stdtr(df, -abs(t))))


def _read(scores: Floats, groups: Groups) -> tuple[Floats, Groups]:
    """Return the scores and groups without readers and questions that have no reading."""
    import numpy as np

    seen = ~np.isnan(scores)
    return scores[np.ix_(seen.any(axis=1), seen.any(axis=0))], groups[seen.any(axis=0)]


def _table(values: Floats, groups: Groups) -> UnitTable:
    """Return the table of questions, each with the mean of its readers."""
    import numpy as np

    means, questions = np.nanmean(values, axis=0), np.arange(len(groups))
    return UnitTable(means, np.ones_like(means), questions, groups, np.zeros_like(questions))


def _binary(values: Floats) -> bool:
    """Return whether each question has one reading, right or wrong."""
    import numpy as np

    seen = ~np.isnan(values)
    return bool(np.all(seen.sum(axis=0) == 1) and np.all(np.isin(values[seen], (0, 1))))


def _within(found: ReaderResult, least: float, values: Floats, groups: Groups, *, fixed: bool) -> ReaderResult:
    """Return a result with its interval cut to [least, 1], and with its design."""
    if found.low is not None and found.high is not None:
        found = replace(found, low=max(found.low, least), high=min(found.high, 1.0))
    method = FIXED if fixed else CROSSED if crossed(values) else NOT_CROSSED
    return replace(found, readers=len(values), cases=len(set(groups.tolist())), method=method)


def _check(scores: Floats, groups: Groups) -> None:
    import numpy as np

    if np.ndim(scores) != 2 or np.shape(scores)[1:] != np.shape(groups):
        raise ValueError("scores must be (readers, questions), and groups (questions,)")
    if np.any(np.isinf(scores)) or np.any((scores < 0) | (scores > 1)):
        raise ValueError("scores must be from 0 to 1, or NaN where a question was not read")
