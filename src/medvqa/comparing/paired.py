"""Compare two runs on the same questions: measures, slices, and units that flipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from medvqa import statistics
from medvqa.comparing import matching
from medvqa.comparing.common import CommonPart, Counted, RunAnswers
from medvqa.comparing.differing import TECHNIQUE, Difference
from medvqa.comparing.sides import Side
from medvqa.figures import Figure, of_units
from medvqa.items import FailedMetric, Result
from medvqa.metrics import EVERYTHING, Tabled, confidences
from medvqa.metrics.confidences import ConfidenceQuality
from medvqa.statistics import Comparison

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LEVEL = 0.975
"""Level of either bound of a difference: together a two-sided interval of 95 %, which excludes 0 exactly if the
two-sided p is below 5 %. The gate asks one question, and takes one-sided bounds of its own level."""

ERROR = 0.05
"""Familywise error: chance that any two equal runs of a comparison are shown to differ."""
EQUIVALENCE_LEVEL = 0.95
"""The level of either bound of `Equivalence`: together a two-sided interval of 90 %."""

Pair = tuple[int, int]
"""The places of a new run and of its baseline, in the order of the runs of a study."""


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
class Equivalence:
    """The two-sided interval of 90 % of a difference, `low` to `high`, beside the margin within which runs are alike.

    All are fractions; None without bounds. Two one-sided tests of 5 % show that the difference is smaller than the
    margin, either way, just if the interval lies within it (Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics
    15:657). Each pair of runs is tested by itself: of those that differ by the margin, at most 5 % are called alike.
    """

    margin: float
    low: float | None
    high: float | None

    @property
    def shown(self) -> bool:
        """Whether the interval lies within the margin."""
        return self.low is not None and self.high is not None and -self.margin < self.low and self.high < self.margin


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure of two runs, over all items ({}) or over one slice.

    In `comparison` more is always better, as the gate needs it: if less is better (`better` is "lower": confusion,
    rates), it compares 1 minus the measure. `shown` compares the measure itself. `unit`: the metric's; `counted`: the
    plural name of the units. `p`: two-sided p-value of no difference, None without bounds. `adjusted`: Holm's, over the
    slices of a dimension, or over all headline measures of the comparison; else None. `resampled`: percentile interval
    of the difference by cluster bootstrap, as in `shown`, as wide as that of the comparison; None without it.
    `headline`: a headline measure of the benchmark. `equivalence`: for headline measures over all items, if it was
    asked for; else None. `percent`: values are fractions and shown as percentages.
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
    equivalence: Equivalence | None = None

    @property
    def differs(self) -> bool:
        """Whether a difference is shown."""
        return bool(self.comparison.difference) and self.adjusted is not None and self.adjusted <= ERROR

    @property
    def alike(self) -> bool:
        """Whether the difference is shown to be smaller than the margin, either way; never for few units."""
        return self.equivalence is not None and self.equivalence.shown and not self.figures[0].few

    @property
    def key(self) -> tuple[str, str, str]:
        """Its benchmark, technique and metric."""
        return self.benchmark, self.technique, self.metric

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
        """The measure in the baseline and in the new run, and the difference, to be printed.

        If a run leaves units out that the other counts, the difference tells how many count in baseline and new run.
        """
        shown, (new, baseline) = self.shown, self.comparison.counted
        terms = (shown.baseline, baseline), (shown.new, new), (shown.difference, shown.units)
        before, after, difference = (of_units(value, n, self.counted, percent=self.percent) for value, n in terms)
        difference = replace(difference, low=shown.low, high=shown.high, groups=shown.groups, df=shown.df, sign=True)
        if new == baseline == shown.units:
            return before, after, difference
        least = min(new, baseline)
        difference = replace(difference, units=least, unit=f"{self.counted} ({baseline:,} and {new:,})")
        return replace(before, units=least), replace(after, units=least), difference


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
    none, or several. `confidences`: of the parts in which both runs have confidences of one kind. `equivalent`: the
    margin within which runs are alike, a fraction; None if that is not tested.
    """

    new: Side
    baseline: Side
    parts: tuple[PairedPart, ...]
    tables: tuple[Compared, ...]
    flips: tuple[Flip, ...]
    level: float
    difference: Difference | None = None
    confidences: tuple[ConfidenceQuality, ...] = ()
    equivalent: float | None = None

    @property
    def coverage(self) -> float:
        """The level of the two-sided interval of either bound: 0.95."""
        return round(2 * self.level - 1, 12)

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


