"""The confidence of an answer, measures of it, and whether confidences rank answers and are probabilities.

A confidence is stated by the model (`--confidence`), the probability of the chosen option (GD), or the share of samples
that agree (`--combine=vote`). Brier (1950), doi 10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2. The score of an answer
with partial credit stands in the place of right or wrong.

Only answers with a confidence count. An answer that names no option (refused, abstained, unparsed), or whose confidence
could not be read, has none: these are counted beside the numbers, and nothing takes their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, fsum, inf, log, sqrt
from typing import TYPE_CHECKING, Any, Literal

from medvqa.figures import Figure
from medvqa.items import INVALID_OUTCOMES, OUTCOMES, Metric, Outcome, Result
from medvqa.metrics import measuring
from medvqa.metrics.definitions import LEFT_OUT, NO, YES, ratio
from medvqa.metrics.frames import groups
from medvqa.statistics import confidence as statistics
from medvqa.statistics.confidence import AREAS, Curve, Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Source = Literal["stated", "option", "agreement", "for ranking"]
"""stated: by the model, in words. option: the probability of the chosen option. agreement: of samples. for ranking: the
chosen option's share of likelihoods that are no probabilities."""
CLIP = 0.005
"""The logarithmic loss reads confidences as at least this, and at most 1 minus this: half a percent."""


def confidence_of(result: Result) -> float | None:
    """Return the confidence of an answer, from 0 to 1; None if it has none, or names no answer or has no score.

    For GD it is the probability of the likeliest option, normalised over the options; one that is missing counts as
    0. PS has none: its likelihoods are no probabilities. A voted result has the share of the samples that chose as the
    vote.
    """
    answer, score = result.answer, result.score
    if answer is None or score.value is None or score.outcome in INVALID_OUTCOMES or result.technique == "ps":
        return None
    if result.technique != "gd":
        return answer.confidence
    given = answer.option_logprobs or {}
    values = [given[letter] for letter in result.item.options if letter in given]
    largest = max(values, default=-inf)
    return 1 / fsum(exp(value - largest) for value in values) if largest > -inf else None


