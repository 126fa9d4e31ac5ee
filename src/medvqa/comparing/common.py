"""Runs on the questions that all of them have: the terms of their measures, computed once for each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from medvqa import metrics as measures
from medvqa import records
from medvqa.benchmarks import not_known
from medvqa.comparing import matching
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Metric, QuestionKey, Result
from medvqa.metrics import Layout, Tabled
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol

if TYPE_CHECKING:
    from medvqa.comparing.matching import Samples

Part = tuple[str, str]
"""(benchmark, technique)"""


def under_protocols(benchmark: Benchmark, sides: Sequence[Side]) -> Benchmark:
    """The benchmark with the names of its measures under the runs' protocols: an oracle's, if all have one.

    If no run has a judge, measures that need one are no headline measures.
    """
    if not any(side.run.get("judge") for side in sides):
        needed = measures.judged(benchmark)
        benchmark = replace(benchmark, headline=tuple(name for name in benchmark.headline if name not in needed))
    first, *others = (combining.named(benchmark, Protocol.of(side.run)) for side in sides)
    return first if all(other.headline == first.headline for other in others) else benchmark


@dataclass(frozen=True, slots=True, eq=False)
class CommonPart:
    """One benchmark and technique of several runs, measured on the questions that all of them have.

    `places`: of the runs in `Alignment.sides`, in order. `results`: all questions of each run, under common keys.
    `asked`: the number of questions of at least one run, `items` of all, `scored` of those with a score in all.
    `tabled`: the terms of each measure, run by run, without the units that one of the runs has not scored. `failed`:
    metrics that could not be computed for one of the runs.
    """

    benchmark: Benchmark
    technique: str
    places: tuple[int, ...]
    results: tuple[Mapping[QuestionKey, Samples], ...]
    asked: int
    items: int
    scored: int
    tabled: tuple[tuple[Tabled, ...], ...]
    failed: tuple[FailedMetric, ...]

    @property
    def headline(self) -> Iterable[tuple[Tabled, ...]]:
        """The tables of headline measures."""
        return (tabled for tabled in self.tabled if tabled[0].metric.name in self.benchmark.headline)


class Alignment:
    """Runs whose questions have common keys; each run's measures are computed once for a set of questions."""

    def __init__(self, sides: Sequence[Side], order: Sequence[int] | None = None) -> None:
        """Match the questions of all runs; they get the items of the first run of `order` (places) that has them."""
        self.sides = tuple(sides)
        order = range(len(sides)) if order is None else order
        by_part: dict[Part, list[dict[QuestionKey, list[Result]]]] = {}
        for place, side in enumerate(sides):
            for result in side.results:
                part: Part = (result.item.benchmark, result.technique)
                runs = by_part.setdefault(part, [{} for _ in sides])
                runs[place].setdefault(result.key.question, []).append(result)
        self._questions: dict[Part, dict[int, dict[QuestionKey, Samples]]] = {}
        for asked, runs in by_part.items():
            having = [place for place in order if runs[place]]
            aligned = matching.align([runs[place] for place in having], [sides[place].name for place in having])
            self._questions[asked] = dict(zip(having, aligned, strict=True))
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
            len({key for questions in results for key in questions}),
            len(keys),
            sum(all(matching.scored(questions[key]) for questions in results) for key in keys),
            tuple(tuple(measures.scored_in_all(one_measure)) for one_measure in zip(*by_run, strict=True)),
            tuple(failed_by_name.values()),
        )

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
            rows = [result for key in keys for result in questions[key]]
            if keys and (part, keys) not in self._layouts:
                self._layouts[part, keys] = measures.layout_of(measures.latest(rows), benchmark.dimensions)
            layout = self._layouts.get((part, keys))
            tabled = measures.tables(rows, metrics, benchmark.dimensions, own_failed, layout)
            self._tables[cached] = tabled, own_failed
        tabled, own_failed = self._tables[cached]
        failed += own_failed
        return tabled


def _computable(benchmark: Benchmark, side: Side, failed: list[FailedMetric]) -> list[Metric]:
    """The metrics of a benchmark; if a baseline holds no responses, without those that read them, or may."""
    if side.run.get("responses") != records.DIGESTS:
        return list(benchmark.metrics)
    why = f"baseline {side.name} holds no responses; write it again without --no-responses"
    failed += [FailedMetric(metric.name, why) for metric in benchmark.metrics if metric.needs_responses]
    return [metric for metric in benchmark.metrics if not metric.needs_responses]
