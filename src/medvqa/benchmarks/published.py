"""The published rows of papers beside a run: the data sets' tables (`Owners.published`), and the run's own figures.

The rows of a shipped data set are in `published_rows`, in a file of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from medvqa import decode
from medvqa.items import Benchmark, Measure
from medvqa.paper_tables import BEST, Overall, PaperColumn, PaperTable, Row


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A figure of a run in a column of a paper's table; values are fractions.

    `other`: it comes from the other split than the paper's.
    """

    value: float
    measure: Measure
    other: bool = False


def figures(table: PaperTable, measures: Iterable[Measure], stands_in: str = "") -> list[PublishedFigure | None]:
    """Return a run's figures by column of the table, None where the run has none.

    `stands_in` names a benchmark in place of all of the table's. A column of a slice is taken from the other split if
    the run has only that.
    """
    by_key = {
        (m.benchmark, m.technique, m.name, *next(iter(m.slice.items()), ("", ""))): m for m in reversed(list(measures))
    }

    def figure(column: PaperColumn) -> PublishedFigure | None:
        splits = [column.split, *(table.benchmarks if column.slice or column.mean else ())]
        for split in splits:
            benchmark = stands_in or table.benchmarks[split]
            place = (column.measure, *next(iter(column.slice.items()), ("", "")))
            techniques = table.techniques if column.technique == BEST else (column.technique,)
            found = [measure for each in techniques if (measure := by_key.get((benchmark, each, *place))) is not None]
            given = [(measure.value, measure) for measure in found if measure.value is not None]
            if given:
                value, measure = max(given, key=lambda each: each[0])
                return PublishedFigure(value, measure, split != column.split)
        return None

    return [figure(column) if column.measure else None for column in table.columns]


@cache
def read(name: str) -> PaperTable:
    """Return the table in the file of that name."""
    file = resources.files("medvqa").joinpath("benchmarks", "published_rows", f"{name}.json")
    table = decode.decode_bytes(file.read_bytes(), PaperTable, name, "JSON")
    return replace(table, rows=tuple(_with_means(row, table.columns) for row in table.rows))


def tables(benchmarks: Iterable[Benchmark]) -> dict[str, PaperTable]:
    """Return the tables of benchmarks, each by the name of its data set."""
    return {one.group or one.name: one.owners.published() for one in benchmarks if one.owners.published is not None}


def overall(benchmark: Benchmark) -> Overall | None:
    """Return the published figures of a benchmark over all questions; None without a paper."""
    return None if benchmark.owners.published is None else benchmark.owners.published().of(benchmark.name)


def _with_means(row: Row, columns: Sequence[PaperColumn]) -> Row:
    """Return the row with its means over the columns that have a weight; blank if one of them is."""
    weighted = [(value, column.weight) for value, column in zip(row.values, columns, strict=True) if column.weight]
    if not weighted or any(value is None for value, _ in weighted):
        return row
    values = [value for value, _ in weighted if value is not None]
    means = {
        "micro": sum(v * weight for v, (_, weight) in zip(values, weighted, strict=True)) / sum(w for _, w in weighted),
        "macro": sum(values) / len(values),
    }
    return replace(
        row,
        values=tuple(
            means[column.mean] if column.mean else value for value, column in zip(row.values, columns, strict=True)
        ),
    )
