"""A model against readers: the difference of its score to their mean, readers and cases both random.

A model is no reader, so that both runs are not compared as two samples of answers: `statistics.readers` says how.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from medvqa.comparing import differing, sides
from medvqa.comparing.sides import Side
from medvqa.metrics.by_reader import by_question, by_reader
from medvqa.records.run_record import RecordedReaders
from medvqa.statistics import readers as statistics
from medvqa.statistics.readers import ReaderDifference

ReaderVerdict = Literal["non-inferior", "inferior", "undecided"]
_ASKED = {sides.PROMPT, sides.TECHNIQUE, *differing.PARTS} - {"ablation"}
"""The parts of a signature that say how a model was asked. Readers were asked on their pages."""


@dataclass(frozen=True, slots=True)
class ReadersPart:
    """One benchmark and technique: mean scores on the `questions` that both answered, and model minus readers.

    `alone`: the difference to these readers alone, if they are few. `verdict`: at the margin that the study fixed, None
    without a margin, or for the reasons `why`.
    """

    benchmark: str
    technique: str
    questions: int
    model: float
    readers: float
    difference: ReaderDifference
    alone: ReaderDifference | None
    verdict: ReaderVerdict | None
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgainstReaders:
    """A model's run and one of people, by their names. `margin`: as a fraction, None if none was planned.

    `planned`: sentences about readings that are missing. With `refusals`, there are no parts.
    """

    model: str
    people: str
    codes: tuple[str, ...]
    margin: float | None
    parts: tuple[ReadersPart, ...]
    planned: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def against(model: Side, people: Side, *, anyway: bool = False) -> AgainstReaders:
    """Compare a run of a model with one of people. `anyway`: also if their data, judge or extraction differ."""
    readers = people.run.readers or RecordedReaders()
    refused = [] if anyway else [each for each in sides.refused(model, people) if each.part not in {*_ASKED, ""}]
    margin = None if readers.margin is None else readers.margin / 100
    planned = _missing_readings(people, readers)
    parts = [
        part
        for benchmark, techniques in model.asked.items()
        for technique in techniques
        if not refused and (part := _part(model, people, benchmark, technique, margin, planned)) is not None
    ]
    refusals = tuple(each.line for each in refused)
    if not (refused or parts):
        refusals = (f"{model.name} and {people.name} share no question that both have a score for",)
    return AgainstReaders(model.name, people.name, readers.codes, margin, tuple(parts), planned, refusals)


def _missing_readings(people: Side, readers: RecordedReaders) -> tuple[str, ...]:
    """Sentences about planned readers without a reading, and about readers who have not read all that they should."""
    lines = []
    if lacking := set(readers.planned) - set(readers.codes):
        there = len(readers.planned) - len(lacking)
        lines.append(f"{there} of {len(readers.planned)} planned readers")
    read = Counter(readers.codes[r.sample - 1] for r in people.answers if 0 < r.sample <= len(readers.codes))
    short = [code for code in readers.codes if read[code] < readers.assigned.get(code, 0)]
    lines += [f"{code} read {read[code]:,} of {readers.assigned[code]:,} questions" for code in short]
    return tuple(lines)


def _part(
    model: Side,
    people: Side,
    benchmark: str,
    technique: str,
    margin: float | None,
    planned: tuple[str, ...],
) -> ReadersPart | None:
    """Compare both on one benchmark; None if they share no question with a score."""
    import numpy as np

    codes = (people.run.readers or RecordedReaders()).codes
    scored = by_reader([result for result in people.answers if result.item.benchmark == benchmark], len(codes))
    own = (result for result in model.results if (result.item.benchmark, result.technique) == (benchmark, technique))
    by_item = {key.item: value for key, value in by_question([*own]).items()}
    scores = np.array([by_item.get(result.item.id, np.nan) for result in scored.firsts])
    read = ~np.isnan(scored.scores).all(axis=0)
    both = read & ~np.isnan(scores)
    if not both.any():
        return None
    difference, alone = (
        statistics.against_model(scores, scored.scores, scored.groups, fixed=fixed) for fixed in (False, True)
    )
    lacking = int((read & ~both).sum())
    why = [*planned, *([f"the model has no score for {lacking:,} of the questions read"] if lacking else [])]
    if margin is not None and not why and difference.low is None:
        why.append("there is no interval")
    return ReadersPart(
        benchmark,
        technique,
        int(both.sum()),
        float(scores[both].mean()),
        float(np.nanmean(scored.scores[:, both], axis=0).mean()),
        difference,
        alone if difference.readers < statistics.LEAST_READERS else None,
        None if margin is None or why else _verdict(difference, margin),
        () if margin is None else tuple(why),
    )


def _verdict(difference: ReaderDifference, margin: float) -> ReaderVerdict:
    if statistics.non_inferior(difference, margin):
        return "non-inferior"
    return "inferior" if difference.high is not None and difference.high < -margin else "undecided"
