"""XLSX -> rows of values; the parts of the file are scanned before openpyxl reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import IO, Any, BinaryIO

from medvqa.items import DataError
from medvqa.tables import limits

START = b"PK\x03\x04"
"""The first bytes of an XLSX file, which is a ZIP archive."""


class Formula(str):
    """The text of a cell that holds a formula, not its value."""


def rows(file: BinaryIO, name: str, hint: str, sheet: str = "") -> Iterator[tuple[int, int, list[object]]]:
    """Yield the number of each row of a sheet, 0 for its line, and its values, "" for a blank cell.

    `sheet` is its name (default: the first). Rows are filled up to the width of the first; a blank row has no values.
    Raises DataError, which begins with `name`, for a file that is no readable XLSX or above a limit.
    """
    import openpyxl

    try:
        with zipfile.ZipFile(file) as parts:
            check_parts(name, parts)
        file.seek(0)
        # Formulas stay text: an answer may start with "=". Pass the open file: openpyxl judges names by their endings,
        # and must read the checked file.
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=False)) as book:
            filled = 0
            for number, cells in enumerate(rows_of(chosen(book, name, sheet), name), 1):
                row = [_value(cell) for cell in cells]
                while row and row[-1] == "":
                    row.pop()
                filled = filled or len(row)
                yield number, 0, row + [""] * (filled - len(row)) if row else row
    except DataError:
        raise
    except Exception as error:
        # openpyxl raises exceptions of a dozen types at damaged parts.
        raise DataError(f"{name}: no readable XLSX: {type(error).__name__}: {error}{hint}") from error


def chosen(book: Any, name: str, sheet: str) -> Any:
    """Return the sheet of a workbook with this title, by default the first (DataError)."""
    # A sheet of a chart has no rows.
    known = {each.title: each for each in book.worksheets}
    if sheet and sheet not in known:
        raise DataError(f"{name}: no sheet {sheet!r}; there are: {', '.join(known)[:500]}")
    return known[sheet] if sheet else book.worksheets[0]


def rows_of(sheet: Any, name: str) -> Iterator[Sequence[Any]]:
    """Yield the cells of each row of a sheet; DataError above a limit."""
    sheet.reset_dimensions()
    count = 0
    for number, cells in enumerate(sheet.iter_rows(), 1):
        count += len(cells)
        if number > limits.MAX_ROWS:
            raise limits.above(name, limits.MAX_ROWS, "rows")
        if count > limits.MAX_CELLS:
            raise limits.above(name, limits.MAX_CELLS, "cells", "; write it as CSV")
        yield cells


def _value(cell: Any) -> object:
    value: object = cell.value
    if isinstance(value, str):
        # openpyxl leaves the escape of a carriage return (ECMA-376, ST_Xstring).
        text = value.replace("_x000D_", "\r")
        return Formula(text) if cell.data_type == "f" else text
    return "" if value is None else value


def check_parts(name: str, parts: zipfile.ZipFile) -> None:
    """DataError for a spreadsheet that would take much memory or time."""
    members = parts.infolist()
    if len(members) > limits.MAX_PARTS:
        raise limits.above(name, limits.MAX_PARTS, "parts")
    if sum(member.file_size for member in members) > limits.MAX_UNPACKED:
        raise limits.above(name, limits.MAX_UNPACKED, "bytes when unpacked", "; write it as CSV")
    left = limits.MAX_ELEMENTS
    for member in members:
        with parts.open(member) as content:
            left -= _elements(name, member.filename, content, left)


def _elements(name: str, part: str, content: IO[bytes], left: int) -> int:
    """Count the XML elements and attributes of a part, as far as it is XML: names of parts do not show their type.

    DataError for more than `left`, for a tag or text above MAX_TOKEN, and for a DOCTYPE, whose entities may have any
    length.
    """
    from xml.parsers import expat

    count = characters = 0

    def start(_: str, attributes: list[str]) -> None:
        nonlocal count, characters
        characters = 0
        count += 1 + len(attributes) // 2
        if count > left:
            raise limits.above(name, limits.MAX_ELEMENTS, "XML elements and attributes", "; write it as CSV")

    def text(data: str) -> None:
        nonlocal characters
        characters += len(data)
        if characters > limits.MAX_TOKEN:
            raise limits.above(f"{name}, {part}", limits.MAX_TOKEN, "characters in a text")

    def doctype(*_: object) -> None:
        raise DataError(f"{name}, {part}: has a DOCTYPE, which no spreadsheet has")

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
            if fed - parser.CurrentByteIndex > limits.MAX_TOKEN:
                raise limits.above(f"{name}, {part}", limits.MAX_TOKEN, "bytes in a tag")
    except expat.ExpatError:
        pass  # no XML from here on, for openpyxl neither
    return count
