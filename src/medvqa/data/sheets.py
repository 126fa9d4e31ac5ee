"""Tables that people fill in or open: CSV, TSV and XLSX, read within limits, written without formulas.

What is written comes from models and data sets, and what is read from anybody: no cell may become a formula, and no
file may take more memory than it says.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from medvqa import files
from medvqa.items import DataError

if TYPE_CHECKING:
    import _csv

    from openpyxl import Workbook
    from openpyxl.cell import Cell
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet

Row = tuple[int, Mapping[str, object]]
"""Number of a row as people count them, and its values by lower-case name."""

MAX_BYTES = 2**30
"""Largest file."""

MAX_COLUMNS = 1000
"""Cells of a row; the widest real tables have about fifty."""

MAX_ROW = 2**24
"""Characters of a row of CSV or TSV."""

MAX_ROWS = 2**20
"""Rows of a spreadsheet, as in the format's own limit; a hostile sheet may claim billions."""

MAX_CELLS = 2**22
"""Cells of a spreadsheet, blank ones before the last of a row included: 26,000 rows of 160."""

MAX_PARTS = 1000
"""Files in a spreadsheet; one with a sheet has about ten."""

MAX_UNPACKED = 2**28
"""Bytes of all parts of a spreadsheet, unpacked: 26,000 answers of 10,000 characters."""

MAX_ELEMENTS = 2**22
"""XML elements and attributes of all parts. openpyxl holds some parts as trees, 100 bytes and more for each."""

MAX_TOKEN = 2**20
"""Bytes of one tag or characters of one text, which a parser holds whole."""

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
    with files.reading(path) as file:
        packed = file.read(4) == b"PK\x03\x04"
    return workbook(path, formats) if packed else table(path, formats)


def table(path: Path, formats: str) -> Iterator[Sequence[object]]:
    """Yield the rows of a TSV or CSV: cells end at tabs where the header has one, else at commas, else at semicolons.

    DataError for what is not UTF-8, and for quotes that do not match.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline(MAX_ROW)
            # Where a comma is the decimal sign, spreadsheets write semicolons.
            delimiter = next((sign for sign in "\t,;" if sign in header), ",")
            file.seek(0)
            # strict: an unbalanced quote is an error; without, the rest of the file becomes one cell.
            pieces = _Pieces(file, path)
            reader = csv.reader(pieces, delimiter=delimiter, strict=True)
            number = 0
            while (row := _next(path, reader)) is not None:
                number += 1
                pieces.left = MAX_ROW
                _check_width(path, number, row)
                yield row
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}; {formats}") from None


class _Pieces:
    """The lines of a file for `csv`, which would take a row of any length; `left` characters may follow in a row."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self._file = file
        self._path = path
        self.left = MAX_ROW

    def __iter__(self) -> _Pieces:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self.left + 1)
        if len(line) > self.left:
            raise DataError(f"{self._path}: a row is longer than {MAX_ROW:,} characters")
        self.left -= len(line)
        if not line:
            raise StopIteration
        return line


def _check_width(path: Path, number: int, row: Sequence[object]) -> None:
    if len(row) > MAX_COLUMNS:
        raise DataError(f"{path}: row {number} has more than {MAX_COLUMNS:,} cells")


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
        # The file is passed open, as openpyxl judges a name by its ending, and as it must be the one that was checked.
        with ExitStack() as stack:
            file = stack.enter_context(files.reading(path))
            with zipfile.ZipFile(file) as parts:
                _check_parts(path, parts)
            file.seek(0)
            # Formulas stay text: an answer may start with "=".
            book = stack.enter_context(closing(openpyxl.load_workbook(file, read_only=True, data_only=False)))
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            width = count = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                count += len(cells)
                if number > MAX_ROWS:
                    raise DataError(f"{path}: the sheet has more than {MAX_ROWS:,} rows")
                if count > MAX_CELLS:
                    raise DataError(f"{path}: the sheet has more than {MAX_CELLS:,} cells; write it as CSV")
                row = [_value(value) for value in cells]
                while row and row[-1] == "":
                    row.pop()
                _check_width(path, number, row)
                width = width or len(row)
                yield row + [""] * (width - len(row)) if row else row
    except DataError:
        raise
    except Exception as error:
        # openpyxl raises exceptions of a dozen types at damaged parts.
        raise DataError(f"{path} is no readable XLSX: {type(error).__name__}: {error}; {formats}") from error


