"""Questions that are asked several times, or in nearly the same words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from medvqa.benchmarks.table import TableQuestion
from medvqa.importing.table_warnings import plain
from medvqa.tables.problems import RowNumber

NEAR = 0.8
"""Share of the words of two questions that they have in common (Jaccard), from which on they are nearly equal."""
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
    """Return equal and nearly equal questions; letter case and punctuation do not count."""
    rows: defaultdict[str, list[RowNumber]] = defaultdict(list)
    for case in cases:
        if text := plain(case.item.question):
            rows[text].append(case.number)
    most = max(rows.values(), key=len, default=[])
    return SimilarQuestions(len(rows), tuple(most), _near({text: found[0] for text, found in rows.items()}))


def _near(rows: dict[str, RowNumber]) -> tuple[tuple[RowNumber, RowNumber], ...] | None:
    import numpy as np
    from scipy.sparse import csr_array

    if len(rows) > MAX_QUESTIONS:
        return None
    # Chinese has no blanks between words: its characters count.
    words = [sorted({*(text.split() if text.isascii() or " " in text else text)}) for text in rows]
    number: dict[str, int] = {}
    columns = [number.setdefault(word, len(number)) for listed in words for word in listed]
    ends = np.cumsum([0, *map(len, words)])
    if len(words) < 2:
        return ()
    held = csr_array((np.ones(len(columns)), columns, ends), shape=(len(words), len(number)))
    sizes = np.diff(ends)
    firsts = list(rows.values())
    pairs: list[tuple[RowNumber, RowNumber]] = []
    for i in range(len(words) - 1):
        common = (held[i + 1 :] @ held[[i]].toarray()[0]) if sizes[i] > 3 else None
        if common is None:
            continue
        share = common / (sizes[i] + sizes[i + 1 :] - common)
        pairs += [(firsts[i], firsts[i + 1 + int(j)]) for j in np.flatnonzero(share >= NEAR)]
        if len(pairs) >= MAX_PAIRS:
            break
    return tuple(pairs[:MAX_PAIRS])
