"""Does a confidence rank right answers above wrong ones, and is it a probability? Curves, areas and calibration.

`confidence`: (n,), any numbers for ranking, probabilities for calibration. `correct`: (n,) in [0, 1]; the loss is 1
minus it. `group`: (n,), independent groups. Answers with equal confidences are one block: no threshold answers a part
of it. With risk(x) the mean loss of the answers whose confidence is at least that of x:

- AURC is the mean of risk(x): each answer counts with the risk at its own block's coverage, the plug-in of the
  population's AURC (Zhou et al. 2024, arXiv 2410.15361). fd-shifts draws lines between blocks, a risk of no threshold.
- E-AURC is AURC minus the least AURC of any confidence with these losses, that of ascending losses (Geifman et al.
  2019, arXiv 1805.08206). Never below 0.
- AUGRC is the area under the share of answers that are given and wrong (Traub et al. 2024, arXiv 2407.01032). The
  trapezoid, as in fd-shifts, is exact: it is the mean of loss(x) times the share of answers below x and half of its
  block. With error rate r it is r² / 2 + r (1 - r) (1 - AUROC).
- AUROC: a right answer has a higher confidence than a wrong one; equal ones count half. `correct` and the loss are the
  weights of an answer on either side.

Each is, to first order, a mean of contributions of single answers, so intervals and paired differences are those of
means over groups: for AUROC DeLong's with clusters (Obuchowski 1997, Biometrics 53:567).

The calibration error is the debiased L2 error over bins of equal mass (Kumar, Liang and Ma 2019, arXiv 1909.10155): the
mean over bins of the squared mean gap, confidence - correct, without its sampling variance. Here the square is the mean
product of the gaps of two answers of different groups: the same for single answers with one confidence in each bin, and
without bias if confidences vary within a bin or answers within a group are alike. It may be below 0. Gaps that cancel
within a bin are not seen. `bench/confidence.py` simulates how often all intervals cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

from medvqa.statistics.clustered import clustered
from medvqa.statistics.influence import UnitTable, ratios
from medvqa.statistics.intervals import student, within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Groups = NDArray[np.intp]
    Run = tuple[Floats, Floats]

BINS, GROUPS_OF_BIN = 10, 10
"""Most bins, and groups for each bin: of fewer than 100 groups there are fewer bins."""
LEAST_GROUPS = 15
"""Fewest groups with an interval: with 10, that of the calibration error holds the truth in 90 % of runs."""
LEAST_DEVIATING = 10
"""Fewest groups with a wrong answer, and with a right one, for intervals of areas: with 4, they hold it in 85 %."""
AREAS = ("auroc", "aurc", "e_aurc", "augrc")
"""The rows of `areas`."""


class Curve(NamedTuple):
    """The reachable coverages, ascending, with the risk and the threshold of each; (blocks,) each."""

    coverage: Floats
    risk: Floats
    threshold: Floats


class Estimate(NamedTuple):
    """A value or a difference with its 95 % interval; None where undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class _Blocks(NamedTuple):
    """The block of each answer, (n,); of each block, upwards: confidence, answers, then answers and loss from it on."""

    place: Groups
    confidence: Floats
    size: Floats
    answered: Floats
    lost: Floats


def _blocks(confidence: Floats, loss: Floats) -> _Blocks:
    import numpy as np

    values, place, size = np.unique(confidence, return_inverse=True, return_counts=True)
    terms = size.astype(float), np.bincount(place, loss, len(values))
    return _Blocks(place, values, terms[0], *(np.cumsum(each[::-1])[::-1] for each in terms))


def curve(confidence: Floats, correct: Floats) -> Curve:
    """Return the mean loss of the answers that are given at each reachable coverage."""
    found = _blocks(confidence, 1 - correct)
    risk = found.lost / found.answered
    return Curve((found.answered / len(correct))[::-1], risk[::-1], found.confidence[::-1])


