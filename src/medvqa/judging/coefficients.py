"""Agreement of raters: exact agreement, mean absolute difference, Cohen's kappa and Krippendorff's alpha.

Kappa has quadratic weights and is scikit-learn's (`cohen_kappa_score`); alpha has the level "interval" and is that of
`krippendorff`. The intervals are those of `medvqa.statistics`: CR2 over groups, and Wilson's at the effective number of
answers. Exact agreement and mean difference are means from 0 to 1.

Kappa and alpha are 1 - D / E: D is the mean squared difference of the scores, from 0 to 1, and E its expectation by
chance. The variance of D - (D / E) E takes both into account (Taylor linearisation, E squared times the variance of
D / E). With it D gets Wilson's interval [low, high], and the figure 1 - high / E to 1 - low / E. Near 1 this covers
disagreements that are too rare to be in the sample; percentile intervals of a bootstrap do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

from medvqa import statistics
from medvqa.figures import Figure
from medvqa.items import Result, UsageError
from medvqa.judging.handed_in import CONSENSUS
from medvqa.judging.templates import SCALE
from medvqa.metrics.frames import groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from medvqa.statistics import Influences

MEASURES = ("exact", "difference", "kappa", "alpha")
"""The figures of `Agreement`, in the order of display."""

DEFAULT_DIMENSION = "ability"

LEAST_GROUPS = 10
"""Fewest groups for an interval."""

INSTALL = "pip install 'pytest-medvqa[agreement]'"

MOST_PAIRED = 5
"""Most raters for comparisons in pairs: thirty would be 435 pairs."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Scores of the same answers by several raters: `scores[rater][i]` is the score of `results[i]`, or None.

    Raters are in the order of display; `notes` are sentences about answers that are not compared, with the reason.
    """

    results: tuple[Result, ...]
    scores: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A number with its 95 % interval, as files have it; None if undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def figure(self, *, percent: bool = False) -> Figure:
        """The coefficient, to be printed: with three digits unless it is a percentage."""
        return Figure(self.value, self.low, self.high, percent=percent, digits=None if percent else 3)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of raters on the answers that at least two of them scored.

    `exact` is the share of equal pairs of scores and `difference` their mean absolute difference, both in [0, 1].
    `kappa` is Cohen's with quadratic weights, for two raters only; `alpha` is Krippendorff's for interval data. Both
    are 1 at most, and undefined if all scores are equal. With more than two raters, `exact` and `difference` are over
    pairs of raters, and an answer weighs as many times as raters scored it, as in alpha. `n` counts answers, `groups`
    independent groups of them. `confusion` counts answers by the first rater's score (row) and the second's (column) on
    `SCALE`; () for more than two. `slice` is as in `Measure`.
    """

    raters: tuple[str, ...]
    n: int
    groups: int
    exact: Coefficient
    difference: Coefficient
    kappa: Coefficient
    alpha: Coefficient
    confusion: tuple[tuple[int, ...], ...] = ()
    slice: Mapping[str, str] = field(default_factory=dict)


def dimension_of(results: Sequence[Result], typed: str | None) -> str | None:
    """Return the lexicon dimension of the slices: `typed` (--by), else ability if any result has it, else None.

    Raises UsageError if no result has the dimension `typed`.
    """
    dimensions = {name for result in results for name in result.item.tags}
    if typed is not None and typed not in dimensions:
        choices = ", ".join(sorted(dimensions))
        raise UsageError(f"--by={typed}: no judged answer has this dimension; there are: {choices}")
    return typed or (DEFAULT_DIMENSION if DEFAULT_DIMENSION in dimensions else None)


def agreements(ratings: Ratings, dimension: str | None = None) -> tuple[Agreement, ...]:
    """Return all agreements; `medvqa agreement` checks the first.

    First: the first rater with the consensus (with the second rater if there is no consensus), overall and per slice.
    Then: the first rater with every other, the others in pairs (up to `MOST_PAIRED`), and all others together if they
    are more than two. Two raters without a common answer are left out.
    """
    first, *others = ratings.scores
    people = [name for name in others if name != CONSENSUS]
    teams: list[tuple[str, ...]] = [(first, name) for name in others]
    teams += combinations(people, 2) if len(people) <= MOST_PAIRED else []
    teams += [tuple(people)] if len(people) > 2 else []
    values = sorted({value for result in ratings.results for value in result.item.tags.get(dimension or "", ())})
    slices = [{dimension or "": value} for value in values]
    overall, *sliced = _agreement(ratings, teams[0], [{}, *slices])
    rest = (agreement for raters in teams[1:] for agreement in _agreement(ratings, raters, [{}]))
    return overall, *sliced, *rest


