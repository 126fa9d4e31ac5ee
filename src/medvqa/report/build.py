"""Read a run folder into a `Report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import cast

from msgspec import structs

from medvqa import memory, metrics, scoring
from medvqa.benchmarks import not_known, open_answers
from medvqa.comparing import blank as blanks
from medvqa.comparing import gating
from medvqa.items import (
    OUTCOMES,
    TECHNIQUES,
    Benchmark,
    DataError,
    FailedMetric,
    Kind,
    Kit,
    Measure,
    Metric,
    Outcome,
    Result,
    Technique,
    Variant,
    replace,
    withholding,
)
from medvqa.judging import correcting, taxonomy
from medvqa.metrics.confidences import ConfidenceQuality
from medvqa.protocols import added_measures, combining, position, rotation
from medvqa.protocols.ablation import LABELS
from medvqa.protocols.protocol import Protocol
from medvqa.protocols.question_forms import as_offered
from medvqa.protocols.voting import Votes
from medvqa.records import coverage, run_folder, run_record
from medvqa.records.coverage import Basis, Coverage
from medvqa.records.run_folder import Stored
from medvqa.records.run_record import RunRecord, Selection
from medvqa.report.confidences import of_results

PROMPT = "prompt"
"""The dimension of slices that hold the answers to one prompt."""


@dataclass(frozen=True)
class Part:
    """One benchmark of a run by one technique: its results and measures.

    If a run has several techniques, a further part without results holds the maxima over them. `name` is the
    benchmark's, followed by the technique if there are several, and by the ablation and the way to combine answers.
    `failed`: metrics that could not be computed, with their reasons. `spreads`: the spread over prompts and samples of
    each metric, () if each question was asked once. `combined`: the results that the measures count in place of
    `results`, () if they count these. `votes`: their votes, None if nothing was voted on. `confidence`: the quality of
    the answers' confidences, None without any.
    """

    name: str
    benchmark: Benchmark
    technique: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    broken_pairs: tuple[str, ...]
    failed: tuple[FailedMetric, ...] = ()
    spreads: tuple[metrics.Spread, ...] = ()
    combined: tuple[Result, ...] = ()
    votes: Votes | None = None
    confidence: ConfidenceQuality | None = None

    @property
    def prompts(self) -> tuple[str, ...]:
        """The names of the prompts, () if the run has one."""
        return tuple(dict.fromkeys(measure.slice[PROMPT] for measure in slices(self.measures, PROMPT)))

    @property
    def headline_spreads(self) -> list[metrics.Spread]:
        """The spreads of the benchmark's headline measures."""
        by_name = {spread.name: spread for spread in self.spreads}
        return [by_name[name] for name in self.benchmark.headline if name in by_name]

    @cached_property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Number of items by outcome, for all outcomes."""
        counts = Counter(result.score.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @cached_property
    def truncated(self) -> tuple[Result, ...]:
        """Results whose answers were cut off at a token limit."""
        return tuple(result for result in self.results if metrics.is_complete(result) is False)

    @property
    def headline(self) -> list[Measure]:
        """The benchmark's headline measures, over all its items."""
        return self._overall(*_headline(self.benchmark))

    @property
    def sliced(self) -> list[Measure]:
        """The headline measures without those of rotated runs alone, for tables of slices."""
        return self._overall(*self.benchmark.headline, *metrics.MAXIMA.values())

    def _overall(self, *names: str) -> list[Measure]:
        overall = {measure.name: measure for measure in self.measures if not measure.slice}
        return [overall[name] for name in names if name in overall]


