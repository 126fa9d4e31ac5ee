"""Figures and their one formatter, tables and their renderers."""

import csv
import html
import io
import math
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from medvqa import figures, printing
from medvqa.figures import DASH, FEW, LONGEST, Column, Figure, Table, number, numbers, rounded, texts
from medvqa.report.bundle import page_blocks

VALUES = st.floats(-1e6, 1e6)
SHARES = st.floats(0, 1)
HOSTILE = st.text(max_size=30) | st.sampled_from(
    ["=1+1", "@all", "|x|", "a\nb", "\x1b[2J", "<b>", "\u202e", "::error::"]
)


def read(text: str) -> float:
    """The number that a reader takes a text for; of "<0.1", the limit."""
    return float(text.replace("\u2212", "-").replace(",", "").lstrip("<>"))


# ---- numbers ---------------------------------------------------------------------------------------------------------


@given(VALUES, VALUES, st.booleans(), st.booleans(), st.sampled_from([None, 0, 1, 3]))
def test_printed_numbers_keep_the_order_of_values(
    one: float, other: float, percent: bool, sign: bool, digits: int | None
) -> None:
    low, high = (number(end, percent=percent, sign=sign, digits=digits) for end in sorted((one, other)))
    assert read(low) <= read(high)


@given(VALUES, VALUES, VALUES, st.booleans(), st.booleans())
def test_a_printed_value_lies_in_its_printed_interval(
    one: float, two: float, three: float, percent: bool, sign: bool
) -> None:
    low, value, high = sorted((one, two, three))
    figure = Figure(value, low, high, percent=percent, sign=sign)
    first, last = re.split(f" to |(?<=[0-9]){DASH}", figure.interval)
    assert read(first) <= read(figure.text) <= read(last)


@given(VALUES, st.booleans(), st.booleans())
def test_a_printed_number_is_the_value_to_its_last_digit(value: float, percent: bool, sign: bool) -> None:
    shown = number(value, percent=percent, sign=sign)
    scaled = 100 * value if percent else value
    assert read(shown) == pytest.approx(scaled, abs=0.00501, rel=0.00501 if not percent and abs(value) < 1 else 1e-9)
    assert not re.fullmatch(r"-0(\.0*)?", shown), "a zero has no minus"
    assert shown.startswith(("+", "-")) or not sign


@given(SHARES, SHARES)
def test_a_sentence_never_rounds_a_share_to_none_or_all(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert (rounded(low) == "0") == (low == 0)
    assert (rounded(low) == "100") == (100 * low == 100)
    assert read(rounded(low)) <= read(rounded(high))


@given(st.floats(-1, 1))
def test_a_sentence_gives_a_difference_its_sign(value: float) -> None:
    shown = rounded(value, sign=True)
    assert shown.startswith("+") == (value > 0)
    assert shown.startswith("\u2212") == (value < 0)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=3), st.floats(0, 100))
def test_ends_of_a_range_are_told_apart(values: list[float], limit: float) -> None:
    shown = figures.apart(values, limit)
    assert len({len(text.partition(".")[2]) for text in shown}) == 1
    for value, text in zip(values, shown, strict=True):
        assert read(text) == pytest.approx(value, abs=0.0501)
        if all(abs(value - other) > 0.001 for other in (0.0, limit)):
            assert read(text) not in (0.0, round(limit, 3))


@given(st.floats(0, 1), st.floats(0, 1))
def test_p_values_keep_their_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert read(figures.chance(low)) <= read(figures.chance(high))
    assert ("<" in figures.chance(low)) == (low < 0.001)


def test_numbers_that_are_undefined_are_a_dash() -> None:
    assert (number(None), figures.chance(None), Figure(None).text) == (DASH, DASH, DASH)
    assert (Figure(None, n=0, groups=2).interval, figures.between(None, 0.5)) == ("", "")


@pytest.mark.parametrize(
    ("figure", "text", "interval"),
    [
        (Figure(0.8058, 0.7, 0.9), "80.58", "70.00–90.00"),
        (Figure(-0.05, -0.1, 0.02), "-5.00", "-10.00 to 2.00"),
        (Figure(0.05, 0.01, 0.1, sign=True), "+5.00", "+1.00 to +10.00"),
        (Figure(-0.000001, sign=True), "+0.00", ""),
        (Figure(12.346, 10, 15, percent=False), "12.35", "10.00–15.00"),
        (Figure(0.01234, percent=False), "0.0123", ""),
        (Figure(0.9, 0.85, 1, percent=False, digits=3), "0.900", "0.850–1.000"),
        (Figure(4.333333 / 9, 0.1, 0.9, n=9, count=4.333333), "4.33/9", ""),
        (Figure(0.1, 0.0, 0.2, n=9, count=0.9, sign=True), "", ""),
        (Figure(0.5, n=20, count=10, units=9), "10/20", ""),
        (Figure(0.5, groups=1), "50.00", "no interval: 1 independent group"),
        (Figure(0.5, groups=40, df=3.96), "50.00", "no interval: 3.9 degrees of freedom"),
    ],
)
def test_a_figure_is_printed_as_one_thing_everywhere(figure: Figure, text: str, interval: str) -> None:
    assert (figure.text, figure.interval) == (text, interval)


