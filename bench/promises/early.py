"""How often `--stop=early` stops wrongly, and how soon rightly: `python bench/promises early`.

Each design is simulated at a true loss of exactly the margin, where at most 5 % of runs may ever stop, and at a loss of
8 points. "units" is the median number of questions until the stop. Draws are seeded. A rule that is not used stands
below: bets on the signs of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medvqa import statistics as st

Floats = NDArray[np.float64]
ALPHA, FLIPS = 0.05, 0.25
"""The error, and the share of units that flip."""


@dataclass(frozen=True)
class Design:
    """Groups of `sizes` units. In a share `together` of groups, all units change alike.

    `opposed`: groups of one unit lose, and larger ones gain, so that the mean loss is as asked.
    """

    name: str
    sizes: tuple[int, ...]
    together: float = 0.0
    opposed: bool = False

    def draw(self, draw: np.random.Generator, runs: int, loss: float) -> tuple[Floats, Floats]:
        """Return the groups' sums of differences and their sizes in a random order, (runs, groups) each."""
        sizes = np.array(self.sizes)
        group = np.repeat(np.arange(len(sizes)), sizes)
        mean = np.full(len(group), -loss)
        if self.opposed:
            single = sizes[group] == 1
            mean[single] -= 0.2
            mean[~single] += 0.2 * single.sum() / (~single).sum()
        chance = draw.random((runs, len(group)))
        alike = (draw.random((runs, len(sizes))) < self.together)[:, group]
        chance = np.where(alike, draw.random((runs, len(sizes)))[:, group], chance)
        flips = np.maximum(FLIPS, np.abs(mean))
        changed = np.where(chance < (flips - mean) / 2, -1.0, np.where(chance < flips, 1.0, 0.0))
        sums = np.add.reduceat(changed, np.r_[0, np.cumsum(sizes)[:-1]], axis=1)
        order = draw.permuted(np.tile(np.arange(len(sizes)), (runs, 1)), axis=1)
        return np.take_along_axis(sums, order, 1), sizes[order].astype(float)


MIXED = (1,) * 500 + (10,) * 100
DESIGNS = (
    Design("1,500 single questions", (1,) * 1500),
    Design("500 groups of 1, 100 of 10", MIXED),
    Design("500 groups of 1, 100 of 10; half of the groups change alike", MIXED, together=0.5),
    Design("500 groups of 1 that lose, 100 of 10 that gain", MIXED, opposed=True),
    Design("20 groups of 30", (30,) * 20),
    Design("20 groups of 30; half of the groups change alike", (30,) * 20, together=0.5),
    Design("176 pairs, three of four in groups of 4", (4,) * 33 + (1,) * 44),
)
Rule = Callable[[Floats, Floats, float], Floats]


def bets(sums: Floats, sizes: Floats, margin: float) -> Floats:
    """Return the e-values after each group, (runs, groups)."""
    factors = st.log_factors(sums, sizes, margin=margin, largest=int(sizes.max()))
    return st.e_values(np.cumsum(factors, axis=-2))


def signs(sums: Floats, sizes: Floats, margin: float) -> Floats:
    """Return the e-values of bets on the signs of groups, whatever their size."""
    return bets(np.sign(sums), np.ones_like(sizes), margin)


def stops(design: Design, loss: float, margin: float, runs: int, rule: Rule = bets) -> tuple[int, float]:
    """Return how many runs stop, and the median number of units until then (infinite if fewer than half stop)."""
    draw = np.random.default_rng([len(design.name), round(1000 * loss), round(1000 * margin)])
    asked = np.full(runs, np.inf)
    for start in range(0, runs, 200):
        sums, sizes = design.draw(draw, min(200, runs - start), loss)
        stopped = rule(sums, sizes, margin) >= 1 / ALPHA
        units = np.take_along_axis(sizes.cumsum(axis=1), stopped.argmax(axis=1)[:, None], 1)[:, 0]
        asked[start : start + len(sums)] = np.where(stopped.any(axis=1), units, np.inf)
    return int(np.isfinite(asked).sum()), float(np.median(asked))


def lines(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield a line for each design, and whether its promise holds."""
    for design in DESIGNS:
        for margin in (0.0, 0.02):
            wrong, _ = stops(design, margin, margin, runs)
            low, _ = st.clopper_pearson(wrong, runs, 0.975)
            right, units = stops(design, 0.08, margin, runs)
            soon = f"{units:,.0f} of {sum(design.sizes):,} units" if units < np.inf else "none"
            line = (
                f"{design.name}, margin {100 * margin:g}: stopped at a loss of just that {100 * wrong / runs:.1f} % "
                f"(at most 5); at a loss of 8 {100 * right / runs:.0f} %, median {soon}"
            )
            soon_enough = design is not DESIGNS[0] or units <= {0.0: 280, 0.02: 490}[margin]
            met = float(low) <= ALPHA and soon_enough
            yield f"{line}{'' if met else '  MISSED'}", met
    wrong, _ = stops(DESIGNS[3], 0.0, 0.0, runs, signs)
    yield f"not used: signs of groups: {DESIGNS[3].name}, margin 0, no loss: {100 * wrong / runs:.1f} % stopped", True
