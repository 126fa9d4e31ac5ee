"""Tables -> rows, read by one reader within one list of limits (`limits`).

CSV, TSV, XLSX, JSON, JSON lines and Parquet:

    for row in tables.read(path, needed=[("id", "score")]):
        row.text("id"), row.values["score"]

An error is one line that names file, row and column: `answers.csv row 4, column 'score': ...`. A sink that collects
problems goes past those of a row (`problems`). A TSV whose cells hold images as base64 has a reader of its own
(`image_cells`).
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from medvqa.items import CELL, DataError, Image, are_withheld, of_data
from medvqa.printing import clipped
from medvqa.tables import delimited, encodings, json_text, limits, parquet, workbooks
from medvqa.tables.problems import HEADER, Problems, RowNumber, TableProblem, row_list

T = TypeVar("T")
ENDINGS = frozenset({".csv", ".tsv", ".xlsx", ".json", ".jsonl", ".ndjson", ".parquet"})
"""Endings of the files of tables."""


class TableRow(msgspec.Struct, frozen=True):
    """One row: its values by column, as texts or other values of JSON and XLSX.

    `unit` and `number` locate it: the row as spreadsheets count it (the header is the first), the line of
    JSON lines, the record of a JSON array, or the key of a JSON object. `line`: where a row of text begins, the place
    of a key in its object from 1, else 0.
    """

    file: str
    unit: str
    number: int | str
    line: int
    values: dict[str, Any]

    @property
    def where(self) -> str:
        """The row's name in messages."""
        return limits.place(self.file, self.unit, self.number, self.line)

    @property
    def place(self) -> tuple[str, RowNumber]:
        """Unit and number for messages: a key of a JSON object is data, and is not named if texts are withheld."""
        return ("record", self.line) if isinstance(self.number, str) and are_withheld() else (self.unit, self.number)

    def problem(self, kind: str, column: str, what: str, do: str, *, refused: bool = True) -> TableProblem:
        """Return a problem of this row, or of one of its cells."""
        unit, number = self.place
        return TableProblem(kind, number, column, what, do, refused, unit, self.line)

    def error(self, message: str, column: str = "") -> DataError:
        """Return the error for this row, or for one of its cells."""
        return DataError(f"{self.where}, column '{column}': {message}" if column else f"{self.where}: {message}")

    def text(self, column: str) -> str:
        """Return a value as text, "" if it is absent or null; DataError if it is neither text nor number."""
        value = self.values.get(column)
        if (text := text_of(value)) is None:
            raise self.error(f"no text: {of_data(str(value)[:80])}", column)
        return text

    def identifier(self, column: str) -> str:
        """Return an id as text; DataError if it is blank or no text."""
        text = whole(self.text(column).strip())
        if not text:
            raise self.error("blank", column)
        return text

    def image(self, column: str) -> Image | None:
        """Return the image of a Parquet cell, None without one; DataError for any other value.

        Never take an image from a converted row: an object of JSON could name any file of the machine.
        """
        value = self.values.get(column)
        if value is not None and not isinstance(value, Image):
            raise self.error("no image", column)
        return value

    def convert(self, type: type[T], *, strict: bool = True, hint: str = limits.OTHER_DATA) -> T:
        """Return the values as a msgspec type; DataError for a value that is missing or of another type."""
        try:
            return msgspec.convert(self.values, type, strict=strict)
        except msgspec.ValidationError as error:
            # A value that is none of some words is quoted.
            problem = re.sub("'.*'", CELL, str(error)) if are_withheld() else str(error)
            raise self.error(f"{problem}{hint}") from error


def text_of(value: object) -> str | None:
    """Return the value of a cell as text: "" for null, None if it is neither text nor number."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def is_blank(value: object) -> bool:
    """Return whether a cell holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def whole(text: str) -> str:
    """Return an id without added decimals: a spreadsheet, or a data frame with a gap, turns 17 into 17.0."""
    return text.partition(".")[0] if re.fullmatch(r"-?\d+\.0+", text) else text


@dataclass(frozen=True)
class _Needs:
    """Requirements on columns: alternatives that must be there, whether letter case counts, and the hint."""

    columns: Sequence[Sequence[str]]
    fold: bool
    hint: str

    def met(self, columns: Container[str]) -> bool:
        return not self.columns or any(all(column in columns for column in group) for group in self.columns)


