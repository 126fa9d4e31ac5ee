"""Are the confidences of a run worth anything: do they rank its answers, are they probabilities, and two runs' beside.

Only answers with a confidence count. An answer that names no option (refused, abstained, unparsed), or whose confidence
could not be read, has none: they are counted beside the numbers, and nothing takes their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING

from medvqa.items import INVALID_OUTCOMES, OUTCOMES, Metric, Outcome, Result
from medvqa.metrics.confidences import Source, brier_score, confidence_of, log_loss
from medvqa.metrics.frames import groups
from medvqa.statistics import confidence as statistics
from medvqa.statistics.confidence import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

AREAS = ("auroc", "aurc", "e_aurc", "augrc")
"""The names of `statistics.AREAS` in files."""
SQUARE, ROOT = "squared_calibration_error", "calibration_error"
LOSSES: tuple[Metric, ...] = (brier_score, log_loss)
CURVES = (*AREAS, SQUARE, ROOT)
"""Measures of confidences that are no mean over units: they have no slices, and no gate."""
COVERAGE = 0.8
"""The share of answers for which the table tells the risk."""


def ranking_of(result: Result) -> float | None:
    """Return what ranks the answers: the confidence, and for PS the chosen option's share of the likelihoods.

    PS scores are likelihoods of texts, not probabilities of options: as shares they still have an order.
    """
    return confidence_of(replace(result, technique="gd") if result.technique == "ps" else result)


@dataclass(frozen=True, slots=True, eq=False)
class Rated:
    """The answers of one technique that have a confidence, in their order; arrays are (n,).

    `correct`: the scores, from 0 to 1. `answers`: all answers. `unread`: answers without a readable confidence that
    name an option, or have a score. `left_out`: answers without any, by outcome. `probability`: whether confidences are
    probabilities, and no mere order.
    """

    results: Sequence[Result]
    confidence: Floats
    correct: Floats
    group: NDArray[np.intp]
    answers: int
    unread: int
    left_out: Mapping[Outcome, int]
    probability: bool

    @classmethod
    def of(cls, results: Sequence[Result]) -> Rated:
        """Return the answers of `results` that have a confidence."""
        import numpy as np

        found = [(result, value) for result in results if (value := ranking_of(result)) is not None]
        none = (*INVALID_OUTCOMES, "unscored", "error")
        left_out = Counter(result.score.outcome for result in results if result.score.outcome in none)
        kept = [result for result, _ in found]
        return cls(
            kept,
            np.array([value for _, value in found], dtype=float),
            np.array([result.score.value for result in kept], dtype=float),
            groups(kept),
            len(results),
            len(results) - len(kept) - left_out.total(),
            {name: left_out[name] for name in OUTCOMES if left_out[name]},
            all(result.technique != "ps" for result in kept),
        )

    @property
    def areas(self) -> Floats:
        """The contributions of each answer to AREAS, (4, n)."""
        return statistics.areas(self.confidence, self.correct)

    @property
    def losses(self) -> Iterator[tuple[str, Floats]]:
        """The terms of each answer of the measures that are means over answers; none for PS."""
        import numpy as np

        for metric in LOSSES if self.probability else ():
            yield metric.name, np.array([metric.terms([result])[0] for result in self.results])


@dataclass(frozen=True, slots=True)
class ConfidenceMeasure:
    """A measure of confidences with its 95 % interval; None where undefined, or with too few groups."""

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RiskAtCoverage:
    """The mean loss of the surest answers: the largest reachable share of answers up to the one asked for.

    The interval takes the threshold as given.
    """

    coverage: float
    risk: float
    low: float | None
    high: float | None
    threshold: float


@dataclass(frozen=True, slots=True)
class ConfidenceQuality:
    """The measures of one technique's confidences from one source.

    `n` answers of all `answers` have a confidence, in `groups` independent groups; `unread` and `left_out` as in
    `Rated`. `risk`: at COVERAGE; None if the surest block is larger.
    """

    benchmark: str
    technique: str
    source: Source
    n: int
    groups: int
    answers: int
    unread: int
    left_out: Mapping[Outcome, int]
    measures: tuple[ConfidenceMeasure, ...] = ()
    risk: RiskAtCoverage | None = None
    rated: Rated | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> ConfidenceMeasure:
        """Return the measure of this name; KeyError if there is none."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(name)


