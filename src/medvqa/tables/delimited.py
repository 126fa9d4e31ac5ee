"""CSV and TSV -> rows of texts."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, TextIO

from medvqa.items import DataError
from medvqa.tables import encodings, limits

if TYPE_CHECKING:
    import _csv


SIGNS = ",;\t"
"""Delimiters among which a table of questions may choose: a comma may stand in the name of a column."""
_QUOTED = re.compile(r'"[^"]*"')
_SEPARATOR = re.compile(r'"?sep=(.)"?[\r\n]*', re.I)
"""A first line that names the delimiter, as some programs write it for Excel, which hides it."""


def rows(file: BinaryIO, name: str, hint: str, delimiter: str = "") -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of each row, the line in which it begins, and its cells; a blank row has none.

    Cells end at `delimiter`; if it holds several signs, at the most frequent one in the header outside of quotes.
    Without a single one, they end at the sign of a first line `sep=;`. By default they end at tabs if the header has
    one, else at commas, else at semicolons. Text is UTF-8, with or without a byte order mark, and lines end in LF, CRLF
    or CR. Raises DataError, which begins with `name`, for other encodings, quotes that do not match, and a row above a
    limit.
    """
    number, line, hidden = 1, 1, 0
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        try:
            delimiter, is_hidden = chosen(text.readline(limits.MAX_ROW), delimiter)
            if is_hidden:
                hidden, line = 1, 2
            else:
                text.seek(0)
            # strict: an unbalanced quote is an error; without, the rest of the file becomes one cell.
            pieces = _Pieces(text, name)
            reader = csv.reader(pieces, delimiter=delimiter, strict=True)
            while (row := next_row(reader)) is not None:
                yield number, line, row
                number, line = number + 1, reader.line_num + 1 + hidden
                pieces.next_row()
        except csv.Error as error:
            raise DataError(f"{limits.place(name, 'row', number, line)}: {_wrong(error)}") from None
        except UnicodeDecodeError as error:
            where = f"{name} line {_undecodable(file)}"
            raise DataError(f"{where}: not UTF-8: {error.reason}{hint}{encodings.advice(file)}") from None


def chosen(first: str, delimiter: str) -> tuple[str, bool]:
    """Return the delimiter of a table by its first line, and whether that line names it and is no row: see `rows`."""
    if named := _SEPARATOR.fullmatch(first):
        return delimiter if len(delimiter) == 1 else named[1], True
    if len(delimiter) > 1:
        return max(delimiter, key=_QUOTED.sub("", first).count), False
    # Spreadsheets write semicolons if the comma is the decimal sign.
    return delimiter or next((sign for sign in "\t,;" if sign in first), ","), False


class _Pieces:
    """The lines of a file for `csv`, with a limit of a row's length."""

    def __init__(self, file: TextIO, name: str) -> None:
        self._file = file
        self._name = name
        self._row = 0
        self.next_row()

    def next_row(self) -> None:
        self._row += 1
        self._left = limits.MAX_ROW

    def __iter__(self) -> _Pieces:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._left + 1)
        if len(line) > self._left:
            raise limits.longer(f"{self._name} row {self._row}", limits.MAX_ROW, "characters")
        self._left -= len(line)
        if not line:
            raise StopIteration
        return line


def next_row(reader: _csv.Reader) -> list[str] | None:
    """Return the next row of cells of any length, None after the last one."""
    # The limit is process-wide: restore it before other code runs.
    limit = csv.field_size_limit(limits.MAX_BYTES)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _wrong(error: csv.Error) -> str:
    """Describe an error of `csv` in the words of `image_cells`."""
    message = str(error)
    if message == "unexpected end of data":
        return "a quote is never closed, the file may be truncated"
    return "text follows a closing quote" if "expected after" in message else f"not CSV: {message}"


def _undecodable(file: BinaryIO) -> int:
    """Return the line of the first byte that is not UTF-8; chunks were read ahead of the rows."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    file.seek(0)
    try:
        while chunk := file.read(2**16):
            line += decoder.decode(chunk).count("\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line += error.object[: error.start].count(b"\n")
    return line