MOST_ZEROS = 20
"""One byte of so many may be zero at the start of a text."""
_KINDS = {list: "array", str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
"""Names of the other JSON types, as msgspec has them."""


def read(
    path: Path,
    *,
    name: str | None = None,
    needed: Sequence[Sequence[str]] = (),
    fold: bool = False,
    key: str | None = None,
    lines: bool = False,
    largest: int | None = None,
    hint: str = "",
    digests: bool = False,
    encoding: str = "",
    delimiter: str = "",
    sheet: str = "",
    problems: Problems | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a table. The content decides the format, not the file's name.

    - CSV, TSV, XLSX: the first row names the columns; blank rows are skipped, and blank cells beyond the last column.
    - JSON: an array of objects. With `key` also an object of objects, whose keys become the column `key`.
    - JSON lines: an object in each line. With `lines`, any file is read so.
    - Parquet: values of cells as in JSON; a cell with the bytes of an image becomes an `Image`, unread. With `digests`,
      it has its SHA-256 (`parquet.rows`).

    `name` names the file in errors (default: its path). `needed` lists columns that must be there, or alternatives of
    them. `fold` gives names in lower case, without white space around them. `largest` is the limit of the file in bytes
    (default: MAX_BYTES; Parquet files have none, since images stay in them). `hint` ends errors about empty or wrong
    files: it names the expected content. `encoding` (one of `encodings.KNOWN`) and `delimiter` are declared for text
    and CSV; by default text is UTF-8, and the first line shows the delimiter. `sheet` is that of an
    XLSX file (default: the first). `problems` gets those of a row or of the header (default: the first one is raised);
    if it collects them, the rows that have one are left out.

    Raises DataError for a file that is missing, empty, truncated, without rows, of another kind, not UTF-8 or above one
    of the `limits`, and for a column that is missing or occurs twice.
    """
    name = str(path) if name is None else name
    problems = Problems(name) if problems is None else problems
    needs = _Needs(needed, fold, hint or limits.OTHER_DATA)
    with limits.opened(path, name) as opened:
        file: BinaryIO = opened
        largest = limits.MAX_BYTES if largest is None else largest
        start = file.read(4096)
        file.seek(0)
        packed = start.startswith(parquet.START) and not lines
        if start.startswith(workbooks.OLD_START):
            raise DataError(f"{name}: an old or an encrypted Excel file; save it as XLSX, without a password")
        if os.fstat(file.fileno()).st_size > largest and not packed:
            raise limits.larger(name, largest)
        if encoding not in ("", "utf-8"):
            if packed or start.startswith(workbooks.START):
                raise DataError(f"{name}: encoding = {encoding!r} is for text, and this is none; leave it out")
            file = encodings.decoded(file, encoding, name)
            start = file.read(4096)
            file.seek(0)
        if sheet and not start.startswith(workbooks.START):
            raise DataError(f"{name}: sheet = {sheet!r} is for XLSX, and this is none; leave it out")
        if packed:
            found = _objects("record", enumerate(parquet.rows(path, name, digests=digests), 1), needs, problems)
        else:
            found = _rows(file, start, needs, key, lines, hint, delimiter, sheet, problems)
        count = 0
        for count, row in enumerate(found, 1):
            if count > limits.MAX_ROWS:
                raise limits.above(row.where, limits.MAX_ROWS, "rows")
            for column, value in row.values.items():
                if isinstance(value, str) and len(value) > limits.MAX_TEXT:
                    raise limits.long_text(row.where, column)
            yield row
        if not count and not problems.found:
            raise DataError(f"{name}: no rows{hint}")


def _rows(
    file: BinaryIO,
    start: bytes,
    needs: _Needs,
    key: str | None,
    lines: bool,
    hint: str,
    delimiter: str,
    sheet: str,
    problems: Problems,
) -> Iterator[TableRow]:
    name = problems.file
    if start.startswith(workbooks.START) and not lines:
        return _named(workbooks.rows(file, hint, sheet, problems), needs, problems, fill=True)
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text and len(start) < 4096:
        raise DataError(f"{name}: empty file{hint}")
    if not lines and not text.startswith((b"{", b"[")):
        if start.count(0) > len(start) / MOST_ZEROS and not encodings.is_utf_16(start):
            raise DataError(f"{name}: no table: it holds zero bytes{hint}")
        return _named(delimited.rows(file, hint, delimiter, problems), needs, problems)
    if not lines:
        first, more = json_text.first(file, name)
        file.seek(0)
        rows_by_key = key is not None and first is not None and all(isinstance(row, dict) for row in first.values())
        lines = first is not None and (more or not rows_by_key)
    if lines:
        return _objects("line", json_text.values(file, name, problems), needs, problems)
    document = json_text.document(file, name, hint)
    if isinstance(document, list):
        return _objects("record", enumerate(document, 1), needs, problems)
    if key is None:
        raise DataError(f"{name}: Expected `array` of rows, got `object`{needs.hint}")
    keyed = ((value, {**row, key: value} if isinstance(row, dict) else row) for value, row in document.items())
    return _objects(key, keyed, needs, problems)


def _named(
    rows: Iterator[tuple[int, int, Sequence[object]]], needs: _Needs, problems: Problems, *, fill: bool = False
) -> Iterator[TableRow]:
    """Name the cells of rows by the first row; `fill`: fill short rows, as XLSX ends them at the last cell."""
    name = problems.file
    filled = (row for row in rows if not all(map(is_blank, row[2])))
    number, _, header = next(filled, (1, 1, []))
    row = next(filled, None)
    named, below = (sum(not is_blank(cell) for cell in cells) for cells in (header, row[2] if row else ()))
    titled = named == 1 and below > 2
    if number > 1 or titled:
        what = f"{number - 1} blank rows at the top" if number > 1 else "the first row has no names of columns"
        problems.add(TableProblem("header", 1, "", what, "delete the rows above the names of the columns"))
        if titled and row is not None:
            (_, _, header), row = row, next(filled, None)
    columns = ["" if cell is None else str(cell).strip() for cell in header]
    written = len(columns)
    while columns and not columns[-1]:
        columns.pop()
    columns = [column.lower() for column in columns] if needs.fold else columns
    places = _places(columns, problems)
    limits.check_needed(columns, needs.columns, name, needs.hint)
    width = len(columns)
    while row is not None:
        number, line, cells = row
        row = next(filled, None)
        used = len(cells)
        while used > width and is_blank(cells[used - 1]):
            used -= 1
        if used > width or (used < width and not fill):
            count, do = ("more", "delete cells") if used > width else (f"only {used}", "add the missing cells")
            end = "; the file ends here, it may be truncated" if row is None else ""
            what = f"{count} cells where the first line has {width}{end}"
            if width < used <= written:
                what, do = f"a value in cell {used}, whose column has no name", "name the column, or delete the value"
            do = f'put a cell with a comma in quotes ("a, b"), or {do}'
            problems.add(TableProblem("row_width", number, "", what, do, line=line))
        elif len(places) < width:
            values = {column: cells[place] if place < used else "" for column, place in places.items()}
            yield TableRow(name, "row", number, line, values)
        else:
            cells = [*cells, *[""] * (width - used)] if used < width else cells
            yield TableRow(name, "row", number, line, dict(zip(columns, cells, strict=False)))


def _places(columns: Sequence[str], problems: Problems) -> dict[str, int]:
    """Return the first place of each column; names that occur twice are problems, too many are a DataError."""
    if len(columns) > limits.MAX_COLUMNS:
        raise limits.above(f"{problems.file}, {HEADER}", limits.MAX_COLUMNS, "columns")
    for column, count in Counter(columns).items():
        if count > 1 and column:
            what = f"column '{clipped(column)}' occurs twice"
            if are_withheld():
                # The first row may be one of questions.
                places = [place for place, name in enumerate(columns, 1) if name == column]
                what = f"columns {row_list(places)} have the same name"
            problems.add(TableProblem("duplicate_column", None, "", what, "rename or delete the others", unit=HEADER))
        elif count > 1:
            what = f"{count} columns have no name"
            problems.add(TableProblem("blank_column", None, "", what, "name them in the first row", unit=HEADER))
    return {column: place for place, column in reversed(list(enumerate(columns)))}


def _objects(
    unit: str, numbered: Iterable[tuple[int | str, Any]], needs: _Needs, problems: Problems
) -> Iterator[TableRow]:
    """Check that values are objects with the needed columns."""
    name = problems.file
    for position, (number, value) in enumerate(numbered, 1):
        line = position if isinstance(number, str) else 0
        if not isinstance(value, dict):
            what = f"Expected `object`, got `{_KINDS[type(value)]}`{needs.hint}"
            problems.add(TableRow(name, unit, number, line, {}).problem("json", "", what, ""))
            continue
        values = value
        if needs.fold:
            values = {column.strip().lower(): cell for column, cell in value.items()}
            if len(values) < len(value):
                names = [column.strip().lower() for column in value]
                limits.check_columns(names, limits.place(name, unit, number, line))
        if len(values) > limits.MAX_COLUMNS:
            raise limits.above(limits.place(name, unit, number, line), limits.MAX_COLUMNS, "columns")
        if not needs.met(values):
            limits.check_needed(values, needs.columns, limits.place(name, unit, number, line), needs.hint)
        yield TableRow(name, unit, number, line, values)