def _check_parts(path: Path, parts: zipfile.ZipFile) -> None:
    """DataError for a spreadsheet that would take much memory or time: its parts are scanned before they are read."""
    names = parts.infolist()
    if len(names) > MAX_PARTS:
        raise DataError(f"{path}: has more than {MAX_PARTS:,} parts")
    if sum(part.file_size for part in names) > MAX_UNPACKED:
        raise DataError(f"{path}: unpacks to more than {MAX_UNPACKED:,} bytes; write it as CSV")
    left = MAX_ELEMENTS
    for part in names:
        with parts.open(part) as content:
            left -= _elements(path, part.filename, content, left)


def _elements(path: Path, name: str, content: IO[bytes], limit: int) -> int:
    """Count the XML elements and attributes of a part, as far as it is XML. Names of parts do not tell what they are.

    DataError above the limit, for a tag or text above MAX_TOKEN, and for a DOCTYPE, whose entities may have any length.
    """
    from xml.parsers import expat

    count = characters = 0

    def start(_: str, attributes: list[str]) -> None:
        nonlocal count, characters
        characters = 0
        count += 1 + len(attributes) // 2
        if count > limit:
            raise DataError(f"{path}: has more than {MAX_ELEMENTS:,} XML elements and attributes; write it as CSV")

    def text(data: str) -> None:
        nonlocal characters
        characters += len(data)
        if characters > MAX_TOKEN:
            raise DataError(f"{path}: {name} has a text of more than {MAX_TOKEN:,} characters")

    def doctype(*_: object) -> None:
        raise DataError(f"{path}: {name} has a DOCTYPE, which no spreadsheet has")

    parser = expat.ParserCreate()
    parser.ordered_attributes = True
    parser.StartElementHandler = start
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    fed = 0
    try:
        while piece := content.read(2**16):
            fed += len(piece)
            parser.Parse(piece, False)
            if fed - parser.CurrentByteIndex > MAX_TOKEN:
                raise DataError(f"{path}: {name} has a tag of more than {MAX_TOKEN:,} bytes")
    except expat.ExpatError:
        pass  # no XML from here on, for openpyxl neither
    return count


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
    check_names(names, path)
    for number, cells in enumerate(table, 2):
        if cells:
            if len(cells) != len(names):
                raise DataError(f"{path}: row {number} has {len(cells)} cells, the header {len(names)} (truncated?)")
            yield number, dict(zip(names, cells, strict=True))


def check_names(names: Sequence[str], path: Path) -> None:
    """DataError for two columns of one name."""
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError(f"{path}: two columns have one name: {', '.join(twice)}")


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


def once(members: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return the members of a JSON object; DataError, which begins with `where`, for a key that occurs twice."""
    members_by_key = dict(members)
    if len(members_by_key) < len(members):
        key, _ = Counter(key for key, _ in members).most_common(1)[0]
        raise DataError(f"{where}: the key {key!r} occurs twice")
    return members_by_key


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
    with files.replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="", errors="replace", write_through=True)
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows([inert(value) for value in row] for row in rows)
        text.detach()


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
    save(book, path)


def save(book: Workbook, path: Path) -> None:
    """Write a workbook in place of a file; a link is replaced, not followed."""
    with files.replacing(path) as file:
        book.save(file)


def _clean(value: str) -> str:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    return str(ILLEGAL_CHARACTERS_RE.sub("", value)[-MAX_CELL:])
