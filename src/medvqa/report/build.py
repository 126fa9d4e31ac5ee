"""What a run folder says, as one value, and the files that are written from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from medvqa import engine, metrics, records
from medvqa.items import OUTCOMES, Benchmark, Measure, Metric, Outcome, Result, UsageError

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark of a run: its results by outcome, its headline measures, and what a reader must know."""

    benchmark: Benchmark
    results: tuple[Result, ...]
    measures: tuple[Measure, ...]
    broken_pairs: tuple[str, ...]

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Number of items of each outcome, all outcomes named."""
        counts = Counter(result.score.outcome for result in self.results)
        return {outcome: counts[outcome] for outcome in OUTCOMES}

    @property
    def headline(self) -> list[Measure]:
        """The measures by which the benchmark is known, over all its items."""
        overall = {measure.name: measure for measure in self.measures if not measure.slice}
        return [overall[name] for name in self.benchmark.headline if name in overall]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the files of a run folder are written from. `missing` names items without a result."""

    folder: Path
    run: Mapping[str, Any]
    parts: tuple[Part, ...]
    unread: tuple[str, ...]
    missing: tuple[str, ...] = ()
    sheets: tuple[Path, ...] = ()


def build(
    folder: Path, known: Mapping[str, Benchmark], extra: Sequence[Metric] = (), missing: Sequence[str] = ()
) -> Report:
    """Read a run folder and compute its measures.

    `known` are the benchmarks by name; `extra` metrics are computed for each. UsageError when the folder is
    none, or holds results of a benchmark that is not known.
    """
    run = records.read_run(folder)
    stored = records.read(folder)
    parts = []
    for name, group in groupby(stored.results, key=lambda result: result.item.benchmark):
        if name not in known:
            raise UsageError(
                f"{folder} holds results of benchmark '{name}', which is not known here; known: "
                f"{', '.join(sorted(known))}. Name the file that provides it: --plugin=conftest.py"
            )
        parts.append(_part(known[name], tuple(group), extra, run))
    return Report(folder, run, tuple(parts), stored.unread, tuple(sorted(missing)))


def _part(benchmark: Benchmark, results: tuple[Result, ...], extra: Sequence[Metric], run: Mapping[str, Any]) -> Part:
    about = run.get("benchmarks", {}).get(benchmark.name, {})
    measures = metrics.measures(
        results,
        (*benchmark.metrics, *extra),
        benchmark.dimensions,
        benchmark=benchmark.name,
        signature=about.get("signature", {}),
        score=engine.scorer(benchmark, run.get("extraction", "sound")),
    )
    paired = any(metric.unit == "pair" for metric in benchmark.metrics)
    broken = metrics.broken_pairs(results) if paired else ()
    return Part(benchmark, results, tuple(measures), tuple(broken))


def notes_of(report: Report) -> list[str]:
    """What a reader must know beside the numbers, one sentence each; nothing when all is well."""
    notes = []
    for part in report.parts:
        name, outcomes = part.benchmark.name, part.outcomes
        about = report.run.get("benchmarks", {}).get(name, {})
        if outcomes["unscored"]:
            count = f"{outcomes['unscored']} of {len(part.results)} answers are stored and unscored"
            notes.append(f"{name}: {count}: no answer key, or an open answer that nobody has judged.")
        if outcomes["error"]:
            first = next(result for result in part.results if result.score.outcome == "error")
            notes.append(
                f"{name}: {_items(outcomes['error'])} ended in error, without a score; "
                f"the first: {first.item.id}: {first.score.why}"
            )
        if part.broken_pairs:
            number = len(part.broken_pairs)
            have = "1 pair has" if number == 1 else f"{number} pairs have"
            some = _some(part.broken_pairs)
            notes.append(f"{name}: {have} only one question in this run, left out of pair measures: {some}.")
        if about.get("answers") == "category":
            notes.append(f"{name}: the answer key was recovered from the column 'category', not given by its owners.")
        if report.run.get("extraction") == "official" and part.benchmark.official_note:
            notes.append(f"{name}: {part.benchmark.official_note}")
    if report.missing:
        notes.append(f"{_items(len(report.missing))} of this run without a result: {_some(report.missing)}.")
    notes.extend(f"{sheet.name} is the sheet to send to the benchmark's owners." for sheet in report.sheets)
    notes.extend(f"not read: {line}" for line in report.unread)
    return notes


def usage_of(report: Report) -> str | None:
    """What the answers of the run used, as one line; None where they do not tell."""
    usage = report.run.get("usage") or {}
    tokens = [f"{usage[name]:,.0f} tokens {name}" for name in ("input", "output") if name in usage]
    cost = [f"cost {usage['cost']:,.4g} by the prices of the config"] if "cost" in usage else []
    return f"Used: {', '.join(tokens + cost)}." if tokens or cost else None


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _some(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def write(report: Report) -> Report:
    """Write metrics.json, summary.md, junit.xml, and the sheets of benchmarks that ask for one.

    A benchmark whose owners withhold its answer key asks for a sheet to send them. Returns the report with
    the paths of the sheets.
    """
    from medvqa.report import junit, markdown

    sheets = tuple(
        part.benchmark.submission(part.results, report.folder)
        for part in report.parts
        if part.benchmark.submission is not None and part.outcomes["unscored"]
    )
    report = replace(report, sheets=sheets)
    records.write_json(report.folder / "metrics.json", as_json(report))
    records.write_atomic(report.folder / "summary.md", markdown.render(report).encode())
    records.write_atomic(report.folder / "junit.xml", junit.render(report))
    return report


def as_json(report: Report) -> dict[str, Any]:
    """The content of metrics.json."""
    return {
        "schema": SCHEMA,
        "run": report.run,
        "measures": [measure for part in report.parts for measure in part.measures],
        "gate": None,
        "outcomes": {part.benchmark.name: dict(part.outcomes) for part in report.parts},
        "broken_pairs": {part.benchmark.name: part.broken_pairs for part in report.parts if part.broken_pairs},
        "missing": report.missing,
    }


def slices(measures: Iterable[Measure], dimension: str) -> list[Measure]:
    """The measures over the values of one dimension, in the order given."""
    return [measure for measure in measures if list(measure.slice) == [dimension]]
