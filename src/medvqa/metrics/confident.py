"""Are the confidences of a run worth anything: do they rank its answers, are they probabilities; two runs beside.

Only answers with a confidence count. An answer that names no option (refused, abstained, unparsed), or whose confidence
could not be read, has none: these are counted beside the numbers, and nothing takes their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from typing import TYPE_CHECKING, Any

from medvqa.items import INVALID_OUTCOMES, OUTCOMES, Outcome, Result
from medvqa.metrics import measuring
from medvqa.metrics.confidences import Source, brier_score, confidence_of, log_loss
from medvqa.metrics.frames import groups
from medvqa.statistics import confidence as statistics
from medvqa.statistics.confidence import AREAS, Curve, Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SQUARE, ROOT, RISK = "squared_calibration_error", "calibration_error", "risk_at_coverage"
CURVES = (*AREAS, SQUARE, ROOT, RISK)
"""Measures of confidences that are no mean over units: they have no slices, and no gate."""
NO_CONFIDENCE = frozenset({*INVALID_OUTCOMES, "unscored", "error"})
"""Outcomes of answers that name no option or have no score."""
COVERAGE = 0.8
"""The share of answers for which RISK is the error rate: the largest reachable share up to it."""


def ranking_of(result: Result) -> float | None:
    """Return what ranks the answers: the confidence, and for PS the chosen option's share of the likelihoods.

    PS scores are likelihoods of texts, not probabilities of options: as shares they have an order alone.
    """
    return confidence_of(replace(result, technique="gd") if result.technique == "ps" else result)


@dataclass(frozen=True, slots=True, eq=False)
class Rated:
    """The answers of one technique that have a confidence, in their order; arrays are (n,).

    `correct`: the scores, from 0 to 1. `probability`: whether confidences are probabilities, not a mere order.
    """

    results: Sequence[Result]
    confidence: Floats
    correct: Floats
    group: NDArray[np.intp]
    probability: bool

    @classmethod
    def of(cls, results: Sequence[Result]) -> Rated:
        """Return the answers of `results` that have a confidence."""
        import numpy as np

        found = [(result, value) for result in results if (value := ranking_of(result)) is not None]
        kept = [result for result, _ in found]
        confidence = np.array([value for _, value in found], dtype=float)
        correct = np.array([result.score.value for result in kept], dtype=float)
        return cls(kept, confidence, correct, groups(kept), all(result.technique != "ps" for result in kept))

    @property
    def curve(self) -> Curve:
        """The risk at each reachable coverage."""
        return statistics.curve(self.confidence, self.correct)

    def risk(self, threshold: float) -> Estimate:
        """Return the mean loss of the answers with this confidence or more; the threshold is taken as given."""
        given = self.confidence >= threshold
        return statistics.averaged(1 - self.correct[given], self.group[given], (0, 1))


@dataclass(frozen=True, slots=True)
class ConfidenceMeasure:
    """A measure of confidences, or a difference of two runs, with its 95 % interval; None where undefined.

    `coverage` and `threshold`: of RISK. `baseline` and `new`: the values of two runs.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    coverage: float | None = None
    threshold: float | None = None
    baseline: float | None = None
    new: float | None = None


