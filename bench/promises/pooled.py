"""What pooled estimates of slices gain and hide: `python bench/promises pooled`.

`gains`: 12 slices whose true rates differ by 5 points (standard deviation) around 70 %, with 6 to 18 questions each.
The root mean square error of the pooled rates is at least 30 % below that of the raw ones, and the intervals of 95 %
hold the truth in at least 93 %. Designs: independent questions; patients of 3; and, where coverage alone is asked for,
3 slices, and slices of 20 patients with 30 questions (20 x 30). Answers of a patient have a correlation of 0.3.

`hides`: as the first design, and one slice is 20 points below the mean of the others. How often does its pooled
interval hold its true rate, by the number of its questions? This has no limit: it is what pooling costs.

Draws are seeded. 500 runs take about half a minute of a core.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from medvqa import statistics as st

Floats = NDArray[np.float64]

MEAN, SD, ICC, SLICES, BELOW = 0.7, 0.05, 0.3, 12, 0.2
GAIN, COVERED = 0.3, 0.93


def rates(draw: np.random.Generator, slices: int) -> Floats:
    """Return true rates of slices."""
    return np.clip(draw.normal(MEAN, SD, slices), 0, 1)


def answered(draw: np.random.Generator, true: Floats, groups: NDArray[np.intp], size: int) -> tuple[Floats, Floats]:
    """Return the raw rate and the effective units of slices with `groups` patients each, of `size` questions."""
    place = np.repeat(np.arange(len(true)), groups)
    k = 1 / ICC - 1
    of_group = draw.beta(true[place] * k, (1 - true[place]) * k) if size > 1 else true[place]
    right = (draw.random((len(place), size)) < of_group[:, None]).astype(float).ravel()
    unit, group = np.arange(len(right)), np.repeat(np.arange(len(place)), size)
    table = st.UnitTable(right, np.ones(len(right)), unit, group, place[group], slices=len(true))
    found = st.estimate(table, binary=True)
    return found.value, st.effective_units(found.precision, binary=True)


def gains(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield error and coverage of each design, and whether the promises hold."""
    for title, slices, least, most, size in (
        ("independent", SLICES, 6, 18, 1),
        ("patients of 3", SLICES, 2, 6, 3),
        ("3 slices", 3, 6, 18, 1),
        ("20 x 30", SLICES, 20, 20, 30),
    ):
        draw = np.random.default_rng([slices, most, size])
        errors, covered = np.zeros(2), 0.0
        done = runs if most < 20 else max(runs // 5, 1)
        for _ in range(done):
            true = rates(draw, slices)
            raw, n = answered(draw, true, draw.integers(least, most + 1, slices), size)
            found = st.pooled(raw, n)
            errors += ((raw - true) ** 2).mean(), ((found.value - true) ** 2).mean()
            covered += float(((found.low <= true) & (true <= found.high)).mean())
        gain, share = 1 - sqrt(errors[1] / errors[0]), covered / done
        noise = 2 * sqrt(COVERED * (1 - COVERED) / done / slices)
        met = share >= COVERED - noise and (gain >= GAIN or title in ("3 slices", "20 x 30"))
        yield (
            f"{title:<14} error: raw {100 * sqrt(errors[0] / done):4.1f}, pooled {100 * sqrt(errors[1] / done):4.1f} "
            f"points ({-100 * gain:+.0f} %)  covers {100 * share:.1f} %{'' if met else '  MISSED'}",
            met,
        )


def hides(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the coverage of the slice that is worse, by the number of its questions and of its patients."""
    for size in (1, 3):
        shares = []
        for n in (6, 12, 24, 48, 99):
            draw = np.random.default_rng([n, size])
            covered = 0
            for _ in range(runs):
                true = np.append(rates(draw, SLICES - 1), MEAN - BELOW)
                found = st.pooled(*answered(draw, true, np.full(SLICES, n // size), size))
                covered += bool(found.low[-1] <= true[-1] <= found.high[-1])
            shares.append(f"n = {n}: {100 * covered / runs:.0f} %")
        yield f"{'independent' if size == 1 else 'patients of 3':<14} {'  '.join(shares)}", True


def lines(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of both tables."""
    yield from (("gains", True), *gains(runs))
    yield from ((f"hides: coverage of a slice {100 * BELOW:.0f} points below the rest", True), *hides(runs))
