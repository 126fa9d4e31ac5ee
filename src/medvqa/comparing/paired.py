"""Compare two runs on the same questions: measures, slices, and units that flipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from medvqa import statistics
from medvqa.comparing import differing, matching
from medvqa.comparing.common import Alignment, CommonPart, Counted
from medvqa.comparing.differing import Difference
from medvqa.comparing.sides import Side
from medvqa.figures import Figure, of_units
from medvqa.items import Benchmark, FailedMetric, QuestionKey, Result
from medvqa.metrics import EVERYTHING, Frame, Tabled
from medvqa.statistics import Comparison

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from medvqa.comparing.matching import Samples


LEVEL = 0.975
"""Level of either bound of a difference: together a two-sided interval of 95 %, which excludes 0 exactly if the
two-sided p is below 5 %. The gate asks one question, and takes one-sided bounds of its own level."""


@dataclass(frozen=True, slots=True)
class PairedPart:
    """One benchmark and technique of both runs.

    `matched`: number of items in both runs, by content, not by id. `unmatched_*`: ids of items in one run only.
    `errors_*`: ids of matched items without an answer, or without a score that the other run has. Both block a verdict.
    `unchanged`: equal items, responses and scores. `failed`: metrics that could not be computed for one of the runs.

    `runs`: the number of runs that share one set of questions, these two or more. `asked`: number of items in at least
    one of them. `scored`: number of items with a score in all of them; measures are compared on these.
    """

    benchmark: str
    technique: str
    matched: int
    unmatched_new: tuple[str, ...]
    unmatched_baseline: tuple[str, ...]
    errors_new: tuple[str, ...]
    errors_baseline: tuple[str, ...]
    unchanged: bool
    scored: int
    failed: tuple[FailedMetric, ...] = ()
    runs: int = 2
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure of two runs, over all items ({}) or over one slice.

    In `comparison` more is always better, as the gate needs it: if less is better (`better` is "lower": confusion,
    rates), it compares 1 minus the measure. `shown` compares the measure itself. `unit`: the metric's; `counted`: the
    plural name of the units. `p`: two-sided p-value of no difference, None without bounds. `adjusted`: Holm's, over the
    slices of a dimension, or over all headline measures of the comparison; else None. `resampled`: percentile interval
    of the difference by cluster bootstrap, as in `shown`, as wide as that of the comparison; None without it.
    `headline`: a headline measure of the benchmark.
    `percent`: values are fractions and shown as percentages.
    """

    benchmark: str
    technique: str
    metric: str
    unit: Literal["item", "pair"]
    slice: Mapping[str, str]
    comparison: Comparison
    better: Literal["higher", "lower"] = "higher"
    p: float | None = None
    adjusted: float | None = None
    resampled: tuple[float, float] | None = None
    headline: bool = False
    percent: bool = True
    counted: Counted = "items"

    @property
    def shown(self) -> Comparison:
        """The comparison in terms of the measure itself: `low` and `high` bound new minus baseline.

        `gained` counts the units whose value rose and `lost` those whose value fell; `worse` stays the p-value of "not
        worse".
        """
        comparison = self.comparison
        if self.better == "higher":
            return comparison
        return replace(
            comparison,
            baseline=_complement(comparison.baseline),
            new=_complement(comparison.new),
            difference=_negative(comparison.difference),
            low=_negative(comparison.high),
            high=_negative(comparison.low),
            gained=comparison.lost,
            lost=comparison.gained,
        )

    @property
    def figures(self) -> tuple[Figure, Figure, Figure]:
        """The measure in the baseline and in the new run, and the difference, to be printed."""
        shown = self.shown
        before, after, difference = (
            of_units(value, shown.units, self.counted, percent=self.percent)
            for value in (shown.baseline, shown.new, shown.difference)
        )
        difference = replace(difference, low=shown.low, high=shown.high, groups=shown.groups, df=shown.df, sign=True)
        return before, after, difference