def quality(benchmark: str, source: Source, results: Sequence[Result]) -> ConfidenceQuality:
    """Return the measures of the confidences of one technique's results, one or more, whose order does not matter."""
    rated = Rated.of(sorted(results, key=lambda result: result.key))
    about = benchmark, results[0].technique, source, len(rated.results), len(set(rated.group.tolist()))
    counts = *about, rated.answers, rated.unread, rated.left_out
    if not rated.results:
        return ConfidenceQuality(*counts, rated=rated)
    areas = [statistics.estimated(each, rated.group) for each in rated.areas]
    if not statistics.has_intervals(rated.correct, rated.group):
        areas = [Estimate(each.value) for each in areas]
    found = [
        *zip(AREAS, areas, strict=True),
        *(_calibrated(rated) if rated.probability else ()),
        *((name, statistics.averaged(terms, rated.group)) for name, terms in rated.losses),
    ]
    measures = tuple(ConfidenceMeasure(name, each.value, each.low, each.high) for name, each in found)
    return ConfidenceQuality(*counts, measures, _risk(rated), rated)


def _calibrated(rated: Rated) -> list[tuple[str, Estimate]]:
    """Return the square, and its root: that of 0 if the square is below 0."""
    square = statistics.calibration(rated.confidence, rated.correct, rated.group)
    root = Estimate(*(None if v is None else sqrt(max(v, 0.0)) for v in (square.value, square.low, square.high)))
    return [(SQUARE, square), (ROOT, root)]


def _risk(rated: Rated) -> RiskAtCoverage | None:
    reached = statistics.risk_at(statistics.curve(rated.confidence, rated.correct), COVERAGE)
    if reached is None:
        return None
    coverage, risk, threshold = reached
    given = rated.confidence >= threshold
    found = statistics.estimated(1 - rated.correct[given], rated.group[given])
    return RiskAtCoverage(coverage, risk, found.low, found.high, threshold)


@dataclass(frozen=True, slots=True)
class ConfidenceDifference:
    """A measure of the confidences of two runs on the same answers, and new minus baseline with its 95 % interval."""

    name: str
    baseline: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ConfidencesCompared:
    """The confidences of two runs from one source, over the `n` answers that have one in both, in `groups` groups.

    `answers`: the answers that both runs have.
    """

    benchmark: str
    technique: str
    source: Source
    n: int
    groups: int
    answers: int
    measures: tuple[ConfidenceDifference, ...]


def compared(
    benchmark: str, source: Source, new: Sequence[Result], baseline: Sequence[Result]
) -> ConfidencesCompared | None:
    """Return the paired differences of two runs; None if no answer has a confidence in both.

    `new` and `baseline` are answers to the same questions, one by one. Groups are those of the new run's items.
    """
    both = [
        (one, replace(other, item=one.item))
        for one, other in zip(new, baseline, strict=True)
        if ranking_of(one) is not None and ranking_of(other) is not None
    ]
    if not both:
        return None
    ours, theirs = (Rated.of(side) for side in zip(*both, strict=True))
    measures, group = list[ConfidenceDifference](), ours.group

    sure = all(statistics.has_intervals(each.correct, group) for each in (ours, theirs))

    def add(name: str, one: Estimate, other: Estimate, apart: Estimate) -> None:
        measures.append(ConfidenceDifference(name, other.value, one.value, apart.value, apart.low, apart.high))

    for name, one, other in zip(AREAS, ours.areas, theirs.areas, strict=True):
        values = [statistics.averaged(each, group) for each in (one, other, one - other)]
        add(name, *(values if sure else [Estimate(each.value) for each in values]))
    if ours.probability and theirs.probability:
        sides = [(each.confidence, each.correct) for each in (ours, theirs)]
        squares = [statistics.calibration(*side, group) for side in sides]
        add(SQUARE, squares[0], squares[1], statistics.calibration_difference(sides[0], sides[1], group))
    technique, groups_in_both = ours.results[0].technique, len(set(group.tolist()))
    return ConfidencesCompared(benchmark, technique, source, len(both), groups_in_both, len(new), tuple(measures))