def paired_part(part: CommonPart, new: int, baseline: int, sides: Sequence[Side]) -> PairedPart:
    """The numbers of questions of two runs, which are places of `sides`."""
    ours, theirs = (part.runs[part.places.index(place)] for place in (new, baseline))
    both = ours.there & theirs.there
    alone_new, alone_baseline = _ids(ours, ours.there & ~both), _ids(theirs, theirs.there & ~both)
    unchanged = bool(both.any()) and not (alone_new or alone_baseline)
    return PairedPart(
        part.benchmark.name,
        part.technique,
        int(both.sum()),
        alone_new,
        alone_baseline,
        _ids(ours, ours.unanswered(theirs)),
        _ids(ours, theirs.unanswered(ours)),
        unchanged
        and all(
            matching.same_responses(sides[new], sides[baseline], ours.samples(question), theirs.samples(question))
            for question in both.nonzero()[0].tolist()
        ),
        part.scored,
        part.failed,
        len(part.places),
        part.asked,
    )


def compared_confidences(
    part: CommonPart, new: int, baseline: int, sides: Sequence[Side], difference: Difference | None
) -> ConfidenceQuality | None:
    """Return the paired differences of the confidences of two runs, which are places of `sides`, if both have any.

    None unless both are of one kind; nor of different techniques: aligned, answers have the name of one of them. Of
    several samples, those with equal numbers are beside each other.
    """
    sources = {sides[place].run.protocol.confidence_source(part.technique) for place in (new, baseline)}
    source = sources.pop()
    if sources or source is None or (difference is not None and difference.setting == TECHNIQUE):
        return None
    ours, theirs = (part.runs[part.places.index(place)] for place in (new, baseline))
    both = []
    for question in part.measured.tolist():
        one, other = ours.latest(question), theirs.latest(question)
        beside = {(result.variant, result.sample): result for result in other}
        if len(one) == len(other) == 1:  # Prompts of other names are compared too.
            beside = {(one[0].variant, one[0].sample): other[0]}
        both += [(r, beside[r.variant, r.sample]) for r in one if (r.variant, r.sample) in beside]
    return confidences.compared(part.benchmark.name, source, both)


def _ids(run: RunAnswers, questions: NDArray[np.bool_]) -> tuple[str, ...]:
    """The ids of some questions, sorted."""
    return tuple(sorted(run.samples(question)[0].item.id for question in questions.nonzero()[0].tolist()))


def compare_pairs(
    part: CommonPart,
    pairs: Sequence[Pair],
    level: float = LEVEL,
    icc: float = statistics.FLIP_ICC,
    *,
    slices: bool = True,
    bootstrap: bool = False,
) -> dict[Pair, list[Compared]]:
    """Compare each two runs by each measure, over all units and over each slice; p is not adjusted.

    Without `slices`, by headline measures over all units alone. `bootstrap` adds that of headline measures.
    """
    places = [(part.places.index(new), part.places.index(baseline)) for new, baseline in pairs]
    compared: dict[Pair, list[Compared]] = {pair: [] for pair in pairs}
    replicates = _Replicates()
    # Measure by measure: the terms of all measures in all slices take much more memory than the results.
    for tabled in part.tabled if slices else part.headline:
        found = part.compare(tabled, places, level, slices=slices, icc=icc)
        for pair, (one, other), comparisons in zip(pairs, places, found, strict=True):
            own = _compared(part, tabled[one], comparisons)
            if own[0].headline and bootstrap:
                own = replicates.add(own, tabled[one], tabled[other], level)
            compared[pair] += own
    return compared


def equivalences(
    part: CommonPart,
    compared: Mapping[Pair, Sequence[Compared]],
    margin: float,
    icc: float = statistics.FLIP_ICC,
) -> dict[Pair, list[Compared]]:
    """Add `Equivalence` with this margin (a fraction) to headline measures over all units, with values from 0 to 1."""
    tested = compare_pairs(part, list(compared), EQUIVALENCE_LEVEL, icc, slices=False)
    found = {
        (pair, row.metric): Equivalence(margin, row.shown.low, row.shown.high)
        for pair, rows in tested.items()
        for row in rows
        if row.percent and row.comparison.method != "t"
    }
    return {
        pair: [row if row.slice else replace(row, equivalence=found.get((pair, row.metric))) for row in rows]
        for pair, rows in compared.items()
    }