@dataclass(frozen=True, slots=True)
class Flip:
    """A unit whose headline measure changed; `better`: the direction.

    `unit` is the id of the pair if there is one, else of the item in the new run. `new` and `baseline` are its
    results, question by question; the items are those of the new run.
    """

    benchmark: str
    technique: str
    metric: str
    unit: str
    better: bool
    new: tuple[Result, ...]
    baseline: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Paired:
    """The comparison of two runs. `tables`: each measure over all items and over each slice, part by part.

    `level`: of either bound of a difference. `difference`: the one setting in which the runs differ; None if there is
    none, or several.
    """

    new: Side
    baseline: Side
    parts: tuple[PairedPart, ...]
    tables: tuple[Compared, ...]
    flips: tuple[Flip, ...]
    level: float
    difference: Difference | None = None

    @property
    def coverage(self) -> float:
        """The level of the two-sided interval of either bound: 0.95."""
        return round(2 * self.level - 1, 12)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Lines about items in one run only: `benchmark/item (technique): in RUN alone`."""
        return tuple(
            f"{part.benchmark}/{item} ({part.technique}): in {side.name} alone"
            for part in self.parts
            for side, items in ((self.new, part.unmatched_new), (self.baseline, part.unmatched_baseline))
            for item in items
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """Lines about items without an answer: `benchmark/item (technique): no answer in RUN`."""
        return tuple(
            f"{part.benchmark}/{item} ({part.technique}): no answer in {side.name}"
            for part in self.parts
            for side, items in ((self.new, part.errors_new), (self.baseline, part.errors_baseline))
            for item in items
        )

    @property
    def unchanged(self) -> bool:
        """Whether both runs have the same items, and responses and scores are identical on each."""
        return bool(self.parts) and all(part.unchanged for part in self.parts)

    def of(self, benchmark: str, technique: str) -> PairedPart:
        """The part of a benchmark and technique; KeyError if there is none."""
        for part in self.parts:
            if (part.benchmark, part.technique) == (benchmark, technique):
                return part
        raise KeyError((benchmark, technique))


def compare(
    new: Side,
    baseline: Side,
    benchmarks: Mapping[str, Benchmark],
    *,
    level: float = LEVEL,
    icc: float = statistics.FLIP_ICC,
    bootstrap: bool = False,
) -> Paired:
    """Compare each benchmark and technique that both runs have.

    `benchmarks`: the known benchmarks by name. `level`: of either bound. `icc`: the declared correlation of changes
    within groups. Items are matched by question, options, key and images. Tags and pairs come from the new run; groups
    of both runs are joined. `bootstrap` adds the seeded cluster bootstrap of headline measures. If the runs differ in
    one setting (`differing.contrast`), the result names it, and techniques that differ are compared with each other.
    UsageError for an unknown benchmark.
    """
    difference = differing.contrast(new, baseline).difference
    baseline = differing.aligned(new, baseline, difference)
    parts = Alignment((new, baseline)).parts((0, 1), benchmarks)
    compared = [measure for part in parts for measure in all_measures(part, 0, 1, level, icc, bootstrap=bootstrap)]
    return Paired(
        new,
        baseline,
        tuple(paired_part(part, 0, 1, (new, baseline)) for part in parts),
        tuple(one_family(slice_families([compared]))[0]),
        tuple(flip for part in parts for flip in flips(part, 0, 1)),
        level,
        difference,
    )


def paired_part(part: CommonPart, new: int, baseline: int, sides: Sequence[Side]) -> PairedPart:
    """The numbers of questions of two runs, which are places of `sides`."""
    one, other = part.places.index(new), part.places.index(baseline)
    ours, theirs = part.results[one], part.results[other]
    both = ours.keys() & theirs.keys()
    alone_new, alone_baseline = _ids(ours, ours.keys() - both), _ids(theirs, theirs.keys() - both)
    unchanged = bool(both) and not (alone_new or alone_baseline)
    return PairedPart(
        part.benchmark.name,
        part.technique,
        len(both),
        alone_new,
        alone_baseline,
        _ids(ours, both & part.outcomes[one].unanswered(part.outcomes[other])),
        _ids(ours, both & part.outcomes[other].unanswered(part.outcomes[one])),
        unchanged and all(matching.same_responses(sides[new], sides[baseline], ours[key], theirs[key]) for key in both),
        part.scored,
        part.failed,
        len(part.places),
        part.asked,
    )


def _ids(questions: Mapping[QuestionKey, Samples], keys: Iterable[QuestionKey]) -> tuple[str, ...]:
    """The ids of some questions, sorted."""
    return tuple(sorted(questions[key][0].item.id for key in keys))


def all_measures(
    part: CommonPart,
    new: int,
    baseline: int,
    level: float = LEVEL,
    icc: float = statistics.FLIP_ICC,
    *,
    bootstrap: bool = False,
) -> list[Compared]:
    """Compare each measure of two runs over all units and over each slice; p is not adjusted."""
    compared = []
    resamples: dict[int, list[NDArray[np.float64]]] = {}
    places = part.places.index(new), part.places.index(baseline)
    for tabled in part.tabled:
        one, other = (tabled[place] for place in places)
        own = _compared(part, one, other, level, icc=icc)
        if own[0].headline and bootstrap:
            own = _resampled(own, one, other, level, resamples)
        compared += own
    return compared


def headline_measures(part: CommonPart, new: int, baseline: int, level: float = LEVEL) -> list[Compared]:
    """Compare the headline measures of two runs over all units; p is not adjusted."""
    one, other = part.places.index(new), part.places.index(baseline)
    return [
        measure
        for tabled in part.headline
        for measure in _compared(part, tabled[one], tabled[other], level, slices=False)
    ]


def flips(part: CommonPart, new: int, baseline: int) -> list[Flip]:
    """The units of two runs that changed by a headline measure; of averages over slices there are none."""
    one, other = part.places.index(new), part.places.index(baseline)
    return [
        flip
        for tabled in part.headline
        if tabled[one].over is None and tabled[one].metric.percent
        for flip in _flips(tabled[one], tabled[other], part.benchmark.name, part.technique)
    ]


def _compared(
    part: CommonPart,
    new: Tabled,
    baseline: Tabled,
    level: float,
    *,
    icc: float = statistics.FLIP_ICC,
    slices: bool = True,
) -> list[Compared]:
    """One metric over all items, and with `slices` in every slice where both runs define it."""
    metric, counted = new.metric, part.counted(new)
    comparisons = part.compare(new, baseline, level, slices=slices, icc=icc)
    return [
        Compared(
            part.benchmark.name,
            part.technique,
            metric.name,
            metric.unit,
            {dimension: value} if dimension else {},
            comparison,
            metric.better,
            None if comparison.worse is None else min(1.0, 2 * min(comparison.worse, 1 - comparison.worse)),
            headline=metric.name in part.benchmark.headline,
            percent=bool(metric.percent),
            counted=counted,
        )
        for (dimension, value), comparison in zip(new.frame.slices, comparisons, strict=False)
        if comparison.units or not dimension
    ]


def one_family(pairs: Sequence[Sequence[Compared]]) -> list[list[Compared]]:
    """Add Holm's adjusted p-values over the headline measures, without slices, of all pairs of runs."""
    return _corrected(pairs, lambda measure: () if in_family(measure) else None)