def _agreement(ratings: Ratings, raters: Sequence[str], slices: Sequence[Mapping[str, str]]) -> list[Agreement]:
    """Return the agreement of some raters in every slice; [] if no two of them scored the same answer."""
    import numpy as np

    codes = np.array(
        [[-1 if score is None else SCALE.index(score) for score in ratings.scores[name]] for name in raters]
    ).T
    used = np.flatnonzero((codes >= 0).sum(1) > 1)
    if not len(used):
        return []
    codes, results = codes[used], [ratings.results[i] for i in used]
    group, counts = groups(results), counts_of(codes)
    member = [
        np.array([all(value in result.item.tags.get(key, ()) for key, value in part.items()) for result in results])
        for part in slices
    ]
    return [
        Agreement(
            tuple(raters),
            n=int(inside.sum()),
            groups=len(np.unique(group[inside])),
            **_figures(codes[inside], group[inside]),
            confusion=_table(counts[inside].sum(0)) if len(raters) == 2 else (),
            slice=part,
        )
        for part, inside in zip(slices, member, strict=True)
    ]


def _table(counts: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(count) for count in row) for row in counts)


def counts_of(codes: NDArray[np.intp], size: int = len(SCALE)) -> NDArray[np.float64]:
    """Return the contribution of every answer to the table of scores, (answers, size, size).

    `codes` is (answers, raters), -1 for no score. Two raters add 1 in the cell of their scores. More raters add
    coincidences: every ordered pair of an answer's m scores has the weight 1 / (m - 1) (Krippendorff 2019, Content
    Analysis, 12.3).
    """
    import numpy as np

    answers, raters = codes.shape
    counts = np.zeros((answers, size, size))
    if raters == 2:
        counts[np.arange(answers), codes[:, 0], codes[:, 1]] = 1
        return counts
    of_answer = (codes[:, :, None] == np.arange(size)).sum(1)
    pairs = of_answer[:, :, None] * of_answer[:, None, :] - of_answer[:, :, None] * np.eye(size)
    return np.asarray(pairs / (of_answer.sum(1) - 1)[:, None, None])


def _figures(codes: NDArray[np.intp], group: NDArray[np.intp]) -> dict[str, Coefficient]:
    """Return the figures by name, from codes (answers, raters), -1 for no score, in groups (answers,)."""
    import numpy as np

    if not len(codes):
        return {name: Coefficient(None) for name in MEASURES}
    counts, distance = counts_of(codes), np.abs(np.subtract.outer(SCALE, SCALE))
    two = codes.shape[1] == 2
    pooled = counts + np.swapaxes(counts, 1, 2) if two else counts
    scores = float(pooled.sum())
    kappa = cohen(codes[:, 0], codes[:, 1], len(SCALE)) if two else None
    return {
        "exact": _mean(counts, np.eye(len(SCALE)), group, binary=two),
        "difference": _mean(counts, distance, group, binary=False),
        "kappa": _beyond_chance(kappa, counts, counts, distance**2, group),
        # Alpha pairs scores without replacement, so its disagreement by chance is larger.
        "alpha": _beyond_chance(alpha(codes), counts, pooled, distance**2, group, scores / max(scores - 1, 1)),
    }


def nominal(
    one: NDArray[np.intp], other: NDArray[np.intp], group: NDArray[np.intp], size: int
) -> tuple[Coefficient, Coefficient, tuple[tuple[int, ...], ...]]:
    """Return exact agreement, Cohen's kappa and the table of counts for labels without an order, from 0 to size - 1.

    `one` and `other` are the labels of two raters, (answers,); `group` numbers independent groups of answers. The
    table has the first rater in rows. Kappa is Cohen's of 1960 (Educational and Psychological Measurement 20:37): every
    disagreement weighs the same. Intervals are as for scores.
    """
    import numpy as np

    counts = np.zeros((len(one), size, size))
    counts[np.arange(len(one)), one, other] = 1
    table = _table(counts.sum(0))
    if not len(one):
        return Coefficient(None), Coefficient(None), table
    exact = _mean(counts, np.eye(size), group, binary=True)
    return exact, nominal_agreement(np.column_stack((one, other)), group), table


