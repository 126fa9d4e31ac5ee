"""A number with its interval and its one formatter; a table of ours with its renderers.

Values are fractions where `percent`, shown as percentages, and their differences as percentage points. A printed number
keeps the order of values: it never lies outside its printed interval if the value lies within.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, isnan
from typing import TYPE_CHECKING, Any, Literal

from medvqa import printing

if TYPE_CHECKING:
    import pandas as pd

DASH = "–"
"""Stands for a number that is undefined."""
FEW = 10
"""Below this many units a percentage would overstate the precision: counts are shown."""
BOLD = "\u2022"
"""Stands before a cell in bold in a terminal."""
LONGEST = 160
"""Characters of a cell of a terminal; of a longer one, such as a heading from somebody's tags, the start is drawn."""


def defined(value: float) -> float | None:
    """Return a computed number, of Python or numpy, as a float; None for NaN."""
    return None if isnan(value) else float(value)


def number(value: float | None, *, percent: bool = True, sign: bool = False, digits: int | None = None) -> str:
    """Return a fraction as a percentage, or another number as it is; a dash where undefined.

    A percentage has two digits, another number two digits or three significant ones; `digits` sets the decimals.
    `sign`: a difference, with its sign. A value that is rounded to 0 has no minus.
    """
    if value is None:
        return DASH
    shown = 100 * value if percent else value
    if digits is None and not percent and 0 < abs(value) < 1:
        return f"{shown:{'+' if sign else ''}.3g}"
    places = 2 if digits is None else digits
    return f"{round(shown, places) + 0.0:{'+' if sign else ''}.{places}f}"


def rounded(value: float, *, percent: bool = True, sign: bool = False) -> str:
    """Return a number for a sentence: in percent with at most one digit, never rounded to 0 or 100; others as `number`.

    `sign`: a difference, with its sign. The minus is the typographic one.
    """
    mark = "+" if sign and value > 0 else "\u2212" if value < 0 else ""
    if not percent:
        return mark + number(abs(value), percent=False)
    share = abs(100 * value)
    if 0 < share < 0.05:
        return f"{mark}<0.1" if sign or value > 0 else "0"
    if 99.95 <= share < 100:
        return f"{mark}>99.9"
    return mark + number(share, percent=False, digits=1).removesuffix(".0")


def apart(values: Sequence[float], limit: float) -> list[str]:
    """Return numbers with one to three decimals, enough to tell them from each other, from 0 and from `limit`."""
    different = {round(value + 0.0, 9) for value in (*values, limit, 0.0)}
    digits = next((d for d in (1, 2) if len({round(value, d) for value in different}) == len(different)), 3)
    return [number(value, percent=False, digits=digits) for value in values]


def between(
    low: float | None, high: float | None, *, percent: bool = True, sign: bool = False, digits: int | None = None
) -> str:
    """Return an interval as its value is shown (`number`), "" without one."""
    if low is None or high is None:
        return ""
    ends = (number(end, percent=percent, sign=sign, digits=digits) for end in (low, high))
    return (" to " if sign or low < 0 else DASH).join(ends)


def no_interval(groups: int | None, df: float | None = None) -> str:
    """Return "no interval" with the number of groups if they are few, else with `df`, the degrees of freedom.

    Many groups have few degrees of freedom if some of them hold most units. "" if groups are not counted.
    """
    if groups is None:
        return ""
    if groups < FEW:
        return f"no interval: {counted(groups, 'independent groups')}"
    return "no interval" if df is None else f"no interval: {freedom(df)} degrees of freedom"


def freedom(df: float) -> str:
    """Return degrees of freedom, rounded down: 3.96 is too few where 4 are needed."""
    return f"{floor(10 * df) / 10:g}"


def chance(value: float | None) -> str:
    """Return a p-value with three digits, a dash without one."""
    return DASH if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def count(value: float) -> str:
    """Return a count of units, which may have parts: "26,000", "4.33"."""
    return f"{round(value, 2):,.12g}"


def counted(value: float, unit: str) -> str:
    """Return a count with its unit, given as a plural: "36 pairs", "1 pair"."""
    return f"{count(value)} {unit.removesuffix('s') if value == 1 else unit}"