@dataclass(frozen=True, slots=True)
class Report:
    """The content of all report files of a run folder.

    `selection`: the questions that the run selected; `covered`: those with a result. `known`: the known benchmarks by
    name. `gate`: the verdict on exactly these results, or None; `stale`: the stored verdict is on other results.
    `errors`: the kinds of exactly these wrong answers, or None, and their shares; `errors_stale`: the stored kinds are
    those of others. `blank`: the gap to a run without the images, of exactly these results, or None; `blank_stale`: the
    stored gap is that of others. `agreement`: the judge's means, corrected by people, or None; `agreement_stale`: the
    stored ones are of other scores. `basis`: the results that all of it was computed from.
    """

    folder: Path
    run: RunRecord
    parts: tuple[Part, ...]
    unread: tuple[str, ...]
    covered: Coverage
    selection: Selection
    basis: Basis
    sheets: tuple[Path, ...] = ()
    known: Mapping[str, Benchmark] = field(default_factory=dict, repr=False)
    gate: gating.Decided | None = None
    stale: bool = False
    errors: taxonomy.Classified | None = None
    error_shares: tuple[taxonomy.ErrorShare, ...] = ()
    errors_stale: bool = False
    blank: blanks.BlankRun | None = None
    blank_stale: bool = False
    agreement: correcting.KeptAgreement | None = None
    agreement_stale: bool = False

    @property
    def title(self) -> str:
        """The run's name and label."""
        return f"{self.folder.name}: {self.label}" if self.label else self.folder.name

    @property
    def label(self) -> str:
        """The ablation and the protocol in few words, as beside every number; "" for the defaults."""
        return label_of(self.run)

    @property
    def ablation(self) -> str:
        """The ablation in words, such as "blank images", or ""."""
        return _ablation(self.run)

    @property
    def combine(self) -> str:
        """How answers were combined, such as "vote of 10", or ""."""
        return _combine(self.run)

    @property
    def protocol(self) -> str:
        """How questions were asked and answers combined, as in "3 shots, vote of 10"; "" for the defaults."""
        return _protocol(self.run)

    def selected(self, part: Part) -> str:
        """How many questions of a part were selected, and by which options; "" if all were, or it is unknown."""
        return self.selection.line(part.benchmark.name, part.technique)

    @property
    def public(self) -> frozenset[str]:
        """Names of the public benchmarks: only their questions may be named in logs and in CI."""
        return frozenset(part.benchmark.name for part in self.parts if part.benchmark.public)

    @property
    def counted(self) -> str:
        """The plural unit of results: "answers" if items have several samples or prompts, else "items"."""
        protocol = self.run.protocol
        several = protocol.samples is not None or any(result.variant for part in self.parts for result in part.results)
        return "answers" if several else "items"

    @property
    def extraction(self) -> str:
        """The rule that read the answers: "strict rules (sound)", or the published rule's name."""
        name = self.run.extraction
        return f"strict rules ({name})" if name == scoring.rules.SOUND else name

    @property
    def techniques(self) -> tuple[str, ...]:
        """The techniques of the results, in the order of `TECHNIQUES`."""
        return tuple(name for name in TECHNIQUES if any(part.technique == name for part in self.parts))


@memory.no_cycle_search()
def build(
    folder: Path,
    benchmarks: Mapping[str, Benchmark],
    stored: Stored | None = None,
    *,
    like: Sequence[str] | None = None,
    wrong_costs: float | None = None,
    data: Path | None = None,
) -> Report:
    """Read a run folder and compute its measures; `stored` saves reading its results.

    `like`: the kits whose counts are shown too (`Owners.kits`), by default those of the run. `wrong_costs`: the cost of
    a wrong answer in effective_reliability, by default that of the run. `data` is the data folder, where kits find
    training questions.

    Questions selected by an earlier outcome (--lf) have no measures.
    UsageError if it is no run folder, or holds results of an unknown benchmark.
    """
    run = run_record.read_run(folder)
    if wrong_costs is not None:
        run = structs.replace(run, wrong_costs=wrong_costs)
    stored = run_folder.read(folder) if stored is None else stored
    selection = run.selected
    parts = _parts(run, folder, as_offered(stored.results, run.protocol.perturb), benchmarks, like, data)
    decided, gaps = gating.read(folder), blanks.read(folder)
    of = gating.digest(run, combining.combined(stored.results, run.protocol, run.prompts)) if decided or gaps else ""
    stale = decided is not None and decided.verdict.of != of
    gate = None if stale else decided
    blank_stale = gaps is not None and (gaps.of != of or selection.ranked_by_outcome)
    classified = taxonomy.read(folder)
    errors = classified if classified is not None and classified.is_of(stored.results) else None
    shares: list[taxonomy.ErrorShare] = []
    if errors is not None:
        own = {name: benchmarks[name].dimensions for name in errors.samples if name in benchmarks}
        shares = taxonomy.shares(errors, stored.results, run, own)
    covered, kept = coverage.coverage(folder, run, stored), correcting.read(folder)
    return Report(
        folder,
        run,
        tuple(parts),
        stored.unread,
        covered,
        selection,
        Basis.of(folder, stored, covered),
        known=benchmarks,
        gate=gate,
        stale=stale,
        errors=errors,
        error_shares=tuple(shares),
        errors_stale=classified is not None and errors is None,
        blank=None if blank_stale else gaps,
        blank_stale=blank_stale,
        agreement=kept if kept is not None and kept.is_of(stored.results) else None,
        agreement_stale=kept is not None and not kept.is_of(stored.results),
    )


