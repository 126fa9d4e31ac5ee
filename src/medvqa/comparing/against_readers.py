"""A model against readers: the difference of its score to their mean, readers and cases both random.

A model is no reader, so that both runs are not compared as two samples of answers: `statistics.readers` says how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from medvqa.comparing import differing, sides
from medvqa.comparing.sides import Side
from medvqa.items import Result
from medvqa.metrics.by_reader import by_reader
from medvqa.records.run_record import RecordedReaders
from medvqa.statistics import readers as statistics
from medvqa.statistics.readers import ReaderResult

ReaderVerdict = Literal["non-inferior", "inferior", "undecided"]
_ASKED = {"", sides.PROMPT, sides.TECHNIQUE, *differing.PARTS} - {"ablation", "perturb"}
"""Parts that say how a model was asked: readers were asked on their pages. Nor need both have the same benchmarks."""


@dataclass(frozen=True, slots=True)
class ReadersPart:
    """One benchmark and technique: mean scores on the `questions` that both answered, and model minus readers.

    `alone`: the difference to these readers alone, if they are few. `verdict`: at the margin that the study fixed; None
    without a margin, or for the reasons `why`.
    """

    benchmark: str
    technique: str
    questions: int
    model: float
    readers: float
    difference: ReaderResult
    alone: ReaderResult | None
    verdict: ReaderVerdict | None = None
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgainstReaders:
    """A run of a model and one of people, by their names.

    `margin`: in points, None if none was planned. `missing`: sentences about readings that were planned and are not
    there. `refusals`: why both are not compared.
    """

    model: str
    people: str
    margin: float | None
    missing: tuple[str, ...]
    parts: tuple[ReadersPart, ...]
    refusals: tuple[str, ...] = ()


def against(model: Side, people: Side, *, anyway: bool = False) -> AgainstReaders:
    """Compare a run of a model with one of people. `anyway`: also if their data, judge or extraction differ."""
    readers = people.run.readers or RecordedReaders()
    missing = unread(readers, people.answers)
    refusals = [] if anyway else [each.line for each in sides.refused(model, people) if each.part not in _ASKED]
    asked = [(name, technique) for name, own in model.asked.items() for technique in own if not refusals]
    found = (_part(model, people, *each, readers.margin, missing) for each in asked)
    parts = tuple(part for part in found if part is not None)
    if not (refusals or parts):
        refusals = [f"{model.name} and {people.name} share no question that both have a score for"]
    return AgainstReaders(model.name, people.name, readers.margin, missing, parts, tuple(refusals))


def unread(readers: RecordedReaders, results: Iterable[Result]) -> tuple[str, ...]:
    """Say which planned readers and assigned readings are not among the results of people."""
    lines = []
    if lacking := set(readers.planned) - set(readers.codes):
        lines.append(f"{len(readers.planned) - len(lacking)} of {len(readers.planned)} planned readers")
    read = Counter(readers.codes[result.sample - 1] for result in results)
    short = [code for code in readers.codes if read[code] < readers.assigned.get(code, 0)]
    return (*lines, *(f"{code}: {read[code]:,} of {readers.assigned[code]:,} assigned readings" for code in short))


def _part(
    model: Side, people: Side, benchmark: str, technique: str, margin: float | None, missing: tuple[str, ...]
) -> ReadersPart | None:
    """Compare both on one benchmark; None if they share no question with a score."""
    import numpy as np

    scored = by_reader(result for result in people.answers if result.item.benchmark == benchmark)
    own = by_reader(r for r in model.results if (r.item.benchmark, r.technique) == (benchmark, technique))
    by_item = {
        first.item.id: np.nanmean(column)
        for first, column in zip(own.firsts, own.scores.T, strict=True)
        if not np.isnan(column).all()
    }
    scores = np.array([by_item.get(first.item.id, np.nan) for first in scored.firsts])
    read = ~np.isnan(scored.scores).all(axis=0)
    both = read & ~np.isnan(scores)
    if not both.any():
        return None
    random, alone = (
        statistics.against_model(scores, scored.scores, scored.groups, fixed=fixed) for fixed in (False, True)
    )
    few = random.readers < statistics.LEAST_READERS
    means = float(scores[both].mean()), float(np.nanmean(scored.scores[:, both], axis=0).mean())
    part = ReadersPart(benchmark, technique, int(both.sum()), *means, random, alone if few else None)
    if margin is None:
        return part
    lacking = int((read & ~both).sum())
    why = [*missing, *([f"the model has no score for {lacking:,} of the questions read"] if lacking else [])]
    why += ["there is no interval"] if random.low is None else []
    return replace(part, verdict=None if why else _verdict(random, margin / 100), why=tuple(why))


def _verdict(difference: ReaderResult, margin: float) -> ReaderVerdict:
    if statistics.non_inferior(difference, margin):
        return "non-inferior"
    return "inferior" if difference.high is not None and difference.high < -margin else "undecided"