def data_size(size: int | None) -> str:
    """Return a number of bytes for people, such as 9.3 GB; a dash for None."""
    if size is None:
        return DASH
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 999.5:
            return f"{value:,.0f} {unit}" if unit == "bytes" or value >= 99.5 else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.0f} GB" if value >= 99.5 else f"{value:,.1f} GB"


def typeset(text: str) -> str:
    """Return numbers with the typographic minus, for sentences and the page."""
    return text.replace("-", "\u2212")


_MINUS = re.compile(r"(?<!\w)-(?=\d)")
"""The sign of a negative number."""

Tone = Literal["", "better", "worse"]
"""The direction of a difference that is shown; "" if none is."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its 95 % interval, and what is needed to print it; None where undefined.

    `low` and `high` are None without an interval, of which `groups`, the number of independent groups, and `df`, the
    degrees of freedom, tell the reason. `n`: the denominator in units of the name `unit` (a plural), of which `count`
    is the numerator, None if the value is no share of units. `units` counts pairs and questions without a pair, if
    these are others. `sign`: a difference. `digits`: decimals, None for those of `number`. `why`: a word that stands
    for a value that is not there, such as "failed".

    For pages: `levels` are values to draw beside it, such as {"random": 0.25}; `of` names the measure as metrics.json
    does (benchmark, technique, measure, slice); `tone`: whether a difference is shown, and in which direction; `aside`:
    words to draw fainter behind the interval, such as a pooled estimate.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: float | None = None
    unit: str = "items"
    count: float | None = None
    units: int | None = None
    groups: int | None = None
    df: float | None = None
    percent: bool = True
    sign: bool = False
    digits: int | None = None
    why: str = ""
    levels: Mapping[str, float] = field(default_factory=dict, compare=False)
    of: Mapping[str, str] = field(default_factory=dict, compare=False)
    tone: Tone = ""
    aside: str = ""

    @property
    def few(self) -> bool:
        """Whether there are too few units for a percentage. A pair is one unit; slices of a macro average are none."""
        units = self.n if self.units is None else self.units
        return self.count is not None and units is not None and units < FEW

    @property
    def text(self) -> str:
        """The value in percent, its counts if it has few units, or a number that is no percentage.

        Empty for a difference in percent of few units, where counts stand beside it.
        """
        if self.value is None and self.why:
            return self.why
        if self.value is not None and self.few and self.percent:
            return "" if self.sign else f"{count(self.count or 0)}/{count(self.n or 0)}"
        return number(self.value, percent=self.percent, sign=self.sign, digits=self.digits)

    @property
    def stated(self) -> str:
        """The value with " %" if it is a percentage: for places without a heading of the unit."""
        shown = self.text
        return f"{shown} %" if self.percent and self.value is not None and "/" not in shown else shown

    @property
    def interval(self) -> str:
        """The interval as the value is shown, or the reason for its absence; empty if counts are shown."""
        if self.value is None or self.few:
            return ""
        shown = between(self.low, self.high, percent=self.percent, sign=self.sign, digits=self.digits)
        return shown or no_interval(self.groups, self.df)

    @property
    def counted(self) -> str:
        """The denominator with its unit: "36 pairs"; "" if it is unknown."""
        return "" if self.n is None else counted(self.n, self.unit)


def of_units(value: float | None, n: float, unit: str, *, percent: bool = True) -> Figure:
    """Return a mean over `n` units without an interval; counts are shown if these are few and it is a percentage."""
    return Figure(value, n=n, unit=unit, count=value * n if percent and value is not None else None, percent=percent)


Kind = Literal["text", "number", "figure", "stated", "interval", "units", "chance"]
"""What a column holds: texts; counts or made texts, right-aligned; figures, as value (`stated`: with " %"), interval or
units; p-values."""


def _plain(value: object) -> str:
    return count(value) if isinstance(value, int | float) else str(value)


_SHOWN: Mapping[Kind, Callable[[Any], str]] = {
    "text": str,
    "number": _plain,
    "figure": lambda figure: figure.text,
    "stated": lambda figure: figure.stated,
    "interval": lambda figure: figure.interval,
    "units": lambda figure: figure.counted,
    "chance": chance,
}
_IN_FULL: Mapping[Kind, Callable[[Any], tuple[Any, ...]]] = {
    "text": lambda figure: (figure.text,),
    "number": lambda figure: (figure.value,),
    "figure": lambda figure: (figure.value,),
    "stated": lambda figure: (figure.value,),
    "interval": lambda figure: (figure.low, figure.high),
    "units": lambda figure: (figure.n,),
    "chance": lambda figure: (figure.value,),
}


Better = Literal["", "higher", "lower"]
Audience = Literal["all", "page", "file"]
"""Who a table is for: everybody, readers of a page, or programs that read a file."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, what its cells hold, its name in files, and which values are better."""

    title: str
    kind: Kind = "text"
    name: str = ""
    better: Better = ""

    @property
    def right(self) -> bool:
        """Whether it is aligned to the right, as all but texts are."""
        return self.kind != "text"

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns in files: an interval has two."""
        name = self.name or re.sub(r"\W+", "_", self.title.lower()).strip("_")
        return (f"{name}_low", f"{name}_high") if self.kind == "interval" else (name,)

    def shown(self, cell: object) -> str:
        """Return a cell as text. None is empty, or no p-value; a text stands in any column as it is."""
        if isinstance(cell, str) or (cell is None and self.kind != "chance"):
            return cell or ""
        return _SHOWN[self.kind](cell)

    def values(self, cell: object) -> tuple[Any, ...]:
        """Return the values of a cell in files, one for each of `names`: numbers in full, None if undefined."""
        if isinstance(cell, Figure):
            return _IN_FULL[self.kind](cell)
        return (cell,) * len(self.names)


INTERVAL, UNITS = Column("95 % interval", "interval"), Column("n", "units")
"""What stands behind the column of a measure: the bounds of its figures, and their denominators."""


def of_measure(name: str, *, percent: bool, better: Better = "") -> Column:
    """Return the column of a measure's figures, whose heading says whether they are percentages."""
    return Column(f"{name} %" if percent else name, "figure", better=better)


