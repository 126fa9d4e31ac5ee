"""The seven kinds of blocks that a page is made of, and a table of ours as one of them.

A page has sections, a section has blocks. The page draws each kind by one component: nothing in it knows what a block
is about. A link is a fragment of the page, as `texts.questions` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import field, structs

from medvqa.figures import Better, Figure, Kind, Table, Tone, typeset
from medvqa.report.bundle import axes
from medvqa.report.bundle.axes import Axis
from medvqa.report.bundle.shape import Shape

State = Literal["", "good", "part", "bad", "open"]
"""What a headline or a notice says at a glance: all is well, a part of the data, something failed, not decided."""


class FigureCell(Shape, frozen=True):
    """A `Figure` in numbers, fractions if it is a percentage, and as it is shown."""

    value: float | None
    shown: str
    low: float | None = None
    high: float | None = None
    n: float | None = None
    interval: str = ""
    """The interval, or the reason for its absence; "" if neither is known."""
    units: str = ""
    """The denominator with its unit, such as "36 pairs"."""
    few: bool = False
    """Whether there are too few units for a percentage: it stands last, however values are sorted."""
    tone: Tone = ""
    levels: dict[str, float] = field(default_factory=dict)
    """Values to draw beside it, such as that of chance (`random`), by name."""
    of: dict[str, str] = field(default_factory=dict)
    """The measure as metrics.json names it: benchmark, technique, measure, slice."""
    aside: str = ""
    """Words to draw fainter behind the interval, such as a pooled estimate."""


class PageColumn(Shape, frozen=True):
    """A column. One of figures has the headings of what is drawn beside a value; "" if it is not."""

    title: str
    kind: Literal["text", "number", "figure", "chance"] = "text"
    name: str = ""
    """Its name in the file that the page saves, if that is not its title."""
    better: Better = ""
    interval: str = ""
    units: str = ""
    axis: Axis | None = None
    """The axis of its values and intervals, which all rows share."""


class PageRow(Shape, frozen=True):
    """A row: a cell for each column."""

    cells: list[str | float | FigureCell | None]
    links: dict[str, str] = field(default_factory=dict)
    """Links by the place of the cell that leads there."""
    group: str = ""
    """The heading under which the row stands."""
    note: str = ""
    """Small words beside the first cell."""


class TableBlock(Shape, frozen=True, tag_field="block", tag="table"):
    """A table that can be sorted by its headings and saved as a file."""

    title: str
    columns: list[PageColumn]
    rows: list[PageRow]
    notes: tuple[str, ...] = ()
    sort: str = ""
    """The title of the column that it is sorted by at first, "-" before it for descending; "": as the rows stand."""
    first: int = 0
    """Rows of a group at first; 0: all."""
    folded: bool = False
    tabs: tuple[str, ...] = ()
    """Blocks of a section with tabs stand in one place, of which the reader chooses: one name for each level."""


class MatrixLabel(Shape, frozen=True):
    """A row or a column of a matrix."""

    title: str
    short: str = ""
    link: str = ""
    note: str = ""


class MatrixCell(Shape, frozen=True):
    """A field of a matrix."""

    row: int
    column: int
    figure: FigureCell
    step: int = 0
    """The strength of its colour, 0 to 5; `figure.tone` is its hue."""
    link: str = ""
    framed: bool = False
    """Whether it has a frame, as fields of the right option have: a note of the matrix says what frames mean."""


class MatrixBlock(Shape, frozen=True, tag_field="block", tag="matrix"):
    """A number for each pair of a row and a column."""

    title: str
    down: str
    """What rows are."""
    across: str
    """What columns are."""
    rows: list[MatrixLabel]
    columns: list[MatrixLabel]
    fields: list[MatrixCell]
    notes: tuple[str, ...] = ()
    folded: bool = False
    tabs: tuple[str, ...] = ()


class PlotPoint(Shape, frozen=True):
    """A point, and its interval on the second axis."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    label: str = ""
    """What it is, with its numbers as they are shown."""
    link: str = ""


class PlotSeries(Shape, frozen=True):
    """Points of one kind."""

    title: str
    points: list[PlotPoint]
    drawn: Literal["points", "line", "bars"] = "points"


class PlotBlock(Shape, frozen=True, tag_field="block", tag="plot"):
    """Points over two axes."""

    title: str
    across: str
    """What the first axis shows."""
    up: str
    """What the second axis shows."""
    x: Axis
    y: Axis
    series: list[PlotSeries]
    diagonal: bool = False
    """Whether a line marks equal values of both axes."""
    notes: tuple[str, ...] = ()
    folded: bool = False
    tabs: tuple[str, ...] = ()


class PageWord(Shape, frozen=True):
    """Some words of a sentence, or a number of it."""

    text: str
    of: str = ""
    """Which number it is, such as "value", "low" or "random"; "" for plain words."""
    value: float | None = None


class PageSentence(Shape, frozen=True):
    """A result in words."""

    title: str
    words: list[PageWord]
    state: State = ""
    meaning: str = ""
    """The definition of the measure, if the words do not say it."""
    figure: FigureCell | None = None
    """The measure of the sentence, drawn beside it."""
    axis: Axis | None = None
    link: str = ""


