"""Means of a judge's scores, corrected by people's scores of few answers; and agreement.json, which keeps them.

The numbers are those of `statistics.corrected_mean`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from medvqa import decode, statistics
from medvqa.items import Result
from medvqa.judging.agreement import Judged, consensus, is_scored
from medvqa.metrics.frames import groups
from medvqa.records import run_folder
from medvqa.statistics import CorrectedMean

FILE = "agreement.json"
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class JudgedMean:
    """The mean score of the judged answers to a benchmark by a technique; `by_rule` counts the other scored ones."""

    benchmark: str
    technique: str
    by_rule: int
    mean: CorrectedMean


@dataclass(frozen=True, slots=True)
class KeptAgreement:
    """The content of agreement.json: who scored, and the means. `digest` names the judged answers and their scores."""

    digest: str
    judge: str
    raters: tuple[str, ...]
    means: tuple[JudgedMean, ...]

    def is_of(self, results: Iterable[Result]) -> bool:
        """Return whether a run's judge still gives these scores to these answers."""
        return self.digest == _digest(results)


def means(run: Judged, people: Mapping[str, Mapping[str, float]]) -> tuple[JudgedMean, ...]:
    """Return the means of all benchmarks and techniques with a score by people (by rater and `answer_id`).

    Several people count by their consensus. Equal responses of several samples have the same label.
    """
    import numpy as np

    labels = consensus(people)
    parts: dict[tuple[str, str], list[Result]] = {}
    for result in run.judgements:
        parts.setdefault((result.item.benchmark, result.technique), []).append(result)
    by_rule = Counter[tuple[str, str]](
        (result.item.benchmark, result.technique)
        for result in run.results.values()
        if result.score.value is not None and not is_scored(result)
    )
    found = []
    for place, results in parts.items():
        own = [labels.get(run.answers[result.key]) for result in results]
        if all(label is None for label in own):
            continue
        judge = np.array([result.score.value for result in results], dtype=float)
        scores = statistics.LabelledScores(judge, np.array(own, dtype=float), groups(results))
        found.append(JudgedMean(*place, by_rule[place], statistics.corrected_mean(scores)))
    return tuple(found)


def keep(run: Judged, people: Mapping[str, Mapping[str, float]], found: tuple[JudgedMean, ...]) -> None:
    """Write agreement.json into the run folder, for its reports (OSError)."""
    content = KeptAgreement(_digest(run.judgements), run.judge, tuple(people), found)
    run_folder.write_json(run.folder / FILE, msgspec.to_builtins(content))


def read(folder: Path) -> KeptAgreement | None:
    """Return the means that a run folder keeps, None without any. UsageError for a damaged file."""
    again = "Move it away and repeat medvqa agreement --keep"
    return decode.stored(folder / FILE, KeptAgreement, MAX_BYTES, again)


def _digest(results: Iterable[Result]) -> str:
    return run_folder.decisive_digest(result for result in results if is_scored(result))[0][:16]