def _parts(
    run: RunRecord,
    folder: Path,
    results: Sequence[Result],
    benchmarks: Mapping[str, Benchmark],
    like: Sequence[str] | None,
    data: Path | None,
) -> list[Part]:
    """Return the parts of a run's results under the names that tables show; for the arguments see `build`."""
    ranked_by_outcome = run.selected.ranked_by_outcome
    several = len({result.technique for result in results}) > 1
    label = label_of(run)
    parts = []
    for name, group in groupby(results, key=lambda result: result.item.benchmark):
        if name not in benchmarks:
            raise not_known(f"{folder} holds", name, benchmarks)
        kits = run.metric_like if like is None else like
        benchmark, unread = _with_kits(benchmarks[name], kits, run, data, benchmarks)
        parts_of_benchmark = [
            replace(part, failed=(*part.failed, *unread)) if part.results else part
            for part in parts_of(benchmark, list(group), run)
        ]
        if ranked_by_outcome:
            parts_of_benchmark = [replace(part, measures=()) for part in parts_of_benchmark if part.results]
        for part in parts_of_benchmark:
            technique = f" {part.technique}" if several else ""
            parts.append(replace(part, name=f"{name}{technique}" + (f" ({label})" if label else "")))
    return parts


def label_of(run: RunRecord) -> str:
    """Return the label of a run as `Report.label` has it."""
    return ", ".join(filter(None, (_ablation(run), _protocol(run))))


def _ablation(run: RunRecord) -> str:
    return LABELS.get(run.ablation or "", "")


def _combine(run: RunRecord) -> str:
    return combining.label(run.protocol, run.models)


def _protocol(run: RunRecord) -> str:
    return ", ".join(filter(None, (run.protocol.label, _combine(run))))


def shown_benchmark(benchmark: Benchmark, run: RunRecord) -> Benchmark:
    """Return a benchmark with the metrics that the reports of a run show: of its protocol, its judge and its kits."""
    shown = _under(_with_kits(benchmark, run.metric_like, run, None, {})[0], run)
    return added_measures.under(shown, [run.protocol], run.techniques, [run.wrong_costs])


def headline_of(benchmark: Benchmark, run: RunRecord) -> tuple[str, ...]:
    """Return the names of a benchmark's headline measures in the reports of a run, in their order."""
    return _headline(shown_benchmark(benchmark, run))


def _headline(benchmark: Benchmark) -> tuple[str, ...]:
    names = benchmark.headline
    return (*names, *metrics.MAXIMA.values(), *position.names(names))


def _under(benchmark: Benchmark, run: RunRecord) -> Benchmark:
    """Return a benchmark with the names of its measures in a run, without those of a judge if there was none."""
    if run.judge is not None or run.readers is not None:
        # People may have scored open answers.
        return benchmark
    shown = tuple(name for name in benchmark.headline if name not in metrics.judged(benchmark))
    return replace(benchmark, headline=shown)


def _with_kits(
    benchmark: Benchmark,
    kits: Sequence[str],
    run: RunRecord,
    data: Path | None,
    known: Mapping[str, Benchmark],
) -> tuple[Benchmark, tuple[FailedMetric, ...]]:
    """Return the benchmark with metrics that count like these kits, as headline measures too.

    Then the kits that lack columns, because their training questions cannot be read.
    """
    trained, failed = known.get(benchmark.owners.training), list[FailedMetric]()

    def training() -> tuple[str, ...]:
        try:
            return () if trained is None else open_answers(trained, data)
        except DataError as error:
            failed.append(FailedMetric(f"{kit} with training answers", str(error)))
            return ()

    setting, added = Kit(judged=run.judge is not None, training=training), list[Metric]()
    for kit in dict.fromkeys(kits):
        if kit in benchmark.owners.kits:
            added += benchmark.owners.kits[kit](setting)
    names = (metric.name for metric in added)
    changed = replace(benchmark, metrics=(*benchmark.metrics, *added), headline=(*benchmark.headline, *names))
    return changed, tuple(failed)


def parts_of(benchmark: Benchmark, results: Sequence[Result], run: RunRecord) -> list[Part]:
    """One part per technique, and one for the maxima over several."""
    benchmark = _under(benchmark, run)
    recorded = run.benchmark(benchmark.name)
    # Reports show the user's own tags beside the benchmark's.
    own_tags = () if run.tags is None else run.tags.dimensions
    benchmark = replace(benchmark, dimensions=(*benchmark.dimensions, *own_tags))
    common, prompts = recorded.signature, recorded.prompts
    by_technique = {name: tuple(result for result in results if result.technique == name) for name in TECHNIQUES}
    with withholding(not benchmark.public):
        parts = [
            _part(benchmark, name, answered, run, {**_signed(run, benchmark, name), "prompt": prompts.get(name, "")})
            for name, answered in by_technique.items()
            if answered
        ]
    measures = [measure for part in parts for measure in part.measures]
    prompt = "+".join(prompts[part.technique] for part in parts if part.technique in prompts)
    if best := metrics.maxima(measures, signature={**common, "prompt": prompt}):
        parts.append(Part(benchmark.name, benchmark, best[0].technique, (), tuple(best), ()))
    return parts


