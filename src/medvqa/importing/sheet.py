"""Read a table with all its mistakes, where `data.tables` stops at the first one.

The limits are those of `data.limits`. A file that is no table at all is a DataError.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from medvqa import decode, tables
from medvqa.importing.mistakes import Mistake, RowNumber, clipped
from medvqa.items import DataError, are_withheld
from medvqa.tables import delimited, encodings, json_text, limits, parquet, workbooks

MAX_TABLE = 2**28
"""Bytes of a CSV or TSV file, which is held in memory."""
OLD_EXCEL = b"\xd0\xcf\x11\xe0"
"""The first bytes of XLS files, and of XLSX files with a password."""
NEW_LINE = b"\n"
MOST_ZEROS = 20
"""One character of so many may be zero: another one is a mistake of its cell, more are no text."""
MAX_BROKEN = 20
"""Quotes that are never closed, each of which is looked for to the end of the file."""


class ErrorCell(str):
    """The error that a spreadsheet shows in a cell, such as #REF!."""


ERRORS = ("#REF!", "#N/A", "#NV", "#NAME?", "#VALUE!", "#WERT!", "#DIV/0!", "#NULL!", "#NUM!", "#BEZUG!", "#ZAHL!")
"""Errors of spreadsheets, which CSV holds as text; some in German."""


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row with as many cells as there are columns; None and "" are blank."""

    number: RowNumber
    cells: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table. `unit` names its rows ("row", "line", "record", or the key of a JSON object); blank rows are left out.

    `columns` has a name for each cell, "" for a blank one. `merged` has the first and last row and column (from 0) of
    each merged area below the header. `encoding` is that of text which is not UTF-8, as a benchmark file declares it.
    """

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[SheetRow, ...]
    mistakes: tuple[Mistake, ...] = ()
    merged: tuple[tuple[int, int, int, int], ...] = ()
    encoding: str = ""

    def position(self, column: str) -> int | None:
        """Return the place of a column by its name; letter case and blanks around words do not count."""
        wanted = column.casefold().split()
        return next((i for i, name in enumerate(self.columns) if name.casefold().split() == wanted), None)

    def shown(self, position: int) -> str:
        """Return the name of a column for messages, in one line."""
        return clipped(self.columns[position])

    def values(self, position: int) -> list[Any]:
        """Return the cells of a column that are not blank."""
        return [row.cells[position] for row in self.rows if not is_blank(row.cells[position])]


