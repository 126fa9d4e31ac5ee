"""Runs on the questions that all of them have: the terms of their measures, computed once for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from medvqa import metrics as measures
from medvqa import statistics
from medvqa.benchmarks import not_known
from medvqa.comparing import matching
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Metric, QuestionKey, Result, withholding
from medvqa.metrics import Layout, Tabled
from medvqa.records.baseline_file import DIGESTS
from medvqa.statistics import Comparison, Prepared, UnitTable

if TYPE_CHECKING:
    from medvqa.comparing.matching import Samples

Part = tuple[str, str]
"""(benchmark, technique)"""
Counted = Literal["items", "pairs", "items and pairs"]
"""Names of units, as plurals."""


def under_protocols(benchmark: Benchmark, sides: Sequence[Side]) -> Benchmark:
    """The benchmark; if no run has a judge, measures that need one are no headline measures."""
    if any(side.run.judge for side in sides):
        return benchmark
    needed = measures.judged(benchmark)
    return replace(benchmark, headline=tuple(name for name in benchmark.headline if name not in needed))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The questions of a run with a score, and those without an answer to one of the samples."""

    scored: frozenset[QuestionKey]
    failed: frozenset[QuestionKey]

    @classmethod
    def of(cls, questions: Mapping[QuestionKey, Samples]) -> Outcomes:
        """Sort the questions of a run."""
        return cls(
            frozenset(key for key, samples in questions.items() if matching.scored(samples)),
            frozenset(
                key for key, samples in questions.items() if any(each.score.outcome == "error" for each in samples)
            ),
        )

    def unanswered(self, other: Outcomes) -> frozenset[QuestionKey]:
        """The questions without an answer, or without a score that another run has."""
        return self.failed | (other.scored - self.scored)


@dataclass(frozen=True, slots=True, eq=False)
class CommonPart:
    """One benchmark and technique of several runs, measured on the questions that all of them have.

    `places`: of the runs in `Alignment.sides`, in order. `results`: all questions of each run, under common keys;
    `outcomes`: how they ended.
    `asked`: the number of questions of at least one run, `items` of all, `scored` of those with a score in all.
    `tabled`: the terms of each measure, run by run, without the units that one of the runs has not scored. `failed`:
    metrics that could not be computed for one of the runs.
    """

    benchmark: Benchmark
    technique: str
    places: tuple[int, ...]
    results: tuple[Mapping[QuestionKey, Samples], ...]
    outcomes: tuple[Outcomes, ...]
    asked: int
    items: int
    scored: int
    tabled: tuple[tuple[Tabled, ...], ...]
    failed: tuple[FailedMetric, ...]
    _known: dict[object, Any] = field(default_factory=dict)

    @property
    def headline(self) -> Iterable[tuple[Tabled, ...]]:
        """The tables of headline measures."""
        return (tabled for tabled in self.tabled if tabled[0].metric.name in self.benchmark.headline)

    def compare(
        self, new: Tabled, baseline: Tabled, level: float, *, slices: bool, icc: float = statistics.FLIP_ICC
    ) -> list[Comparison]:
        """Compare a measure of two runs over all units, and with `slices` in each slice.

        If less is better, 1 minus the measure is compared. `level` and `icc` as for `statistics.compare`.
        """
        # The statistics expect fractions: compare a metric beyond 0 to 1 in units of its largest value.
        if not (new.bounded and baseline.bounded):
            tables = [self._table(run, slices=slices) for run in (new, baseline)]
            if (scale := _largest(tables)) > 1:
                tables = [replace(table, numerator=table.numerator / scale) for table in tables]
                compared = statistics.compare(
                    *tables,
                    binary=False,
                    level=level,
                    icc=icc,
                    bounded=False,
                    over=new.over,
                    weights=new.weights,
                )
                return [_scaled(comparison, scale) for comparison in compared]
        # The name of a macro average stands for its slices and weights.
        name = new.metric.unit, slices, None if new.over is None else new.metric.name
        shared = self._known.setdefault(name, statistics.Shared())
        sides = (self._prepared(run, slices=slices) for run in (new, baseline))
        binary = new.binary and baseline.binary
        return statistics.compare_prepared(
            *sides, binary=binary, level=level, icc=icc, weights=new.weights, shared=shared
        )

    def _prepared(self, run: Tabled, *, slices: bool) -> Prepared:
        key = id(run), slices
        if key not in self._known:
            table = self._table(run, slices=slices)
            self._known[key] = statistics.prepared(table, over=run.over, weights=run.weights)
        prepared: Prepared = self._known[key]
        return prepared

    def _table(self, run: Tabled, *, slices: bool) -> UnitTable:
        table = run.table(complement=run.metric.better == "lower")
        return table if slices or run.over is not None else everything(table)

    def counted(self, tabled: Tabled) -> Counted:
        """The plural name of the units of a measure."""
        key = tabled.metric.unit
        if key not in self._known:
            paired = {unit[0].item.pair_id is not None for unit in tabled.frame.units}
            self._known[key] = "items and pairs" if len(paired) > 1 else "pairs" if True in paired else "items"
        counted: Counted = self._known[key]
        return counted


def everything(table: UnitTable) -> UnitTable:
    """The rows of the first slice, which holds every unit."""
    kept = table.slice == 0
    columns = (table.numerator, table.denominator, table.unit, table.group, table.slice)
    return UnitTable(*(column[kept] for column in columns))


def _largest(tables: Sequence[UnitTable]) -> float:
    import numpy as np

    defined = [table.denominator > 0 for table in tables]
    ratios = [
        np.abs(table.numerator[kept] / table.denominator[kept]) for table, kept in zip(tables, defined, strict=True)
    ]
    return max(1.0, *(float(ratio.max(initial=0)) for ratio in ratios))


