"""Scores of several readers, as the matrix that `medvqa.statistics.readers` analyses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.items import QuestionKey, Result
from medvqa.metrics.frames import groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ReaderScores:
    """Scores from 0 to 1, a row for each sample and a column for each question, NaN where there is none.

    `firsts`: a result of each column, by key; `groups`: the independent group of each.
    """

    firsts: tuple[Result, ...]
    scores: NDArray[np.float64]
    groups: NDArray[np.intp]


def by_reader(results: Iterable[Result]) -> ReaderScores:
    """Return the scores of results of one benchmark and technique."""
    import numpy as np

    ordered = sorted(results, key=lambda result: result.key)
    firsts = dict[QuestionKey, Result]()
    for result in ordered:
        firsts.setdefault(result.key.question, result)
    columns = {key: place for place, key in enumerate(firsts)}
    rows = {sample: place for place, sample in enumerate(sorted({result.sample for result in ordered}))}
    scores = np.full((len(rows), len(columns)), np.nan)
    for result in ordered:
        if result.score.value is not None:
            scores[rows[result.sample], columns[result.key.question]] = result.score.value
    kept = tuple(firsts.values())
    return ReaderScores(kept, scores, groups(kept))