def flips(part: CommonPart, new: int, baseline: int) -> list[Flip]:
    """The units of two runs that changed by a headline measure; of averages over slices there are none."""
    places = part.places.index(new), part.places.index(baseline)
    return [
        flip
        for tabled in part.headline
        if tabled[0].over is None and tabled[places[0]].metric.percent
        for flip in _flips(part, tabled, *places)
    ]


def _compared(part: CommonPart, new: Tabled, comparisons: Iterable[Comparison]) -> list[Compared]:
    """One metric over all items, and in every slice where both runs define it."""
    metric, counted = new.metric, part.counted(new)
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


class _Replicates:
    """The bootstrap of two runs; measures that share their terms share the replicates, some hundred megabytes."""

    def __init__(self) -> None:
        self._last: tuple[tuple[int, int], list[NDArray[np.float64]]] | None = None

    def add(self, compared: Sequence[Compared], new: Tabled, baseline: Tabled, level: float) -> list[Compared]:
        """Add the percentile intervals to the comparisons of a measure."""
        import numpy as np

        terms = id(new.terms), id(baseline.terms)
        if self._last is None or self._last[0] != terms:
            self._last = terms, statistics.resampled([new.table(), baseline.table()])
        ratios = self._last[1]
        if new.over is not None and new.weights is not None:
            shares = np.asarray(new.weights) / sum(new.weights)
            apart = ((ratios[0] - ratios[1])[:, new.over] @ shares)[:, None]
        elif new.over is not None:
            both = ~np.isnan(ratios[0][:, new.over]) & ~np.isnan(ratios[1][:, new.over])
            number = both.sum(axis=1)
            totals = [np.where(both, ratio[:, new.over], 0.0).sum(axis=1) for ratio in ratios]
            apart = np.full(len(number), np.nan)
            apart = np.divide(totals[0] - totals[1], number, out=apart, where=number > 0)[:, None]
        else:
            at = {(d, v): i for i, (d, v) in enumerate(new.frame.slices)}
            places = [at[next(iter(measure.slice.items()), EVERYTHING)] for measure in compared]
            apart = ratios[0][:, places] - ratios[1][:, places]
        low, high = statistics.percentile(apart, 2 * level - 1)
        return [
            measure if below != below else replace(measure, resampled=(below, above))
            for measure, below, above in zip(compared, low.tolist(), high.tolist(), strict=True)
        ]


def _flips(part: CommonPart, tabled: Sequence[Tabled], new: int, baseline: int) -> list[Flip]:
    """The units over all items whose value changed."""
    (one, _), (other, _) = (statistics.by_unit(tabled[run].table()) for run in (new, baseline))
    now, was = statistics.own_values(one), statistics.own_values(other)
    changed = (one.slice == 0) & ((now > was) | (now < was))
    wanted = dict(zip(one.unit[changed].tolist(), (now[changed] > was[changed]).tolist(), strict=True))
    units, metric, flips = part.units(tabled[0], wanted=wanted), tabled[0].metric, []
    for code, rose in wanted.items():
        results = [_results(part.runs[run], units[code]) for run in (new, baseline)]
        item = results[0][0].item
        better = rose == (metric.better == "higher")
        name = item.pair_id if item.pair_id is not None else item.id
        flips.append(Flip(part.benchmark.name, part.technique, metric.name, name, better, *results))
    return flips


def _results(run: RunAnswers, units: Iterable[Sequence[int]]) -> tuple[Result, ...]:
    """The results of some units, question by question: all samples, of a pair those that both questions have."""
    results: list[Result] = []
    for unit in units:
        samples = [run.latest(question) for question in unit]
        in_all = set.intersection(*({(result.variant, result.sample) for result in own} for own in samples))
        results += [result for own in samples for result in own if (result.variant, result.sample) in in_all]
    return tuple(sorted(results, key=lambda result: (result.item.id, result.sample)))


def _complement(value: float | None) -> float | None:
    return None if value is None else 1 - value


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