def nominal_agreement(codes: NDArray[np.intp], group: NDArray[np.intp]) -> Coefficient:
    """Return Cohen's kappa of two raters, or Krippendorff's nominal alpha of more, for labels without an order.

    `codes` is (answers, raters), -1 for no label; every answer has two labels or more. `group` numbers independent
    groups of answers. Every disagreement weighs the same; value and interval are 1 - D / E as for scores.
    """
    import numpy as np

    size = int(codes.max(initial=0)) + 1
    counts, worth = counts_of(codes, size), 1 - np.eye(size)
    if not len(codes) or size < 2:
        return Coefficient(None)
    total = float(counts.sum())
    larger = 1.0 if codes.shape[1] == 2 else total / (total - 1)
    chance = _chance(counts, worth)[0] * larger
    value = 1 - float(_ratio(counts, worth, group).value[0]) / chance if chance > 0 else None
    return _beyond_chance(value, counts, counts, worth, group, larger)


def nominal_said(codes: NDArray[np.intp], group: NDArray[np.intp]) -> str:
    """Return `nominal_agreement` in words, with its name and its interval."""
    found = nominal_agreement(codes, group).figure()
    name = "Cohen's kappa" if codes.shape[1] == 2 else "Krippendorff's alpha"
    return f"{name} {found.text}{f', 95 % interval {found.interval}' if found.low is not None else ''}"


def cohen(one: NDArray[np.intp], other: NDArray[np.intp], size: int) -> float | None:
    """Return quadratic kappa of two raters' codes, 0 to size - 1; None if all are equal (UsageError: see INSTALL)."""
    try:
        from sklearn.metrics import cohen_kappa_score
    except ImportError:
        raise UsageError(f"kappa needs scikit-learn: {INSTALL}") from None
    if len({*one.tolist(), *other.tolist()}) < 2:
        return None
    return float(cohen_kappa_score(one, other, labels=list(range(size)), weights="quadratic"))


def alpha(codes: NDArray[np.intp]) -> float | None:
    """Return Krippendorff's alpha of codes (answers, raters), -1 for none; None if all are equal (UsageError)."""
    import numpy as np

    try:
        import krippendorff
    except ImportError:
        raise UsageError(f"alpha needs krippendorff: {INSTALL}") from None
    if len(np.unique(codes[codes >= 0])) < 2:
        return None
    return float(krippendorff.alpha(np.where(codes < 0, np.nan, codes).T, level_of_measurement="interval"))


def _mean(
    counts: NDArray[np.float64], worth: NDArray[np.float64], group: NDArray[np.intp], *, binary: bool
) -> Coefficient:
    mean = _ratio(counts, worth, group)
    return Coefficient(float(mean.value[0]), *_interval(mean, binary=binary))


def _beyond_chance(
    value: float | None,
    counts: NDArray[np.float64],
    paired: NDArray[np.float64],
    worth: NDArray[np.float64],
    group: NDArray[np.intp],
    larger: float = 1.0,
) -> Coefficient:
    """Return a value with the bounds of 1 - D / E; E is the chance of the `paired` counts, times `larger`."""
    if value is None:
        return Coefficient(None)
    disagreement, (chance, by_answer) = _ratio(counts, worth, group), _chance(paired, worth)
    share = float(disagreement.value[0]) / chance
    low, high = _interval(replace(disagreement, residual=disagreement.residual - share * by_answer), binary=False)
    if low is None or high is None:
        return Coefficient(value)
    return Coefficient(value, max(1 - high / (chance * larger), -1.0), max(1 - low / (chance * larger), -1.0))


def _ratio(counts: NDArray[np.float64], worth: NDArray[np.float64], group: NDArray[np.intp]) -> Influences:
    """Return the mean of `worth`, (scale, scale), over the counts of answers, (answers, scale, scale)."""
    import numpy as np

    answers = np.arange(len(counts))
    numerator, denominator = (counts * worth).sum((1, 2)), counts.sum((1, 2))
    return statistics.ratios(statistics.UnitTable(numerator, denominator, answers, group, np.zeros_like(answers)))


def _interval(influences: Influences, *, binary: bool) -> tuple[float | None, float | None]:
    if len(set(influences.group.tolist())) < LEAST_GROUPS:
        return None, None
    (low,), (high,) = statistics.intervals(statistics.clustered(influences), binary=binary)
    return (None, None) if low != low else (float(low), float(high))


def _chance(counts: NDArray[np.float64], worth: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the mean of `worth` for scores paired by chance, and the influence of every answer on it, (answers,).

    With the table T of all counts, row sums r, column sums c and sum N, E = r' worth c / N^2. The derivative of E by a
    count in the cell (a, b) is ((worth c)_a + (r' worth)_b) / N^2 - 2 E / N.
    """
    table = counts.sum(0)
    total, rows, columns = table.sum(), table.sum(1), table.sum(0)
    chance = float(rows @ worth @ columns / total**2)
    cells = ((worth @ columns)[:, None] + (rows @ worth)[None, :]) / total
    return chance, (counts * cells).sum((1, 2)) / counts.sum((1, 2)) - 2 * chance
