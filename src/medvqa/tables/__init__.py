"""Tables -> rows, read by one reader within one list of limits (`limits`).

CSV, TSV, XLSX, JSON, JSON lines and Parquet:

    for row in tables.read(path, needed=[("id", "score")]):
        row.text("id"), row.values["score"]

An error is one line that names file, row and column: `answers.csv row 4, column 'score': ...`. A TSV whose cells hold
images as base64 has a reader of its own (`image_cells`).
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from medvqa.items import CELL, DataError, Image, are_withheld, of_data
from medvqa.tables import delimited, encodings, json_text, limits, parquet, workbooks

T = TypeVar("T")


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
) -> Iterator[TableRow]:
    """Yield the rows of a table. The content decides the format, not the file's name.

    - CSV, TSV, XLSX: the first row names the columns; blank rows are skipped.
    - JSON: an array of objects. With `key` also an object of objects, whose keys become the column `key`.
    - JSON lines: an object in each line. With `lines`, any file is read so.
    - Parquet: values of cells as in JSON; a cell with the bytes of an image becomes an `Image`, unread. With `digests`,
      it has its SHA-256 (`parquet.rows`).

    `name` names the file in errors (default: its path). `needed` lists columns that must be there, or alternatives of
    them. `fold` gives names in lower case, without white space around them. `largest` is the limit of the file in bytes
    (default: MAX_BYTES; Parquet files have none, since images stay in them). `hint` ends errors about empty or wrong
    files: it names the expected content. `encoding` (one of `encodings.KNOWN`) and `delimiter` are declared for text
    and CSV; by default text is UTF-8, and the first line shows the delimiter. `sheet` is that of an
    XLSX file (default: the first).

    Raises DataError for a file that is missing, empty, truncated, without rows, of another kind, not UTF-8 or above one
    of the `limits`, and for a column that is missing or occurs twice.
    """
    name = str(path) if name is None else name
    needs = _Needs(needed, fold, hint or limits.OTHER_DATA)
    with limits.opened(path, name) as file:
        largest = limits.MAX_BYTES if largest is None else largest
        start = file.read(4096)
        file.seek(0)
        packed = start.startswith(parquet.START) and not lines
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
            found = _objects("record", enumerate(parquet.rows(path, name, digests=digests), 1), name, needs)
        else:
            found = _rows(file, start, name, needs, key, lines, hint, delimiter, sheet)
        count = 0
        for count, row in enumerate(found, 1):
            if count > limits.MAX_ROWS:
                raise limits.above(row.where, limits.MAX_ROWS, "rows")
            for column, value in row.values.items():
                if isinstance(value, str) and len(value) > limits.MAX_TEXT:
                    raise limits.long_text(row.where, column)
            yield row
        if not count:
            raise DataError(f"{name}: no rows{hint}")


def _rows(
    file: BinaryIO,
    start: bytes,
    name: str,
    needs: _Needs,
    key: str | None,
    lines: bool,
    hint: str,
    delimiter: str,
    sheet: str,
) -> Iterator[TableRow]:
    if start.startswith(workbooks.START) and not lines:
        return _named(workbooks.rows(file, name, hint, sheet), name, needs)
    text = start.removeprefix(codecs.BOM_UTF8).lstrip()
    if not text and len(start) < 4096:
        raise DataError(f"{name}: empty file{hint}")
    if not lines and not text.startswith((b"{", b"[")):
        return _named(delimited.rows(file, name, hint, delimiter), name, needs)
    if not lines:
        first, more = json_text.first(file, name)
        file.seek(0)
        rows_by_key = key is not None and first is not None and all(isinstance(row, dict) for row in first.values())
        lines = first is not None and (more or not rows_by_key)
    if lines:
        return _objects("line", json_text.values(file, name), name, needs)
    document = json_text.document(file, name, hint)
    if isinstance(document, list):
        return _objects("record", enumerate(document, 1), name, needs)
    if key is None:
        raise DataError(f"{name}: Expected `array` of rows, got `object`{needs.hint}")
    keyed = ((value, {**row, key: value} if isinstance(row, dict) else row) for value, row in document.items())
    return _objects(key, keyed, name, needs)


def _named(rows: Iterator[tuple[int, int, Sequence[object]]], name: str, needs: _Needs) -> Iterator[TableRow]:
    """Name the cells of rows by the first row."""
    *_, header = next(rows, (1, 1, []))
    columns = [str(column).strip().lower() if needs.fold else str(column) for column in header]
    limits.check_columns(columns, f"{name}, first line")
    limits.check_needed(columns, needs.columns, name, needs.hint)
    for number, line, cells in rows:
        if len(cells) == len(columns):
            yield TableRow(name, "row", number, line, dict(zip(columns, cells, strict=True)))
        elif cells:
            where = limits.place(name, "row", number, line)
            count = "more" if len(cells) > len(columns) else f"only {len(cells)}"
            raise limits.width(where, count, len(columns), at_end=next(rows, None) is None)


def _objects(unit: str, numbered: Iterable[tuple[int | str, Any]], name: str, needs: _Needs) -> Iterator[TableRow]:
    """Check that values are objects with the needed columns."""
    for position, (number, value) in enumerate(numbered, 1):
        line = position if isinstance(number, str) else 0
        if not isinstance(value, dict):
            where = limits.place(name, unit, number, line)
            raise DataError(f"{where}: Expected `object`, got `{_KINDS[type(value)]}`{needs.hint}")
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
