"""Runs on the questions that all of them have: the terms of their measures, computed once for each run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from medvqa import metrics as measures
from medvqa import statistics
from medvqa.benchmarks import not_known
from medvqa.comparing import matching
from medvqa.comparing.sides import Side
from medvqa.items import Benchmark, FailedMetric, Metric, QuestionKey, Result, withholding
from medvqa.metrics import Frame, Layout, Tabled
from medvqa.metrics.frames import frames
from medvqa.protocols import added_measures
from medvqa.records.baseline_file import DIGESTS
from medvqa.statistics import Comparison, Prepared, Shared, UnitTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from medvqa.comparing.matching import Samples

Part = tuple[str, str]
"""(benchmark, technique)"""
Counted = Literal["items", "pairs", "items and pairs"]
"""Names of units, as plurals."""


def under_protocols(benchmark: Benchmark, sides: Sequence[Side], technique: str) -> Benchmark:
    """The benchmark with the measures of the runs' protocols (`added_measures.under`).

    If no run has a judge, measures that need one are no headline measures.
    """
    runs = [side.run for side in sides]
    costs = [run.wrong_costs for run in runs]
    benchmark = added_measures.under(benchmark, [run.protocol for run in runs], [technique], costs)
    if any(side.run.judge for side in sides):
        return benchmark
    needed = measures.judged(benchmark)
    return replace(benchmark, headline=tuple(name for name in benchmark.headline if name not in needed))


@dataclass(frozen=True, slots=True, eq=False)
class RunAnswers:
    """The results of one run, question by question in the order of the part's keys.

    Those of question Q are `results[starts[Q]:starts[Q + 1]]`. `there`, `scored` and `failed`, (questions,): the run
    has the question, has a score of it, and lacks the answer to one of its samples.
    """

    results: Sequence[Result]
    starts: NDArray[np.intp]
    there: NDArray[np.bool_]
    scored: NDArray[np.bool_]
    failed: NDArray[np.bool_]

    @classmethod
    def of(cls, keys: Sequence[QuestionKey], questions: Mapping[QuestionKey, Samples]) -> RunAnswers:
        """Put the results of a run in the order of the keys."""
        import numpy as np

        own = [questions.get(key, ()) for key in keys]
        starts = np.cumsum([0, *map(len, own)])
        columns = (
            [len(samples) > 0 for samples in own],
            [matching.scored(samples) for samples in own],
            [any(result.score.outcome == "error" for result in samples) for samples in own],
        )
        results = [result for samples in own for result in samples]
        return cls(results, starts, *(np.array(column, dtype=bool) for column in columns))

    def samples(self, question: int) -> Samples:
        """The results of a question."""
        return self.results[self.starts[question] : self.starts[question + 1]]

    def latest(self, question: int) -> Samples:
        """The last result of each key of a question."""
        samples = self.samples(question)
        return samples if len(samples) == 1 else measures.latest(samples)

    def unanswered(self, other: RunAnswers) -> NDArray[np.bool_]:
        """The questions of both runs without an answer, or without a score that the other run has."""
        return self.there & other.there & (self.failed | (other.scored & ~self.scored))


@dataclass(frozen=True, slots=True, eq=False)
class CommonPart:
    """One benchmark and technique of several runs, measured on the questions that all of them have.

    `places`: of the runs in `Alignment.sides`, in order. `keys`: the questions of the benchmark and technique, of all
    runs of the alignment; `runs`: the results of each run. `measured`: the places in `keys` of the questions that all
    runs have; measures are of these. `asked`: the number of questions of at least one run, `scored` of those with a
    score in all. `tabled`: the terms of each measure, run by run, without units that one of the runs has not scored.
    All of them have the frame of the first run. `failed`: metrics that could not be computed for one of the runs.
    `pairs`: the two questions of each pair, as places in `measured`.
    """

    benchmark: Benchmark
    technique: str
    places: tuple[int, ...]
    keys: Sequence[QuestionKey]
    runs: tuple[RunAnswers, ...]
    measured: NDArray[np.intp]
    asked: int
    scored: int
    tabled: tuple[tuple[Tabled, ...], ...]
    failed: tuple[FailedMetric, ...]
    pairs: Sequence[Sequence[int]] = ()
    _shared: dict[object, Shared] = field(default_factory=dict)

    @property
    def items(self) -> int:
        """The number of questions that all runs have."""
        return len(self.measured)

    @property
    def headline(self) -> Iterable[tuple[Tabled, ...]]:
        """The tables of headline measures."""
        return (tabled for tabled in self.tabled if tabled[0].metric.name in self.benchmark.headline)

    def compare(
        self,
        tabled: Sequence[Tabled],
        pairs: Iterable[tuple[int, int]],
        level: float,
        *,
        slices: bool,
        icc: float = statistics.FLIP_ICC,
    ) -> Iterator[list[Comparison]]:
        """Yield the comparisons of a measure for each two runs, over all units, and with `slices` in each slice.

        `pairs`: the new run and the baseline, as places in `places`. If less is better, 1 minus the measure is
        compared. `level` and `icc` as for `statistics.compare`.
        """
        first = tabled[0]
        # The name of a macro average stands for its slices and weights.
        name = first.metric.unit, slices, None if first.over is None else first.metric.name
        shared = self._shared.setdefault(name, Shared())
        prepared: dict[int, Prepared] = {}
        for pair in pairs:
            new, baseline = (tabled[run] for run in pair)
            binary = new.binary and baseline.binary
            if new.bounded and baseline.bounded:
                # Of large runs, more than two take too much memory; pairs with one baseline come after each other.
                prepared = {run: prepared.get(run) or _prepared(tabled[run], slices=slices) for run in pair}
                sides = [prepared[run] for run in pair]
                yield statistics.compare_prepared(
                    *sides, binary=binary, level=level, icc=icc, weights=new.weights, shared=shared
                )
            else:
                tables = [unit_table(run, slices=slices) for run in (new, baseline)]
                yield statistics.compare(
                    *tables, binary=binary, level=level, icc=icc, bounded=False, over=new.over, weights=new.weights
                )

    def counted(self, tabled: Tabled) -> Counted:
        """The plural name of the units of a measure."""
        paired = {unit[0].item.pair_id is not None for unit in tabled.frame.units}
        return "items and pairs" if len(paired) > 1 else "pairs" if True in paired else "items"

    def units(self, tabled: Tabled, *, wanted: Container[int] | None = None) -> dict[int, list[tuple[int, ...]]]:
        """Return the units of each observation, each as the places of its questions in `keys`.

        `wanted`: the observations; None for all.
        """
        import numpy as np

        frame = tabled.frame
        everywhere = np.flatnonzero(frame.slice == 0)
        codes, units = frame.counted[frame.cell[everywhere]].tolist(), frame.unit[everywhere].tolist()
        found, measured = dict[int, list[tuple[int, ...]]](), self.measured.tolist()
        for code, unit in zip(codes, units, strict=True):
            if wanted is None or code in wanted:
                of_unit = self.pairs[unit] if tabled.metric.unit == "pair" else (unit,)
                found.setdefault(code, []).append(tuple(measured[place] for place in of_unit))
        return found


def _prepared(run: Tabled, *, slices: bool) -> Prepared:
    return statistics.prepared(unit_table(run, slices=slices), over=run.over, weights=run.weights)


def unit_table(run: Tabled, *, slices: bool) -> UnitTable:
    """The terms of a run, of which more is better; without `slices` over all units alone, but for means over slices."""
    table = run.table(complement=run.metric.better == "lower")
    return table if slices or run.over is not None else everything(table)


def everything(table: UnitTable) -> UnitTable:
    """The rows of the first slice, which holds every unit."""
    return table.in_slice(0)


class Alignment:
    """Runs whose questions have common keys; each run's measures are computed once for a set of questions."""

    def __init__(self, sides: Sequence[Side], order: Sequence[int] | None = None) -> None:
        """Match the questions of all runs; they get the items of the first run of `order` (places) that has them."""
        self.sides = tuple(sides)
        order = range(len(sides)) if order is None else order
        self._keys: dict[Part, Sequence[QuestionKey]] = {}
        self._runs: dict[Part, dict[int, RunAnswers]] = {}
        for part, runs in _by_part(sides).items():
            having = [place for place in order if runs[place]]
            aligned = matching.align([runs[place] for place in having], [sides[place].name for place in having])
            keys = self._keys[part] = sorted(set().union(*aligned))
            self._runs[part] = {
                place: RunAnswers.of(keys, questions) for place, questions in zip(having, aligned, strict=True)
            }
        self._tables: dict[object, _RunTables] = {}
        self._layouts: dict[object, tuple[Layout, Mapping[str, Frame]]] = {}

    def results(self, place: int) -> tuple[Result, ...]:
        """All results of a run under the common items; a key that names the run is an id of its own."""
        return tuple(
            result if result.item.id == key.item else replace(result, item=replace(result.item, id=key.item))
            for part in sorted(self._runs)
            if (run := self._runs[part].get(place)) is not None
            for question, key in enumerate(self._keys[part])
            for result in run.samples(question)
        )

    def parts(self, places: Sequence[int], benchmarks: Mapping[str, Benchmark]) -> list[CommonPart]:
        """The benchmarks and techniques of the first of `places`, with the runs of these that have them: at least two.

        UsageError for an unknown benchmark.
        """
        parts = []
        for name, techniques in self.sides[places[0]].asked.items():
            for technique in techniques:
                having = tuple(place for place in places if place in self._runs[name, technique])
                if len(having) > 1:
                    if name not in benchmarks:
                        raise not_known("the runs have", name, benchmarks)
                    sides = [self.sides[place] for place in having]
                    parts.append(self._part(under_protocols(benchmarks[name], sides, technique), technique, having))
        return parts

    def _part(self, benchmark: Benchmark, technique: str, places: tuple[int, ...]) -> CommonPart:
        import numpy as np

        part = benchmark.name, technique
        runs = tuple(self._runs[part][place] for place in places)
        measured = np.flatnonzero(np.all([run.there for run in runs], axis=0))
        by_run = [self._tabled(place, part, measured, benchmark) for place in places]
        failed = {metric.name: metric for run in by_run for metric in run.failed}
        tabled = [
            [
                one_run
                for one_run in zip(run.tabled, run.without_score, strict=True)
                if one_run[0].metric.name not in failed
            ]
            for run in by_run
        ]
        return CommonPart(
            benchmark,
            technique,
            places,
            self._keys[part],
            runs,
            measured,
            int(np.any([run.there for run in runs], axis=0).sum()),
            int(np.all([run.scored for run in runs], axis=0).sum()),
            tuple(_scored_in_all(one_measure) for one_measure in zip(*tabled, strict=True)),
            tuple(failed.values()),
            by_run[0].pairs,
        )

    def _tabled(self, place: int, part: Part, measured: NDArray[np.intp], benchmark: Benchmark) -> _RunTables:
        """The terms of a run; they have the frame of the first run on these questions, so that others are dropped."""
        failed: list[FailedMetric] = []
        metrics = _computable(benchmark, self.sides[place], failed)
        questions = part, sha256(measured.tobytes()).digest()
        cached = place, questions, tuple(metric.name for metric in metrics)
        if cached not in self._tables:
            if not len(measured):
                self._tables[cached] = _RunTables([], [], failed)
                return self._tables[cached]
            samples = [self._runs[part][place].latest(question) for question in measured.tolist()]
            if questions not in self._layouts:
                layout = measures.layout_of([each[0] for each in samples], benchmark.dimensions)
                # Of the samples, only the numbers are needed later.
                by_unit = {unit: replace(frame, samples=()) for unit, frame in frames(samples, layout).items()}
                self._layouts[questions] = layout, by_unit
            layout, own_frames = self._layouts[questions]
            with withholding(not benchmark.public):
                tabled = measures.tables_of(samples, layout, metrics, failed)
            without_score = [one.without_score for one in tabled]
            # Measures that share their terms share the narrow ones.
            terms = {id(one.terms): _narrow(one.terms) for one in tabled}
            tabled = [
                replace(one, frame=own_frames[one.metric.unit], rows=(), terms=terms[id(one.terms)]) for one in tabled
            ]
            self._tables[cached] = _RunTables(tabled, without_score, failed, layout.pairs)
        return self._tables[cached]


