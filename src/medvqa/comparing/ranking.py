"""Rank several runs on the same questions by a measure, and tell which two of them are shown to differ."""

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


@dataclass(frozen=True, slots=True)
class Ranked:
    """One run: its value with its own 95 % interval (`figure`), its rank, and the other runs by name.

    `rank` counts from 1; equal values share one. `better_than` and `worse_than`: the runs from which it is shown to
    differ (adjusted p at most 5 %); `alike`: those shown to differ by less than the margin, which may be among the
    former; `open`: all others. Each is in the order of the ranking. `differs`: the value of the one setting in which
    the run differs from the first run of the comparison, "" without one.
    """

    name: str
    figure: Figure
    rank: int
    differs: str = ""
    better_than: tuple[str, ...] = ()
    worse_than: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def best(self) -> int:
        """The best rank that is possible: one more than the number of runs shown to be better."""
        return 1 + len(self.worse_than)

    @property
    def worst(self) -> int:
        """The worst rank that is possible: the number of runs less those shown to be worse."""
        return len({*self.better_than, *self.worse_than, *self.alike, *self.open}) + 1 - len(self.better_than)


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
    `equivalent`: the margin within which runs are alike, a fraction; None if that is not tested.
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
    equivalent: float | None = None


def rank(
    part: CommonPart,
    names: Sequence[str],
    differs: Sequence[str],
    compared: Mapping[Pair, Sequence[Compared]],
    equivalent: float | None = None,
) -> list[Ranking]:
    """Rank the runs of a part by each headline measure that is a percentage.

    `names` and `differs` of all runs, by place. `compared`: the measures of every two runs, tested to be alike within
    `equivalent` (a fraction) if it is given.
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
        figures = [value_over_all(run) for run in tabled]
        sign = 1 if metric.better == "higher" else -1
        keys = {
            place: float("-inf") if figure.value is None else sign * figure.value
            for place, figure in zip(part.places, figures, strict=True)
        }
        order = sorted(part.places, key=lambda place: (-keys[place], names[place]))
        rows = {
            place: _ranked(
                Ranked(names[place], figure, 1 + sum(other > keys[place] for other in keys.values()), differs[place]),
                {names[other]: _seen_from(place, other, pairs) for other in order if other != place},
            )
            for place, figure in zip(part.places, figures, strict=True)
        }
        rankings.append(
            Ranking(
                *about,
                metric.name,
                metric.better,
                part.asked,
                part.items,
                part.scored,
                tuple(rows[place] for place in order),
                tuple(RankedPair(names[new], names[baseline], own) for (new, baseline), own in pairs.items()),
                costliest,
                equivalent,
            )
        )
    return rankings


def _seen_from(place: int, other: int, pairs: Mapping[Pair, Compared]) -> tuple[float, bool]:
    """How much better a run is shown to be than another, 0 if no difference is shown; and whether they are alike."""
    measure = pairs[max(place, other), min(place, other)]
    gain = (measure.comparison.difference or 0.0) if measure.differs else 0.0
    return (gain if place > other else -gain), measure.alike


def _ranked(row: Ranked, others: Mapping[str, tuple[float, bool]]) -> Ranked:
    """The row with the other runs, by name in the order of the ranking, as `_seen_from` it."""
    return replace(
        row,
        better_than=tuple(name for name, (gain, _) in others.items() if gain > 0),
        worse_than=tuple(name for name, (gain, _) in others.items() if gain < 0),
        alike=tuple(name for name, (_, alike) in others.items() if alike),
        open=tuple(name for name, (gain, alike) in others.items() if not gain and not alike),
    )


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
