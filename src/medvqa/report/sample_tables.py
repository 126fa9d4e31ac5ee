"""Tables of one run's answers combined over several numbers of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from medvqa.benchmarks import not_known
from medvqa.figures import INTERVAL, Column, Table, numbers
from medvqa.items import Benchmark, Result
from medvqa.protocols import combining
from medvqa.protocols.protocol import Protocol
from medvqa.records.run_record import RunRecord
from medvqa.report.build import Part, parts_of

_HOW = {"mean": "mean of the first N answers", "vote": "vote of the first N answers"}


def by_samples(
    results: Sequence[Result],
    run: RunRecord,
    benchmarks: Mapping[str, Benchmark],
    protocol: Protocol,
    numbers: Sequence[int],
) -> list[Table]:
    """Return a table for each benchmark and technique: its headline measures over the first N samples, N by N."""
    several = len({result.technique for result in results}) > 1
    ordered = sorted(results, key=lambda result: result.key)
    tables = []
    for name, group in groupby(ordered, key=lambda result: result.item.benchmark):
        if name not in benchmarks:
            raise not_known("the run holds", name, benchmarks)
        of_benchmark = list(group)
        parts: dict[str, list[tuple[str, Part]]] = {}
        for number in numbers:
            of_first = run.under(replace(protocol, samples=number))
            for part in parts_of(benchmarks[name], combining.first(of_benchmark, number), of_first):
                if part.results:
                    parts.setdefault(part.technique, []).append((f"{number}", part))
        for technique, rows in parts.items():
            title = f"{name} {technique}" if several else name
            tables.append(_table(f"{title}: {_HOW[protocol.combine]}", rows))
    return tables


def _table(title: str, rows: Sequence[tuple[str, Part]]) -> Table:
    """Return one table; votes have columns for ties and for questions without a vote."""
    names = list(dict.fromkeys(measure.name for _, part in rows for measure in part.headline))
    votes = any(part.votes is not None for _, part in rows)
    columns = [*numbers("N")]
    for name in names:
        columns += [Column(f"{name} %", "figure"), INTERVAL]
    columns += numbers(*(("ties", "no vote") if votes else ()))
    cells = []
    for row, part in rows:
        measures = {measure.name: measure.figure for measure in part.headline}
        counts = [None, None] if part.votes is None else [part.votes.ties, part.votes.without]
        found = (measures.get(name) for name in names for _ in range(2))
        cells.append((row, *found, *(counts if votes else ())))
    return Table(title, tuple(columns), tuple(cells))
