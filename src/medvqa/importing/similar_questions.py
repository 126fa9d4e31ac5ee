"""Questions that are asked several times, or in nearly the same words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from medvqa.benchmarks.table import TableQuestion
from medvqa.likeness import QuestionIndex, words
from medvqa.tables.problems import RowNumber

MAX_QUESTIONS = 4_000
"""Different questions that are compared with one another."""
MAX_PAIRS = 1_000
"""Pairs of nearly equal questions that are listed."""


@dataclass(frozen=True, slots=True)
class SimilarQuestions:
    """Different texts of questions, and the rows of the text that is asked most often.

    `near` are first rows of pairs of texts that are nearly equal; None: too many to compare.
    """

    different: int = 0
    most: tuple[RowNumber, ...] = ()
    near: tuple[tuple[RowNumber, RowNumber], ...] | None = ()


def similar(cases: Sequence[TableQuestion]) -> SimilarQuestions:
    """Return equal and nearly equal questions, by the rule of `likeness.questions`."""
    index = QuestionIndex(case.item.question for case in cases)
    rows: defaultdict[int, list[RowNumber]] = defaultdict(list)
    for place, case in zip(index.of, cases, strict=True):
        if words(case.item.question):
            rows[place].append(case.number)
    most = max(rows.values(), key=len, default=[])
    if len(index) > MAX_QUESTIONS:
        return SimilarQuestions(len(index), tuple(most), None)
    near = tuple((rows[one][0], rows[other][0]) for one, other in islice(index.near(), MAX_PAIRS))
    return SimilarQuestions(len(index), tuple(most), near)