def _narrow(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the terms in an eighth of their memory if all of them are 0 or 1; sums are of double precision anyway."""
    import numpy as np

    narrow: NDArray[np.float64] = terms.astype(np.int8) if np.isin(terms, (0, 1)).all() else terms
    return narrow


@dataclass(frozen=True, slots=True)
class _RunTables:
    """The terms of a run's measures, the units of each without a score, (units,), and the pairs of questions."""

    tabled: Sequence[Tabled]
    without_score: Sequence[NDArray[np.bool_]]
    failed: Sequence[FailedMetric]
    pairs: Sequence[Sequence[int]] = ()


def _by_part(sides: Sequence[Side]) -> dict[Part, list[dict[QuestionKey, list[Result]]]]:
    """The results of each part, run by run and question by question; equal keys are one object."""
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
    return by_part


def _scored_in_all(one_measure: Sequence[tuple[Tabled, NDArray[np.bool_]]]) -> tuple[Tabled, ...]:
    """Leave units out of every run's terms if any of the runs has no score for them.

    A unit that a metric leaves out for another reason, such as an invalid pair for `confusion`, stays in other runs.
    """
    import numpy as np

    unscored = np.any([without_score for _, without_score in one_measure], axis=0)
    tabled = tuple(run for run, _ in one_measure)
    return tuple(replace(run, terms=np.where(unscored, 0, run.terms)) for run in tabled) if unscored.any() else tabled


def _computable(benchmark: Benchmark, side: Side, failed: list[FailedMetric]) -> list[Metric]:
    """The metrics of a benchmark; if a baseline holds no responses, without those that read them, or may."""
    if side.run.responses != DIGESTS:
        return list(benchmark.metrics)
    why = f"baseline {side.name} holds no responses; write it again without --no-responses"
    failed += [FailedMetric(metric.name, why) for metric in benchmark.metrics if metric.needs_responses]
    return [metric for metric in benchmark.metrics if not metric.needs_responses]
