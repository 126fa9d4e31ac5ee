"""How often intervals cover and the gate errs: `python bench/gate.py [--runs=N] [PART ...]`.

Parts: `rule` (one baseline rule on independent units), `clusters` (one baseline rule where units share groups, many of
them or few, with one answer or several samples: wrong PASS, wrong FAIL, and PASS at no change), `coverage` (intervals
and floors over designs of groups), `departments` (clustered departments under a slice guard), `mediconfusion`
(intervals and comparisons on the real graph of shared images), `macro` (macro averages over small slices: coverage,
floors, wrong PASS and wrong FAIL, and PASS at no change), `enumeration` (exact coverage of Wilson's and Clopper and
Pearson's intervals), `time` (26,000 items), `command` (seconds of `medvqa gate` on them). The real graph comes from
../shared/reference; without it `mediconfusion` fails, and `clusters` and `coverage` leave it out. Draws are seeded.
Beside a simulated figure stands its Clopper-Pearson interval of 95 %; if that is beyond the limit, the script ends with
exit code 1.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit
from scipy.stats import binom, multivariate_normal

from medvqa import statistics as st
from medvqa.benchmarks import mediconfusion
from medvqa.statistics import macro

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).parents[2] / "shared" / "reference"
LEVEL = 0.95


@dataclass(frozen=True)
class Figure:
    """A share that was simulated, and what it must not leave."""

    what: str
    share: float
    runs: int
    least: float = 0.0
    most: float = 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's interval of 95 %; without runs the share itself."""
        if not self.runs:
            return self.share, self.share
        low, high = st.clopper_pearson(round(self.share * self.runs), self.runs, 0.975)
        return float(low), float(high)

    @property
    def met(self) -> bool:
        low, high = self.interval
        return high >= self.least and low <= self.most

    def __str__(self) -> str:
        limits = [f">= {100 * self.least:g} %"] * (self.least > 0) + [f"<= {100 * self.most:g} %"] * (self.most < 1)
        within = " to ".join(f"{100 * end:.2f}" for end in self.interval) if self.runs else ""
        said = f"{self.what:<84} {100 * self.share:6.2f} %  {within:<15} {', '.join(limits):<9}"
        return f"{said} {'' if self.met else 'MISSED'}".rstrip()


def counted(gained: NDArray[np.int64], lost: NDArray[np.int64], n: int) -> Iterator[st.Comparison]:
    """What `compare` gives for independent units, from counts alone."""
    df, deff = n - 1, np.where(gained + lost > 0, n / (n - 1), 1.0)
    trials = n / deff * (ndtri(LEVEL) / stdtrit(df, LEVEL)) ** 2
    low, high = st.tango(gained * trials / n, lost * trials / n, trials)
    some = np.maximum(gained + lost, 1)
    worse = stdtr(df, (gained - lost) / np.sqrt(some * deff))
    zeros = np.zeros(n)
    table = st.UnitTable(zeros, zeros + 1, np.arange(n), np.arange(n), np.zeros(n, dtype=int))
    (blank,) = st.compare(table, table, binary=True)
    for b, c, *rest in zip(gained.tolist(), lost.tolist(), low, high, worse, strict=True):
        found = dict(zip(("low", "high", "worse"), map(float, rest), strict=True))
        yield replace(blank, difference=(b - c) / n, gained=b, lost=c, discordant_groups=b + c, **found)


def rule(runs: int, sizes: tuple[int, ...] = (176, 451, 1500, 26_000)) -> Iterator[Figure]:
    """One rule of margin 2, 15 % discordance, independent units."""
    least_pass = dict(zip((176, 451, 1500, 26_000), (0.15, 0.27, 0.62, 0.99), strict=True))
    least_fail = dict(zip((176, 451, 1500, 26_000), (0.86, 0.99, 0.99, 0.99), strict=True))
    for n in sizes:
        draw = np.random.default_rng(n)
        for loss in (0.0, 0.02, 0.08):
            counts = draw.multinomial(n, [(0.15 - loss) / 2, (0.15 + loss) / 2, 0.85], runs)[:, :2]
            different, times = np.unique(counts, axis=0, return_counts=True)
            outcomes = [
                st.decide([st.MarginRule(name="accuracy", comparison=each, margin=0.02)]).outcome
                for each in counted(*different.T, n)
            ]
            share = {
                outcome: float(times[[o == outcome for o in outcomes]].sum()) / runs for outcome in ("PASS", "FAIL")
            }
            if loss == 0:
                yield Figure(f"n = {n}: FAIL at no change", share["FAIL"], runs, most=0.055)
                yield Figure(f"n = {n}: PASS at no change", share["PASS"], runs, least=least_pass[n])
            elif loss == 0.02:
                yield Figure(f"n = {n}: PASS at a loss of 2 points", share["PASS"], runs, most=0.055)
            else:
                yield Figure(f"n = {n}: FAIL at a loss of 8 points", share["FAIL"], runs, least=least_fail[n])


