"""Tables that people fill in or open: CSV, TSV and XLSX, read within limits, written without formulas.

What is written comes from models and data sets, and what is read from anybody: no cell may become a formula, and no
file may take more memory than it says.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.items import DataError

if TYPE_CHECKING:
    import _csv

    from openpyxl.cell import Cell
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet

Row = tuple[int, Mapping[str, object]]
"""Number of a row as people count them, and its values by lower-case name."""

MAX_BYTES = 2**30
"""Largest file, and largest sum of a spreadsheet's unpacked parts."""

MAX_ROWS = 2**20
"""Rows of a spreadsheet, as in the format's own limit; a hostile sheet may claim billions."""

MAX_CELL = 32_767
"""Characters of a spreadsheet's cell."""

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""What makes a spreadsheet take text for a formula, or skip it and look at what follows (OWASP, CSV Injection)."""


def rows(path: Path, formats: str) -> Iterator[Sequence[object]]:
    """The rows of a file: XLSX by its content, else TSV or CSV. `formats` says in errors what would be read.

    DataError when it is too large or none of these.
    """
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES} bytes")
    with path.open("rb") as file:
        packed = file.read(4) == b"PK\x03\x04"
    return workbook(path, formats) if packed else table(path, formats)


def table(path: Path, formats: str) -> Iterator[Sequence[object]]:
    """Yield the rows of a TSV or CSV: cells end at tabs where the header has one, else at commas, else at semicolons.

    DataError for what is not UTF-8, and for quotes that do not match.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            # Where a comma is the decimal sign, spreadsheets write semicolons.
            delimiter = next((sign for sign in "\t,;" if sign in header), ",")
            file.seek(0)
            # strict: an unbalanced quote is an error; without, the rest of the file becomes one cell.
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            while (row := _next(path, reader)) is not None:
                yield row
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}; {formats}") from None


def _next(path: Path, reader: _csv.Reader) -> list[str] | None:
    # The limit is the process's: it is never left changed while somebody else's code runs.
    limit = csv.field_size_limit(MAX_BYTES)
    try:
        return next(reader, None)
    except csv.Error as error:
        raise DataError(f"{path}: the cell that ends in line {reader.line_num} is not CSV: {error}") from None
    finally:
        csv.field_size_limit(limit)


def workbook(path: Path, formats: str) -> Iterator[Sequence[object]]:
    """Yield the rows of an XLSX file's first sheet, filled up to the width of the header; a blank cell is ""."""
    import openpyxl

    try:
        with zipfile.ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
        if size > MAX_BYTES:
            raise DataError(f"{path}: unpacks to {size} bytes, more than {MAX_BYTES}")
        # Formulas stay text: an answer may start with "=".
        # The file is passed open, as openpyxl judges a name by its ending.
        with path.open("rb") as file, closing(openpyxl.load_workbook(file, read_only=True, data_only=False)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            width = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                if number > MAX_ROWS:
                    raise DataError(f"{path}: the sheet has more than {MAX_ROWS} rows")
                row = [_value(value) for value in cells]
                while row and row[-1] == "":
                    row.pop()
                width = width or len(row)
                yield row + [""] * (width - len(row)) if row else row
    except DataError:
        raise
    except Exception as error:
        # openpyxl raises exceptions of a dozen types at damaged parts.
        raise DataError(f"{path} is no readable XLSX: {type(error).__name__}: {error}; {formats}") from error


def _value(value: object) -> object:
    if isinstance(value, str):
        # Writers escape a carriage return (ECMA-376, ST_Xstring), and openpyxl leaves it so.
        return value.replace("_x000D_", "\r")
    return "" if value is None else value


def named(path: Path, table: Iterator[Sequence[object]], check: Callable[[Sequence[str]], None]) -> Iterator[Row]:
    """Name the cells of a table by its first row, in lower case; blank rows are skipped.

    `check` is given the names, and raises DataError when they are not those that are needed. So are two columns of one
    name, and a row of another width.
    """
    names = [str(name).strip().lower() for name in next(table, [])]
    check(names)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"{path}: two columns have one name: {', '.join(twice)}")
    for number, cells in enumerate(table, 2):
        if cells:
            if len(cells) != len(names):
                raise DataError(f"{path}: row {number} has {len(cells)} cells, the header {len(names)} (truncated?)")
            yield number, dict(zip(names, cells, strict=True))


def text(row: Mapping[str, object], name: str) -> str:
    """Return a value as text, "" when it is absent or null; ValueError for what is neither text nor number."""
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    raise ValueError(f"{name} is no text: {str(value)[:80]}")


def identifier(row: Mapping[str, object], name: str) -> str:
    """Return an id as text; ValueError when it is blank or no text."""
    found = text(row, name).strip()
    # A spreadsheet or a data frame with a gap turns 17 into 17.0.
    if re.fullmatch(r"-?\d+\.0+", found):
        found = found.partition(".")[0]
    if not found:
        raise ValueError(f"{name} is blank")
    return found


def cell(sheet: WriteOnlyWorksheet, value: str) -> Cell:
    """A cell of an XLSX sheet that is text and never a formula, without control characters.

    Of a text above XLSX's 32,767 characters the end is kept, where a response's final answer stands.
    """
    from openpyxl.cell import WriteOnlyCell

    made = WriteOnlyCell(sheet, _clean(value))
    made.data_type = "s"
    return made


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table of texts: XLSX where the name ends so, else CSV (UTF-8 with byte order mark, which Excel needs).

    In CSV, where a cell has no type, one that a spreadsheet would take for a formula begins with an apostrophe instead.
    """
    if path.suffix.lower() == ".xlsx":
        _write_workbook(path, columns, rows)
        return
    with path.open("w", encoding="utf-8-sig", newline="", errors="replace") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows([inert(value) for value in row] for row in rows)


def inert(value: str) -> str:
    """A text as it stands in a CSV file: not a formula, without control characters, no longer than a cell."""
    # Cut first: what is left when the start is gone may look like a formula.
    cleaned = _clean(value)
    return f"'{cleaned[-MAX_CELL + 1 :]}" if cleaned.lstrip(" ").startswith(_FORMULA) else cleaned


def _write_workbook(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from openpyxl import Workbook
    from openpyxl.styles import Alignment

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    sheet.freeze_panes = "A2"
    for number in range(len(columns)):
        sheet.column_dimensions[chr(ord("A") + number)].width = 30
    sheet.append(list(columns))
    for row in rows:
        cells = [cell(sheet, value) for value in row]
        for each in cells:
            each.alignment = Alignment(wrap_text=True, vertical="top")
            # Text stays text also when somebody edits the cell.
            each.quotePrefix = True
        sheet.append(cells)
    book.save(path)


def _clean(value: str) -> str:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    return str(ILLEGAL_CHARACTERS_RE.sub("", value)[-MAX_CELL:])