def of_samples(report: Report, samples: Collection[int]) -> Report:
    """Return the report over these samples alone, such as the readers of a group."""
    # The benchmarks of the parts have the user's own tags already.
    run = structs.replace(report.run, tags=None)
    parts = [
        part
        for of in report.parts
        if of.results
        for part in parts_of(of.benchmark, [result for result in of.results if result.sample in samples], run)
        if part.results
    ]
    return replace(report, parts=tuple(parts))


def _signed(run: RunRecord, benchmark: Benchmark, technique: Technique) -> dict[str, str]:
    """The signature of a technique's measures; it names the judge only if a judge may have scored this technique."""
    recorded = run.benchmark(benchmark.name)
    judged = recorded.judged_by is None or technique in recorded.judged_by
    others = frozenset() if judged else run.judge_signed
    signature = {name: value for name, value in recorded.signature.items() if name not in others}
    return {**signature, "technique": technique}


def _part(
    benchmark: Benchmark,
    technique: Technique,
    results: tuple[Result, ...],
    run: RunRecord,
    signature: Mapping[str, str],
) -> Part:
    failed: list[FailedMetric] = []
    protocol = run.protocol
    benchmark = added_measures.under(benchmark, [protocol], [technique], [run.wrong_costs])
    recorded = run.benchmark(benchmark.name)
    measured = partial(
        metrics.measures,
        metrics=benchmark.metrics,
        dimensions=benchmark.dimensions,
        benchmark=benchmark.name,
        signature=signature,
        score=scoring.scorer(benchmark, scoring.rules.recorded(run.extraction, [benchmark])),
        orders=rotation.orders(technique, protocol.rotations),
        read_by=cast("Mapping[Kind, str]", recorded.read_by) or None,
        failed=failed,
    )
    prompts = run.prompts
    counted = combining.combined(results, protocol, prompts)
    measures = measured(counted)
    by_prompt = _by_prompt(results, recorded.asked_by)
    for name, answers in by_prompt.items() if len(by_prompt) > 1 else ():
        of_prompt = measured(combining.combined(answers, protocol), failed=[])
        measures += [replace(measure, slice={PROMPT: name}) for measure in of_prompt if not measure.slice]
    if protocol.rotations != 0:
        in_order = combining.combined(results, replace(protocol, rotations=0))
        alone = partial(measured, orders=lambda item: 1, failed=[])
        measures += position.measures(results, in_order, protocol.rotations, benchmark, alone)
    paired = any(metric.unit == "pair" for metric in benchmark.metrics)
    broken = metrics.broken_pairs(results) if paired else ()
    signed = tuple(replace(measure, technique=technique) for measure in measures)
    return Part(
        benchmark.name,
        benchmark,
        technique,
        results,
        signed,
        broken,
        tuple(failed),
        _spreads(benchmark, technique, results, protocol, prompts, tuple(by_prompt)),
        counted,
        combining.votes(results, protocol),
        of_results(benchmark.name, technique, counted, protocol),
    )


def _spreads(
    benchmark: Benchmark,
    technique: Technique,
    results: Sequence[Result],
    protocol: Protocol,
    prompts: Mapping[str, Sequence[str]],
    order: Sequence[str],
) -> tuple[metrics.Spread, ...]:
    """Return the spreads over prompts, in this `order`, and samples."""
    if protocol.readers:
        # The table of readers has the values of each.
        return ()
    # Each sample has a value of its own: samples stay apart, rotations do not.
    separate = combining.combined(results, replace(protocol, combine="mean"), prompts)
    spreads = metrics.spreads(
        separate,
        benchmark.metrics,
        benchmark=benchmark.name,
        technique=technique,
        prompt_of=prompt_of,
        prompts=order,
        failed=[],
        decomposed=benchmark.headline,
    )
    return tuple(spreads)


def prompt_of(result: Result) -> str:
    """Return the name of a result's prompt, "" if the run has one."""
    return Variant.parse(result.variant).prompt


def _by_prompt(results: Iterable[Result], names: Iterable[str]) -> dict[str, list[Result]]:
    """Return the results of each prompt, in the order of `names`; other prompts follow."""
    by_name: dict[str, list[Result]] = {name: [] for name in names}
    for result in results:
        by_name.setdefault(prompt_of(result), []).append(result)
    return {name: of_prompt for name, of_prompt in by_name.items() if of_prompt}


def slices(measures: Iterable[Measure], dimension: str) -> list[Measure]:
    """The measures over the values of one dimension, in input order."""
    return [measure for measure in measures if list(measure.slice) == [dimension]]
