"""Tables of one run's answers combined in several ways: by several numbers of samples, or by several thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from medvqa.benchmarks import not_known
from medvqa.figures import Column, Table, numbers
from medvqa.items import Benchmark, Result
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.records.run_record import RunRecord
from medvqa.report.build import Part, Report, parts_of
from medvqa.report.tables import components

SAMPLES, THRESHOLD = "N", "threshold %"
"""Headings of the first column."""
ORACLE = "oracle, which knows the answer key"
_HOW = {"mean": "mean of the first N answers", "vote": "vote of the first N answers"}


def by_samples(
    results: Sequence[Result],
    run: RunRecord,
    benchmarks: Mapping[str, Benchmark],
    protocol: Protocol,
    numbers: Sequence[int],
) -> list[Table]:
    """Return a table for each benchmark and technique: its headline measures over the first N samples, N by N.

    An oracle has a table for each threshold.
    """
    ways = [(protocol, _HOW.get(protocol.combine, protocol.combine))]
    if protocol.combine == "best-oracle":
        ways = [
            (
                replace(protocol, thresholds=(one,)),
                f"{ORACLE}: right if at least {one:g} % of the first N answers are right",
            )
            for one in combining.thresholds(protocol)
        ]
    tables = []
    for way, how in ways:
        chosen = {f"{number}": replace(way, samples=number) for number in numbers}
        tables += _tables(results, run, benchmarks, chosen, SAMPLES, how)
    return tables


def by_threshold(
    results: Sequence[Result], run: RunRecord, benchmarks: Mapping[str, Benchmark], protocol: Protocol
) -> list[Table]:
    """Return a table for each benchmark and technique: its headline measures, threshold by threshold."""
    chosen = {f"{one:g}": replace(protocol, thresholds=(one,)) for one in combining.thresholds(protocol)}
    return _tables(results, run, benchmarks, chosen, THRESHOLD, ORACLE)


def oracle(report: Report) -> list[Table]:
    """Return the tables by threshold of an oracle's run with several thresholds; [] for other runs."""
    protocol = report.run.protocol
    if protocol.combine != "best-oracle" or len(protocol.thresholds) < 2:
        return []
    results = [result for part in report.parts for result in part.results]
    return by_threshold(results, report.run, report.known, protocol)


def details(report: Report) -> list[Table]:
    """Return the tables that follow the headline measures: thresholds of an oracle, components of variance."""
    parts = components(report)
    return [*oracle(report), *([parts] if parts.rows else [])]


def threshold_measures(report: Report) -> list[dict[str, Any]]:
    """Return an oracle's headline measures at each threshold, for metrics.json; [] for other runs."""
    protocol = report.run.protocol
    if protocol.combine != "best-oracle":
        return []
    rows = []
    for part in report.parts:
        for threshold in combining.thresholds(protocol):
            run = report.run.under(replace(protocol, thresholds=(threshold,)))
            for one in parts_of(report.known[part.benchmark.name], part.results, run):
                rows += [
                    {"threshold": threshold, **{name: getattr(measure, name) for name in _WRITTEN}}
                    for measure in one.headline
                ]
    return rows


_WRITTEN = ("benchmark", "technique", "name", "value", "low", "high", "n", "count", "signature")
"""Fields of a measure in metrics.json."""


def _tables(
    results: Sequence[Result],
    run: RunRecord,
    benchmarks: Mapping[str, Benchmark],
    protocols: Mapping[str, Protocol],
    heading: str,
    how: str,
) -> list[Table]:
    several = len({result.technique for result in results}) > 1
    ordered = sorted(results, key=lambda result: result.key)
    tables = []
    for name, group in groupby(ordered, key=lambda result: result.item.benchmark):
        if name not in benchmarks:
            raise not_known("the run holds", name, benchmarks)
        of_benchmark = list(group)
        parts: dict[str, list[tuple[str, Part]]] = {}
        for row, protocol in protocols.items():
            samples = of_benchmark if protocol.samples is None else combining.first(of_benchmark, protocol.samples)
            for part in parts_of(benchmarks[name], samples, run.under(protocol)):
                if part.results:
                    parts.setdefault(part.technique, []).append((row, part))
        for technique, rows in parts.items():
            title = f"{name} {technique}" if several else name
            tables.append(_table(f"{title}: {how}", heading, rows))
    return tables


def _table(title: str, heading: str, rows: Sequence[tuple[str, Part]]) -> Table:
    """Return one table; votes have columns for ties and for questions without a vote."""
    names = list(dict.fromkeys(measure.name for _, part in rows for measure in part.headline))
    votes = any(part.votes is not None for _, part in rows)
    columns = [*numbers(heading)]
    for name in names:
        columns += [Column(f"{name} %", "figure"), Column("95 % interval", "interval")]
    columns += numbers(*(("ties", "no vote") if votes else ()))
    cells = []
    for row, part in rows:
        measures = {measure.name: measure.figure for measure in part.headline}
        counts = [None, None] if part.votes is None else [part.votes.ties, part.votes.without]
        found = (measures.get(name) for name in names for _ in range(2))
        cells.append((row, *found, *(counts if votes else ())))
    return Table(title, tuple(columns), tuple(cells))
