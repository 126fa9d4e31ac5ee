"""One measure as the page shows it: its numbers, their texts, and the identity by which metrics.json has it."""

from __future__ import annotations

from medvqa.items import Measure
from medvqa.report.bundle.shape import Shape


class Cell(Shape, frozen=True):
    """A measure. Numbers are those of metrics.json, fractions if `percent`."""

    benchmark: str
    technique: str
    name: str
    slice: dict[str, str]
    value: float | None
    low: float | None
    high: float | None
    n: float
    unit: str
    percent: bool
    few: bool
    """Whether there are too few units for a percentage."""
    shown: str
    """The value in percent, its counts if there are few units, or a number that is no percentage."""
    interval: str
    """The interval, or the reason for its absence; "" if neither is known."""
    references: dict[str, float]
    """Values of models that do not look: `random`, `majority`, `image_blind`."""


def cell(measure: Measure) -> Cell:
    """Return a measure with its texts."""
    figure = measure.figure
    return Cell(
        measure.benchmark,
        measure.technique,
        measure.name,
        dict(measure.slice),
        measure.value,
        measure.low,
        measure.high,
        measure.n,
        measure.unit,
        measure.percent,
        figure.few,
        figure.text,
        figure.interval,
        dict(measure.references),
    )
