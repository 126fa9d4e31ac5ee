"""Read a run folder into a `Report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from medvqa import metrics, records, scoring
from medvqa.benchmarks import not_known
from medvqa.comparing import gating
from medvqa.items import (
    OUTCOMES,
    TECHNIQUES,
    Benchmark,
    Measure,
    Metric,
    Outcome,
    Result,
    Technique,
)
from medvqa.protocols.ablation import LABELS


@dataclass(frozen=True)
class Part:
    """One benchmark of a run, asked by one technique: its results by outcome, and its headline measures.

    A part without results holds the maxima over the techniques of a run that has several. `name` is the benchmark's,
    with the technique if the run has several and what was done to the images.
    """

    name: str
    benchmark: Benchmark
    technique: str
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    broken_pairs: tuple[str, ...]

    @cached_property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Number of items of each outcome, all outcomes named."""
        counts = Counter(result.score.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @cached_property
    def truncated(self) -> tuple[Result, ...]:
        """The results whose answers were cut off at a limit of tokens."""
        return tuple(result for result in self.results if metrics.is_complete(result) is False)

    @property
    def headline(self) -> list[Measure]:
        """The measures by which the benchmark is known, over all its items."""
        overall = {measure.name: measure for measure in self.measures if not measure.slice}
        return [overall[name] for name in (*self.benchmark.headline, *metrics.MAXIMA.values()) if name in overall]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the files of a run folder are written from.

    `selection` says what of its benchmarks the run selected, `covered` what of that has a result. `ablation` says what
    was done to the images ("blank images"), "" for nothing. `gate` is the verdict on these very results, None where
    there is none; `stale` tells that there is one on other results.
    """

    folder: Path
    run: Mapping[str, Any]
    parts: tuple[Part, ...]
    unread: tuple[str, ...]
    covered: records.Coverage
    selection: records.Selection
    sheets: tuple[Path, ...] = ()
    ablation: str = ""
    gate: gating.Decided | None = None
    stale: bool = False

    @property
    def title(self) -> str:
        """The run's name, and what was done to the images."""
        return f"{self.folder.name}: {self.ablation}" if self.ablation else self.folder.name

    def selected(self, part: Part) -> str:
        """How many questions of a part were selected, and how; "" where that is all of them, or is not known."""
        return self.selection.line(part.benchmark.name, part.technique)

    @property
    def public(self) -> frozenset[str]:
        """The benchmarks whose questions may be named in logs and in what a CI shows."""
        return frozenset(part.benchmark.name for part in self.parts if part.benchmark.public)

    @property
    def counted(self) -> str:
        """What a result is one of: items, or answers where each item has several."""
        return "answers" if self.run.get("repeat") else "items"

    @property
    def techniques(self) -> tuple[str, ...]:
        """By which techniques the results were had, in the order of `TECHNIQUES`."""
        return tuple(name for name in TECHNIQUES if any(part.technique == name for part in self.parts))


def build(
    folder: Path, known: Mapping[str, Benchmark], extra: Sequence[Metric] = (), stored: records.Stored | None = None
) -> Report:
    """Read a run folder and compute its measures; `stored` saves reading its results.

    `known` are the benchmarks by name; `extra` metrics are computed for each. Of questions that were selected by how
    they ended before there are no measures. UsageError when the folder is none, or holds results of a benchmark that is
    not known.
    """
    run = records.read_run(folder)
    stored = records.read(folder) if stored is None else stored
    selection = records.Selection.of(run)
    several = len({result.technique for result in stored.results}) > 1
    label = LABELS.get(run.get("ablation", ""), "")
    parts = []
    for name, group in groupby(stored.results, key=lambda result: result.item.benchmark):
        if name not in known:
            raise not_known(f"{folder} holds", name, known)
        made = _parts(known[name], list(group), extra, run)
        if selection.ranked_by_outcome:
            made = [replace(part, measures=()) for part in made if part.results]
        for part in made:
            technique = f" {part.technique}" if several else ""
            parts.append(replace(part, name=f"{name}{technique}" + (f" ({label})" if label else "")))
    decided = gating.read(folder)
    stale = decided is not None and decided.verdict.of != gating.digest(run, stored.results)
    gate = None if stale else decided
    return Report(
        folder,
        run,
        tuple(parts),
        stored.unread,
        records.coverage(folder, run, stored),
        selection,
        ablation=label,
        gate=gate,
        stale=stale,
    )


def _parts(
    benchmark: Benchmark, results: Sequence[Result], extra: Sequence[Metric], run: Mapping[str, Any]
) -> list[Part]:
    """One part for each technique, and one for the maxima over several."""
    about = run.get("benchmarks", {}).get(benchmark.name, {})
    common, prompts = about.get("signature", {}), about.get("prompts", {})
    by_technique = {name: tuple(result for result in results if result.technique == name) for name in TECHNIQUES}
    parts = [
        _part(benchmark, name, asked, extra, run, {**_signed(run, benchmark, name), "prompt": prompts.get(name, "")})
        for name, asked in by_technique.items()
        if asked
    ]
    measures = [measure for part in parts for measure in part.measures]
    prompt = "+".join(prompts[part.technique] for part in parts if part.technique in prompts)
    if found := metrics.maxima(measures, signature={**common, "prompt": prompt}):
        parts.append(Part(benchmark.name, benchmark, found[0].technique, (), tuple(found), ()))
    return parts


def _signed(run: Mapping[str, Any], benchmark: Benchmark, technique: Technique) -> dict[str, str]:
    """What the run says of a technique's numbers: of the judge only where it may have had a part in them."""
    about = run.get("benchmarks", {}).get(benchmark.name, {})
    others = records.signed(run) if technique not in about.get("judged_by", [technique]) else frozenset()
    signature = {name: value for name, value in about.get("signature", {}).items() if name not in others}
    return {**signature, "technique": technique}


def _part(
    benchmark: Benchmark,
    technique: Technique,
    results: tuple[Result, ...],
    extra: Sequence[Metric],
    run: Mapping[str, Any],
    signature: Mapping[str, str],
) -> Part:
    measures = metrics.measures(
        results,
        (*benchmark.metrics, *extra),
        benchmark.dimensions,
        benchmark=benchmark.name,
        signature=signature,
        score=scoring.scorer(benchmark, scoring.rules.recorded(run, [benchmark])),
        read_by=run.get("benchmarks", {}).get(benchmark.name, {}).get("read_by"),
    )
    paired = any(metric.unit == "pair" for metric in benchmark.metrics)
    broken = metrics.broken_pairs(results) if paired else ()
    signed = tuple(replace(measure, technique=technique) for measure in measures)
    return Part(benchmark.name, benchmark, technique, results, signed, tuple(broken))


def slices(measures: Iterable[Measure], dimension: str) -> list[Measure]:
    """The measures over the values of one dimension, in the order given."""
    return [measure for measure in measures if list(measure.slice) == [dimension]]
