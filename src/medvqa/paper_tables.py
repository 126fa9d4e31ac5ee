"""The tables of a paper: columns, with the measures that give them, and its published rows.

The figures are facts, copied from the papers; each table names its source and known slips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import Any, Literal

from medvqa.image import UsageError

CHECKED: Mapping[str, str] = {
    "copied": "as the paper or card prints it",
    "seen": "in the authors' own data",
    "counted": "from recorded outputs, by the owners' rules",
    "second-hand": "as a third party prints it",
}
"""How a row of the neighbours was checked."""
Aspect = Literal[
    "data", "questions", "prompt", "samples", "token limit", "temperature", "extraction", "judge", "model", "spread"
]
TEST = "test"
BEST = "best"
"""In place of a column's technique: that of the largest figure over the table's techniques."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a paper or its authors' code says of how a figure was made.

    `source`: a section or a permalink. `same`: the values of a run that are the same; () if its record cannot tell.
    `techniques`: those that it holds for, () for all.
    """

    aspect: Aspect
    value: str
    source: str
    same: tuple[str, ...] = ()
    techniques: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeated:
    """A measure of several recorded runs that were asked alike: the counts of `n` units."""

    measure: str
    counts: tuple[int, ...]
    n: int
    of: str
    source: str
    technique: str = "mc"


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column of a paper's table, and the measure that gives it; no `measure`: no run can give it.

    `technique` (or BEST), `slice` and `split` (val or test) are those of the measure. `weight`: the number of questions
    of a slice. `mean` (micro or macro): published rows have the mean of the columns with weights. `n`: the number of
    units behind each figure, None if they are of several sources or unknown.
    """

    title: str
    measure: str = ""
    technique: str = "mc"
    split: str = TEST
    slice: Mapping[str, str] = field(default_factory=dict)
    weight: float = 0.0
    mean: str = ""
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A published row: percentages by column, None for a blank one.

    `ablation` as in runs. `slip`: a known error of the row; `doubtful`: the techniques whose figures it concerns.
    `chance`: the values of guessing, which every technique shares. `checked`: one of CHECKED, "" for a paper's table.
    `n`: numbers of units by column, () for those of the columns. `said`: what holds for this row alone.
    """

    name: str
    values: tuple[float | None, ...]
    ablation: str = ""
    slip: str = ""
    doubtful: tuple[str, ...] = ()
    chance: tuple[float, ...] = ()
    checked: str = ""
    n: tuple[int | None, ...] = ()
    said: tuple[Said, ...] = ()

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
    benchmark has open questions. `metric_like`: the kit whose counts its columns have, as for --metric-like. `number`:
    the table's in the paper. `further`: the paper's other tables with published figures, by their numbers. `said`: how
    all rows were made, and `repeated`: recorded runs that tell their spread, for `medvqa explain`.
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
    number: str = ""
    further: Mapping[str, PaperTable] = field(default_factory=dict)
    said: tuple[Said, ...] = ()
    repeated: tuple[Repeated, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a row without a value, or None, for each column."""
        for row in self.rows:
            if len(row.values) != len(self.columns):
                given = f"{len(row.values)} values, and the table {len(self.columns)} columns"
                raise ValueError(f"{self.title}: the row {row.name} has {given}; write None for a blank one")

    @property
    def measured(self) -> bool:
        """Whether measures of a run give columns of it."""
        return any(column.measure for column in self.columns)

    def digits(self, row: Row) -> int:
        """Return the decimals that the figures of a row were rounded to: those of its table, or of its own source."""
        rows = [row] if row.checked else [one for one in self.rows if not one.checked]
        printed = [
            value
            for one in rows
            for value, column in zip(one.values, self.columns, strict=True)
            if value is not None and not column.mean
        ]
        return max((len(repr(value).partition(".")[2]) for value in printed), default=0)

    def numbered(self, number: str) -> PaperTable:
        """Return the paper's table of that number, the main one for "" (UsageError)."""
        if number in ("", self.number):
            return self
        if number not in self.further:
            numbers = sorted({*self.further, self.number} - {""}, key=lambda each: (len(each), each))
            listed = ", ".join(numbers) or "its main table alone"
            raise UsageError(f"no published figures of table {number}; of {self.title} there are those of: {listed}")
        return self.further[number]

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


def counts_behind(percent: float, digits: int, n: int) -> range:
    """Return the counts of `n` units that are this percentage, rounded to `digits` decimals, a half up or down."""
    given, half = Fraction(repr(percent)), Fraction(1, 2 * 10**digits)
    low, high = (given - half) * n / 100, (given + half) * n / 100
    return range(max(0, ceil(low)), min(n, floor(high)) + 1)