def is_blank(value: object) -> bool:
    """Return whether a cell holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def read(path: Path, name: str, *, encoding: str = "", delimiter: str = "", sheet: str = "") -> Sheet:
    """Return the table of a file; DataError if it is none.

    `encoding` and `delimiter` are those of text and CSV; by default they are guessed. `sheet` is that of an XLSX file
    (default: the first).
    """
    with limits.opened(path, name) as file:
        if os.fstat(file.fileno()).st_size > limits.MAX_BYTES:
            raise limits.larger(name, limits.MAX_BYTES)
        start = file.read(4096)
        file.seek(0)
        if start.startswith(OLD_EXCEL):
            raise DataError(f"{name}: an old or an encrypted Excel file; save it as XLSX, without a password")
        if start.startswith(workbooks.START):
            table = _workbook(file, name, sheet)
        elif start.startswith(parquet.START):
            table = _objects(path, name)
        elif (text := start.removeprefix(codecs.BOM_UTF8).lstrip()).startswith((b"{", b"[")):
            _, more = json_text.first(file, name)
            file.seek(0)
            table = _lines(file, name) if more and text.startswith(b"{") else _objects(path, name)
        else:
            table = _delimited(file, name, encoding, delimiter)
    if not table.rows and not table.mistakes:
        raise DataError(f"{name}: no rows below the names of the columns")
    return table


# Values of JSON and Parquet


def _objects(path: Path, name: str) -> Sheet:
    listed = list(tables.read(path, name=name, key="id", digests=True))
    if isinstance(listed[0].number, str) and are_withheld():
        return _of_objects([(number, row.values) for number, row in enumerate(listed, 1)], name, "record", [])
    return _of_objects([(row.number, row.values) for row in listed], name, listed[0].unit, [])


def _lines(file: BinaryIO, name: str) -> Sheet:
    """Read JSON lines; each line that is none is a mistake."""
    rows: list[tuple[RowNumber, Mapping[str, Any]]] = []
    mistakes = []
    value_of = msgspec.json.Decoder().decode
    for number, line in json_text.lines(file, name, limits.MAX_TEXT):
        if number > limits.MAX_ROWS:
            raise limits.above(name, limits.MAX_ROWS, "rows")
        try:
            value = value_of(line)
        except decode.ERRORS as error:
            mistakes.append(Mistake("json", number, "", f"not JSON: {error}", "write one object on this line"))
            continue
        if isinstance(value, dict):
            rows.append((number, value))
        else:
            mistakes.append(Mistake("json", number, "", "no JSON object", "write one object on this line"))
    return _of_objects(rows, name, "line", mistakes)


def _of_objects(
    rows: Sequence[tuple[RowNumber, Mapping[str, Any]]], name: str, unit: str, mistakes: list[Mistake]
) -> Sheet:
    columns = tuple(dict.fromkeys(column for _, values in rows for column in values))
    if len(columns) > limits.MAX_COLUMNS:
        raise limits.above(name, limits.MAX_COLUMNS, "columns")
    return _sheet(name, unit, columns, [(n, [values.get(c) for c in columns]) for n, values in rows], mistakes)


# CSV and TSV


def _delimited(file: BinaryIO, name: str, typed: str, delimiter: str) -> Sheet:
    content = file.read(MAX_TABLE + 1)
    if len(content) > MAX_TABLE:
        raise limits.larger(name, MAX_TABLE)
    if not content.strip():
        raise DataError(f"{name}: empty file")
    text, encoding, mistakes = _decoded(content, name, typed)
    if text.count("\0") > len(text) / MOST_ZEROS:
        raise DataError(f"{name}: no table: it holds zero bytes")
    lines = _split(text)
    delimiter, is_hidden = delimited.chosen(lines[0] if lines else "", delimiter or delimited.SIGNS)
    lines = lines[is_hidden:]
    rows: list[tuple[RowNumber, list[Any]]] = []
    place = number = broken = 0
    while place < len(lines):
        reader = csv.reader(iter(lines[place:]), delimiter=delimiter, strict=True)
        while True:
            before = reader.line_num
            try:
                row = delimited.next_row(reader)
            except csv.Error as error:
                number, broken = number + 1, broken + 1
                closed = "unexpected end" in str(error)
                what = (
                    f"{'a quote is never closed' if closed else 'text follows a closing quote'}; the row is not checked"
                )
                do = 'write "" for a quote inside of a cell, and a quote at the end of the cell'
                mistakes.append(Mistake("quote", number, "", what, do))
                if broken > MAX_BROKEN:
                    raise DataError(
                        f"{name}: more than {MAX_BROKEN} quotes do not match; is this a CSV file?"
                    ) from None
                place += before + 1
                break
            if row is None:
                place = len(lines)
                break
            number += 1
            if number > limits.MAX_ROWS:
                raise limits.above(name, limits.MAX_ROWS, "rows")
            rows.append((number, list(row)))
    return replace(_with_header(name, rows, mistakes), encoding=encoding)


def _split(text: str) -> list[str]:
    """Split at LF, CRLF and CR only: `str.splitlines` splits at characters that are part of a cell."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z", text)


def _decoded(content: bytes, name: str, typed: str) -> tuple[str, str, list[Mistake]]:
    """Return the text of a file, its encoding ("" for UTF-8), and a mistake unless it is UTF-8."""
    if typed:
        try:
            return content.decode("utf-8-sig" if typed == "utf-8" else typed), "" if typed == "utf-8" else typed, []
        except (UnicodeDecodeError, LookupError) as error:
            raise DataError(f"{name}: not {typed}: {error}") from None
    try:
        return content.decode("utf-8-sig"), "", []
    except UnicodeDecodeError as error:
        where = f", first at line {content.count(NEW_LINE, 0, error.start) + 1}"
    encoding, _ = encodings.guessed(content)
    with suppress(UnicodeDecodeError):
        text = content.decode(encoding)
        what = f"the text is not UTF-8{where}; it is read as {encoding}"
        do = "look at letters such as ä or 肝; type --set encoding=NAME if they are wrong, or save it as CSV UTF-8"
        return text, encoding, [Mistake("encoding", None, "", what, do, refused=False)]
    do = "save it as CSV UTF-8"
    return (
        content.decode("cp1252", errors="replace"),
        "",
        [Mistake("encoding", None, "", f"the text is not UTF-8{where}, and its encoding cannot be told", do)],
    )


