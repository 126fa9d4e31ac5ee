"""Does a confidence rank right answers above wrong ones, and is it a probability? Curves, areas and calibration.

`confidence`: (n,) any numbers for ranking, probabilities for calibration. `correct`: (n,) in [0, 1], 1 for a right
answer; the loss is 1 - correct. Answers with equal confidences are one block: no threshold answers a part of it.

With c(x) the share of answers whose confidence is at least that of x, and risk(x) the mean loss of these answers:

- AURC is the mean of risk(x) over the answers: every answer counts with the risk at its own block's coverage, the
  plug-in of the population's AURC (Zhou et al. 2024, arXiv 2410.15361, section 3). fd-shifts draws lines between
  blocks instead, a risk that no threshold has.
- E-AURC is AURC minus the least AURC that any confidence could have with these losses, that of ascending losses
  (Geifman, Uziel and El-Yaniv 2019, arXiv 1805.08206). Never below 0.
- AUGRC is the area under the share of all answers that are given and wrong (Traub et al. 2024, arXiv 2407.01032). That
  share is linear in the answers of a block, so the trapezoid, as in fd-shifts, is the mean over a block in any order:
  AUGRC = mean of loss(x) times the share of answers below x, half of its block included. With error rate r it is
  r² / 2 + r (1 - r) (1 - AUROC).
- AUROC is the probability that a right answer has a higher confidence than a wrong one; equal ones count half (Hanley
  and McNeil 1982). Of partial scores, `correct` and `loss` are the weights of an answer on either side.

Each is, to first order, a mean of contributions of single answers (its value plus the influence of the answer), so
intervals and paired differences over groups are those of means: for AUROC, DeLong's with clusters (Obuchowski 1997,
Biometrics 53:567). `bench/confidence.py` simulates how often they cover.

The calibration error is the L2 error over bins of equal mass, without its bias (Kumar, Liang and Ma 2019, arXiv
1909.10155, section 4): the mean over bins of the squared mean gap, confidence - correct. Kumar's debiased estimator
takes the sampling variance of each bin's mean off the square. Here the square is the mean product of the gaps of two
answers of different groups, which is the same for independent answers with one confidence in each bin, and stays
unbiased if confidences vary within a bin, or answers within a group are alike. It may be below 0. Gaps that cancel
within a bin stay unseen: it is a lower bound of the error of the confidence itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan, sqrt
from typing import TYPE_CHECKING, NamedTuple

from medvqa.statistics.clustered import clustered
from medvqa.statistics.influence import UnitTable, ratios
from medvqa.statistics.intervals import intervals, student

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Groups = NDArray[np.intp]

BINS = 10
"""Most bins of equal mass of the calibration error and of the reliability diagram."""
GROUPS_OF_BIN = 10
"""Independent groups for each bin: of fewer groups, there are fewer bins."""
LEAST_GROUPS = 15
"""Fewest groups with an interval: with 10, that of the calibration error holds the truth in 90 % of runs."""
LEAST_DEVIATING = 10
"""Fewest groups with a wrong answer, and with a right one, for intervals of areas: with 4, they hold it in 85 %."""
AREAS = ("AUROC", "AURC", "E-AURC", "AUGRC")
"""The rows of `areas`."""


class Curve(NamedTuple):
    """The reachable coverages, ascending, with the selective risk and the threshold of each; (blocks,) each."""

    coverage: Floats
    risk: Floats
    threshold: Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value or a difference with its 95 % interval; None where undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None


class _Blocks(NamedTuple):
    """Answers by blocks of equal confidence, ascending: the block of each answer, (n,), and by block, (blocks,), its
    confidence, its answers, and the answers and the loss of it and all higher ones."""

    place: Groups
    confidence: Floats
    size: Floats
    answered: Floats
    lost: Floats


def _blocks(confidence: Floats, loss: Floats) -> _Blocks:
    import numpy as np

    values, place, size = np.unique(confidence, return_inverse=True, return_counts=True)
    of_block = np.bincount(place, loss, len(values))
    above = (np.cumsum(each[::-1])[::-1] for each in (size.astype(float), of_block))
    return _Blocks(place, values, size.astype(float), *above)


def risk_at(found: Curve, coverage: float) -> tuple[float, float, float] | None:
    """Return the largest reachable coverage up to this one, its risk and its threshold; None if there is none."""
    reached = int((found.coverage <= coverage + 1e-12).sum())
    if not reached:
        return None
    coverage, risk, threshold = (float(each[reached - 1]) for each in found)
    return coverage, risk, threshold


def curve(confidence: Floats, correct: Floats) -> Curve:
    """Return the selective risk, the mean loss of the answers that are given, at each reachable coverage."""
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
    wrong = found.size - right
    lost, risk = wrong.sum(), found.lost / found.answered
    # The answers, right or wrong, above and below each block, half of the block included.
    middle = [np.cumsum(each) - each / 2 for each in (found.size, right, wrong)]
    below, right_below, wrong_below = (each[place] for each in middle)
    roc = np.full(n, nan)
    if 0 < lost < n:
        area = float(correct @ wrong_below) / (lost * (n - lost))
        of_right, of_wrong = wrong_below / lost - area, (n - lost - right_below) / (n - lost) - area
        roc = area + n * (correct * of_right / (n - lost) + loss * of_wrong / lost)
    # The derivative of each risk by the loss and the presence of an answer, summed over the blocks that it is in.
    weight, drop = (np.cumsum(found.size * each / found.answered)[place] for each in (np.ones_like(risk), risk))
    curve_area = risk[place] + loss * weight - drop
    augrc = float(loss @ below) / n**2
    # An answer counts by its own loss, and by the losses above it that it lets count more.
    general = loss * below / n + (found.lost - wrong / 2)[place] / n - augrc
    return np.stack([roc, curve_area, curve_area - _least(loss), general])


def _least(loss: Floats) -> Floats:
    """Return the contributions, (n,), to the least AURC of these losses: the mean over k of the k smallest's mean."""
    import numpy as np

    n, (values, place) = len(loss), np.unique(loss, return_inverse=True)
    ranked = np.sort(loss)
    share = np.searchsorted(ranked, values[:-1], side="right") / n
    # The influence of a rank statistic with the weights -log(rank / n) (Serfling 1980, section 8.2.4).
    steps = np.diff(values) * -np.log(share)
    above = np.append(np.cumsum(steps[::-1])[::-1], 0.0)[place]
    return float((np.cumsum(ranked) / np.arange(1, n + 1)).mean()) + float(share @ steps) - above