@given(st.integers(0, 40), st.integers(1, 40))
def test_few_units_are_counted_and_many_are_percentages(right: int, n: int) -> None:
    assume(right <= n)
    figure = Figure(right / n, 0.0, 1.0, n=n, count=right)
    assert ("/" in figure.text) == (figure.interval == "") == (n < FEW)
    assert figure.stated.endswith(" %") == (n >= FEW)


def test_units_have_a_plural_and_thousands() -> None:
    assert [Figure(0.5, n=n, unit="pairs").counted for n in (0, 1, 36, 26_000, 4.3333)] == [
        *("0 pairs", "1 pair", "36 pairs", "26,000 pairs", "4.33 pairs")
    ]
    assert figures.counted(1_000_000, "items") == "1,000,000 items"


@given(VALUES | st.none(), VALUES | st.none(), st.booleans(), st.booleans())
def test_nothing_is_printed_as_nan(value: float | None, bound: float | None, percent: bool, sign: bool) -> None:
    figure = Figure(value, bound, bound, n=12, count=3, percent=percent, sign=sign)
    assert "nan" not in f"{figure.text} {figure.stated} {figure.interval} {figure.counted}"


# ---- tables ----------------------------------------------------------------------------------------------------------

FIGURE = Figure(0.8058, 0.7, 0.9, n=103, unit="items", count=83)


def test_a_column_says_how_its_cells_are_shown() -> None:
    kinds = (*texts("run"), *numbers("answers"))
    kinds += (Column("%", "figure"), Column("so", "stated"), Column("95 % interval", "interval"), Column("n", "units"))
    table = Table("runs", (*kinds, Column("p", "chance")), (("a", 26_000, *(FIGURE,) * 4, 0.0004), (None,) * 7))
    assert table.texts == [["a", "26,000", "80.58", "80.58 %", "70.00–90.00", "103 items", "<0.001"], [*[""] * 6, DASH]]
    assert table.right == [1, 2, 3, 4, 5, 6]
    assert replace(table, rows=(("", "made", "failed", "", "", "", ""),)).texts[0][1:3] == ["made", "failed"]


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="shorter"):
        _ = Table("", texts("a", "b"), (("x",),)).texts


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=5))
def test_a_terminal_gets_a_printable_line_for_each_row(rows: list[tuple[str, str]]) -> None:
    drawn = figures.terminal(Table("title", (*texts("a"), *numbers("b")), tuple(rows)))
    assert drawn.endswith("\n")
    lines = drawn.removesuffix("\n").split("\n")
    assert len(lines) == 1 + len(rows)
    assert all(printing.line(line) == line for line in lines)


@given(st.lists(st.text("abé漢字한글🙂", max_size=12), min_size=1, max_size=5))
def test_columns_stand_below_each_other_also_with_wide_characters(names: list[str]) -> None:
    table = Table("", (*texts("name"), *numbers("n")), tuple((name, 7) for name in names))
    lines = figures.terminal(table).splitlines()
    assert len({cell_len(line) for line in lines}) == 1


def test_a_long_cell_is_clipped_for_a_terminal_alone() -> None:
    table = Table("", texts("a"), (("x" * 1000,),))
    assert figures.terminal(table).splitlines()[1] == "x" * (LONGEST - 1) + "…"
    assert "x" * 1000 in figures.markdown(table)


@given(st.lists(st.tuples(HOSTILE, HOSTILE), max_size=4))
def test_markdown_has_a_line_for_each_row_and_no_markup_in_cells(rows: list[tuple[str, str]]) -> None:
    lines = figures.markdown(Table("", (*texts("a"), *numbers("b")), tuple(rows))).split("\n")
    assert lines[:2] == ["| a | b |", "| --- | ---: |"]
    assert len(lines) == 2 + len(rows)
    for line in lines[2:]:
        assert len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))) == 3
        assert not set("<>") & set(line)


@given(HOSTILE)
def test_markdown_escapes_leave_one_line_without_markup(text: str) -> None:
    escaped = printing.markdown(text)
    assert "\n" not in escaped
    assert not set("<>") & set(escaped)
    for character in "|`*[]":
        assert escaped.count(character) == escaped.count("\\" + character)