# XLSX


def _workbook(file: BinaryIO, name: str, wanted: str) -> Sheet:
    import openpyxl

    mistakes: list[Mistake] = []
    rows: list[tuple[RowNumber, list[Any]]] = []
    try:
        with zipfile.ZipFile(file) as parts:
            workbooks.check_parts(name, parts)
            shape = _shape(parts, wanted)
        file.seek(0)
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=False)) as book:
            sheet = workbooks.chosen(book, name, wanted)
            mistakes += _sheets(book.worksheets, sheet, named=bool(wanted))
            for number, cells in enumerate(workbooks.rows_of(sheet, name), 1):
                row = [_value(cell) for cell in cells]
                while row and row[-1] in ("", None):
                    row.pop()
                rows.append((number, row))
    except DataError:
        raise
    except Exception as error:
        # openpyxl raises exceptions of a dozen types at damaged parts.
        raise DataError(f"{name}: no readable XLSX: {type(error).__name__}: {error}") from error
    what = "hidden in the spreadsheet, and read like all others"
    mistakes += [
        Mistake("hidden_rows", row, "", what, "delete it, or show it", refused=False) for row in shape.hidden_rows
    ]
    if shape.hidden_columns:
        what = f"hidden columns, {shape.hidden_columns} in all, which are read like all others"
        mistakes.append(Mistake("hidden_columns", None, "", what, "delete them, or show them", refused=False))
    return replace(_with_header(name, rows, mistakes, fill=True), merged=shape.merged)


def _value(cell: Any) -> Any:
    value = cell.value
    if isinstance(value, str):
        text = value.replace("_x000D_", "\r")
        if cell.data_type == "e":
            return ErrorCell(text)
        return workbooks.Formula(text) if cell.data_type == "f" else text
    if cell.data_type == "f" and value is not None:
        return workbooks.Formula("=")
    return value


def _sheets(worksheets: Sequence[Any], read: Any, *, named: bool) -> Iterator[Mistake]:
    hidden = [sheet for sheet in worksheets if sheet.sheet_state != "visible"]
    if len(worksheets) > 1 and not named:
        what = f"{len(worksheets)} sheets; only the first, '{clipped(read.title)}', is read"
        do = "type --set sheet=NAME for another one"
        yield Mistake("several_sheets", None, "", what, do, refused=False)
    if hidden:
        listed = ", ".join(f"'{clipped(sheet.title)}'" for sheet in hidden[:5])
        is_read = ", of which one is read" if read in hidden else ""
        what = f"hidden sheets: {listed}{is_read}"
        yield Mistake("hidden_sheets", None, "", what, "delete them, or show them", refused=False)


@dataclass(frozen=True, slots=True)
class _Shape:
    hidden_rows: tuple[int, ...] = ()
    hidden_columns: int = 0
    merged: tuple[tuple[int, int, int, int], ...] = ()


