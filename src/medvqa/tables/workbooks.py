"""XLSX -> rows of values; the parts of the file are scanned before openpyxl reads them."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from medvqa.items import DataError
from medvqa.printing import clipped
from medvqa.tables import limits
from medvqa.tables.problems import Problems, TableProblem

START = b"PK\x03\x04"
"""The first bytes of an XLSX file, which is a ZIP archive."""
OLD_START = b"\xd0\xcf\x11\xe0"
"""The first bytes of XLS files, and of XLSX files with a password."""


class Formula(str):
    """The text of a cell that holds a formula, not its value."""


class ErrorCell(str):
    """The error that a spreadsheet shows in a cell, such as #REF!."""


class MergedCell(str):
    """The blank text of a cell that is merged into another one, in an area such as B8:B9."""

    area = ""


ERRORS = ("#REF!", "#N/A", "#NV", "#NAME?", "#VALUE!", "#WERT!", "#DIV/0!", "#NULL!", "#NUM!", "#BEZUG!", "#ZAHL!")
"""Errors of spreadsheets, which CSV holds as text; some in German."""


def is_error(value: object) -> bool:
    """Return whether a cell holds the error of a spreadsheet."""
    if isinstance(value, ErrorCell):
        return True
    return isinstance(value, str) and value.lstrip()[:1] == "#" and value.strip().upper() in ERRORS


def rows(file: BinaryIO, hint: str, sheet: str, problems: Problems) -> Iterator[tuple[int, int, list[object]]]:
    """Yield the number of each row of a sheet, 0 for its line, and its values, "" for a blank cell, up to the last one.

    `sheet` is its name (default: the first). Hidden parts and further sheets are warnings. Raises DataError, which
    begins with the file's name, for a file that is no readable XLSX or above a limit.
    """
    import openpyxl

    name = problems.file
    try:
        with zipfile.ZipFile(file) as parts:
            _check_parts(name, parts)
            shape = _shape(parts, sheet)
        merged = _covered(shape.merged, name)
        file.seek(0)
        # Formulas stay text: an answer may start with "=". Pass the open file: openpyxl judges names by their endings,
        # and must read the checked file.
        with closing(openpyxl.load_workbook(file, read_only=True, data_only=False)) as book:
            read = chosen(book, name, sheet)
            for problem in _unseen(book.worksheets, read, shape, named=bool(sheet)):
                problems.add(problem)
            for number, cells in enumerate(rows_of(read, name), 1):
                row = [_value(cell) for cell in cells]
                for place, covered in merged.get(number, {}).items():
                    row += [""] * (place + 1 - len(row))
                    row[place] = covered
                while row and row[-1] == "" and not isinstance(row[-1], MergedCell):
                    row.pop()
                yield number, 0, row
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
        return {"f": Formula, "e": ErrorCell}.get(cell.data_type, str)(text)
    if cell.data_type == "f" and value is not None:
        return Formula("=")
    return "" if value is None else value


def _unseen(worksheets: Sequence[Any], read: Any, shape: _Shape, *, named: bool) -> Iterator[TableProblem]:
    """Yield warnings about sheets that are not read, and about hidden sheets, rows and columns."""
    hidden = [sheet for sheet in worksheets if sheet.sheet_state != "visible"]
    do = "delete them, or show them"
    if len(worksheets) > 1 and not named:
        what = f"{len(worksheets)} sheets; only the first, '{clipped(read.title)}', is read"
        yield TableProblem("several_sheets", None, "", what, "set sheet=NAME for another one", refused=False)
    if hidden:
        listed = ", ".join(f"'{clipped(sheet.title)}'" for sheet in hidden[:5])
        is_read = ", of which one is read" if read in hidden else ""
        yield TableProblem("hidden_sheets", None, "", f"hidden sheets: {listed}{is_read}", do, refused=False)
    what = "hidden in the spreadsheet, and read like all others"
    for row in shape.hidden_rows:
        yield TableProblem("hidden_rows", row, "", what, "delete it, or show it", refused=False)
    if shape.hidden_columns:
        what = f"hidden columns, {shape.hidden_columns} in all, which are read like all others"
        yield TableProblem("hidden_columns", None, "", what, do, refused=False)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Hidden rows, the number of hidden columns, and first and last row and column (from 0) of merged areas."""

    hidden_rows: tuple[int, ...] = ()
    hidden_columns: int = 0
    merged: tuple[tuple[int, int, int, int], ...] = ()


def _covered(areas: Iterable[tuple[int, int, int, int]], name: str) -> dict[int, dict[int, MergedCell]]:
    """Return the cells that are merged into others, by row and place; DataError for too many."""
    from openpyxl.utils import get_column_letter

    found: defaultdict[int, dict[int, MergedCell]] = defaultdict(dict)
    left_over = limits.MAX_CELLS
    for top, bottom, left, right in areas:
        right = min(right, limits.MAX_COLUMNS)
        if right < left:
            continue  # no table is so wide
        left_over -= (bottom - top + 1) * (right - left + 1)
        if left_over < 0:
            raise limits.above(name, limits.MAX_CELLS, "merged cells", "; write it as CSV")
        cell = MergedCell()
        cell.area = f"{get_column_letter(left + 1)}{top}:{get_column_letter(right + 1)}{bottom}"
        for row in range(top, bottom + 1):
            found[row] |= dict.fromkeys(range(left + (row == top), right + 1), cell)
    return found


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


def _check_parts(name: str, parts: zipfile.ZipFile) -> None:
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