def in_family(measure: Compared) -> bool:
    """Whether the p-value of a measure is of the comparison's one family."""
    return measure.headline and not measure.slice and measure.p is not None


def slice_families(pairs: Sequence[Sequence[Compared]]) -> list[list[Compared]]:
    """Add Holm's adjusted p-values over the slices of each dimension and all pairs of runs, for each measure."""

    def family(measure: Compared) -> tuple[str, ...] | None:
        if measure.p is None or not measure.slice:
            return None
        return (measure.benchmark, measure.technique, measure.metric, *measure.slice)

    return _corrected(pairs, family)


def _corrected(
    pairs: Sequence[Sequence[Compared]], family: Callable[[Compared], tuple[str, ...] | None]
) -> list[list[Compared]]:
    """Add Holm's adjusted p-values over each family; measures whose family is None stay as they are."""
    corrected = [list(pair) for pair in pairs]
    families: dict[tuple[str, ...], list[tuple[int, int, float]]] = {}
    for i, pair in enumerate(pairs):
        for j, measure in enumerate(pair):
            if (key := family(measure)) is not None and measure.p is not None:
                families.setdefault(key, []).append((i, j, measure.p))
    for members in families.values():
        for (i, j, _), p in zip(members, statistics.holm([p for *_, p in members]).tolist(), strict=True):
            corrected[i][j] = replace(corrected[i][j], adjusted=p)
    return corrected


