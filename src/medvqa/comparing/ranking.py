"""Rank several runs on the same questions by a measure, with the possible ranks of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from medvqa import statistics
from medvqa.comparing.common import CommonPart, everything
from medvqa.comparing.paired import Compared, Pair
from medvqa.figures import Figure
from medvqa.metrics import Tabled
from medvqa.statistics import UnitTable

ERROR = 0.05
"""Familywise error: chance that any two equal runs of a comparison are shown to differ."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """One run: its value with its own 95 % interval (`figure`), its rank and its possible ranks.

    `rank` counts from 1; equal values share one. `best`: one more than the number of runs shown to be better. `worst`:
    the number of runs less those shown to be worse (adjusted p at most 5 %). `differs`: the value of the one setting in
    which the run differs from the first run of the comparison, "" without one.
    """

    name: str
    figure: Figure
    rank: int
    best: int
    worst: int
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Costliest:
    """The run without which the others share the most questions: `scored` of them."""

    name: str
    scored: int


@dataclass(frozen=True, slots=True)
class RankedPair:
    """The difference between two runs of a ranking, by their names."""

    new: str
    baseline: str
    compared: Compared


@dataclass(frozen=True, slots=True)
class Ranking:
    """Runs in the order of one headline measure, the best first.

    `asked`: number of items in at least one run, `items` in all runs, `scored` of those with a score in all; the
    measure is over these. `costliest`: a run that costs many of the items, None without one. `pairs`: the difference of
    every two runs, a later run against an earlier one; p is adjusted over the family of the whole comparison.
    """

    benchmark: str
    technique: str
    metric: str
    better: Literal["higher", "lower"]
    asked: int
    items: int
    scored: int
    rows: tuple[Ranked, ...]
    pairs: tuple[RankedPair, ...]
    costliest: Costliest | None = None

    @property
    def adjusted(self) -> Mapping[tuple[str, str], float | None]:
        """The adjusted two-sided p-value of each pair of runs, the earlier one first; None without bounds."""
        return {(pair.baseline, pair.new): pair.compared.adjusted for pair in self.pairs}


def rank(
    part: CommonPart,
    names: Sequence[str],
    differs: Sequence[str],
    compared: Mapping[Pair, Sequence[Compared]],
) -> list[Ranking]:
    """Rank the runs of a part by each headline measure that is a percentage.

    `names` and `differs` of all runs, by place. `compared`: the measures of every two runs.
    """
    about = part.benchmark.name, part.technique
    costliest = _costliest(part, names)
    rankings = []
    for tabled in part.headline:
        metric = tabled[0].metric
        if not all(run.metric.percent for run in tabled):
            continue
        pairs = {
            (new, baseline): next(
                own
                for own in compared[new, baseline]
                if (own.benchmark, own.technique, own.metric) == (*about, metric.name) and not own.slice
            )
            for i, baseline in enumerate(part.places)
            for new in part.places[i + 1 :]
        }
        better, worse = dict.fromkeys(part.places, 0), dict.fromkeys(part.places, 0)
        for (new, baseline), measure in pairs.items():
            difference = measure.comparison.difference
            if measure.adjusted is not None and difference is not None and measure.adjusted <= ERROR:
                above, below = (new, baseline) if difference > 0 else (baseline, new)
                better[below] += 1
                worse[above] += 1
        figures = [value_over_all(run) for run in tabled]
        sign = 1 if metric.better == "higher" else -1
        keys = [float("-inf") if figure.value is None else sign * figure.value for figure in figures]
        rows = [
            Ranked(
                names[place],
                figure,
                1 + sum(other > key for other in keys),
                1 + better[place],
                len(keys) - worse[place],
                differs[place],
            )
            for place, figure, key in zip(part.places, figures, keys, strict=True)
        ]
        rankings.append(
            Ranking(
                *about,
                metric.name,
                metric.better,
                part.asked,
                part.items,
                part.scored,
                tuple(sorted(rows, key=lambda row: (row.rank, row.name))),
                tuple(RankedPair(names[new], names[baseline], own) for (new, baseline), own in pairs.items()),
                costliest,
            )
        )
    return rankings


COSTLY = 0.1
"""A run is named as costly if without it the others share at least this part of all questions more."""


def _costliest(part: CommonPart, names: Sequence[str]) -> Costliest | None:
    """The run without which the other runs have scored the most questions in common, if these are many more."""
    import numpy as np

    if len(part.places) < 3:
        return None

    scored = np.array([run.scored for run in part.runs])
    missing = ~scored
    # The questions that one run alone has not scored, run by run.
    alone = (missing & (missing.sum(axis=0) == 1)).sum(axis=1).tolist()
    most = max(range(len(alone)), key=alone.__getitem__)
    if alone[most] < COSTLY * part.asked:
        return None
    return Costliest(names[part.places[most]], part.scored + alone[most])


def value_over_all(tabled: Tabled) -> Figure:
    """The measure over all items with its interval."""
    found = statistics.estimate(
        of_everything(tabled), binary=tabled.binary, bounded=tabled.bounded, over=tabled.over, weights=tabled.weights
    )
    return replace(found.figure(), groups=None)


def of_everything(tabled: Tabled) -> UnitTable:
    """The units of a measure over all items: of an average over slices, those in each slice."""
    return tabled.table() if tabled.over is not None else everything(tabled.table())
