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
BIAS, CONSISTENCY, SHARE = "first_position_bias", "rotation_consistency", "position_share"


def names(headline: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the measures over all questions of a rotated run; `headline`: the benchmark's measures."""
    return (*(MEAN + name for name in headline), CONSISTENCY, BIAS)


def places(result: Result) -> tuple[float, ...]:
    """Return the share of the chosen options at each shown place; () if the answer is invalid or was not rotated."""
    shift = Variant.parse(result.variant).rotation
    letters = list(result.item.options)
    chosen = {letters.index(letter) for letter in result.score.extracted if letter in result.item.options}
    valid = result.score.outcome in SCORED_OUTCOMES - INVALID_OUTCOMES
    if shift is None or not valid or not chosen:
        return ()
    return tuple(((place + shift) % len(letters) in chosen) / len(chosen) for place in range(len(letters)))


@metrics.ratio(name=BIAS, binary=False, kinds=CHOICE_KINDS, percent=False)
def first_position_bias(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over valid answers of the share of the first shown option among the chosen ones, minus 1/k."""
    shares = places(results[0])
    return (shares[0] - 1 / len(shares), 1.0) if shares else (0.0, 0.0)


def _share(place: int) -> Metric:
    """Return the metric of one shown place, counted from 0, over the answers that have so many options."""

    def terms(results: Sequence[Result]) -> tuple[float, float]:
        shares = places(results[0])
        return (shares[place], 1.0) if place < len(shares) else (0.0, 0.0)

    definition = f"Mean over valid answers of the share of shown option {place + 1} among the chosen ones."
    return Metric(f"{SHARE}_{place + 1}", terms, binary=False, kinds=CHOICE_KINDS, definition=definition)


def _even(place: int) -> Metric:
    """Return the metric that `_share` has without bias: 1/k."""

    def terms(results: Sequence[Result]) -> tuple[float, float]:
        shares = places(results[0])
        return (1 / len(shares), 1.0) if place < len(shares) else (0.0, 0.0)

    return replace(_share(place), name=f"{SHARE}_{place + 1}_even", terms=terms)


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

    They are the headline metrics of `of` as means over the rotations, the position bias, the consistency, and the share
    of each shown place as slices `position`. `results` are single answers; `in_order` are those that count in each
    order, such as votes, and those to questions that were asked once. `measured` is `metrics.measures` with settings.
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
        *_shares(rotated, measured),
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


def _shares(results: Sequence[Result], measured: Callable[..., list[Measure]]) -> list[Measure]:
    most = max(len(result.item.options) for result in results)
    each = [(_share(place), _even(place)) for place in range(most)]
    computed = measured(results, metrics=[metric for pair in each for metric in pair])
    overall = {measure.name: measure for measure in computed if not measure.slice}
    return [
        replace(overall[share.name], name=SHARE, slice={"position": str(place + 1)}, references={"random": chance})
        for place, (share, even) in enumerate(each)
        if (chance := overall[even.name].value) is not None
    ]
