"""What is left of a run's measures where its images or questions are changed: described, without a verdict.

Each changed run is set beside its clean run, from which it differs in `--perturb` or `--ablate` alone. Every difference
is that of `paired.compare_pairs`, on the questions that both have scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from medvqa import metrics, statistics
from medvqa.comparing import differing, paired
from medvqa.comparing.common import Alignment, CommonPart, everything
from medvqa.comparing.paired import Compared
from medvqa.comparing.sides import Side
from medvqa.figures import Figure, of_units
from medvqa.items import INVALID_OUTCOMES, Benchmark, Result
from medvqa.metrics import Tabled
from medvqa.perturbing import LEVELS
from medvqa.perturbing.masks import MASKS
from medvqa.protocols import perturbation, question_forms
from medvqa.statistics import UnitTable

FLIP = "flip"
"""A perturbation of the image that should change answers about a side."""
RATES = (metrics.abstained_rate, metrics.refused_rate, metrics.unparsed_rate)
NAMES = tuple(rate.name for rate in RATES)
ChangedBy = Literal["image", "form", "reliance", "mask", "abstention"]
"""image, form: a perturbation of the image, or of the question's text. reliance: an ablation. mask: a region of the
image. abstention: an ablation, of runs that may abstain; its measures are RATES."""
KINDS: tuple[ChangedBy, ...] = ("image", "form", "reliance", "mask", "abstention")
FIVE = range(1, LEVELS + 1)


@dataclass(frozen=True, slots=True)
class ChangedMeasure:
    """One measure of a changed run against its clean run.

    `name`: of the perturbation or ablation. `level`: 1 to LEVELS, 0 for a change without levels; None for the mean over
    all levels, on the questions that all of these runs have scored. `value` is the measure of the changed run with its
    own interval. `retained`: its share of the clean run's measure, undefined unless more is better, values are
    percentages and the clean one is shown to be above 0.

    `run` and `baseline` name the runs that are compared. Of masks, a third row has the mask elsewhere against the mask
    of the region, under the name "elsewhere - region"; all three are over the questions that the three runs scored.
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
    """The share of questions with the same answer in the clean run and in all of the `forms`.

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
    model: str
    changes: tuple[ChangedMeasure, ...]
    consistency: tuple[Consistency, ...]


def robustness(sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> tuple[Robustness, ...]:
    """Return each clean run that has changed runs, in order; a changed run has one clean run, the first.

    UsageError for an unknown benchmark.
    """
    left = [side for side in sides if _is_changed(side)]
    found = []
    for clean in sides:
        own = [] if _is_changed(clean) else [side for side in left if _is_of(side, clean)]
        left = [side for side in left if side not in own]
        if own:
            own.sort(key=lambda side: (KINDS.index(_kind(side)), _named(side), side.name))
            found.append(_CleanRun([clean, *own], benchmarks).robustness())
    return tuple(found)


def _is_changed(side: Side) -> bool:
    return bool(side.run.protocol.perturb or side.run.ablation) and side.run.readers is None


def _is_of(side: Side, clean: Side) -> bool:
    difference = differing.contrast(side, clean).difference
    return difference is not None and difference.setting in (differing.PERTURB, differing.IMAGE)


def _named(side: Side) -> tuple[str, int]:
    """The name of a change, the same at all levels, and its level, 0 without one: "chestmnist/contrast_up", 3."""
    name, _, level = side.run.protocol.perturb.rpartition(":")
    if side.run.ablation or not (name and level.isdecimal()):
        return side.run.ablation or side.run.protocol.perturb.partition("@")[0], 0
    return name, int(level)


def _kind(side: Side) -> ChangedBy:
    if side.run.ablation:
        return "reliance"
    perturb = side.run.protocol.perturb
    return "form" if question_forms.is_form(perturb) else "mask" if perturbation.is_mask(perturb) else "image"


class _CleanRun:
    """A clean run (place 0) and its changed runs, with common questions."""

    def __init__(self, sides: Sequence[Side], benchmarks: Mapping[str, Benchmark]) -> None:
        self._sides, self._benchmarks, self._alignment = sides, benchmarks, Alignment(sides)
        self._places: dict[tuple[ChangedBy, str], list[tuple[int, int]]] = {}
        """The levels and places of each kind and name, sorted."""
        for place, side in enumerate(sides[1:], 1):
            name, level = _named(side)
            self._places.setdefault((_kind(side), name), []).append((level, place))

    def robustness(self) -> Robustness:
        clean = self._sides[0]
        rows = [row for (kind, name), places in self._places.items() for row in self._rows(kind, name, places)]
        return Robustness(clean.name, clean.run.model_name, tuple(rows), tuple(self._consistency()))

    def _rows(self, kind: ChangedBy, name: str, places: Sequence[tuple[int, int]]) -> Iterator[ChangedMeasure]:
        """Yield the measures of each run, and their means if every level is there."""
        for level, place in places:
            if kind == "mask":
                yield from self._masked(name, place)
                continue
            for part in self._alignment.parts((0, place), self._benchmarks):
                yield from self._compared(part, (place, 0), kind, name, level)
            if kind == "reliance" and self._sides[0].run.protocol.abstain:
                rates = {key: replace(own, metrics=RATES, headline=NAMES) for key, own in self._benchmarks.items()}
                for part in self._alignment.parts((0, place), rates):
                    own = replace(part.benchmark, headline=NAMES)
                    yield from self._compared(replace(part, benchmark=own), (place, 0), "abstention", name, 0)
        by_level = dict(places)
        if all(level in by_level for level in FIVE):
            of_levels = (0, *(by_level[level] for level in FIVE))
            for part in self._alignment.parts(of_levels, self._benchmarks):
                if part.places == of_levels:
                    means = tuple((tabled[0], _mean(tabled[1:])) for tabled in part.tabled)
                    both = replace(part, places=of_levels[:2], tabled=means, _shared={})
                    yield from self._compared(both, of_levels[1::-1], kind, name, None)

    def _masked(self, name: str, place: int) -> Iterator[ChangedMeasure]:
        """Yield the rows of a fill with its mask elsewhere; of one mask without the other, its own row."""
        (region, elsewhere), (mask, _, fill) = MASKS, name.partition(":")
        other = self._places.get(("mask", f"{region if mask == elsewhere else elsewhere}:{fill}"))
        if other is not None and mask == region:
            return
        others = [] if other is None else [other[-1][1]]
        for part in self._alignment.parts((0, place, *others), self._benchmarks):
            for changed in part.places[1:]:
                yield from self._compared(part, (changed, 0), "mask", _named(self._sides[changed])[0], 0)
            if len(part.places) > 2:
                yield from self._compared(part, (place, *others), "mask", f"elsewhere - region:{fill}", 0)

    def _compared(
        self, part: CommonPart, pair: tuple[int, ...], kind: ChangedBy, name: str, level: int | None
    ) -> Iterator[ChangedMeasure]:
        """Yield the headline measures of two runs, each with the part that is retained."""
        new, baseline = pair
        run = f"{name}, mean of levels 1 to {LEVELS}" if level is None else self._sides[new].name
        found = paired.compare_pairs(part, [(new, baseline)], slices=False)[new, baseline]
        for tabled, compared in zip(part.headline, found, strict=True):
            after, before = (tabled[part.places.index(place)] for place in (new, baseline))
            share, over, weights = statistics.Retained(), after.over, after.weights
            if compared.better == "higher" and compared.percent and after.bounded and before.bounded:
                tables = _whole(after), _whole(before)
                share = statistics.retained(
                    *tables, compared.comparison, binary=before.binary, over=over, weights=weights
                )
            own = statistics.estimate(
                _whole(after), binary=after.binary, bounded=after.bounded, over=over, weights=weights
            ).figure()
            figure = compared.figures[1]
            value = replace(figure, low=own.low, high=own.high, groups=own.groups)
            # Of few units, counts are shown for the measure, and nothing for its share.
            retained = Figure(None) if figure.few else Figure(share.value, share.low, share.high, groups=own.groups)
            yield ChangedMeasure(kind, name, level, run, self._sides[baseline].name, compared, value, retained)

    def _consistency(self) -> Iterator[Consistency]:
        """Yield each form and all together, on the questions that all of them have scored; a flip by itself."""
        forms = [place for (kind, _), places in self._places.items() if kind == "form" for _, place in places]
        for places in (forms, [place for _, place in self._places.get(("image", FLIP), ())]):
            for part in self._alignment.parts((0, *places), self._benchmarks) if places else ():
                changed = part.places[1:]
                for own in [*((place,) for place in changed), *([changed] if len(changed) > 1 else [])]:
                    yield self._same_answers(part, own)

    def _same_answers(self, part: CommonPart, places: Sequence[int]) -> Consistency:
        import numpy as np

        runs = [part.runs[part.places.index(place)] for place in (0, *places)]
        scored = np.all([run.scored for run in part.runs], axis=0)
        same, invalid, firsts = [], 0, []
        for question in np.flatnonzero(scored).tolist():
            answers = [{(r.variant, r.sample): _answer(r) for r in run.latest(question)} for run in runs]
            rows = [[own[key] for own in answers] for key in set.intersection(*map(set, answers))]
            same.append(sum(None not in row and len(set(row)) == 1 for row in rows) / max(len(rows), 1))
            invalid += any(None in row for row in rows)
            firsts.append(runs[0].samples(question)[0])
        unit = np.arange(len(same))
        table = UnitTable(np.array(same, float), np.ones(len(same)), unit, metrics.groups(firsts), np.zeros_like(unit))
        found = statistics.estimate(table, binary=all(share in (0, 1) for share in same)).figure()
        share = replace(of_units(found.value, len(same), "items"), low=found.low, high=found.high, groups=found.groups)
        forms = (f"{name}:{level}" if level else name for name, level in (_named(self._sides[p]) for p in places))
        return Consistency(part.benchmark.name, part.technique, tuple(forms), share, invalid)


def _whole(tabled: Tabled) -> UnitTable:
    """The table over all units; that of a mean over slices keeps them."""
    table = tabled.table()
    return table if tabled.over is not None else everything(table)


def _mean(tabled: Sequence[Tabled]) -> Tabled:
    """The mean of runs: each unit has the sums of its terms over their number."""
    import numpy as np

    terms = np.mean([np.asarray(run.terms, float) for run in tabled], axis=0)
    return replace(tabled[0], terms=terms, binary=False, bounded=all(run.bounded for run in tabled))


def _answer(result: Result) -> tuple[str, ...] | None:
    """The letters or the normalised text of an answer; None if it is invalid, or names nothing."""
    score = result.score
    return None if score.outcome in INVALID_OUTCOMES or not score.extracted else score.extracted