def _shape(parts: zipfile.ZipFile, wanted: str) -> _Shape:
    """Return hidden rows and merged cells of a sheet (default: the first), which openpyxl drops when it streams."""
    from openpyxl.utils.cell import range_boundaries

    sheets: list[str] = []
    targets: dict[str, str] = {}

    def sheet(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sheet" and wanted in ("", attributes.get("name", "")):
            sheets.extend(value for key, value in attributes.items() if key.endswith(":id"))

    def relation(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "Relationship":
            targets[attributes.get("Id", "")] = attributes.get("Target", "")

    members = set(parts.namelist())
    for part, take in (("xl/workbook.xml", sheet), ("xl/_rels/workbook.xml.rels", relation)):
        if part in members:
            _scan(parts, part, take)
    target = targets.get(sheets[0], "") if sheets else ""
    part = target.lstrip("/") if target.startswith("/") else f"xl/{target}"
    if part not in members:
        return _Shape()
    rows: list[int] = []
    columns: list[int] = []
    merged: list[tuple[int, int, int, int]] = []

    def shape(tag: str, attributes: Mapping[str, str]) -> None:
        is_hidden = attributes.get("hidden") in ("1", "true")
        if tag == "row" and is_hidden and attributes.get("r", "").isdigit():
            rows.append(int(attributes["r"]))
        elif tag == "col" and is_hidden and all(attributes.get(key, "").isdigit() for key in ("min", "max")):
            # Excel hides "all columns to the right" as one area up to column 16,384.
            columns.extend(range(int(attributes["min"]), min(int(attributes["max"]), limits.MAX_COLUMNS) + 1))
        elif tag == "mergeCell" and len(merged) < limits.MAX_COLUMNS:
            left, top, right, bottom = (bound or 1 for bound in range_boundaries(attributes.get("ref", "")))
            if bottom > 1:
                merged.append((top, bottom, left - 1, right - 1))

    _scan(parts, part, shape)
    return _Shape(tuple(rows), len(set(columns)) if len(columns) < limits.MAX_COLUMNS // 2 else 0, tuple(merged))


def _scan(parts: zipfile.ZipFile, part: str, take: Callable[[str, Mapping[str, str]], None]) -> None:
    """Call `take` for each element of a part with its local name and attributes; the part has passed its limits."""
    from xml.parsers import expat

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: take(tag.rpartition(":")[2], attributes)
    with parts.open(part) as content:
        while piece := content.read(2**16):
            parser.Parse(piece, False)


# Rows below a header


def _with_header(
    name: str, rows: Iterable[tuple[RowNumber, list[Any]]], mistakes: list[Mistake], *, fill: bool = False
) -> Sheet:
    """Take the first row as names of columns; `fill`: short rows are no mistake, as XLSX ends them at the last cell."""
    listed = list(rows)
    filled = [(n, cells) for n, cells in listed if any(not is_blank(cell) for cell in cells)]
    if not filled:
        raise DataError(f"{name}: no rows")
    number, header = filled[0]
    named = sum(not is_blank(cell) for cell in header)
    after = sum(not is_blank(cell) for cell in filled[1][1]) if len(filled) > 1 else 0
    if number != 1 or (named == 1 and after > 2):
        what = "the first row has no names of columns" if number == 1 else f"{number - 1} blank rows at the top"  # type: ignore[operator]
        mistakes.append(Mistake("header", 1, "", what, "delete the rows above the names of the columns"))
        if named == 1 and after > 2:
            filled = filled[1:]
            _, header = filled[0]
    while header and is_blank(header[-1]):
        header.pop()
    columns = tuple("" if cell is None else str(cell).strip() for cell in header)
    if len(columns) > limits.MAX_COLUMNS:
        raise limits.above(f"{name}, first line", limits.MAX_COLUMNS, "columns")
    width = len(columns)
    kept = []
    for row, cells in filled[1:]:
        used = len(cells)
        while used > width and is_blank(cells[used - 1]):
            used -= 1
        if used > width or (len(cells) != width and not fill):
            more = len(cells) > width
            what = (
                f"{'more' if more else f'only {len(cells)}'} cells where the first row has {width}; it is not checked"
            )
            do = 'put a cell with a comma in quotes ("a, b"), or ' + (
                "delete cells" if more else "add the missing cells"
            )
            mistakes.append(Mistake("row_width", row, "", what, do))
        else:
            # The cells of other rows may be those of other columns.
            kept.append((row, cells))
    return _sheet(name, "row", columns, kept, mistakes)


def _sheet(
    name: str,
    unit: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[RowNumber, Sequence[Any]]],
    mistakes: list[Mistake],
) -> Sheet:
    counts = Counter(column.strip().lower() for column in columns)
    for column, count in counts.items():
        if column and count > 1:
            what = f"{count} columns have this name; the first is read"
            mistakes.append(Mistake("duplicate_column", None, column, what, "rename or delete the others"))
    if counts.get("", 0) > 1:
        mistakes.append(
            Mistake("blank_column", None, "", f"{counts['']} columns have no name", "name them in the first row")
        )
    width = len(columns)
    kept = []
    for number, cells in rows:
        row = tuple(cells[:width]) + (None,) * (width - len(cells))
        if any(not is_blank(cell) for cell in row):
            long = next(
                (i for i, cell in enumerate(row) if isinstance(cell, str) and len(cell) > limits.MAX_TEXT), None
            )
            if long is not None:
                raise limits.long_text(f"{name} {unit} {number}", columns[long])
            kept.append(SheetRow(number, row))
    return Sheet(name, unit, columns, tuple(kept), tuple(mistakes))