@given(HOSTILE | st.sampled_from(["+1", "-1", "\t=1", "\r=1", "  =1", "\n=1"]))
def test_no_text_in_a_csv_file_begins_like_a_formula(text: str) -> None:
    safe = printing.inert(text)
    assert safe.lstrip(" ")[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
    kept = "".join(c for c in text if c >= " " or c in "\t\r\n")
    assert safe in (kept, f"'{kept}")
    (columns, *rows) = csv.reader(io.StringIO(figures.csv(["x"], [[text]]), newline=""))
    assert columns == ["x"]
    if "\r" not in text and safe:
        assert rows == [[safe]]


def test_numbers_stay_numbers_in_a_csv_file() -> None:
    assert figures.csv(["a", "b", "c"], [[-0.5, None, "-0.5"]]) == "a,b,c\n-0.5,,'-0.5\n"
    assert math.pi == float(figures.csv(["pi"], [[math.pi]]).split()[1])


# ---- one number, everywhere --------------------------------------------------------------------------------------


FIGURES = st.builds(
    Figure,
    st.none() | st.floats(-1, 1),
    st.none() | st.floats(-1, 1),
    st.none() | st.floats(-1, 1),
    st.none() | st.integers(0, 30000).map(float),
    st.sampled_from(["items", "pairs"]),
    count=st.none() | st.floats(0, 5),
    groups=st.none() | st.integers(0, 30),
    percent=st.booleans(),
    sign=st.booleans(),
    why=st.sampled_from(["", "failed"]),
)


@given(FIGURES)
def test_a_number_prints_the_same_everywhere(figure: Figure) -> None:
    columns = (Column("a", "figure"), Column("b", "interval"), Column("c", "units"))
    table = Table("", columns, ((figure,) * 3,))
    cells = [figure.text, figure.interval, figure.counted]
    drawn = page_blocks.table_block(table)
    assert drawn is not None
    [row] = drawn.rows
    [shown] = row.cells
    assert isinstance(shown, page_blocks.FigureCell)

    def plain(text: str) -> str:
        text = text.replace("\u2212", "-").replace("$-$", "-").replace("--", DASH)
        return " ".join(html.unescape(text).replace("\\", "").replace("textless{}", "<").split())

    assert table.texts == [cells]
    assert plain(figures.terminal(table).splitlines()[1]) == plain(" ".join(cells))
    assert [plain(cell) for cell in figures.markdown(table).splitlines()[2].split("|")[1:-1]] == list(map(plain, cells))
    assert plain(figures.latex(table).splitlines()[4]) == plain(" & ".join(cells))
    assert list(map(plain, (shown.shown, shown.interval, shown.units))) == list(map(plain, cells))


def test_latex_prints_the_sign_of_a_number_as_a_minus_and_a_hyphen_as_it_is() -> None:
    table = Table("", (Column("run"), Column("a", "figure")), (("a-1", Figure(-0.5, sign=True)),))
    assert figures.latex(table).splitlines()[4] == r"a-1 & $-$50.00 \\"


def test_the_axis_of_differences_has_no_percent_sign() -> None:
    columns = (Column("a", "figure"), Column("b", "interval"))
    for sign in (False, True):
        block = page_blocks.table_block(Table("", columns, ((Figure(0.5, 0.2, 0.7, sign=sign),) * 2,)))
        assert block is not None
        assert block.columns[0].axis is not None
        assert block.columns[0].axis.ticks[-1].label.endswith(" %") is not sign


@given(FIGURES)
def test_files_have_a_number_in_full(figure: Figure) -> None:
    columns = (Column("accuracy, %", "figure"), Column("interval", "interval", "accuracy"), Column("n", "units"))
    table = Table("", columns, ((figure,) * 3,))
    [record] = figures.records(table)
    names = ["accuracy", "accuracy_low", "accuracy_high", "n"]
    assert record == dict(zip(names, (figure.value, figure.low, figure.high, figure.n), strict=True))
    shown = page_blocks.figure_cell(figure)
    assert (shown.value, shown.low, shown.high, shown.n) == tuple(record.values())
    written = list(csv.reader(io.StringIO(figures.csv(table.names, table.values))))
    assert written == [names, ["" if value is None else str(value) for value in record.values()]]


def test_a_table_with_some_of_its_columns_keeps_what_is_bold() -> None:
    table = Table("t", texts("a", "b", "c"), (("1", "2", "3"),), bold=frozenset({(0, 0), (0, 2)}))
    assert table.at([2, 1]) == Table("t", texts("c", "b"), (("3", "2"),), bold=frozenset({(0, 0)}))
