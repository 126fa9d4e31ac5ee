"""Two runs on the same questions: what differs, in which slices, and which units flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, Metric, Result
from medvqa.statistics import Comparison


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark asked by one technique, as far as both runs have it.

    `matched` counts the items that both were asked, by content and not by id. `unmatched_*` are the ids of items that
    one run has alone, `errors_*` those of matched items to which a run has no answer, or none with a score that the
    other has: either blocks a verdict. `unchanged`: the runs have the same items, and responses and scores are
    identical on each.
    """

    benchmark: str
    technique: str
    matched: int
    unmatched_new: tuple[str, ...]
    unmatched_baseline: tuple[str, ...]
    errors_new: tuple[str, ...]
    errors_baseline: tuple[str, ...]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """A measure of two runs, over everything ({}) or over one slice.

    In `comparison` more is always better, as the gate wants it: of a measure of which less is better (`better` is
    "lower": confusion, rates) it compares 1 minus the measure. `shown` is the measure's own. `unit` is that of the
    metric; what is counted once is the pair where there is one. `p` is the two-sided p-value of no difference, None
    without bounds; `adjusted` is Holm's among the slices of one dimension, None for the whole. `resampled` is the
    percentile interval of the difference by cluster bootstrap, as in `shown`, each bound of the level of the
    comparison; None where it was not asked for. `headline` marks the measures by which the benchmark is known.
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

    @property
    def shown(self) -> Comparison:
        """The comparison in terms of the measure: `low` and `high` bound new minus baseline.

        `gained` counts the units whose value rose and `lost` those whose value fell; `worse` stays the p-value of "not
        worse".
        """
        seen = self.comparison
        if self.better == "higher":
            return seen
        return replace(
            seen,
            baseline=_complement(seen.baseline),
            new=_complement(seen.new),
            difference=_negative(seen.difference),
            low=_negative(seen.high),
            high=_negative(seen.low),
            gained=seen.lost,
            lost=seen.gained,
        )


@dataclass(frozen=True, slots=True)
class Flip:
    """A unit of which a headline measure changed. `better` says in which way.

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
    """Two runs compared. `tables` has each measure over everything and over each slice, part by part."""

    new: Side
    baseline: Side
    parts: tuple[Part, ...]
    tables: tuple[Compared, ...]
    flips: tuple[Flip, ...]
    level: float

    @property
    def unmatched(self) -> tuple[str, ...]:
        """What one run alone was asked, one line each: `benchmark/item (technique): in RUN alone`."""
        return tuple(
            f"{part.benchmark}/{item} ({part.technique}): in {side.name} alone"
            for part in self.parts
            for side, items in ((self.new, part.unmatched_new), (self.baseline, part.unmatched_baseline))
            for item in items
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """What a run has no answer to, one line each: `benchmark/item (technique): no answer in RUN`."""
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

    def of(self, benchmark: str, technique: str) -> Part:
        """One part; KeyError where there is none."""
        for part in self.parts:
            if (part.benchmark, part.technique) == (benchmark, technique):
                return part
        raise KeyError((benchmark, technique))


def compare(
    new: Side,
    baseline: Side,
    benchmarks: Mapping[str, Benchmark],
    *,
    metrics: Sequence[Metric] = (),
    level: float = 0.95,
    bootstrap: bool = False,
) -> Paired:
    """Compare each benchmark and technique that both runs have.

    `benchmarks` are known ones by name; `metrics` are computed for each beside its own, `level` is that of each
    one-sided bound. Items are matched by question, options, key and images; tags, pairs and groups are those of the new
    run. `bootstrap` adds the seeded cluster bootstrap of headline measures. UsageError for a benchmark that is not
    known.
    """
    raise NotImplementedError


def _complement(value: float | None) -> float | None:
    return None if value is None else 1 - value


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
