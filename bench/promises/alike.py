"""How often runs are wrongly shown to be alike, and what a plan from two runs is worth.

`python bench/promises alike` prints three parts, in four minutes of a core. `alike`: the share of runs
with a true difference of just the margin that are shown to be alike, over designs of groups, and the share without a
difference that are. `correlation`: the mean of the estimated correlation of flips, and how often its interval holds the
true one. `planned`: the number of questions planned from two runs, over the number with which 80 % of gates pass. Draws
are seeded. A promise is broken if the interval of a figure lies beyond its limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medvqa import statistics as st
from medvqa.comparing import paired

sys.path.append(str(Path(__file__).parents[1]))
from gate import Figure, changes, compared

DESIGNS = {
    "500 x 1": (500, 1),
    "1500 x 1": (1500, 1),
    "20 x 30": (20, 30),
    "60 x 5": (60, 5),
    "120 x 5": (120, 5),
    "300 x 5": (300, 5),
}
"""Groups, and the units of each."""
TRUTHS = (0.0, st.FLIP_ICC)
"""Correlations of flips within groups, up to the declared one."""
CHUNK = 500


def shares(group: NDArray[np.intp], margin: float, flips: float, loss: float, truth: float, runs: int) -> float:
    """The share of runs that are shown to be alike within the margin."""
    draw = np.random.default_rng([len(group), int(1000 * margin), int(1000 * flips), int(1000 * loss), int(10 * truth)])
    found = done = 0
    while done < runs:
        count = min(CHUNK, runs - done, 1 + 1_000_000 // len(group))
        change = changes(draw, group, count, flips, loss, truth)
        rights = (change <= 0).astype(float), (change >= 0).astype(float)
        for own in compared(rights, group, np.zeros(len(group), dtype=int)):
            found += paired.Equivalence(margin, own.low, own.high).shown
        done += count
    return found / runs


def alike(runs: int) -> Iterator[Figure]:
    """Wrongly alike at a difference of just the margin, and alike without a difference."""
    for name, (groups, size) in DESIGNS.items():
        group = np.repeat(np.arange(groups), size)
        for margin in (0.02, 0.05):
            for flips in (0.05, 0.15):
                for truth in TRUTHS if size > 1 else (0.0,):
                    about = f"{name}, {100 * flips:g} % flip, correlation {truth}, margin {100 * margin:g}"
                    share = shares(group, margin, flips, margin, truth, runs)
                    yield Figure(f"{about}: alike at a difference of the margin", share, runs, most=0.055)
                    if truth or size == 1:
                        share = shares(group, margin, flips, 0.0, truth, runs)
                        yield Figure(f"{about}: alike without a difference", share, runs)


def correlation(runs: int) -> Iterator[Figure]:
    """The interval of the correlation of flips; the mean estimate is printed beside it."""
    for name, (groups, size) in DESIGNS.items():
        if size == 1:
            continue
        group = np.repeat(np.arange(groups), size)
        for flips in (0.07, 0.15):
            for truth in (0.0, 0.1, 0.3):
                draw = np.random.default_rng([groups, int(100 * flips), int(10 * truth)])
                every = [st.flip_correlation(d, group) for d in changes(draw, group, runs, flips, 0.0, truth)]
                known = [each for each in every if each.icc is not None]
                held = sum((each.low or 0) <= truth <= (each.high or 0) for each in known)
                mean, deviation = np.mean([each.icc for each in known]), np.std([each.icc for each in known])
                about = f"{name}, {100 * flips:g} % flip, correlation {truth}: mean {mean:.3f} (SD {deviation:.3f})"
                # Groups that flip are few where one in 14 does: nothing in 20 groups tells how much they correlate.
                least = 0.70 if flips < 0.1 and (groups == 20 or truth) else 0.88
                yield Figure(f"{about}, interval holds it", held / len(known), len(known), least=least)


def planned(runs: int) -> Iterator[Figure]:
    """Gates of the numbers of questions planned from two runs: the chance of PASS at no change, 80 % as wanted."""
    margin, flips, grid = 0.05, 0.15, np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0])
    for groups, size in ((60, 5), (120, 5), (20, 30)):
        pilot = np.repeat(np.arange(groups), size)
        layout = st.in_groups(pilot)
        # The number needed grows smoothly with the correlation: simulate some, and interpolate.
        needed = []
        for icc in grid:
            passable = st.simulated(layout, margin, flips, correlation=icc, runs=500).passable
            needed.append(st.units_to_pass(layout, margin, flips, correlation=icc, passable=passable))
        for truth in (0.0, 0.1, 0.3):
            draw = np.random.default_rng([groups, size, int(10 * truth)])
            found = [st.flip_correlation(d, pilot) for d in changes(draw, pilot, runs, flips, 0.0, truth)]
            right = np.interp(truth, grid, needed)
            estimates, most = (
                np.interp(np.clip([end or 0.0 for end in ends], 0, 1), grid, needed) / right
                for ends in zip(*((each.icc, each.high) for each in found), strict=True)
            )
            low, middle, high = np.quantile(estimates, [0.1, 0.5, 0.9])
            units = int(middle * right)
            layout_of = st.in_groups(np.arange(units) // size)
            share = st.simulated(layout_of, margin, flips, correlation=truth, runs=500, seed=1).passed
            about = f"pilot {groups} x {size}, correlation {truth}: planned {units:,}, x {low:.2f} to {high:.2f}"
            yield Figure(f"{about}: PASS at no change", share, 500, least=0.72)
            enough = float(np.mean(most >= 0.98))
            least = 0.75 if groups == 20 and truth else 0.85
            yield Figure(f"{about}: the first figure is enough", enough, runs, least=least)


def lines(runs: int) -> Iterator[tuple[str, bool]]:
    """Yield every figure, and whether it is met."""
    for part, count in ((alike, runs), (correlation, runs // 4), (planned, min(200, runs))):
        yield (part.__doc__ or "").strip(), True
        yield from ((str(figure), figure.met) for figure in part(count))
