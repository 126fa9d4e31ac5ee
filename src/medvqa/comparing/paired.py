"""Compare two runs on the same questions: measures, slices, and units that flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from medvqa import metrics as measures
from medvqa import records, statistics
from medvqa.benchmarks import not_known
from medvqa.comparing import differing, matching
from medvqa.comparing.differing import Difference
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Metric, Result
from medvqa.metrics import EVERYTHING, Frame, Tabled
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.statistics import Comparison, Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LEVEL = 0.95
"""Level of each one-sided bound of a difference."""


@dataclass(frozen=True, slots=True)
class PairedPart:
    """One benchmark and technique of both runs.

    `matched`: number of items in both runs, by content, not by id. `scored`: number of these with a score in both
    runs; measures are compared on these. `unmatched_*`: ids of items in one run only. `errors_*`: ids of matched items
    without an answer, or without a score that the other run has. Both block a verdict. `unchanged`: equal items,
    responses and scores. `failed`: metrics that could not be computed for one of the runs.
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

    @property
    def asked(self) -> int:
        """The number of items in at least one of the runs."""
        return self.matched + len(self.unmatched_new) + len(self.unmatched_baseline)


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure of two runs, over all items ({}) or over one slice.

    In `comparison` more is always better, as the gate needs it: if less is better (`better` is "lower": confusion,
    rates), it compares 1 minus the measure. `shown` compares the measure itself. `unit`: the metric's; `counted`: the
    plural name of the units. `p`: two-sided p-value of no difference, None without bounds. `adjusted`: Holm's, over the
    slices of a dimension, or over all headline measures of the comparison; else None. `resampled`: percentile interval
    of the difference by cluster bootstrap, as in `shown`, at the comparison's level; None without the bootstrap.
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
    counted: Literal["items", "pairs", "items and pairs"] = "items"

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

    `difference`: the one setting in which the runs differ; None if there is none, or several.
    """

    new: Side
    baseline: Side
    parts: tuple[PairedPart, ...]
    tables: tuple[Compared, ...]
    flips: tuple[Flip, ...]
    level: float
    difference: Difference | None = None

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
    bootstrap: bool = False,
) -> Paired:
    """Compare each benchmark and technique that both runs have.

    `benchmarks`: the known benchmarks by name. `level`: of each one-sided bound. Items are matched by question,
    options, key and images. Tags and pairs come from the new run; groups of both runs are joined. `bootstrap` adds the
    seeded cluster bootstrap of headline measures. If the runs differ in one setting (`differing.contrast`), the result
    names it, and techniques that differ are compared with each other. UsageError for an unknown benchmark.
    """
    difference = differing.contrast(new, baseline).difference
    baseline = differing.aligned(new, baseline, difference)
    new_techniques, baseline_techniques = new.asked, baseline.asked
    common = {
        name: [technique for technique in new_techniques[name] if technique in baseline_techniques[name]]
        for name in new_techniques
        if name in baseline_techniques
    }
    if unknown := [name for name in common if name not in benchmarks]:
        raise not_known("the runs have", unknown[0], benchmarks)
    compared_parts = [
        _part(new, baseline, under_protocols(benchmarks[name], (new, baseline)), technique, level, bootstrap)
        for name, techniques in common.items()
        for technique in techniques
    ]
    return Paired(
        new,
        baseline,
        tuple(part for part, _, _ in compared_parts),
        tuple(_one_family([measure for _, compared, _ in compared_parts for measure in compared])),
        tuple(flip for _, _, flips in compared_parts for flip in flips),
        level,
        difference,
    )


def under_protocols(benchmark: Benchmark, sides: Sequence[Side]) -> Benchmark:
    """The benchmark with the names of its measures under the runs' protocols: an oracle's, if all have one.

    If no run has a judge, measures that need one are no headline measures.
    """
    if not any(side.run.get("judge") for side in sides):
        needed = measures.judged(benchmark)
        benchmark = replace(benchmark, headline=tuple(name for name in benchmark.headline if name not in needed))
    first, *others = (combining.named(benchmark, Protocol.of(side.run)) for side in sides)
    return first if all(other.headline == first.headline for other in others) else benchmark


def _part(
    new: Side,
    baseline: Side,
    benchmark: Benchmark,
    technique: str,
    level: float,
    bootstrap: bool,
) -> tuple[PairedPart, list[Compared], list[Flip]]:
    sides = [matching.by_question(side.results, benchmark.name, technique) for side in (new, baseline)]
    matched = matching.match(*sides)
    both = list(zip(matched.first, matched.second, strict=True))
    failed: list[FailedMetric] = []
    part = PairedPart(
        benchmark.name,
        technique,
        len(both),
        tuple(key.item for key in matched.alone_first),
        tuple(key.item for key in matched.alone_second),
        tuple(ours[0].item.id for ours, theirs in both if matching.unanswered(ours, theirs)),
        tuple(ours[0].item.id for ours, theirs in both if matching.unanswered(theirs, ours)),
        bool(both)
        and not (matched.alone_first or matched.alone_second)
        and all(matching.same_responses(new, baseline, ours, theirs) for ours, theirs in both),
        sum(matching.scored(ours) and matching.scored(theirs) for ours, theirs in both),
    )
    rows = [[result for samples in side for result in samples] for side in (matched.first, matched.second)]
    tables = [
        measures.tables(results, _computable(benchmark, side, failed), benchmark.dimensions, failed)
        for results, side in zip(rows, (new, baseline), strict=True)
    ]
    failed_by_name = {metric.name: metric for metric in failed}
    part = replace(part, failed=tuple(failed_by_name.values()))
    tables = [[tabled for tabled in side if tabled.metric.name not in failed_by_name] for side in tables]
    compared, flips = [], []
    resamples: dict[int, list[NDArray[np.float64]]] = {}
    for one, other in map(measures.scored_in_all, zip(*tables, strict=True)):
        headline = one.metric.name in benchmark.headline
        measures_compared = [
            replace(measure, headline=headline) for measure in _compared(one, other, benchmark.name, technique, level)
        ]
        if headline and bootstrap:
            measures_compared = _resampled(measures_compared, one, other, level, resamples)
        if headline and one.over is None and one.metric.percent:
            flips += _flips(one, other, benchmark.name, technique)
        compared += _adjusted(measures_compared)
    return part, compared, flips


def _computable(benchmark: Benchmark, side: Side, failed: list[FailedMetric]) -> list[Metric]:
    """The metrics of a benchmark; if a baseline holds no responses, without those that read them, or may."""
    if side.run.get("responses") != records.DIGESTS:
        return list(benchmark.metrics)
    why = f"baseline {side.name} holds no responses; write it again without --no-responses"
    failed += [FailedMetric(metric.name, why) for metric in benchmark.metrics if metric.needs_responses]
    return [metric for metric in benchmark.metrics if not metric.needs_responses]


def _compared(new: Tabled, baseline: Tabled, benchmark: str, technique: str, level: float) -> list[Compared]:
    """One metric over all items, and in every slice where both runs define it."""
    metric, lower = new.metric, new.metric.better == "lower"
    tables = [side.table(complement=lower) for side in (new, baseline)]
    # The statistics expect fractions: compare a metric beyond 0 to 1 in units of its largest value.
    scale = 1.0 if new.bounded and baseline.bounded else _largest(tables)
    tables = [replace(table, numerator=table.numerator / scale) for table in tables] if scale > 1 else tables
    comparisons = statistics.compare(
        *tables,
        binary=new.binary and baseline.binary and scale == 1,
        level=level,
        over=new.over,
        weights=new.weights,
    )
    slices = new.frame.slices if new.over is None else new.frame.slices[:1]
    counted = _counted(new)
    return [
        Compared(
            benchmark,
            technique,
            metric.name,
            metric.unit,
            {dimension: value} if dimension else {},
            _scaled(comparison, scale),
            metric.better,
            None if comparison.worse is None else min(1.0, 2 * min(comparison.worse, 1 - comparison.worse)),
            percent=bool(metric.percent),
            counted=counted,
        )
        for (dimension, value), comparison in zip(slices, comparisons, strict=True)
        if comparison.units or not dimension
    ]


def _counted(tabled: Tabled) -> Literal["items", "pairs", "items and pairs"]:
    paired = {unit[0].item.pair_id is not None for unit in tabled.frame.units}
    return "items and pairs" if len(paired) > 1 else "pairs" if True in paired else "items"


def _largest(tables: Sequence[Table]) -> float:
    import numpy as np

    defined = [table.denominator > 0 for table in tables]
    ratios = [
        np.abs(table.numerator[kept] / table.denominator[kept]) for table, kept in zip(tables, defined, strict=True)
    ]
    return max(1.0, *(float(ratio.max(initial=0)) for ratio in ratios))


def _scaled(comparison: Comparison, scale: float) -> Comparison:
    if scale == 1:
        return comparison

    def scaled(value: float | None) -> float | None:
        return None if value is None else scale * value

    return replace(
        comparison,
        baseline=scaled(comparison.baseline),
        new=scaled(comparison.new),
        difference=scaled(comparison.difference),
        low=scaled(comparison.low),
        high=scaled(comparison.high),
        se=scaled(comparison.se),
        detectable=scaled(comparison.detectable),
    )


def _one_family(compared: Sequence[Compared]) -> list[Compared]:
    """Add Holm's adjusted p-values over the headline measures of all benchmarks and techniques, without slices."""
    family = [measure.p for measure in compared if measure.headline and not measure.slice and measure.p is not None]
    adjusted = iter(statistics.holm(family).tolist())
    return [
        replace(measure, adjusted=next(adjusted))
        if measure.headline and not measure.slice and measure.p is not None
        else measure
        for measure in compared
    ]


def _adjusted(compared: Sequence[Compared]) -> list[Compared]:
    """Add Holm's adjusted p-values over the slices of each dimension, for one metric."""
    with_adjusted = list(compared)
    for dimension in dict.fromkeys(name for measure in compared for name in measure.slice):
        places = [i for i, measure in enumerate(compared) if dimension in measure.slice and measure.p is not None]
        adjusted = statistics.holm([measure.p for measure in (compared[i] for i in places) if measure.p is not None])
        for i, p in zip(places, adjusted.tolist(), strict=True):
            with_adjusted[i] = replace(compared[i], adjusted=p)
    return with_adjusted


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
    change = one.numerator * other.denominator - other.numerator * one.denominator
    changed = (one.slice == 0) & (one.denominator > 0) & (other.denominator > 0) & (change != 0)
    wanted = dict(zip(one.unit[changed].tolist(), (change[changed] > 0).tolist(), strict=True))
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