class HeadlineBlock(Shape, frozen=True, tag_field="block", tag="headline"):
    """The first thing to read: a state in words, lines about it, and results as sentences."""

    title: str
    state: State = ""
    lines: tuple[str, ...] = ()
    sentences: tuple[PageSentence, ...] = ()


class QuestionChoice(Shape, frozen=True):
    """A number of questions or answers, and the link that shows them."""

    title: str
    count: int
    link: str = ""


class QuestionsBlock(Shape, frozen=True, tag_field="block", tag="questions"):
    """Choices of questions, each a link into the explorer."""

    title: str
    chosen: list[QuestionChoice]
    total: int = 0
    """What the counts are a part of; 0: they are not compared with a whole."""
    notes: tuple[str, ...] = ()


class NamedFact(Shape, frozen=True):
    """A name and what is known of it."""

    name: str
    value: str
    link: str = ""


class TextBlock(Shape, frozen=True, tag_field="block", tag="text"):
    """Sentences, named facts, or a text as it is (a command, a prompt)."""

    title: str = ""
    lines: tuple[str, ...] = ()
    facts: tuple[NamedFact, ...] = ()
    verbatim: str = ""
    folded: bool = False
    tabs: tuple[str, ...] = ()


class NoticeBlock(Shape, frozen=True, tag_field="block", tag="notice"):
    """A sentence that limits the numbers or warns."""

    text: str
    state: State = "part"
    link: str = ""


Block = HeadlineBlock | TableBlock | MatrixBlock | PlotBlock | QuestionsBlock | TextBlock | NoticeBlock


class PageSection(Shape, frozen=True):
    """A part of a page with a heading of its own; `id` is its fragment."""

    id: str
    title: str
    blocks: list[Block]
    folded: bool = False
    printed: bool = True
    """Whether it is part of the printed page."""


def section(
    id: str, title: str, blocks: Iterable[Block | None], *, folded: bool = False, printed: bool = True
) -> PageSection:
    """Return a section of the blocks that are there."""
    return PageSection(id, title, [block for block in blocks if block is not None], folded, printed)


def figure_cell(figure: Figure) -> FigureCell:
    """Return a figure as a page has it."""
    return FigureCell(
        figure.value,
        typeset(figure.text) if figure.sign else figure.text,
        figure.low,
        figure.high,
        figure.n,
        typeset(figure.interval) if figure.sign else figure.interval,
        figure.counted,
        figure.few,
        figure.tone,
        dict(figure.levels),
        dict(figure.of),
        figure.aside,
    )


def table_block(table: Table, *, first: int = 0, folded: bool = False, tabs: Sequence[str] = ()) -> TableBlock | None:
    """Return a table as a block of a page; None if it is for files alone, or has no rows.

    A column of figures takes in the next columns of intervals and units, which are those of the same figures.
    """
    if table.audience == "file" or not table.rows:
        return None
    kept = [place for place, column in enumerate(table.columns) if column.kind not in ("interval", "units")]
    columns = [_column(table, place) for place in kept]
    places = {place: k for k, place in enumerate(kept)}
    rows = [
        PageRow(
            [_cell(table, place, row[place]) for place in kept],
            {str(places[place]): link for place, link in about.links.items()} if about else {},
            about.group if about else "",
            about.note if about else "",
        )
        for row, about in zip(table.rows, table.about or [None] * len(table.rows), strict=True)
    ]
    return TableBlock(table.title, columns, rows, table.notes, table.sort, first, folded, tuple(tabs))


_PLAIN: Mapping[Kind, Literal["text", "number", "chance"]] = {"number": "number", "chance": "chance"}


def _column(table: Table, place: int) -> PageColumn:
    column = table.columns[place]
    if column.kind not in ("figure", "stated"):
        return PageColumn(column.title, _PLAIN.get(column.kind, "text"), column.name, column.better)
    beside = {"interval": "", "units": ""}
    for other in table.columns[place + 1 :]:
        if other.kind in ("figure", "stated"):
            break
        if other.kind in beside:
            beside[other.kind] = other.title
    figures = [row[place] for row in table.rows]
    axis = _axis([figure for figure in figures if isinstance(figure, Figure)]) if beside["interval"] else None
    return PageColumn(column.title, "figure", column.name, column.better, beside["interval"], beside["units"], axis)


def _axis(figures: Sequence[Figure]) -> Axis:
    """Return the axis of percentages, or one around all values if they are others, or differences."""
    percent = all(figure.percent for figure in figures)
    values = [v for f in figures for v in (f.value, f.low, f.high, *f.levels.values()) if v is not None and not f.few]
    if percent and all(0 <= value <= 1 for value in values) and not any(figure.sign for figure in figures):
        return axes.PERCENT
    if any(figure.sign for figure in figures):  # Differences are points, not percentages.
        return axes.around([*values, 0.0], is_percent=percent, unit="")
    return axes.around(values, is_percent=percent)


def _cell(table: Table, place: int, cell: object) -> str | FigureCell:
    if isinstance(cell, Figure):
        shown = figure_cell(cell)
        return structs.replace(shown, shown=cell.stated) if table.columns[place].kind == "stated" else shown
    column = table.columns[place]
    if isinstance(cell, int | float) or (cell is None and column.kind == "chance"):
        # Written here: JavaScript rounds 0.0625 to 0.063, Python to 0.062.
        return FigureCell(cell, column.shown(cell))
    return column.shown(cell)
