"""Metrics of data sets with closed and open questions: VQA-RAD, SLAKE, PathVQA, RadImageNet-VQA.

Closed questions have the kind `judgment`, open ones `short_answer`. Metrics of open answers compare words, so an answer
that no judge has scored has no outcome (`unscored`) and has these measures nevertheless: a word that the answer shares
with the reference makes it neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from medvqa.items import Answer, Benchmark, Item, Metric, Result
from medvqa.metrics.definitions import LEFT_OUT, accuracy, mean_score, ratio
from medvqa.scoring import overlap

ClosedBy = Literal["answer_type", "answer"]
"""The way to tell closed questions: by the data set's column, or by an answer that is yes or no."""

HEADLINE = ("closed_accuracy", "open_recall", "open_f1", "open_exact", "open_judged")


@ratio(binary=False, kinds={"short_answer"})
def open_recall(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over open questions of the share of the reference's tokens that the answer has."""
    return _terms(results[0], overlap.recall)


@ratio(binary=False, kinds={"short_answer"})
def open_f1(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over open questions of the harmonic mean of the precision and the recall of the answer's tokens."""
    return _terms(results[0], overlap.f1)


@ratio(kinds={"short_answer"})
def open_exact(results: Sequence[Result]) -> tuple[float, float]:
    """Open questions whose whole answer has the words of a reference / answered open questions."""
    return _terms(results[0], overlap.exact)


closed_accuracy = replace(
    accuracy,
    name="closed_accuracy",
    kinds=frozenset({"judgment"}),
    definition="Right answers / scored answers to closed questions, read by whole words.",
)


open_judged = replace(
    mean_score,
    name="open_judged",
    kinds=frozenset({"short_answer"}),
    definition="Mean of the judge's scores from 0 to 1 of open answers.",
)


def judged(benchmark: Benchmark) -> frozenset[str]:
    """Return the names of the benchmark's metrics that have no value without a judge."""
    needed = open_judged.terms, open_judged.kinds
    return frozenset(metric.name for metric in benchmark.metrics if (metric.terms, metric.kinds) == needed)


def closed_and_open(by: ClosedBy) -> tuple[Metric, ...]:
    """Return `closed_accuracy`, `open_recall`, `open_f1`, `open_exact` and `open_judged`, which needs a judge.

    `by` says how closed questions are told from open ones. Signatures name it, the normalisation and how tokens are
    counted: two numbers are comparable only if these agree.
    """
    signs = (("closed", by), ("normalise", overlap.NORMALISATION))
    counted = (*signs, ("tokens", overlap.TOKENS))
    # A baseline without responses has digests in place of texts.
    return (
        replace(closed_accuracy, signs=signs),
        replace(open_recall, signs=counted, reads_text=True),
        replace(open_f1, signs=counted, reads_text=True),
        replace(open_exact, signs=signs, reads_text=True),
        replace(open_judged, signs=(("closed", by),)),
    )


def _terms(result: Result, compare: Callable[[Item, Answer], float | None]) -> tuple[float, float]:
    """The terms of an open answer; without an answer or a reference it is left out."""
    value = None if result.answer is None else compare(result.item, result.answer)
    return LEFT_OUT if value is None else (value, 1.0)