@ratio(binary=False, percent=False, better="lower")
def brier_score(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over answers with a confidence of its squared difference from the score: 0 is best, 0.25 is always 50 %."""
    (result,) = results
    confidence, score = confidence_of(result), result.score.value
    return LEFT_OUT if confidence is None or score is None else ((confidence - score) ** 2, 1.0)


@ratio(binary=False, percent=False, better="lower")
def log_loss(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over answers with a confidence, clipped to 0.005 and 0.995, of minus the log of its share for the truth."""
    (result,) = results
    confidence, score = confidence_of(result), result.score.value
    if confidence is None or score is None:
        return LEFT_OUT
    clipped = min(max(confidence, CLIP), 1 - CLIP)
    return -(score * log(clipped) + (1 - score) * log(1 - clipped)), 1.0


brier_score, log_loss = replace(brier_score, bounds=(0.0, 1.0)), replace(log_loss, bounds=(0.0, -log(CLIP)))


@ratio(better="lower")
def confidence_unread_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Answers that were read and whose confidence was not / answers that were read."""
    (result,) = results
    if result.answer is None or result.score.outcome in ("error", *INVALID_OUTCOMES):
        return LEFT_OUT
    return YES if result.answer.confidence is None else NO


def of_source(source: Source) -> tuple[Metric, ...]:
    """Return the measures of confidences from one source, which their signatures name; () of those for ranking."""
    if source == "for ranking":
        return ()
    signs = (("confidence", source),)
    # A baseline without responses has stated confidences, and no probabilities of options.
    scores = [replace(metric, signs=signs, reads_text=source == "option") for metric in (brier_score, log_loss)]
    return (*scores, *([replace(confidence_unread_rate, signs=signs)] if source == "stated" else []))


# ---- whether confidences rank answers, and are probabilities ---------------------------------------------------------

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
        (found,) = cls.beside([(result,) for result in results])
        return found

    @classmethod
    def beside(cls, rows: Sequence[Sequence[Result]]) -> list[Rated]:
        """Return the answers of each run, of those questions to which all runs have one with a confidence.

        `rows`: the answers of all runs to a question.
        """
        import numpy as np

        rated = [(row, [ranking_of(result) for result in row]) for row in rows]
        kept = [(row, values) for row, values in rated if None not in values]
        found = []
        for place in range(len(rows[0])):
            results = [row[place] for row, _ in kept]
            confidence = np.array([values[place] for _, values in kept], dtype=float)
            correct = np.array([result.score.value for result in results], dtype=float)
            probability = all(result.technique != "ps" for result in results)
            found.append(cls(results, confidence, correct, groups(results), probability))
        return found

    @property
    def curve(self) -> Curve:
        """The risk at each reachable coverage."""
        return statistics.curve(self.confidence, self.correct)

    def risk(self, threshold: float) -> Estimate:
        """Return the mean loss of the answers with this confidence or more; the threshold is taken as given."""
        given = self.confidence >= threshold
        return statistics.averaged(1 - self.correct[given], self.group[given], (0, 1))


@dataclass(frozen=True, slots=True)
class ConfidenceQuality:
    """The measures of one technique's confidences from one source by name, or the differences of two runs.

    `n` of `answers` have a confidence (in both runs), in `groups` independent groups. `left_out`: the answers of
    NO_CONFIDENCE (of the new run), by outcome. `surest`: the share of answers of RISK, and their least confidence; None
    if no share up to COVERAGE can be reached. `sides`: the values of the baseline and of the new run.
    """

    benchmark: str
    technique: str
    source: Source
    n: int
    groups: int
    answers: int
    left_out: Mapping[Outcome, int]
    measures: Mapping[str, Figure]
    rated: Rated = field(repr=False, compare=False)
    surest: tuple[float, float] | None = None
    sides: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, benchmark: str, source: Source, rated: Rated, results: Sequence[Result], measures: Mapping[str, Estimate]
    ) -> ConfidenceQuality:
        """Return the measures with the counts of all `results`."""
        without = Counter(result.score.outcome for result in results)
        left_out = {name: without[name] for name in OUTCOMES if name in NO_CONFIDENCE and without[name]}
        n, independent = len(rated.results), len(set(rated.group.tolist()))
        figures = {}
        for name, (value, low, high) in measures.items():
            percent, digits = name in (ROOT, RISK), 3 if name == "auroc" else 4
            shown = Figure(value, low, high, n, "answers", groups=independent, percent=percent)
            figures[name] = shown if percent else replace(shown, digits=digits)
        return cls(benchmark, results[0].technique, source, n, independent, len(results), left_out, figures, rated)

    @property
    def unread(self) -> int:
        """The number of answers whose confidence could not be read."""
        return self.answers - self.n - sum(self.left_out.values())

    @property
    def content(self) -> dict[str, Any]:
        """The fields for files, without the answers; of two runs, without the counts of one alone."""
        of_one = () if self.sides else ("unread", "left_out")
        names = ("benchmark", "technique", "source", "n", "groups", "answers", *of_one)
        return {**{name: getattr(self, name) for name in names}, "measures": list(map(self._content, self.measures))}

    def _content(self, name: str) -> dict[str, Any]:
        figure = self.measures[name]
        content = {"name": name, "value": figure.value, "low": figure.low, "high": figure.high}
        if name == RISK and self.surest is not None:
            content |= dict(zip(("coverage", "threshold"), self.surest, strict=True))
        if name in self.sides:
            content |= dict(zip(("baseline", "new"), self.sides[name], strict=True))
        return content


def quality(benchmark: str, source: Source, results: Sequence[Result]) -> ConfidenceQuality:
    """Return the measures of the confidences of one technique's results, one or more, whose order does not matter."""
    ordered = sorted(results, key=lambda result: result.key)
    rated, measures, surest = Rated.of(ordered), dict[str, Estimate](), None
    about = rated.confidence, rated.correct
    if rated.results:
        sure = statistics.have_intervals(rated.correct, rated.group)
        for name, terms in zip(AREAS, statistics.areas(*about), strict=True):
            found = statistics.averaged(terms, rated.group, (0, 1))
            measures[name] = found if sure else Estimate(found.value)
        coverage, _, threshold = rated.curve
        if reached := int((coverage <= COVERAGE + 1e-12).sum()):
            surest = float(coverage[reached - 1]), float(threshold[reached - 1])
            measures[RISK] = rated.risk(surest[1])
    if rated.results and rated.probability:
        measures[SQUARE] = statistics.calibration(*about, rated.group)
        measures[ROOT] = Estimate(*(None if end is None else sqrt(max(end, 0.0)) for end in measures[SQUARE]))
        # As in the table of measures: these are means over questions.
        scores = measuring.measures(rated.results, (brier_score, log_loss), (), benchmark=benchmark, signature={})
        measures |= {own.name: Estimate(own.value, own.low, own.high) for own in scores if not own.slice}
    return replace(ConfidenceQuality.of(benchmark, source, rated, ordered, measures), surest=surest)


def compared(benchmark: str, source: Source, both: Sequence[tuple[Result, Result]]) -> ConfidenceQuality | None:
    """Return the paired differences of two runs, new minus baseline; None if no answer has a confidence in both.

    `both`: the answers of the new run and of the baseline to the same questions. Groups are those of the new run's.
    """
    ours, theirs = Rated.beside(both) if both else (None, None)
    if ours is None or theirs is None or not ours.results:
        return None
    group, runs = ours.group, [(each.confidence, each.correct) for each in (ours, theirs)]
    sure = all(statistics.have_intervals(correct, group) for _, correct in runs)
    measures, sides = dict[str, Estimate](), dict[str, tuple[float | None, float | None]]()
    for name, one, other in zip(AREAS, *(statistics.areas(*run) for run in runs), strict=True):
        found, new, baseline = (statistics.averaged(each, group) for each in (one - other, one, other))
        measures[name], sides[name] = found if sure else Estimate(found.value), (baseline.value, new.value)
    if ours.probability and theirs.probability:
        now, was = (statistics.calibration(*run, group).value for run in runs)
        measures[SQUARE], sides[SQUARE] = statistics.calibration_difference(runs[0], runs[1], group), (was, now)
    return replace(ConfidenceQuality.of(benchmark, source, ours, [new for new, _ in both], measures), sides=sides)