def areas(confidence: Floats, correct: Floats) -> Floats:
    """Return the contribution of each answer to each of AREAS, (4, n), whose means are the values.

    AUROC is NaN unless there are right and wrong answers. The order of the answers does not matter.
    """
    import numpy as np

    loss, n = 1 - correct, len(correct)
    found = _blocks(confidence, loss)
    place, right = found.place, np.bincount(found.place, correct, len(found.size))
    wrong, risk = found.size - right, found.lost / found.answered
    # The answers, the right and the wrong ones below each block, with half of the block.
    below, right_below, wrong_below = ((np.cumsum(each) - each / 2)[place] for each in (found.size, right, wrong))
    lost, roc = float(wrong.sum()), np.full(n, nan)
    if 0 < lost < n:
        area = float(correct @ wrong_below) / (lost * (n - lost))
        of_right, of_wrong = wrong_below / lost - area, (n - lost - right_below) / (n - lost) - area
        roc = area + n * (correct * of_right / (n - lost) + loss * of_wrong / lost)
    # The derivative of each risk by the loss and by the presence of an answer, summed over the blocks that it is in.
    weight, drop = (np.cumsum(found.size * each / found.answered)[place] for each in (1.0, risk))
    aurc = risk[place] + loss * weight - drop
    # An answer counts by its own loss, and by the losses above it that it lets count more.
    augrc = loss * below / n + (found.lost - wrong / 2)[place] / n - float(loss @ below) / n**2
    return np.stack([roc, aurc, aurc - _least(loss), augrc])


def _least(loss: Floats) -> Floats:
    """Return the contributions, (n,), to the least AURC of these losses: the mean over k of the k smallest's mean."""
    import numpy as np

    n, (values, place), ranked = len(loss), np.unique(loss, return_inverse=True), np.sort(loss)
    share = np.searchsorted(ranked, values[:-1], side="right") / n
    # The influence of a rank statistic with the weights -log(rank / n) (Serfling 1980, section 8.2.4).
    steps = np.diff(values) * -np.log(share)
    above = np.append(np.cumsum(steps[::-1])[::-1], 0.0)[place]
    return float((np.cumsum(ranked) / np.arange(1, n + 1)).mean()) + float(share @ steps) - above


def have_intervals(correct: Floats, group: Groups) -> bool:
    """Whether areas have intervals: enough groups have a wrong answer, and enough a right one."""
    import numpy as np

    return all(len(np.unique(group[some > 0])) >= LEAST_DEVIATING for some in (correct, 1 - correct))


def averaged(contributions: Floats, group: Groups, bounds: tuple[float, float] | None = None) -> Estimate:
    """Return the mean of contributions, (n,), with Student's interval over groups; between `bounds`, with Wilson's."""
    import numpy as np

    value = float(contributions.mean()) if len(contributions) else nan
    if isnan(value) or len(np.unique(group)) < LEAST_GROUPS:
        return Estimate(None if isnan(value) else value)
    rows = np.arange(len(group))
    found = clustered(ratios(UnitTable(contributions, np.ones(len(rows)), rows, group, np.zeros_like(rows))))
    low, high = (float(end[0]) for end in (student(found) if bounds is None else within(found, *bounds)))
    # Rounding must not put the value outside its interval.
    return Estimate(value) if isnan(low) else Estimate(value, min(low, value), max(high, value))


