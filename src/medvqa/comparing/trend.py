"""The association of a measure with a number of each run, such as the size of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log10
from pathlib import Path
from typing import Literal

from medvqa import statistics, tables
from medvqa.comparing import ranking
from medvqa.comparing.common import Alignment, CommonPart
from medvqa.comparing.sides import Side
from medvqa.figures import Figure, defined
from medvqa.items import Benchmark, UsageError
from medvqa.metrics import Tabled

LEAST_RUNS = 3
"""With fewer runs a slope says no more than their comparison."""
LEAST_MODELS = 4
"""Runs below which the slope has no interval over models: a line leaves two degrees of freedom less."""
KEYS = ("run", "model")
"""Columns that name the runs of a table of numbers."""


@dataclass(frozen=True, slots=True)
class TrendRow:
    """One run: its number, and the measure with its 95 % interval on the questions that all runs have."""

    name: str
    number: float
    figure: Figure


@dataclass(frozen=True, slots=True)
class Trend:
    """One headline measure of several runs by a number, smallest first, and the least-squares line on its log10.

    `slope` is the change of the measure for ten times the number, a fraction, with its 95 % interval over questions,
    for these runs: all of them answered the same questions. `models` has its interval over models, from the runs'
    distances to the line; none with fewer than `LEAST_MODELS` runs. `items` and `scored` as in `Ranking`.
    """

    benchmark: str
    technique: str
    metric: str
    better: Literal["higher", "lower"]
    by: str
    items: int
    scored: int
    rows: tuple[TrendRow, ...]
    slope: Figure
    models: Figure


def numbers(path: Path, sides: Sequence[Side]) -> tuple[str, dict[str, float]]:
    """Read a table with a column `run` or `model` and one of numbers: return its name, and the number of each run.

    DataError for a file that cannot be read, a run with two numbers, and numbers that are not above 0; UsageError for
    other columns and a run without a number.
    """
    where, found, column, key = f"--by={path}", dict[str, float](), "", ""
    for row in tables.read(path, needed=[[name] for name in KEYS]):
        key = next(name for name in KEYS if name in row.values)
        others = [name for name in row.values if name != key]
        if len(others) != 1:
            there = ", ".join(others) or "none"
            raise UsageError(f"{where}: one column of numbers beside '{key}' is expected; there are: {there}")
        column = others[0]
        try:
            number = float(row.text(column))
        except ValueError:
            raise row.error(f"no number: {row.text(column)[:40]!r}", column) from None
        if not (isfinite(number) and number > 0):
            raise row.error(f"{number:g} has no logarithm; numbers above 0 are needed", column)
        name = row.identifier(key)
        if found.setdefault(name, number) != number:
            raise row.error(f"'{name}' has {found[name]:g} in an earlier row; keep one of them", column)
    named = {side.name: side.name if key == "run" else side.model for side in sides}
    if lacking := [name for name in named.values() if name not in found]:
        raise UsageError(f"{where}: no {key} '{lacking[0]}'; there are: {', '.join(found)}")
    return column, {name: found[row] for name, row in named.items()}


def trends(
    sides: Sequence[Side], benchmarks: Mapping[str, Benchmark], by: str, numbers: Mapping[str, float]
) -> list[Trend]:
    """Return the trend of each headline measure over `numbers`, by run, on the items that all runs have.

    UsageError for too few runs, or if all numbers are equal.
    """
    if len(sides) < LEAST_RUNS:
        raise UsageError(f"--by: a trend needs at least {LEAST_RUNS} runs, and {len(sides)} are named")
    places = [log10(numbers[side.name]) for side in sides]
    mean = sum(places) / len(places)
    spread = sum((place - mean) ** 2 for place in places)
    if max(places) == min(places):
        raise UsageError(f"--by: all runs have the same {by}")
    factors = [(place - mean) / spread for place in places]
    return [
        _trend(part, tabled, [side.name for side in sides], by, numbers, places, factors)
        for part in Alignment(sides).parts(range(len(sides)), benchmarks)
        if len(part.places) == len(sides)
        for tabled in part.headline
        if all(run.metric.percent for run in tabled)
    ]


def _trend(
    part: CommonPart,
    measure: Sequence[Tabled],
    names: Sequence[str],
    by: str,
    numbers: Mapping[str, float],
    places: Sequence[float],
    factors: Sequence[float],
) -> Trend:
    figures = [ranking.value_over_all(tabled) for tabled in measure]
    rows = [TrendRow(name, numbers[name], figure) for name, figure in zip(names, figures, strict=True)]
    values = [figure.value for figure in figures if figure.value is not None]
    metric = measure[0].metric
    slope = models = Figure(None, sign=True)
    if len(values) == len(rows):
        ratios = [tabled.mean(statistics.ratios(ranking.of_everything(tabled))) for tabled in measure]
        line = statistics.combination(ratios, factors)
        low, high = (defined(bound[0]) for bound in statistics.student(statistics.clustered(line)))
        slope = Figure(float(line.value[0]), low, high, sign=True)
        models = _over_models(values, places, float(line.value[0]))
    ordered = tuple(sorted(rows, key=lambda row: (row.number, row.name)))
    return Trend(
        *(part.benchmark.name, part.technique, metric.name, metric.better, by, part.items, part.scored),
        *(ordered, slope, models),
    )


def _over_models(values: Sequence[float], places: Sequence[float], slope: float) -> Figure:
    """A least-squares slope with its 95 % interval by Student's t, from the residuals of the runs."""
    from scipy.special import stdtrit

    df = len(values) - 2
    if len(values) < LEAST_MODELS:
        return Figure(slope, sign=True)
    middle, mean = sum(places) / len(places), sum(values) / len(values)
    residuals = [value - mean - slope * (place - middle) for value, place in zip(values, places, strict=True)]
    variance = sum(residual**2 for residual in residuals) / df / sum((place - middle) ** 2 for place in places)
    half = float(stdtrit(df, 0.975)) * variance**0.5
    return Figure(slope, slope - half, slope + half, sign=True)
