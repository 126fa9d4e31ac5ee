"""Scores of several readers, as the matrix that `medvqa.statistics.readers` analyses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.items import Result
from medvqa.metrics.frames import groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ReaderScores:
    """Scores from 0 to 1 by sample and question, NaN where there is none.

    `samples`: the number of each row; the k-th reader's is k. `firsts`: a result of each column, by key; `groups`: the
    independent group of each.
    """

    samples: tuple[int, ...]
    firsts: tuple[Result, ...]
    scores: NDArray[np.float64]
    groups: NDArray[np.intp]


def by_reader(results: Iterable[Result]) -> ReaderScores:
    """Return the scores of results of one benchmark and technique."""
    import numpy as np

    ordered = sorted(results, key=lambda result: result.key)
    firsts = {result.key.question: result for result in reversed(ordered)}
    columns = {key: place for place, key in enumerate(reversed(firsts))}
    rows = {sample: place for place, sample in enumerate(sorted({result.sample for result in ordered}))}
    scores = np.full((len(rows), len(columns)), np.nan)
    for result in ordered:
        if result.score.value is not None:
            scores[rows[result.sample], columns[result.key.question]] = result.score.value
    kept = tuple(reversed(firsts.values()))
    return ReaderScores(tuple(rows), kept, scores, groups(kept))
