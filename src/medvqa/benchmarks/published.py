"""The tables of the benchmarks' papers: published figures, and the measures that give the same columns.

The figures are facts, copied from the papers; `published_rows/*.json` names table and known slips: a file for the main
table of each paper, `tables.json` for the others. The tables of the neighbours hold single rows with their sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from medvqa import decode
from medvqa.items import Measure, UsageError

T = TypeVar("T")

PAPERS: Mapping[str, str] = {"mediconfusion": "1", "gmai-mmbench": "2", "medlesionvqa": "2"}
"""The papers, with the numbers of their main tables."""
NEIGHBOURS = (
    *("vqa-rad", "slake", "path-vqa", "pmc-vqa", "omnimedvqa", "mmmu-health"),
    *("medxpertqa-mm", "medframeqa", "radimagenet-vqa", "rexvqa"),
)
"""Data sets whose published rows are in one file; each has the name of its group."""
CHECKED: Mapping[str, str] = {
    "copied": "as the paper or card prints it",
    "seen": "in the authors' own data",
    "counted": "from recorded outputs, by the owners' rules",
    "second-hand": "as a third party prints it",
}
"""How a row of the neighbours was checked."""
TEST = "test"
BEST = "best"
"""In place of a column's technique: that of the largest figure over the table's techniques."""


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column of a paper's table, and the measure that gives it; no `measure`: no run can give it.

    `technique` (or BEST), `slice` and `split` (val or test) are those of the measure. `weight`: the number of questions
    of a slice. `mean` (micro or macro): published rows have the mean of the columns with weights.
    """

    title: str
    measure: str = ""
    technique: str = "mc"
    split: str = TEST
    slice: Mapping[str, str] = field(default_factory=dict)
    weight: float = 0.0
    mean: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A published row: percentages by column, None for a blank one.

    `ablation` as in runs. `slip`: a known error of the row; `doubtful`: the techniques whose figures it concerns.
    `chance`: the values of guessing, which every technique shares. `checked`: one of CHECKED, "" for a paper's table.
    """

    name: str
    values: tuple[float | None, ...]
    ablation: str = ""
    slip: str = ""
    doubtful: tuple[str, ...] = ()
    chance: tuple[float, ...] = ()
    checked: str = ""

    @property
    def shown(self) -> str:
        """The name, with how the row was checked."""
        return f"{self.name} ({self.checked})" if self.checked else self.name


@dataclass(frozen=True, slots=True)
class Overall:
    """The published figures of a benchmark over all questions, in percent by `measures`.

    `rows`: name, technique ("" if there is one) and values, None for a blank. `abilities`: people's figures by ability,
    with a source. `titles`: the columns' own names, if rows of several sources were not counted by `measures`.
    """

    source: str
    note: str
    measures: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[float | None, ...]], ...]
    abilities: Mapping[str, Any] = field(default_factory=dict)
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of a paper.

    `benchmarks`: names by split. `extraction` and `techniques`: how its authors asked and read answers. `overall`: the
    column and the measure of all questions, by split. `judge` and `extractor`: the models that scored free answers, and
    read options where rules found none, as the paper names them. `needs_judge`: no figure is of use without one, if the
    benchmark has open questions. `metric_like`: the kit whose counts its columns have, as for --metric-like.
    """

    title: str
    source: str
    note: str
    benchmarks: Mapping[str, str]
    columns: tuple[PaperColumn, ...]
    rows: tuple[Row, ...]
    extraction: str = "sound"
    techniques: tuple[str, ...] = ("mc",)
    overall: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    abilities: Mapping[str, Any] = field(default_factory=dict)
    needs_judge: bool = True
    judge: str = ""
    extractor: str = ""
    metric_like: str = ""

    @property
    def measured(self) -> bool:
        """Whether measures of a run give columns of it."""
        return any(column.measure for column in self.columns)

    def of(self, name: str) -> Overall | None:
        """Return the published figures of a benchmark over all questions; None if the table has none."""
        split = next((split for split, benchmark in self.benchmarks.items() if benchmark == name), None)
        if split is None or (self.overall and split not in self.overall):
            return None
        source, names, places = self.source, tuple[str, ...](), dict[str, list[int]]()
        if split in self.overall:
            title, measure = self.overall[split]
            source, names = f"{source}, column {title}", (measure,)
            places[""] = [i for i, column in enumerate(self.columns) if column.title == title]
        else:
            for technique in self.techniques:
                places[technique] = [
                    i for i, column in enumerate(self.columns) if column.measure and column.technique == technique
                ]
            names = tuple(self.columns[i].measure for i in places[self.techniques[0]])
        rows: list[tuple[str, str, tuple[float | None, ...]]] = [
            (row.name, "", row.chance) for row in self.rows if row.chance
        ]
        for row in self.rows:
            for technique, columns in places.items():
                values = tuple(row.values[i] for i in columns)
                # A row of a paper is whole; rows of the neighbours come from several sources.
                given = any if row.checked else all
                if given(value is not None for value in values) and technique not in row.doubtful and not row.ablation:
                    rows.append((row.shown, technique, values))
        columns = places["" if split in self.overall else self.techniques[0]]
        mixed = any(row.checked for row in self.rows)
        titles = tuple(self.columns[i].title for i in columns) if mixed else ()
        return Overall(source, self.note, names, tuple(rows), self.abilities if split == "val" else {}, titles)


def _numbers(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


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


def _read(name: str, type: type[T]) -> T:
    file = resources.files("medvqa").joinpath("benchmarks", "published_rows", f"{name}.json")
    return decode.decode_bytes(file.read_bytes(), type, name, "JSON")


@cache
def tables() -> dict[str, PaperTable]:
    """Return the main table of each paper by the paper's name."""
    found = {name: _read(name, PaperTable) for name in PAPERS} | _read("neighbours", dict[str, PaperTable])
    return {
        name: replace(table, rows=tuple(_with_means(row, table.columns) for row in table.rows))
        for name, table in found.items()
    }


@cache
def further() -> dict[str, dict[str, PaperTable]]:
    """Return the other tables with published figures, by the paper's name and the table's number."""
    return _read("tables", dict[str, dict[str, PaperTable]])


def numbered(paper: str, number: str = "") -> PaperTable:
    """Return a table of a paper; the main one without a number, or by its own (UsageError)."""
    if number in ("", PAPERS.get(paper)):
        return tables()[paper]
    others = further().get(paper, {})
    if number not in others:
        listed = ", ".join(sorted({*others, PAPERS[paper]}, key=int)) if paper in PAPERS else "the main one, without it"
        raise UsageError(f"--table={number}: {paper} has published figures of: {listed}")
    return others[number]


@cache
def overall(benchmark: str) -> Overall | None:
    """Return the published figures of a benchmark over all questions; None without a paper."""
    return next((found for table in tables().values() if (found := table.of(benchmark)) is not None), None)


def _with_means(row: Row, columns: Sequence[PaperColumn]) -> Row:
    """Return the row with its means over the columns that have a weight; blank if one of them is."""
    weighted = [(value, column.weight) for value, column in zip(row.values, columns, strict=True) if column.weight]
    if not weighted or any(value is None for value, _ in weighted):
        return row
    values = _numbers(value for value, _ in weighted)
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
