"""Scores of several readers, as the matrix that `medvqa.statistics.readers` analyses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from typing import TYPE_CHECKING

from medvqa.items import QuestionKey, Result
from medvqa.metrics.frames import groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ReaderScores:
    """Scores from 0 to 1 by reader and question, NaN where there is none; `groups`: of each question.

    `firsts` has a result of each question.
    """

    firsts: tuple[Result, ...]
    scores: NDArray[np.float64]
    groups: NDArray[np.intp]


def by_reader(results: Sequence[Result], readers: int) -> ReaderScores:
    """Return the scores of the samples of questions, of which number k is that of reader k; sorted by key."""
    import numpy as np

    ordered = sorted(results, key=lambda result: result.key)
    questions = [list(group) for _, group in groupby(ordered, key=lambda result: result.key.question)]
    scores = np.full((readers, len(questions)), np.nan)
    for place, answers in enumerate(questions):
        for result in answers:
            if result.score.value is not None and 0 < result.sample <= readers:
                scores[result.sample - 1, place] = result.score.value
    firsts = tuple(answers[0] for answers in questions)
    return ReaderScores(firsts, scores, groups(firsts))


def by_question(results: Sequence[Result]) -> dict[QuestionKey, float]:
    """Return the mean score of each question's answers, without questions that have none."""
    ordered = sorted(results, key=lambda result: result.key)
    means = {}
    for key, answers in groupby(ordered, key=lambda result: result.key.question):
        values = [result.score.value for result in answers if result.score.value is not None]
        if values:
            means[key] = fsum(values) / len(values)
    return means
