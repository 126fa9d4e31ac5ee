"""What is left of a run's measures where its images or questions are changed: described, without a verdict.

Each changed run is set beside its clean run, from which it differs in `--perturb` or `--ablate` alone. Every difference
is that of `paired.compare_pairs`, on the questions that both have scored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import and_
from typing import Literal, get_args

from medvqa import metrics, statistics
from medvqa.comparing import differing, paired
from medvqa.comparing.common import Alignment, CommonPart, unit_table
from medvqa.comparing.paired import Compared
from medvqa.comparing.sides import Side
from medvqa.figures import Figure, of_units
from medvqa.items import INVALID_OUTCOMES, Benchmark
from medvqa.metrics import Tabled
from medvqa.perturbing import LEVELS, MASKS
from medvqa.protocols import perturbation, question_forms
from medvqa.statistics import UnitTable

FLIP = "flip"
"""A perturbation of the image that should change answers about a side."""
RATES = (metrics.abstained_rate, metrics.refused_rate, metrics.unparsed_rate)
ChangedBy = Literal["image", "form", "visual reliance", "mask", "abstention"]
"""image, form: a perturbation of the image, or of the question's text. visual reliance: an ablation. mask: of a region
of the image. abstention: an ablation, of runs that may abstain; its measures are RATES."""
KINDS: tuple[ChangedBy, ...] = get_args(ChangedBy)
FIVE = range(1, LEVELS + 1)


@dataclass(frozen=True, slots=True)
class ChangedMeasure:
    """One measure of a changed run against its clean run.

    `name`: of the perturbation or ablation. `level`: 1 to LEVELS, 0 for a change without levels; None for the mean over
    all levels, on the questions that all of these runs have scored. `value` is the measure of the changed run with its
    own interval. `retained`: its share of the clean run's measure, undefined unless more is better, values are
    percentages and the clean one is shown to be above 0.

    `run` and `baseline` name the runs that are compared: the baseline is the clean run, or of a mask elsewhere also the
    run with the mask of the region.
    """

    kind: ChangedBy
    name: str
    level: int | None
    run: str
    baseline: str
    compared: Compared
    value: Figure
    retained: Figure


@dataclass(frozen=True, slots=True)
class Consistency:
    """The share of questions with the same answer in the clean run and in all of the `forms`, which all have scored.

    `invalid` counts the questions of which an answer is refused, abstained or unparsed: it is the same as no other.
    """

    benchmark: str
    technique: str
    forms: tuple[str, ...]
    share: Figure
    invalid: int


@dataclass(frozen=True, slots=True)
class Robustness:
    """A clean run and the runs that differ from it in the perturbation or the image alone."""

    clean: str
    changes: tuple[ChangedMeasure, ...]
    consistency: tuple[Consistency, ...]


def robustness(sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> tuple[Robustness, ...]:
    """Return each clean run that has changed runs, in order; a changed run has one clean run, the first.

    UsageError for an unknown benchmark.
    """
    left = [side for side in sides if _is_changed(side)]
    found = []
    for clean in sides:
        own = (
            []
            if _is_changed(clean)
            else [side for side in left if differing.changed(differing.contrast(side, clean).difference)]
        )
        left = [side for side in left if side not in own]
        if own:
            own.sort(key=lambda side: (KINDS.index(_kind(side)), _named(side), side.name))
            found.append(_CleanRun([clean, *own], benchmarks).robustness())
    return tuple(found)


def _is_changed(side: Side) -> bool:
    return bool(side.run.protocol.perturb or side.run.ablation) and side.run.readers is None


def _named(side: Side) -> tuple[str, int]:
    """The name of a change, the same at all levels, and its level, 0 without one: "chestmnist/contrast_up", 3."""
    # Forms end in a digest of their sentences.
    text = side.run.ablation or side.run.protocol.perturb
    found = re.fullmatch("(.*?)(?::([0-9]))?(?:@[0-9a-f]{8})?", text, re.DOTALL)
    return (found[1], int(found[2] or 0)) if found is not None else ("", 0)


def _kind(side: Side) -> ChangedBy:
    if side.run.ablation:
        return "visual reliance"
    if question_forms.is_form(side.run.protocol.perturb):
        return "form"
    change = perturbation.of(side.run.protocol.perturb)
    return "mask" if change is not None and change.is_mask else "image"


class _CleanRun:
    """A clean run (place 0) and its changed runs, with common questions."""

    def __init__(self, sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> None:
        self._sides, self._benchmarks, self._alignment = sides, benchmarks, Alignment(sides)
        self._rates = {name: replace(benchmark, metrics=RATES) for name, benchmark in benchmarks.items()}
        self._places: dict[tuple[ChangedBy, str], list[tuple[int, int]]] = {}
        """The levels and places of each kind and name, sorted."""
        for place, side in enumerate(sides[1:], 1):
            name, level = _named(side)
            self._places.setdefault((_kind(side), name), []).append((level, place))

    def robustness(self) -> Robustness:
        rows = [row for (kind, name), places in self._places.items() for row in self._rows(kind, name, places)]
        return Robustness(self._sides[0].name, tuple(rows), tuple(self._consistency()))

    def _rows(self, kind: ChangedBy, name: str, places: Sequence[tuple[int, int]]) -> Iterator[ChangedMeasure]:
        for level, place in places:
            yield from self._compared([place], 0, kind, name, level)
            if kind == "visual reliance" and self._sides[0].run.protocol.abstain:
                yield from self._compared([place], 0, "abstention", name, 0)
        by_level = dict(places)
        if all(level in by_level for level in FIVE):
            yield from self._compared([by_level[level] for level in FIVE], 0, kind, name, None)
        (region, elsewhere), (mask, _, fill) = MASKS, name.partition(":")
        if mask == elsewhere and (other := self._places.get(("mask", f"{region}:{fill}"))):
            yield from self._compared([places[0][1]], other[0][1], kind, f"{name} - {region}:{fill}", 0)

    def _compared(
        self, new: Sequence[int], baseline: int, kind: ChangedBy, name: str, level: int | None
    ) -> Iterator[ChangedMeasure]:
        """Yield the headline measures of a run, or of the mean of several, against the baseline."""
        run = f"{name}, mean of levels 1 to {LEVELS}" if level is None else self._sides[new[0]].name
        benchmarks, pair = self._rates if kind == "abstention" else self._benchmarks, (new[0], baseline)
        for part in self._alignment.parts((baseline, *new), benchmarks):
            if len(part.places) <= len(new):
                continue
            if kind == "abstention":
                part = replace(part, benchmark=replace(part.benchmark, headline=tuple(rate.name for rate in RATES)))
            both = tuple((run[0], run[1] if len(new) == 1 else _mean(run[1:])) for run in part.tabled)
            part = replace(part, places=pair[::-1], tabled=both)
            found = paired.compare_pairs(part, [pair], slices=False)[pair]
            for (before, after), compared in zip(part.headline, found, strict=True):
                own, shown = after.estimate().figure(), compared.figures[1]
                # Of few units, counts are shown for the measure, and nothing for its share.
                value = shown if shown.few else replace(shown, low=own.low, high=own.high, groups=own.groups)
                share = Figure(None)
                if compared.better == "higher" and after.bounded and before.bounded and value.percent and not value.few:
                    tables = unit_table(after, slices=False), unit_table(before, slices=False)
                    alone = own, before.estimate().figure()
                    share = statistics.retained(tables, alone, compared.comparison, before.over, before.weights)
                yield ChangedMeasure(kind, name, level, run, self._sides[baseline].name, compared, value, share)

    def _consistency(self) -> Iterator[Consistency]:
        """Yield each form, then all together on the questions that all of them have scored; a flip by itself."""
        forms = [place for (kind, _), places in self._places.items() if kind == "form" for _, place in places]
        flips = [place for _, place in self._places.get(("image", FLIP), ())]
        together = [forms] if len(forms) > 1 else []
        for places in (*([place] for place in forms), *together, flips):
            for part in self._alignment.parts((0, *places), self._benchmarks) if places else ():
                # Some forms may have no answers to a benchmark.
                if len(part.places) > 2 or (len(places) == 1 and len(part.places) == 2):
                    yield self._same_answers(part)

    def _same_answers(self, part: CommonPart) -> Consistency:
        import numpy as np

        runs, places = part.runs, part.places[1:]
        scored = np.all([run.scored for run in runs], axis=0)
        same, invalid, firsts = [], 0, []
        for question in np.flatnonzero(scored).tolist():
            scores = [{(each.variant, each.sample): each.score for each in run.latest(question)} for run in runs]
            rows = [[own[key] for own in scores] for key in set.intersection(*map(set, scores))]
            # An answer that names nothing is the same as no other.
            valid = [all(each.outcome not in INVALID_OUTCOMES and each.extracted for each in row) for row in rows]
            alike = [len({each.extracted for each in row}) == 1 for row in rows]
            same.append(sum(map(and_, valid, alike)) / max(len(rows), 1))
            invalid += not all(valid)
            firsts.append(runs[0].samples(question)[0])
        unit = np.arange(len(same))
        table = UnitTable(np.array(same, float), np.ones(len(same)), unit, metrics.groups(firsts), np.zeros_like(unit))
        found = statistics.estimate(table, binary=all(share in (0, 1) for share in same)).figure()
        share = replace(of_units(found.value, len(same), "items"), low=found.low, high=found.high, groups=found.groups)
        forms = (f"{name}:{level}" if level else name for name, level in (_named(self._sides[p]) for p in places))
        return Consistency(part.benchmark.name, part.technique, tuple(forms), share, invalid)


def _mean(tabled: Sequence[Tabled]) -> Tabled:
    """The mean of runs: each unit has the sums of its terms over their number."""
    import numpy as np

    terms = np.mean([np.asarray(run.terms, float) for run in tabled], axis=0)
    return replace(tabled[0], terms=terms, binary=False, bounded=all(run.bounded for run in tabled))
