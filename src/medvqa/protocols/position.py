"""Measure how far the place of an option decides whether a model chooses it, from rotated runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from medvqa import metrics
from medvqa.items import CHOICE_KINDS, INVALID_OUTCOMES, SCORED_OUTCOMES, Benchmark, Measure, Metric, Result, Variant
from medvqa.protocols import rotation

MEAN = "rotation_mean_"
"""Before the name of a metric: its mean over the rotations, in place of the fold."""
DIGITS = 12
"""Digits of a bias: sums of opposite differences leave less than this."""
BIAS, CONSISTENCY = "first_position_bias", "rotation_consistency"


def names(headline: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the measures over all questions of a rotated run; `headline`: the benchmark's measures."""
    return (*(MEAN + name for name in headline), CONSISTENCY, BIAS)


@metrics.ratio(name=BIAS, binary=False, kinds=CHOICE_KINDS, percent=False)
def first_position_bias(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over valid answers of the share of the first shown option among the chosen ones, minus 1/k."""
    (result,) = results
    shift, letters = Variant.parse(result.variant).rotation, list(result.item.options)
    chosen = {letter for letter in result.score.extracted if letter in letters}
    if shift is None or not chosen or result.score.outcome not in SCORED_OUTCOMES - INVALID_OUTCOMES:
        return 0.0, 0.0
    return (letters[shift % len(letters)] in chosen) / len(chosen) - 1 / len(letters), 1.0


def _consistency(groups: Sequence[rotation.Rotations]) -> Metric:
    """Return the metric of the folded results of these groups."""
    consistent = {group.folded.key: (float(group.consistent), float(group.valid)) for group in groups}

    def terms(results: Sequence[Result]) -> tuple[float, float]:
        return consistent.get(results[0].key, (0.0, 0.0))

    definition = "Questions with the same options chosen in every rotation / questions with valid answers in all."
    return Metric(CONSISTENCY, terms, kinds=CHOICE_KINDS, definition=definition)


def measures(
    results: Sequence[Result],
    in_order: Sequence[Result],
    rotations: int | None,
    of: Benchmark,
    measured: Callable[..., list[Measure]],
) -> list[Measure]:
    """Return the measures that only rotated runs have; [] if no question was asked in all its rotations.

    They are the headline metrics of `of` as means over the rotations, the position bias and the consistency. `results`
    are single answers; `in_order` are those that count in each order, such as votes, and those to questions that were
    asked once. `measured` is `metrics.measures` with settings.
    """
    whole, _, _ = rotation.grouped(results, rotations)
    rotated = [result for group in whole for result in group.results]
    if not rotated:
        return []
    means = [
        replace(metric, name=MEAN + metric.name, definition=f"{metric.definition} Mean over rotations.")
        for metric in of.metrics
        if metric.name in of.headline
    ]
    whole_in_order, once, _ = rotation.grouped(in_order, rotations)
    in_rotations = (result for group in whole_in_order for result in group.results)
    counted = sorted([*in_rotations, *once], key=lambda result: result.key)
    computed = [
        *measured(counted, metrics=means),
        *measured(rotated, metrics=[first_position_bias]),
        *measured([group.folded for group in whole], metrics=[_consistency(whole)]),
    ]
    # A constant letter names other options in each rotation.
    return [
        replace(measure, value=_rounded(measure), references=_without_majority(measure.references))
        for measure in computed
    ]


def _rounded(measure: Measure) -> float | None:
    """The value; differences that cancel each other are exactly 0."""
    return measure.value if measure.percent or measure.value is None else round(measure.value, DIGITS) + 0.0


def _without_majority(references: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in references.items() if name != "majority"}
