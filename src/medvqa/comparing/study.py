"""Several runs on the same questions, as one comparison: which runs are compared with which, on which questions, and
which p-values are adjusted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from medvqa.comparing import differing
from medvqa.comparing.paired import Paired, compare
from medvqa.comparing.ranking import Ranking, rank
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, QuestionKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Versus:
    """A comparison of two runs with its refusals and notes. If there are `refusals`, `paired` is not shown."""

    paired: Paired
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """A headline measure unit by unit, for all runs of a study.

    `units`: the questions of each unit, as keys of `Study.aligned`: one, or those of a pair. `values`, (units, runs in
    the order of `Study.sides`): the value of each unit, NaN where a run has no score. Two runs flip on a unit if both
    values are there and differ.
    """

    benchmark: str
    technique: str
    metric: str
    unit: Literal["item", "pair"]
    better: Literal["higher", "lower"]
    units: Sequence[tuple[QuestionKey, ...]]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SliceValue:
    """One run's value of a measure over one slice: `n` units in `groups` independent groups."""

    run: int
    value: float | None
    low: float | None
    high: float | None
    n: int
    groups: int


@dataclass(frozen=True, slots=True)
class SlicedRuns:
    """A headline measure of the board's runs over each value of one dimension, on the questions of `Ranking.scored`.

    `values`: slice value -> a value for each run of the board, in its order.
    """

    benchmark: str
    technique: str
    metric: str
    dimension: str
    values: Mapping[str, Sequence[SliceValue]]


@dataclass(frozen=True, slots=True)
class Study:
    """Several runs; the first of `sides` is the baseline.

    `aligned`: the results of each run under the items and techniques of the first, where the content is the same.
    `board`: places of the runs that are ranked together; none of them differs from another in more than the model or
    one setting. `versus`: each run against the first; or if these are not comparable, against the first run from which
    it differs in one setting alone. `tests`: the number of p-values that are adjusted together, of headline measures
    over all questions.
    """

    sides: tuple[Side, ...]
    aligned: tuple[Side, ...]
    board: tuple[int, ...]
    versus: tuple[Versus, ...]
    rankings: tuple[Ranking, ...]
    scales: tuple[Scale, ...] = ()
    sliced: tuple[SlicedRuns, ...] = ()
    tests: int = 0

    @property
    def comparable(self) -> bool:
        """Whether any two runs are compared."""
        return any(not versus.refusals for versus in self.versus)


def study(sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> Study:
    """Compare runs with different names (UsageError for an unknown benchmark)."""
    baseline, *others = sides
    versus = []
    for new in others:
        refusals = differing.contrast(new, baseline).refusals
        paired = compare(new, baseline, benchmarks)
        if not refusals and not paired.parts:
            refusals = (f"{new.name} and {baseline.name} have no benchmark and technique in common",)
        versus.append(Versus(paired, refusals, tuple(differing.notes(new, baseline))))
    board = (0, *(place for place, found in enumerate(versus, 1) if not found.refusals))
    rankings = rank([sides[place] for place in board], benchmarks) if len(board) > 2 else []
    return Study(tuple(sides), tuple(sides), board, tuple(versus), tuple(rankings))


def named_apart(sides: Sequence[Side], paths: Sequence[str]) -> list[Side]:
    """The runs with different names: those with equal ones are named by their paths."""
    names = [side.name for side in sides]
    with_paths = zip(sides, paths, strict=True)
    return [replace(side, name=path) if names.count(side.name) > 1 else side for side, path in with_paths]