def _resampled(
    compared: Sequence[Compared],
    new: Tabled,
    baseline: Tabled,
    level: float,
    replicates: dict[int, list[NDArray[np.float64]]],
) -> list[Compared]:
    """Add the percentile intervals of the bootstrap; `replicates` caches replicates of ratios."""
    import numpy as np

    if id(new.terms) not in replicates:
        replicates.clear()  # one metric's replicates may take some hundred megabytes
        replicates[id(new.terms)] = statistics.resampled([new.table(), baseline.table()])
    ratios = replicates[id(new.terms)]
    if new.over is not None and new.weights is not None:
        shares = np.asarray(new.weights) / sum(new.weights)
        apart = ((ratios[0] - ratios[1])[:, new.over] @ shares)[:, None]
        places = [0]
    elif new.over is not None:
        both = ~np.isnan(ratios[0][:, new.over]) & ~np.isnan(ratios[1][:, new.over])
        number = both.sum(axis=1)
        totals = [np.where(both, ratio[:, new.over], 0.0).sum(axis=1) for ratio in ratios]
        apart = np.divide(totals[0] - totals[1], number, out=np.full(len(number), np.nan), where=number > 0)[:, None]
        places = [0]
    else:
        at = {(d, v): i for i, (d, v) in enumerate(new.frame.slices)}
        places = [at[next(iter(measure.slice.items()), EVERYTHING)] for measure in compared]
        apart = ratios[0][:, places] - ratios[1][:, places]
    low, high = statistics.percentile(apart, 2 * level - 1)
    return [
        measure if below != below else replace(measure, resampled=(below, above))
        for measure, below, above in zip(compared, low.tolist(), high.tolist(), strict=True)
    ]


def _flips(new: Tabled, baseline: Tabled, benchmark: str, technique: str) -> list[Flip]:
    """The units over all items whose value changed."""
    import numpy as np

    (one, _), (other, _) = (statistics.by_unit(table.table()) for table in (new, baseline))
    now, was = statistics.own_values(one), statistics.own_values(other)
    changed = (one.slice == 0) & ((now > was) | (now < was))
    wanted = dict(zip(one.unit[changed].tolist(), (now[changed] > was[changed]).tolist(), strict=True))
    frame = new.frame
    everywhere = np.flatnonzero(frame.slice == 0)
    units: dict[int, list[int]] = {}
    for code, unit in zip(frame.counted[frame.cell[everywhere]].tolist(), frame.unit[everywhere].tolist(), strict=True):
        if code in wanted:
            units.setdefault(code, []).append(unit)
    flips = []
    for code, rose in wanted.items():
        results = [_results(table.frame, units[code]) for table in (new, baseline)]
        item = results[0][0].item
        better = rose == (new.metric.better == "higher")
        name = item.pair_id if item.pair_id is not None else item.id
        flips.append(Flip(benchmark, technique, new.metric.name, name, better, *results))
    return flips


def _results(frame: Frame, units: Sequence[int]) -> tuple[Result, ...]:
    """The results of some units, all samples, question by question."""
    import numpy as np

    edges = [(int(np.searchsorted(frame.of, unit)), int(np.searchsorted(frame.of, unit, "right"))) for unit in units]
    results = [result for start, end in edges for sample in frame.samples[start:end] for result in sample]
    return tuple(sorted(results, key=lambda result: (result.item.id, result.sample)))


def _complement(value: float | None) -> float | None:
    return None if value is None else 1 - value


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
