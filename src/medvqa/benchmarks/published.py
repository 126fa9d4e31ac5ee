"""The main tables of the benchmarks' papers: published figures, and the measures that give the same columns.

The figures are facts, copied from the papers; `published/*.json` names table and known slips. The tables of the
neighbours hold single rows with their sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from medvqa import decode
from medvqa.items import Measure

T = TypeVar("T")

PAPERS = ("mediconfusion", "gmai-mmbench", "medlesionvqa")
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


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column of a paper's table, and the measure that gives it; no `measure`: no run can give it.

    `technique`, `slice` and `split` (val or test) are those of the measure. `best`: the largest of these columns, by
    number. `weight`: the number of questions of a slice. `mean` (micro or macro): published rows have the mean of the
    columns with weights.
    """

    title: str
    measure: str = ""
    technique: str = "mc"
    split: str = TEST
    slice: Mapping[str, str] = field(default_factory=dict)
    best: tuple[int, ...] = ()
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
    """The main table of a paper.

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

    `other`: it comes from the other split than the paper's. `measure`: None for a maximum over columns.
    """

    value: float
    measure: Measure | None = None
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
            key = (benchmark, column.technique, column.measure, *next(iter(column.slice.items()), ("", "")))
            measure = by_key.get(key)
            if measure is not None and measure.value is not None:
                return PublishedFigure(measure.value, measure, split != column.split)
        return None

    found = [figure(column) if column.measure else None for column in table.columns]
    for place, column in enumerate(table.columns):
        values = [each.value for i in column.best if (each := found[i]) is not None]
        if values:
            found[place] = PublishedFigure(max(values))
    return found


@cache
def tables() -> dict[str, PaperTable]:
    """Return the main table of each paper by the paper's name."""
    folder = resources.files("medvqa").joinpath("benchmarks", "published_rows")

    def read(name: str, type: type[T]) -> T:
        return decode.decode_bytes(folder.joinpath(f"{name}.json").read_bytes(), type, name, "JSON")

    found = {name: read(name, PaperTable) for name in PAPERS} | read("neighbours", dict[str, PaperTable])
    return {
        name: replace(table, rows=tuple(_with_means(row, table.columns) for row in table.rows))
        for name, table in found.items()
    }


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
