"""The confidence of an answer, and measures of it.

A confidence is stated by the model (`--confidence`), the probability of the chosen option (GD), or the share of samples
that agree (`--combine=vote`). Brier (1950), doi 10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2. The score of an answer
with partial credit stands in the place of right or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, fsum, inf, log
from typing import Literal

from medvqa.items import INVALID_OUTCOMES, Metric, Result
from medvqa.metrics.definitions import LEFT_OUT, NO, YES, ratio

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
    """Return the measures of confidences from one source, which their signatures name."""
    signs = (("confidence", source),)
    # A baseline without responses has stated confidences, and no probabilities of options.
    scores = [replace(metric, signs=signs, reads_text=source == "option") for metric in (brier_score, log_loss)]
    return (*scores, *([replace(confidence_unread_rate, signs=signs)] if source == "stated" else []))