def has_intervals(correct: Floats, group: Groups) -> bool:
    """Whether areas have intervals: enough groups have a wrong answer, and enough a right one."""
    import numpy as np

    return all(len(np.unique(group[some > 0])) >= LEAST_DEVIATING for some in (correct, 1 - correct))


def estimated(contributions: Floats, group: Groups) -> Estimate:
    """Return the mean of contributions, (n,), to a share, with Wilson's interval over groups, as for every share."""
    return _estimate(contributions, group, share=True)


def averaged(contributions: Floats, group: Groups) -> Estimate:
    """Return the mean of contributions, (n,), or of their differences between two runs, with Student's interval."""
    return _estimate(contributions, group, share=False)


def _estimate(contributions: Floats, group: Groups, *, share: bool) -> Estimate:
    import numpy as np

    value = float(contributions.mean()) if len(contributions) else nan
    if isnan(value):
        return Estimate(None)
    if len(np.unique(group)) < LEAST_GROUPS:
        return Estimate(value)
    rows = np.arange(len(group))
    found = clustered(ratios(UnitTable(contributions, np.ones(len(rows)), rows, group, np.zeros_like(rows))))
    low, high = (float(end[0]) for end in (intervals(found, binary=False) if share else student(found)))
    # Rounding must not put the value outside its interval.
    return Estimate(value) if isnan(low) else Estimate(value, min(low, value), max(high, value))


def binned(confidence: Floats, groups: int) -> Groups:
    """Return the bin of each answer, (n,): at most BINS of equal mass, with GROUPS_OF_BIN independent `groups` each.

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
    """The gaps, confidence - correct, of one run: the share and the mean gap of each bin, (bins,), the errors of these
    means by group, (groups, bins), and the unbiased mean square, NaN if one group fills a bin."""

    share: Floats
    mean: Floats
    error: Floats
    square: float


def _gaps(confidence: Floats, correct: Floats, group: Groups) -> _Gaps:
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

    The mean gaps of the bins are taken as normal, with their covariance over groups, so their mean square is a sum of
    squares. It is taken as a noncentral chi-square with the same variance: that of calibrated confidences, plus 4 times
    the true square times the variance in the direction of the gaps. The interval inverts it; its ends are 0 or more. A
    bootstrap fails where confidences are calibrated, since the square has no linear part there.
    """
    found = _gaps(confidence, correct, group)
    if isnan(found.square):
        return Estimate(None)
    flat, slope = _spread([found])
    mean_square = float(found.share @ found.mean**2)
    if len(found.error) < LEAST_GROUPS or not (flat > 0 and slope > 0):
        return Estimate(found.square)
    scale = slope / mean_square
    df = flat / (2 * scale**2)
    low = _noncentrality(found.square / scale + df, df, 0.975)
    # A square below 0 gets the upper end of 0: an interval that shrinks to nothing would claim too much.
    return Estimate(found.square, scale * low, scale * _noncentrality(max(found.square / scale, 0.0) + df, df, 0.025))


def _noncentrality(value: float, df: float, below: float) -> float:
    """Return the noncentrality at which a chi-square is below the value with this probability; 0 if none is."""
    from scipy.special import chdtr, chndtrinc

    return 0.0 if value <= 0 or chdtr(df, value) <= below else float(chndtrinc(value, df, below))


Run = tuple["Floats", "Floats"]
"""The `confidence` and `correct` of a run."""


def calibration_difference(new: Run, baseline: Run, group: Groups) -> Estimate:
    """Return the difference of two squared calibration errors on the same questions; each run has bins of its own."""
    from scipy.special import stdtrit

    one, other = (_gaps(*run, group) for run in (new, baseline))
    value = one.square - other.square
    if isnan(value):
        return Estimate(None)
    if len(one.error) < LEAST_GROUPS:
        return Estimate(value)
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