def texts(*titles: str) -> tuple[Column, ...]:
    """Return columns of texts."""
    return tuple(map(Column, titles))


def numbers(*titles: str) -> tuple[Column, ...]:
    """Return columns of numbers, counts or made texts."""
    return tuple(Column(title, "number") for title in titles)


@dataclass(frozen=True, slots=True)
class About:
    """What a page knows of a row beside its cells.

    `links`: fragments of the page, by the place of the cell that leads there, such as {0: "#questions?q=..."}. `group`:
    the heading under which the row stands. `note`: small words beside the first cell, such as abbreviations.
    """

    links: Mapping[int, str] = field(default_factory=dict)
    group: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: a title ("" for none), its columns, and rows of a cell for each column.

    `notes`: sentences below it. `sort`: the heading by which a page sorts it at first, "-" before it for descending;
    "": the order of the rows. `about`: an entry for each row, or none. `bold`: the places of cells in bold, by row and
    column; in a terminal BOLD stands before them.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Sequence[object], ...]
    notes: tuple[str, ...] = ()
    sort: str = ""
    about: tuple[About, ...] = ()
    audience: Audience = "all"
    bold: frozenset[tuple[int, int]] = frozenset()

    @property
    def headings(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]

    @property
    def right(self) -> list[int]:
        """The places of the columns that are aligned to the right."""
        return [place for place, column in enumerate(self.columns) if column.right]

    @property
    def texts(self) -> list[list[str]]:
        """The cells of each row as texts."""
        return [[column.shown(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def at(self, places: Sequence[int]) -> Table:
        """Return the table with the columns at these places alone."""
        return replace(
            self,
            columns=tuple(self.columns[place] for place in places),
            rows=tuple(tuple(row[place] for place in places) for row in self.rows),
            bold=frozenset((row, new) for new, place in enumerate(places) for row, old in self.bold if old == place),
        )

    def shown(self, escaped: Callable[[str], str], bold: Callable[[str], str]) -> list[list[str]]:
        """Return the cells of each row, escaped, and then in bold where they are."""
        return [
            [bold(escaped(cell)) if (row, place) in self.bold else escaped(cell) for place, cell in enumerate(cells)]
            for row, cells in enumerate(self.texts)
        ]

    @property
    def names(self) -> list[str]:
        """The columns of a file, each with a name of its own."""
        names = [name for column in self.columns for name in column.names]
        return [
            f"{name}_{names[:place].count(name) + 1}" if name in names[:place] else name
            for place, name in enumerate(names)
        ]

    @property
    def values(self) -> list[list[Any]]:
        """The rows of a file: numbers in full, fractions for percentages, None if undefined."""
        return [
            [value for column, cell in zip(self.columns, row, strict=True) for value in column.values(cell)]
            for row in self.rows
        ]


def terminal(table: Table, *, colour: bool = False) -> str:
    """Return a table without its title as unwrapped, printable lines; no cell is longer than LONGEST."""
    import io

    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    def cell(text: str) -> str:
        return printing.shortened(printing.line(text), LONGEST)

    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in table.columns:
        drawn.add_column(Text(cell(column.title)), justify="right" if column.right else "left", no_wrap=True)
    for row in table.shown(cell, lambda text: f"{BOLD}{text}"):
        drawn.add_row(*map(Text, row))
    # In a notebook, rich would display the table itself.
    console = Console(file=io.StringIO(), width=1000, force_terminal=colour, force_jupyter=False, no_color=True)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def titled(table: Table) -> str:
    """Return a table for a terminal between its title and its notes."""
    notes = [f"! {printing.line(note)}" for note in table.notes]
    return "\n".join([printing.line(table.title), terminal(table).rstrip(), *notes])


def markdown(table: Table) -> str:
    """Return a table without its title in Markdown; no cell is markup, a link or a mention."""

    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rule = ["---:" if column.right else "---" for column in table.columns]
    return "\n".join(
        [
            line(map(printing.markdown, table.headings)),
            line(rule),
            *map(line, table.shown(printing.markdown, lambda text: f"**{text}**")),
        ]
    )


class _Inert(dict[str, str]):
    """Texts of cells, most of which come again in each row, as `printing.inert` makes them."""

    def __missing__(self, text: str) -> str:
        self[text] = printing.inert(text)
        return self[text]


def csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return values as a CSV file (RFC 4180, but for its line ends): numbers in full, no cell a formula."""
    import csv as format_
    import io

    file = io.StringIO()
    writer = format_.writer(file, lineterminator="\n")
    writer.writerow(columns)
    known = _Inert()
    writer.writerows([known[value] if isinstance(value, str) else value for value in row] for row in rows)
    return file.getvalue()


def records(table: Table) -> list[dict[str, Any]]:
    """Return the rows as JSON objects, by the names of columns in files."""
    return [dict(zip(table.names, row, strict=True)) for row in table.values]


def latex(table: Table) -> str:
    """Return a table in LaTeX, for the package booktabs: the texts of the terminal, none of them a command.

    A minus before a number is one: in text, LaTeX prints "-" as a hyphen.
    """

    def line(cells: Iterable[str]) -> str:
        return f"{' & '.join(cells)} \\\\"

    rows = tuple(
        [
            _MINUS.sub("\u2212", cell) if column.right else cell
            for column, cell in zip(table.columns, cells, strict=True)
        ]
        for cells in table.texts
    )
    shown = replace(table, rows=rows).shown(printing.latex, lambda text: f"\\textbf{{{text}}}")
    aligned = "".join("r" if column.right else "l" for column in table.columns)
    caption = [f"% {printing.line(table.title)}"] if table.title else []
    return (
        "\n".join(
            [
                *caption,
                f"\\begin{{tabular}}{{{aligned}}}",
                "\\toprule",
                line(map(printing.latex, table.headings)),
                "\\midrule",
                *map(line, shown),
                "\\bottomrule",
                "\\end{tabular}",
            ]
        )
        + "\n"
    )


def frame(table: Table) -> pd.DataFrame:
    """Return the values as a data frame of pandas, which is an extra."""
    import pandas as pd

    return pd.DataFrame(table.values, columns=table.names)
