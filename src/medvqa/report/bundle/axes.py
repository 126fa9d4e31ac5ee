"""The axis that all drawings of one measure share."""

from __future__ import annotations

import math
from collections.abc import Iterable

from medvqa.report.bundle.shape import Shape

PARTS = 4
"""About so many parts between the ticks of an axis."""


class Tick(Shape, frozen=True):
    """A labelled place of an axis."""

    at: float
    label: str


class Axis(Shape, frozen=True):
    """The axis of a measure, in its own numbers: fractions if it is a percentage."""

    low: float
    high: float
    ticks: list[Tick]


PERCENT = Axis(0.0, 1.0, [Tick(k / 4, f"{25 * k}" + (" %" if k == 4 else "")) for k in range(5)])
"""The axis of shares of a whole: from 0 to 100 %, so that drawings of different runs look alike."""


def around(values: Iterable[float | None], *, is_percent: bool, unit: str = " %") -> Axis:
    """Return an axis that ends at round numbers around all values; of width 1 (1 %) or more if they hardly differ.

    `unit` stands behind the last number if they are percentages.
    """
    present = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    factor = 100.0 if is_percent else 1.0
    low, high = factor * min(present), factor * max(present)
    differ = high - low > 1e-9 * max(abs(low), abs(high), 1.0)
    step = _step((high - low) / PARTS) if differ else _step(max(abs(high) * 1e-3, 0.5))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if not differ:
        first, last = first - 1, max(last, first) + 1
    places = [k * step for k in range(first, last + 1)]
    shown = [f"{round(place, 12):.6g}" for place in places]
    return Axis(
        places[0] / factor,
        places[-1] / factor,
        [
            Tick(place / factor, f"{label}{unit}" if is_percent and place == places[-1] else label)
            for place, label in zip(places, shown, strict=True)
        ],
    )


def _step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * (1 - 1e-9))