def binned(confidence: Floats, groups: int) -> Groups:
    """Return the bin of each answer, (n,): bins of equal mass, GROUPS_OF_BIN of the independent `groups` in each.

    Equal confidences stay in one bin. A rest of less than half a bin joins the last one.
    """
    import numpy as np

    found = _blocks(confidence, np.zeros(len(confidence)))
    ends, mass = np.cumsum(found.size), len(confidence) / max(1, min(BINS, groups // GROUPS_OF_BIN))
    closed = [0.0]
    while closed[-1] < ends[-1]:
        closed.append(float(ends[min(int(np.searchsorted(ends, closed[-1] + mass - 1e-9)), len(ends) - 1)]))
    if len(closed) > 2 and closed[-1] - closed[-2] < mass / 2:
        del closed[-2]
    return np.searchsorted(closed[1:], ends)[found.place]


class _Gaps(NamedTuple):
    """Of each bin the share and the mean gap, (bins,), and its error by group, (groups, bins); the mean square."""

    share: Floats
    mean: Floats
    error: Floats
    square: float


def _gaps(confidence: Floats, correct: Floats, group: Groups) -> _Gaps:
    """Return the gaps of a run; the square is NaN if one group fills a bin."""
    import numpy as np

    codes, place = np.unique(group, return_inverse=True)
    bins = binned(confidence, len(codes))
    shape = len(codes), int(bins.max()) + 1
    cell = place * shape[1] + bins
    sizes, sums = (np.bincount(cell, each, shape[0] * shape[1]).reshape(shape) for each in (None, confidence - correct))
    size, total = sizes.sum(axis=0), sums.sum(axis=0)
    pairs = size**2 - (sizes**2).sum(axis=0)
    squares = np.divide(total**2 - (sums**2).sum(axis=0), pairs, out=np.full(len(size), nan), where=pairs > 0)
    share, mean = size / len(group), total / size
    return _Gaps(share, mean, (sums - sizes * mean) / size, float(share @ squares))


def calibration(confidence: Floats, correct: Floats, group: Groups) -> Estimate:
    """Return the unbiased square of the calibration error, which may be below 0, with its interval over groups.

    The mean gaps are taken as normal, and their mean square as a noncentral chi-square with its variance: that of
    calibrated confidences, plus 4 times the true square times the variance in the direction of the gaps. The interval
    inverts it; its ends are 0 or more. A bootstrap fails if confidences are calibrated: the square has no linear part.
    """
    found = _gaps(confidence, correct, group)
    if isnan(found.square):
        return Estimate(None)
    flat, slope = _spread([found])
    # Few groups with few wrong answers hold the truth in 90 % of runs.
    few = len(found.error) < (LEAST_GROUPS if have_intervals(correct, group) else 2 * LEAST_GROUPS)
    if few or not (flat > 0 and slope > 0):
        return Estimate(found.square)
    scale = slope / float(found.share @ found.mean**2)
    df, square = flat / (2 * scale**2), found.square / scale
    # A square below 0 has the upper end of 0: an interval that shrinks to nothing would claim too much.
    low, high = _shift(square + df, df, 0.975), _shift(max(square, 0.0) + df, df, 0.025)
    return Estimate(found.square, scale * low, scale * high)


def _shift(value: float, df: float, below: float) -> float:
    """Return the noncentrality at which a chi-square is below the value with this probability; 0 if none is."""
    from scipy.special import chdtr, chndtrinc

    return 0.0 if value <= 0 or chdtr(df, value) <= below else float(chndtrinc(value, df, below))


def calibration_difference(new: Run, baseline: Run, group: Groups) -> Estimate:
    """Return the difference of two squared calibration errors on the same questions; each run has bins of its own."""
    from scipy.special import stdtrit

    one, other = (_gaps(*run, group) for run in (new, baseline))
    value = one.square - other.square
    if isnan(value) or len(one.error) < LEAST_GROUPS:
        return Estimate(None if isnan(value) else value)
    flat, slope = _spread([one, other._replace(share=-other.share)])
    half = float(stdtrit(len(one.error) - 1, 0.975)) * sqrt(max(4 * slope - flat, flat, 0.0))
    return Estimate(value, value - half, value + half)


def _spread(sides: Sequence[_Gaps]) -> tuple[float, float]:
    """Return the variance of the mean square of calibrated gaps, and that of the mean gaps in their own direction."""
    import numpy as np

    share, mean = (np.concatenate([getattr(side, name) for side in sides]) for name in ("share", "mean"))
    error = np.concatenate([side.error for side in sides], axis=1)
    covariance = error.T @ error * len(error) / (len(error) - 1)
    weighted, direction = share[:, None] * covariance, share * mean
    return 2 * float((weighted * weighted.T).sum()), float(direction @ covariance @ direction)
