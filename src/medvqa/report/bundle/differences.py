"""One measure of two runs, as a page shows it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from medvqa.comparing import Compared
from medvqa.figures import chance, number, typeset
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label, title_of
from medvqa.tags import lexicon

SURE = 0.05
"""A difference is shown if its adjusted p-value is at most this."""

Way = Literal["better", "worse", ""]


class ComparedCell(Shape, frozen=True):
    """One measure of two runs, over all questions or over a slice. Numbers are those of `medvqa compare --json`."""

    benchmark: str
    technique: str
    name: str
    slice: dict[str, str]
    title: str
    """The measure, or the value of the slice, for people."""
    short: str
    """Abbreviations of the slice's value, or ""."""
    baseline: float | None
    new: float | None
    difference: float | None
    low: float | None
    """Lower end of the two-sided 95 % interval of new minus baseline."""
    high: float | None
    adjusted: float | None
    """Two-sided p-value after Holm."""
    units: int
    groups: int
    gained: int
    """Units that are better in the new run."""
    lost: int
    discordant_groups: int
    detectable: float | None
    mcnemar: float | None
    lower: bool
    """Whether less is better."""
    percent: bool
    few: bool
    """Whether there are too few units for percentages."""
    sure: Way
    """The direction of a difference that is shown."""
    flips: bool
    """Whether flips of this measure are part of the bundle."""
    texts: ComparedTexts


class ComparedTexts(Shape, frozen=True):
    """The numbers of a `ComparedCell` as they are shown."""

    baseline: str
    new: str
    difference: str
    bounds: str
    """The 95 % interval, or the reason for its absence."""
    units: str
    adjusted: str
    detectable: str
    mcnemar: str


def compared_cell(measure: Compared, flipping: Collection[str] = ()) -> ComparedCell:
    """Return a measure of two runs with its texts; `flipping`: the measures that have flips in the bundle."""
    seen, own = measure.shown, measure.comparison
    few = measure.figures[0].few
    dimension, value = next(iter(measure.slice.items()), ("", ""))
    return ComparedCell(
        measure.benchmark,
        measure.technique,
        measure.metric,
        dict(measure.slice),
        title_of(dimension, value) if dimension else label(measure.metric),
        ", ".join(lexicon.abbreviations(dimension, value)) if dimension else "",
        seen.baseline,
        seen.new,
        seen.difference,
        seen.low,
        seen.high,
        measure.adjusted,
        own.units,
        own.groups,
        own.gained,
        own.lost,
        own.discordant_groups,
        own.detectable,
        own.mcnemar,
        measure.better == "lower",
        bool(measure.percent),
        few,
        sure(measure, few=few),
        measure.metric in flipping,
        _texts(measure, few=few),
    )


def sure(measure: Compared, *, few: bool) -> Way:
    """The direction of a difference that is shown: not with few units, and only if the adjusted p is small."""
    difference = measure.comparison.difference
    if few or measure.adjusted is None or measure.adjusted > SURE or not difference:
        return ""
    return "better" if difference > 0 else "worse"


def _texts(measure: Compared, *, few: bool) -> ComparedTexts:
    own, (before, after, difference) = measure.comparison, measure.figures
    # If nothing flipped, the variance is 0 and no loss is detectable.
    detectable = own.detectable if own.discordant_groups and not few else None
    return ComparedTexts(
        *(before.text, after.text, typeset(difference.text), typeset(difference.interval), difference.counted),
        *("" if measure.adjusted is None else chance(measure.adjusted),),
        *("" if detectable is None else number(detectable, percent=measure.percent),),
        *("" if own.mcnemar is None else chance(own.mcnemar),),
    )