def latent(draw: np.random.Generator, images: NDArray[np.intp], correlation: float, runs: int) -> Floats:
    """Standard normal, (runs, items), with this correlation between items on one image."""
    shared = draw.standard_normal((runs, int(images.max()) + 1))[:, images]
    return sqrt(correlation) * shared + sqrt(1 - correlation) * draw.standard_normal((runs, len(images)))


def agreement(accuracy: float, discordance: float) -> float:
    """The correlation of two runs' latents with which they disagree on this share of items at equal accuracy."""
    low, high = 0.0, 0.9999
    for _ in range(40):
        middle = (low + high) / 2
        both = multivariate_normal.cdf(np.full(2, ndtri(accuracy)), cov=[[1, middle], [middle, 1]])
        low, high = (middle, high) if 2 * (accuracy - both) > discordance else (low, middle)
    return low


def two_runs(
    draw: np.random.Generator,
    images: NDArray[np.intp],
    correlation: float,
    runs: int,
    accuracies: tuple[Floats, Floats],
    same: float,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which items, (runs, items), the baseline and the new run get right; both feel the images."""
    old = latent(draw, images, correlation, runs)
    new = same * old + sqrt(1 - same**2) * latent(draw, images, correlation, runs)
    return old < ndtri(accuracies[0]), new < ndtri(accuracies[1])


def departments(
    runs: int, designs: tuple[tuple[int, float], ...] = ((1, 0.0), (2, 0.6), (4, 0.3), (4, 0.6))
) -> Iterator[Figure]:
    """15 departments of 100 questions, accuracy 60 %, 15 % discordance: a rule of margin 2 and a guard for each."""
    same = agreement(0.6, 0.15)
    D, n = 15, 100
    department = np.repeat(np.arange(D), n)
    for each, correlation in designs:
        images = np.arange(D * n) // each
        for worse in (False, True):
            draw = np.random.default_rng([each, int(100 * correlation), worse])
            accuracy = np.full(D * n, 0.6)
            after = np.where((department == 3) & worse, 0.4, accuracy)
            failed = found = done = 0
            while done < runs:
                chunk = min(250, runs - done)
                rights = two_runs(draw, images, correlation, chunk, (accuracy, after), same)
                headline = compared(rights, images, np.zeros(D * n, dtype=int))
                guarded = compared(rights, images, department)
                for r in range(chunk):
                    rules = [st.MarginRule(name="accuracy", comparison=headline[r], margin=0.02)]
                    guards = [st.SliceGuard(name=str(d), comparison=guarded[r * D + d]) for d in range(D)]
                    decision = st.decide([*rules, *guards])
                    failed += decision.outcome == "FAIL"
                    found += decision.verdicts[1 + 3].outcome == "FAIL"
                done += chunk
            where = f"15 x 100, {each} an image, correlation {correlation}"
            if worse:
                yield Figure(f"{where}: one is 20 points worse and found", found / runs, runs, least=0.65)
            else:
                yield Figure(f"{where}: FAIL at no change", failed / runs, runs, most=0.055)


def compared(
    rights: tuple[NDArray[Any], NDArray[Any]],
    group: NDArray[np.intp],
    slices: NDArray[np.intp],
    *,
    binary: bool = True,
    icc: float = st.FLIP_ICC,
) -> list[st.Comparison]:
    """Each run's comparison in each slice, run by run; `rights` are the values of the baseline and of the new run."""
    runs, n = rights[0].shape
    count = int(slices.max()) + 1
    place = (np.arange(runs)[:, None] * count + slices).ravel()
    order = np.argsort(place, kind="stable")

    def table(right: NDArray[Any]) -> st.UnitTable:
        return st.UnitTable(
            right.ravel()[order].astype(float),
            np.ones(runs * n),
            np.tile(np.arange(n), runs)[order],
            np.tile(group, runs)[order],
            place[order],
            runs * count,
        )

    return st.compare(table(rights[1]), table(rights[0]), binary=binary, icc=icc)


@dataclass(frozen=True)
class Graph:
    """MediConfusion's questions in the order of their ids: the two of pair k are 2 k and 2 k + 1."""

    image: NDArray[np.intp]
    group: NDArray[np.intp]


def graph() -> Graph:
    items = sorted(mediconfusion.items(REFERENCE), key=lambda item: item.id)
    _, image = np.unique([item.images[0].name for item in items], return_inverse=True)
    _, group = np.unique([item.cluster_id for item in items], return_inverse=True)
    return Graph(image, group)


MEASURES = ("set_accuracy", "individual_accuracy", "confusion")


def tables(graph: Graph, right: NDArray[np.bool_], valid: NDArray[np.bool_]) -> dict[str, st.UnitTable]:
    """The measures of many runs, one slice a run. Of a pair, the first right answer is A and the second is B."""
    runs, n = right.shape
    right, whole = right & valid, (valid[:, ::2] & valid[:, 1::2]).astype(float)
    same = (right[:, ::2] != right[:, 1::2]) * whole
    pair, of_pair = np.arange(n) // 2, graph.group[::2]

    def table(numerator: Floats, denominator: Floats, unit: NDArray[np.intp], group: NDArray[np.intp]) -> st.UnitTable:
        of = np.repeat(np.arange(runs), len(unit))
        return st.UnitTable(numerator.ravel(), denominator.ravel(), np.tile(unit, runs), np.tile(group, runs), of, runs)

    pairs = (pair[::2], of_pair)
    ones = np.ones_like(whole)
    return {
        "set_accuracy": table((right[:, ::2] & right[:, 1::2]).astype(float), ones, *pairs),
        "individual_accuracy": table(right.astype(float), np.ones(right.shape), pair, graph.group),
        "confusion": table(same.astype(float), whole, *pairs),
    }


def truth(accuracy: float, valid: float) -> dict[str, float]:
    """The expected values of the measures when the two questions of a pair are independent."""
    p = accuracy * valid
    return {"set_accuracy": p**2, "individual_accuracy": p, "confusion": 2 * accuracy * (1 - accuracy)}


def on_mediconfusion(
    runs: int,
    correlations: tuple[float, ...] = (0.0, 0.3, 0.6),
    accuracies: tuple[float, ...] = (0.4, 0.55, 0.7, 0.85),
) -> Iterator[Figure]:
    """Coverage and one-sided misses where questions on one image are correlated; 6 % of the answers are invalid."""
    real, valid = graph(), 0.94
    for correlation in correlations:
        for accuracy in accuracies:
            same = agreement(accuracy, 0.15)
            for loss in (0.0, 0.05):
                draw = np.random.default_rng([int(100 * correlation), int(100 * accuracy), int(100 * loss)])
                after = accuracy - loss
                before, now = truth(accuracy, valid), truth(after, valid)
                covered, too_low, too_high, done = (dict.fromkeys(MEASURES, 0) for _ in range(4))
                while done["confusion"] < runs:
                    chunk = min(500, runs - done["confusion"])
                    levels = np.full(len(real.image), accuracy), np.full(len(real.image), after)
                    rights = two_runs(draw, real.image, correlation, chunk, levels, same)
                    valids = [draw.random(right.shape) < valid for right in rights]
                    old, new = (tables(real, right, ok) for right, ok in zip(rights, valids, strict=True))
                    for name in MEASURES:
                        binary = name != "individual_accuracy"
                        low, high = st.intervals(st.clustered(st.ratios(new[name])), binary=binary)
                        covered[name] += int(np.sum((low <= now[name]) & (now[name] <= high)))
                        seen = st.compare(new[name], old[name], binary=binary)
                        change = now[name] - before[name]
                        too_high[name] += sum(each.low is None or each.low > change for each in seen)
                        too_low[name] += sum(each.high is None or each.high < change for each in seen)
                        done[name] += chunk
                for name in MEASURES:
                    where = f"correlation {correlation}, accuracy {after:.2f}, {name}"
                    yield Figure(f"{where}: interval covers", covered[name] / runs, runs, least=0.94, most=0.99)
                    where = f"correlation {correlation}, {accuracy:.2f} to {after:.2f}, {name}"
                    yield Figure(f"{where}: L too high", too_high[name] / runs, runs, most=0.065)
                    yield Figure(f"{where}: U too low", too_low[name] / runs, runs, most=0.065)


MARGINS = (0.02, 0.05, 0.10)
TRUTHS = (0.0, st.FLIP_ICC, 0.3)
"""Correlations of the flips of a group: up to the declared one, and above it."""
SAMPLES = 3
CHUNK = 500
"""Runs that are compared at once: more would not stay in the processor's cache."""
BEFORE = {("60 x 5", 0.10): 1.0, ("120 x 5", 0.05): 1.0, ("300 x 5", 0.02): 0.952}
"""PASS of an unchanged model of independent flips without a declared correlation, by design and margin."""


def changes(
    draw: np.random.Generator,
    group: NDArray[np.intp],
    runs: int,
    flips: float | Floats,
    loss: float | Floats,
    correlation: float,
) -> Floats:
    """What becomes of each unit, (runs, units): 1 gained, -1 lost, 0 as before; `loss` is lost minus gained.

    With the probability sqrt(correlation) a unit fares as its group does.
    """
    groups, units = int(group.max()) + 1, len(group)
    alone = draw.random((runs, units)) >= sqrt(correlation)
    rank = np.where(alone, draw.random((runs, units)), draw.random((runs, groups))[:, group])
    return (rank > 1 - (flips - loss) / 2).astype(float) - (rank < (flips + loss) / 2)


def means(draw: np.random.Generator, change: Floats) -> tuple[Floats, Floats]:
    """Means of several answers to each unit in both runs: a flip is from always right to always wrong or back."""
    chance = draw.beta(2.8, 1.2, change.shape)
    before, after = (np.where(change == 0, chance, change == sign) for sign in (-1, 1))
    return tuple(draw.binomial(SAMPLES, p) / SAMPLES for p in (before, after))


def outcome(comparison: st.Comparison, margin: float) -> str:
    """The outcome of one rule, as by `decide` but without its sentences."""
    if comparison.low is None or comparison.worse is None:
        return "INCONCLUSIVE"
    if comparison.low > -margin:
        return "PASS"
    return "FAIL" if comparison.worse <= 1 - LEVEL and comparison.discordant_groups >= 5 else "INCONCLUSIVE"


def verdicts(
    runs: int,
    group: NDArray[np.intp],
    flips: float,
    loss: float,
    correlation: float,
    *,
    samples: bool = False,
    icc: float = st.FLIP_ICC,
) -> dict[float, dict[str, float]]:
    """The shares of outcomes of one rule, by its margin."""
    draw = np.random.default_rng([len(group), int(1000 * flips), int(1000 * loss), int(100 * correlation), samples])
    times = {margin: dict.fromkeys(("PASS", "FAIL", "INCONCLUSIVE"), 0) for margin in MARGINS}
    for start in range(0, runs, CHUNK):
        change = changes(draw, group, min(CHUNK, runs - start), flips, loss, correlation)
        sides = means(draw, change) if samples else (change <= 0, change >= 0)
        nowhere = np.zeros(len(group), dtype=int)
        for each in compared(sides, group, nowhere, binary=not samples, icc=icc):
            for margin, counts in times.items():
                counts[outcome(each, margin)] += 1
    return {margin: {name: count / runs for name, count in counts.items()} for margin, counts in times.items()}


def few_groups() -> dict[str, NDArray[np.intp]]:
    """The groups of units by the design's name: few large ones, as patients with many questions each."""
    sizes = ((20, 30), (30, 20), (15, 20), (20, 15), (40, 10), (60, 5), (10, 10))
    designs = {f"{groups} x {size}": np.repeat(np.arange(groups), size) for groups, size in sizes}
    if REFERENCE.is_dir():
        designs["MediConfusion"] = graph().group[::2]
    else:
        print(f"MediConfusion is left out: there is no {REFERENCE}", file=sys.stderr)
    return designs


def clusters(runs: int, designs: dict[str, NDArray[np.intp]] | None = None) -> Iterator[Figure]:
    """One rule where groups flip together; 5 % of right or wrong units flip, 2 % of units with samples, or the loss."""
    designs = few_groups() if designs is None else designs
    for samples, least in ((False, 0.05), (True, 0.02)):
        kind = f"{SAMPLES} samples" if samples else "right or wrong"
        for design, group in designs.items():
            for correlation in TRUTHS:
                where = f"{kind}, {design}, correlation {correlation}"
                known = correlation <= st.FLIP_ICC
                unchanged = verdicts(runs, group, least, 0, correlation, samples=samples)
                fails = unchanged[MARGINS[0]]["FAIL"]
                yield Figure(f"{where}: FAIL at no change, margin 2", fails, runs, most=0.06 if known else 1)
                for margin in MARGINS:
                    what = f"{where}: PASS at no change, margin {100 * margin:g}"
                    yield Figure(what, unchanged[margin]["PASS"], runs)
                    flips, what = max(least, margin), f"{where}: PASS at a loss of the margin, {100 * margin:g}"
                    for icc in dict.fromkeys((st.FLIP_ICC, max(correlation, st.FLIP_ICC))):
                        share = verdicts(runs, group, flips, margin, correlation, samples=samples, icc=icc)
                        most = 0.06 if correlation <= icc else 1
                        yield Figure(f"{what} (declared {icc:g})", share[margin]["PASS"], runs, most=most)
    for (design, margin), before in BEFORE.items():
        group = np.repeat(np.arange(int(design.split()[0])), int(design.split()[2]))
        share = verdicts(runs, group, 0.05, 0, 0)[margin]["PASS"]
        what = f"{design}, independent: PASS at no change, margin {100 * margin:g}"
        yield Figure(what, share, runs, least=0.9 * before)


CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
PS = (0.5, 0.7, 0.85, 0.95, 0.99)
GROUPS = (5, 10, 20, 30, 60, 100)
SIZES = (1, 5)


def answers(
    draw: np.random.Generator, p: float, group: NDArray[np.intp], runs: int, correlation: float, samples: int
) -> Floats:
    """The share of right answers to each unit, (runs, units): of one answer, or the mean of several samples.

    With the probability sqrt(correlation) a unit fares as its group: it has the group's answer, or with several samples
    the group's chance.
    """
    groups, units = int(group.max()) + 1, len(group)
    alone = draw.random((runs, units)) >= sqrt(correlation)
    if samples == 1:
        return np.where(alone, draw.random((runs, units)), draw.random((runs, groups))[:, group]) < p
    chance = draw.beta(4 * p, 4 * (1 - p), (runs, units))
    shared = draw.beta(4 * p, 4 * (1 - p), (runs, groups))
    return draw.binomial(samples, np.where(alone, chance, shared[:, group])) / samples


def designs() -> dict[str, NDArray[np.intp]]:
    """The groups of units over which intervals are tried."""
    sizes = [(count, size) for count in GROUPS for size in (*SIZES, *([20] if count <= 10 else []))]
    return {f"{count} x {size}": np.repeat(np.arange(count), size) for count, size in sizes} | few_groups()


def coverage(runs: int) -> Iterator[Figure]:
    """Two-sided intervals of 95 % over designs: how often they cover; and floors at the true value that pass."""
    runs = max(runs // 5, 200)
    for samples in (1, 3):
        covers: dict[tuple[float, float], list[tuple[float, str]]] = {}
        passes: list[tuple[float, str]] = []
        for name, group in designs().items():
            single = len(group) == group.max() + 1
            for p in PS:
                for correlation in (0.0,) if single else (*CORRELATIONS, st.FLIP_ICC):
                    draw = np.random.default_rng([samples, int(100 * p), len(group), int(10 * correlation)])
                    right = answers(draw, p, group, runs, correlation, samples).astype(float)
                    found = st.clustered(st.ratios(one_a_run(right, group)))
                    low, high = st.intervals(found, binary=samples == 1)
                    share = float(np.mean((low <= p) & (p <= high)))
                    covers.setdefault((p, correlation), []).append((share, name))
                    if correlation <= st.FLIP_ICC and len(group) >= 100:
                        low, high = st.bounds(found, binary=samples == 1)
                        where = f"{name}, p = {p}, correlation {correlation}"
                        passes += [(float(np.mean(low >= p)), where), (float(np.mean(high <= p)), where)]
        kind = "right or wrong" if samples == 1 else f"mean of {samples} answers"
        for (p, correlation), each in sorted(covers.items()):
            worst, design = min(each)
            yield Figure(f"{kind}, p = {p}, correlation {correlation}: covers at least ({design})", worst, runs)
        every = [share for each in covers.values() for share, _ in each]
        below = sum(share < 0.93 for share in every) / len(every)
        yield Figure(f"{kind}: share of {len(every)} designs that are covered in less than 93 %", below, 0, most=0.05)
        yield Figure(f"{kind}: lowest coverage", min(every), runs, least=0.88)
        yield Figure(f"{kind}: mean coverage", sum(every) / len(every), 0, least=0.95)
        worst, where = max(passes)
        yield Figure(f"{kind}: a floor at the true value passes ({where})", worst, runs, most=0.06)


def one_a_run(values: Floats, group: NDArray[np.intp]) -> st.UnitTable:
    """Each run as a slice."""
    runs, n = values.shape
    of = np.repeat(np.arange(runs), n)
    return st.UnitTable(values.ravel(), np.ones(runs * n), np.tile(np.arange(n), runs), np.tile(group, runs), of, runs)


@dataclass(frozen=True)
class Sliced:
    """A macro average: the slice and the group of each unit, units in the order of slices."""

    slice: NDArray[np.intp]
    group: NDArray[np.intp]
    corrections: dict[int, st.Correction] = field(default_factory=dict)

    @property
    def small(self) -> NDArray[np.bool_]:
        """Whether a unit is in one of the smaller half of slices."""
        sizes = np.bincount(self.slice)
        return np.asarray(sizes[self.slice] <= np.median(sizes))

    def mean(self, values: Floats) -> float:
        """The macro average of the units' values."""
        return float(np.mean(np.bincount(self.slice, values) / np.bincount(self.slice)))

    def influences(self, values: Floats) -> st.Influences:
        """The macro average of each run, (runs, units): as by `mean_over`, but a measure for each run."""
        runs, n = values.shape
        slices = int(self.slice.max()) + 1
        place = (np.arange(runs)[:, None] * slices + self.slice).ravel()
        unit, group = (np.tile(each, runs) for each in (np.arange(n), self.group))
        ratios = st.ratios(st.UnitTable(values.ravel(), np.ones(runs * n), unit, group, place, runs * slices))
        value = ratios.value.reshape(runs, slices).mean(axis=1)
        of, factor = np.repeat(np.arange(runs), slices), np.full(runs * slices, 1 / slices)
        return replace(ratios, value=value, measure=of, factor=factor)

    def correction(self, influences: st.Influences) -> st.Correction:
        """The correction of so many runs, which depends on the design alone."""
        runs = len(influences.value)
        if runs not in self.corrections:
            self.corrections[runs] = st.corrected(influences)
        return self.corrections[runs]


SLICES = {
    "3, 3, 3, 100, 300": (3, 3, 3, 100, 300),
    "5, 10, 20, 100, 300": (5, 10, 20, 100, 300),
    "2, 4, 8, 16, 32, 64": (2, 4, 8, 16, 32, 64),
    "18 x 10": (10,) * 18,
    "10 x 5": (5,) * 10,
    "6 x 20": (20,) * 6,
    "5 x 100": (100,) * 5,
    "18 x 50": (50,) * 18,
}
LARGE = {
    "MedLesionVQA": (3340, 3986, 3508, 1133, 3071, 1693, 1613),
    "GMAI-MMBench": (869, 572, 650, 559, 665, 9697, 247, 674, 250, 198, 950, 750, 300, 850, 1332, 520, 1169, 350),
}
"""The questions of the test splits by ability and by task, from the papers."""


def sliced(sizes: tuple[int, ...], each: int, *, across: bool) -> Sliced:
    """Slices with groups of `each` units: of one slice, or with `across` of any slices."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    n = len(of)
    if across:
        return Sliced(of, np.random.default_rng(1).permutation(np.arange(n) % max(n // each, 5)))
    within = np.concatenate([np.arange(size) // each for size in sizes])
    return Sliced(of, np.unique(of * n + within, return_inverse=True)[1])


def macro_designs() -> Iterator[tuple[str, Sliced, tuple[float, ...]]]:
    """Each design with its name, and the correlations within groups to try."""
    for name, sizes in SLICES.items():
        yield f"{name}, independent", sliced(sizes, 1, across=False), (0.0,)
        if min(sizes) >= 10:
            yield f"{name}, groups of 5", sliced(sizes, 5, across=False), (st.FLIP_ICC, 0.3)
        yield f"{name}, groups of 3 across slices", sliced(sizes, 3, across=True), (st.FLIP_ICC, 0.6)
        yield f"{name}, groups of 8 across slices", sliced(sizes, 8, across=True), (st.FLIP_ICC, 0.6)
        if sum(sizes) >= 500:
            yield f"{name}, groups of 25 across slices", sliced(sizes, 25, across=True), (st.FLIP_ICC, 0.3)


def macro_coverage(
    design: Sliced, p: Floats, correlation: float, runs: int, samples: int = 1
) -> tuple[float, float, float]:
    """How often the interval covers, and how often each one-sided bound misses; `p`: the chance of each unit."""
    draw = np.random.default_rng([len(p), int(100 * correlation), int(1000 * p.sum()), samples])
    times, truth, chances = np.zeros(3), design.mean(p), np.unique(p)
    for start in range(0, runs, CHUNK):
        chunk = min(CHUNK, runs - start)
        drawn = [answers(draw, chance, design.group, chunk, correlation, samples) for chance in chances.tolist()]
        influences = design.influences(np.choose(np.searchsorted(chances, p), drawn).astype(float))
        found = st.clustered(influences, design.correction(influences))
        low, high = st.intervals(found, binary=samples == 1)
        below, above = st.bounds(found, binary=samples == 1)
        hits = (low - 1e-12 <= truth) & (truth <= high + 1e-12), below - 1e-12 > truth, above + 1e-12 < truth
        times += [np.sum(each) for each in hits]
    covered, too_low, too_high = (times / runs).tolist()
    return covered, too_low, too_high


def macro_outcomes(
    design: Sliced, flips: Floats, loss: Floats, correlation: float, runs: int, margins: tuple[float, ...] = MARGINS
) -> dict[float, dict[str, float]]:
    """The shares of outcomes of one rule on the macro average by its margin, as by `compare` and `decide`.

    `flips` and `loss`: of each unit, the chance of a flip and of a loss less that of a gain.
    """
    seed = [len(flips), int(100 * correlation), int(1000 * flips.sum()), int(1000 * loss.sum())]
    draw, groups = np.random.default_rng(seed), int(design.group.max()) + 1
    times = {margin: dict.fromkeys(("PASS", "FAIL"), 0) for margin in margins}
    for start in range(0, runs, CHUNK):
        chunk = min(CHUNK, runs - start)
        change = changes(draw, design.group, chunk, flips, loss, correlation)
        influences = design.influences(change)
        low, high = macro_bounds(influences, design.correction(influences))
        changed = np.zeros((chunk, groups), dtype=bool)
        run, unit = np.nonzero(change)
        changed[run, design.group[unit]] = True
        for margin, counts in times.items():
            passes = low > -margin
            counts["PASS"] += int(passes.sum())
            counts["FAIL"] += int((~passes & (high < 0) & (changed.sum(axis=1) >= 5)).sum())
    return {margin: {name: count / runs for name, count in counts.items()} for margin, counts in times.items()}


def macro_bounds(influences: st.Influences, correction: st.Correction) -> tuple[Floats, Floats]:
    """What `compare` gives for the macro averages of many runs."""
    found = st.clustered(influences, correction)
    of_changes = macro.changes_of(influences, found.variance, found.df, binary=True)
    low, high = macro.difference_bounds(of_changes.slices, of_changes.spread(st.FLIP_ICC), LEVEL)
    usable = found.df >= 4
    return np.where(usable, low, np.nan), np.where(usable, high, np.nan)


def macro_averages(runs: int) -> Iterator[Figure]:
    """Intervals and floors on macro averages over small slices, then one rule on their difference."""
    fewer = max(runs // 5, 200)
    covers: list[tuple[float, str]] = []
    floors: list[tuple[float, str]] = []
    for name, design, correlations in macro_designs():
        chances = {f"p = {p}": np.full(len(design.slice), p) for p in (0.5, 0.8, 0.95, 0.98)}
        chances["p = 0.6 in the smaller slices, else 0.95"] = np.where(design.small, 0.6, 0.95)
        own: list[tuple[float, str]] = []
        for samples, correlation, which in product((1, SAMPLES), correlations, chances):
            if samples == 1 or which in ("p = 0.8", "p = 0.95"):
                covered, *missed = macro_coverage(design, chances[which], correlation, fewer, samples)
                where = f"{which}, correlation {correlation}{', 3 samples' if samples > 1 else ''}"
                own.append((covered, where))
                if correlation <= st.FLIP_ICC:
                    floors.append((max(missed), f"{name}, {where}"))
        worst, where = min(own)
        yield Figure(f"{name}: covers at least ({where})", worst, fewer, least=0.88)
        covers += own
    below = sum(share < 0.93 for share, _ in covers) / len(covers)
    yield Figure(f"share of {len(covers)} designs that are covered in less than 93 %", below, 0, most=0.05)
    large = [found for found in floors if "groups of 25" in found[1]]
    for some, most in ((set(floors) - set(large), 0.06), (large, 1.0)):
        if some:
            worst, where = max(some)
            yield Figure(f"a floor at the true value passes, at most ({where})", worst, fewer, most=most)
    for name, design, correlations in macro_designs():
        yield from macro_rule(name, design, correlations[0], runs)
    yield from macro_widths()


def macro_rule(name: str, design: Sliced, correlation: float, runs: int) -> Iterator[Figure]:
    """One rule where 5 % of the units flip, or as many as the loss needs; it may be in the smaller slices alone."""
    ones = np.ones(len(design.slice))
    unchanged = macro_outcomes(design, 0.05 * ones, 0 * ones, correlation, runs)
    yield Figure(f"{name}: FAIL at no change", unchanged[MARGINS[0]]["FAIL"], runs, most=0.06)
    share = design.mean(design.small.astype(float))
    losses = [(margin, margin * ones) for margin in MARGINS] + [(0.05, design.small * 0.05 / share)] * (share < 1)
    wrong = [
        macro_outcomes(design, np.maximum(0.05, loss), loss, correlation, runs, (margin,))[margin]["PASS"]
        for margin, loss in losses
    ]
    yield Figure(f"{name}: PASS at a loss of the margin, at most", max(wrong), runs, most=0.06)
    for margin in MARGINS:
        yield Figure(f"{name}: PASS at no change, margin {100 * margin:g}", unchanged[margin]["PASS"], runs)


def macro_widths() -> Iterator[Figure]:
    """The width of intervals, as a share of that of Wilson's interval at n*, of slices of any size."""
    for name, sizes in (SLICES | LARGE).items():
        design = sliced(sizes, 1, across=False)
        values = np.random.default_rng(0).random((max(4, 10_000 // len(design.slice)), len(design.slice))) < 0.7
        found = st.clustered(design.influences(values.astype(float)))
        (low, high), (before_low, before_high) = (
            st.intervals(each, binary=binary) for each, binary in ((found, True), (replace(found, slices=None), False))
        )
        ratio = float(np.mean(high - low) / np.mean(before_high - before_low))
        yield Figure(f"{name}, p = 0.7: width of an interval, of Wilson's at n*", ratio, 0, most=1.5)


def enumeration(_: int, sizes: tuple[int, ...] = (176, 352, 451, 1500, 4550)) -> Iterator[Figure]:
    """Exact coverage of independent units: the worst and the best p of a coarse grid, then of a fine one."""
    for steps, most in ((19, 0.96), (1801, 1.0)):
        p = np.linspace(0.05, 0.95, steps)
        for n in sizes:
            count = np.arange(n + 1)
            value = count / n
            each = np.ones(n + 1)
            deviating = np.minimum(count, n - count)
            variance = value * (1 - value) / (n - 1)
            found = st.Estimates(
                value,
                variance,
                (n - 1) * each,
                np.full(n + 1, n),
                n * each,
                n * each,
                lambda deviating=deviating: deviating,
                value * (1 - value) / n,
            )
            mass = binom.pmf(count[:, None], n, p)
            where = f"n = {n}, {steps} p"
            low, high = (bound[:, None] for bound in st.intervals(found, binary=True))
            covers = (mass * ((low <= p) & (p <= high))).sum(axis=0)
            yield Figure(f"{where}: Wilson covers at least", float(covers.min()), 0, least=0.935)
            yield Figure(f"{where}: Wilson covers at most", float(covers.max()), 0, most=most)
            low, high = (bound[:, None] for bound in st.bounds(found, binary=True))
            for side, holds in (("L", low <= p), ("U", high >= p)):
                safe = float((mass * holds).sum(axis=0).min())
                yield Figure(f"{where}: Clopper and Pearson's {side} is safe in at least", safe, 0, least=0.95)


def timed(_: int) -> Iterator[Figure]:
    """26,000 items in 150 slices, two runs: intervals, comparison, macro average, and the bootstrap of both."""
    n, dimensions = 26_000, (18, 19, 38, 4, 5, 65)
    draw = np.random.default_rng(0)
    starts = np.cumsum([1, *dimensions])
    codes = [np.zeros(n, dtype=int)]
    codes += [start + draw.integers(0, size, n) for start, size in zip(starts[:-1], dimensions, strict=True)]
    of, unit = np.concatenate(codes), np.tile(np.arange(n), len(codes))
    group = np.arange(n) // 2
    runs = [
        st.UnitTable(
            (draw.random(n) < p).astype(float)[unit], np.ones(len(unit)), unit, group[unit], of, int(starts[-1])
        )
        for p in (0.53, 0.52)
    ]
    start = time.perf_counter()
    for run in runs:
        st.intervals(st.clustered(st.ratios(run)), binary=True)
        st.intervals(st.clustered(st.mean_over(st.ratios(run), range(1, 19))), binary=False)
    st.compare(runs[1], runs[0], binary=True)
    st.compare(runs[1], runs[0], binary=False, over=range(1, 19))
    exact = time.perf_counter() - start
    new, old = st.resampled([runs[1], runs[0]])
    for values in (new, old, new - old):
        st.percentile(values)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{n} items, {starts[-1]} slices, two runs: {exact:.1f} s, with the bootstrap {seconds:.1f} s, {peak:.2f} GiB"
    )
    yield Figure("time / 20 s", seconds / 20, 0)
    yield Figure("memory / 1 GB", peak * 2**30 / 1e9, 0)


def command(_: int) -> Iterator[Figure]:
    """`medvqa gate` on a run of 26,000 questions whose reports are drawn, in a process of its own."""
    import harness  # beside this file, which tests import from elsewhere

    with tempfile.TemporaryDirectory() as name:
        for seed, run in enumerate(("baseline", "new")):
            harness.make_run(Path(name, run), 26_000, seed)
        drawn, decided = (
            min(harness.session(Path(name), "medvqa.cli", *typed).cpu for _ in range(3))
            for typed in (("report", "new"), ("gate", "new", "--baseline=baseline"))
        )
    print(f"medvqa gate: {decided:.1f} s of CPU; medvqa report: {drawn:.1f} s")
    yield Figure("time / 4 s", decided / 4, 0)


PARTS = {
    "rule": rule,
    "clusters": clusters,
    "coverage": coverage,
    "departments": departments,
    "mediconfusion": on_mediconfusion,
    "macro": macro_averages,
    "enumeration": enumeration,
    "time": timed,
    "command": command,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--runs", type=int, default=10_000)
    asked = parser.parse_args()
    missed = 0
    for name in asked.parts or PARTS:
        print(f"\n{name}, {asked.runs} runs")
        for figure in PARTS[name](asked.runs):
            print(figure, flush=True)
            missed += not figure.met
    print(f"\n{missed} missed" if missed else "\nall met")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