def _scaled(comparison: Comparison, scale: float) -> Comparison:
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
        discordance=None,
    )


class Alignment:
    """Runs whose questions have common keys; each run's measures are computed once for a set of questions."""

    def __init__(self, sides: Sequence[Side], order: Sequence[int] | None = None) -> None:
        """Match the questions of all runs; they get the items of the first run of `order` (places) that has them."""
        self.sides = tuple(sides)
        order = range(len(sides)) if order is None else order
        by_part: dict[Part, list[dict[QuestionKey, list[Result]]]] = {}
        keys: dict[Part, dict[str, QuestionKey]] = {}
        for place, side in enumerate(sides):
            for result in side.results:
                part: Part = (result.item.benchmark, result.technique)
                if part not in by_part:
                    by_part[part], keys[part] = [{} for _ in sides], {}
                key = keys[part].get(result.item.id)
                if key is None:
                    key = keys[part][result.item.id] = result.key.question
                by_part[part][place].setdefault(key, []).append(result)
        self._questions: dict[Part, dict[int, dict[QuestionKey, Samples]]] = {}
        for asked, runs in by_part.items():
            having = [place for place in order if runs[place]]
            aligned = matching.align([runs[place] for place in having], [sides[place].name for place in having])
            self._questions[asked] = dict(zip(having, aligned, strict=True))
        self._outcomes: dict[tuple[Part, int], Outcomes] = {}
        self._layouts: dict[tuple[Part, tuple[QuestionKey, ...]], Layout] = {}
        self._tables: dict[object, tuple[list[Tabled], list[FailedMetric]]] = {}

    def results(self, place: int) -> tuple[Result, ...]:
        """All results of a run under the common items; a key that names the run is an id of its own."""
        return tuple(
            result if result.item.id == key.item else replace(result, item=replace(result.item, id=key.item))
            for part in sorted(self._questions)
            for key, samples in self._questions[part].get(place, {}).items()
            for result in samples
        )

    def parts(self, places: Sequence[int], benchmarks: Mapping[str, Benchmark]) -> list[CommonPart]:
        """The benchmarks and techniques of the first of `places`, with the runs of these that have them: at least two.

        UsageError for an unknown benchmark.
        """
        parts = []
        for name, techniques in self.sides[places[0]].asked.items():
            for technique in techniques:
                questions = self._questions[name, technique]
                having = tuple(place for place in places if place in questions)
                if len(having) > 1:
                    if name not in benchmarks:
                        raise not_known("the runs have", name, benchmarks)
                    sides = [self.sides[place] for place in having]
                    parts.append(self._part(under_protocols(benchmarks[name], sides), technique, having))
        return parts

    def _part(self, benchmark: Benchmark, technique: str, places: tuple[int, ...]) -> CommonPart:
        part = benchmark.name, technique
        outcomes = tuple(self._outcomes_of(part, place) for place in places)
        results = tuple(self._questions[part][place] for place in places)
        keys = tuple(sorted(set.intersection(*(set(questions) for questions in results))))
        failed: list[FailedMetric] = []
        by_run = [self._tabled(place, part, keys, benchmark, failed) for place in places]
        failed_by_name = {metric.name: metric for metric in failed}
        by_run = [[tabled for tabled in run if tabled.metric.name not in failed_by_name] for run in by_run]
        return CommonPart(
            benchmark,
            technique,
            places,
            results,
            outcomes,
            len(set().union(*results)),
            len(keys),
            len(set.intersection(*(set(run.scored) for run in outcomes))),
            tuple(tuple(measures.scored_in_all(one_measure)) for one_measure in zip(*by_run, strict=True)),
            tuple(failed_by_name.values()),
        )

    def _outcomes_of(self, part: Part, place: int) -> Outcomes:
        if (part, place) not in self._outcomes:
            self._outcomes[part, place] = Outcomes.of(self._questions[part][place])
        return self._outcomes[part, place]

    def _tabled(
        self,
        place: int,
        part: Part,
        keys: tuple[QuestionKey, ...],
        benchmark: Benchmark,
        failed: list[FailedMetric],
    ) -> list[Tabled]:
        own_failed: list[FailedMetric] = []
        metrics = _computable(benchmark, self.sides[place], own_failed)
        cached = place, part, keys, tuple(metric.name for metric in metrics)
        if cached not in self._tables:
            questions = self._questions[part][place]
            samples = [_latest(questions[key]) for key in keys]
            if keys and (part, keys) not in self._layouts:
                self._layouts[part, keys] = measures.layout_of([each[0] for each in samples], benchmark.dimensions)
            layout = self._layouts.get((part, keys))
            with withholding(not benchmark.public):
                tabled = measures.tables_of(samples, layout, metrics, own_failed) if layout else []
            self._tables[cached] = tabled, own_failed
        tabled, own_failed = self._tables[cached]
        failed += own_failed
        return tabled


def _latest(samples: Samples) -> Samples:
    return samples if len(samples) == 1 else measures.latest(samples)


def _computable(benchmark: Benchmark, side: Side, failed: list[FailedMetric]) -> list[Metric]:
    """The metrics of a benchmark; if a baseline holds no responses, without those that read them, or may."""
    if side.run.responses != DIGESTS:
        return list(benchmark.metrics)
    why = f"baseline {side.name} holds no responses; write it again without --no-responses"
    failed += [FailedMetric(metric.name, why) for metric in benchmark.metrics if metric.needs_responses]
    return [metric for metric in benchmark.metrics if not metric.needs_responses]