@dataclass(frozen=True, slots=True)
class ConfidenceQuality:
    """The measures of one technique's confidences from one source, or those of two runs compared.

    `n` of `answers` have a confidence (in both runs), in `groups` independent groups. `left_out`: the answers of
    NO_CONFIDENCE (of the new run), by outcome.
    """

    benchmark: str
    technique: str
    source: Source
    n: int
    groups: int
    answers: int
    left_out: Mapping[Outcome, int]
    measures: tuple[ConfidenceMeasure, ...]
    rated: Rated = field(repr=False, compare=False)

    @classmethod
    def of(
        cls, benchmark: str, source: Source, rated: Rated, results: Sequence[Result], measures: list[ConfidenceMeasure]
    ) -> ConfidenceQuality:
        """Return the measures with the counts of all `results`."""
        without = Counter(result.score.outcome for result in results)
        left_out = {name: without[name] for name in OUTCOMES if name in NO_CONFIDENCE and without[name]}
        counts = len(rated.results), len(set(rated.group.tolist())), len(results)
        return cls(benchmark, results[0].technique, source, *counts, left_out, tuple(measures), rated)

    @property
    def unread(self) -> int:
        """The number of answers whose confidence could not be read."""
        return self.answers - self.n - sum(self.left_out.values())

    @property
    def content(self) -> dict[str, Any]:
        """The fields for files: without the answers, and of measures without the fields that they have not."""
        names = ("benchmark", "technique", "source", "n", "groups", "answers", "unread", "left_out")
        measures = [asdict(measure) for measure in self.measures]
        kept = ({n: v for n, v in each.items() if v is not None or n in ("value", "low", "high")} for each in measures)
        return {**{name: getattr(self, name) for name in names}, "measures": list(kept)}

    @property
    def by_name(self) -> dict[str, ConfidenceMeasure]:
        """The measures by name."""
        return {measure.name: measure for measure in self.measures}


def quality(benchmark: str, source: Source, results: Sequence[Result]) -> ConfidenceQuality:
    """Return the measures of the confidences of one technique's results, one or more, whose order does not matter."""
    ordered = sorted(results, key=lambda result: result.key)
    rated, measures = Rated.of(ordered), list[ConfidenceMeasure]()
    about = rated.confidence, rated.correct
    if rated.results:
        sure = statistics.have_intervals(rated.correct, rated.group)
        for name, terms in zip(AREAS, statistics.areas(*about), strict=True):
            found = statistics.averaged(terms, rated.group, (0, 1))
            measures.append(ConfidenceMeasure(name, *(found if sure else Estimate(found.value))))
        coverage, _, threshold = rated.curve
        if reached := int((coverage <= COVERAGE + 1e-12).sum()):
            least = float(threshold[reached - 1])
            measures.append(ConfidenceMeasure(RISK, *rated.risk(least), float(coverage[reached - 1]), least))
    if rated.results and rated.probability:
        square = statistics.calibration(*about, rated.group)
        root = (None if end is None else sqrt(max(end, 0.0)) for end in square)
        measures += [ConfidenceMeasure(SQUARE, *square), ConfidenceMeasure(ROOT, *root)]
        # As in the table of measures: these are means over questions.
        scores = measuring.measures(rated.results, (brier_score, log_loss), (), benchmark=benchmark, signature={})
        measures += [ConfidenceMeasure(own.name, own.value, own.low, own.high) for own in scores if not own.slice]
    return ConfidenceQuality.of(benchmark, source, rated, ordered, measures)


def compared(benchmark: str, source: Source, both: Sequence[tuple[Result, Result]]) -> ConfidenceQuality | None:
    """Return the paired differences of two runs, new minus baseline; None if no answer has a confidence in both.

    `both`: the answers of the new run and of the baseline to the same questions. Groups are those of the new run's.
    """
    kept = [pair for pair in both if all(ranking_of(result) is not None for result in pair)]
    if not kept:
        return None
    ours, theirs = (Rated.of(side) for side in zip(*kept, strict=True))
    measures, group = list[ConfidenceMeasure](), ours.group
    sides = [(each.confidence, each.correct) for each in (ours, theirs)]
    sure = all(statistics.have_intervals(correct, group) for _, correct in sides)
    for name, one, other in zip(AREAS, *(statistics.areas(*side) for side in sides), strict=True):
        found, *values = (statistics.averaged(each, group) for each in (one - other, other, one))
        apart = found if sure else Estimate(found.value)
        measures.append(ConfidenceMeasure(name, *apart, None, None, *(each.value for each in values)))
    if ours.probability and theirs.probability:
        now, was = (statistics.calibration(*side, group).value for side in sides)
        apart = statistics.calibration_difference(sides[0], sides[1], group)
        measures.append(ConfidenceMeasure(SQUARE, *apart, None, None, was, now))
    return ConfidenceQuality.of(benchmark, source, ours, [new for new, _ in both], measures)
