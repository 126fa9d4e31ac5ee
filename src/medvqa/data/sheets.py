"""Tables that people open: CSV and XLSX, written without formulas.

Cells come from models and data sets: none may become a formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import files

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.cell import Cell
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet

MAX_CELL = 32_767
"""Characters of a spreadsheet's cell."""

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
"""First characters that make a text a formula in a spreadsheet, or that it skips (OWASP, CSV Injection)."""


def _cell(sheet: WriteOnlyWorksheet, value: str) -> Cell:
    """Return a cell of an XLSX sheet that is text and never a formula, without control characters.

    A text above XLSX's 32,767 characters is cut at its start: a response ends with the final answer.
    """
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, _clean(value))
    cell.data_type = "s"
    return cell


def write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a table of texts: XLSX if the name ends so, else CSV (UTF-8 with byte order mark, which Excel needs).

    Cells of CSV have no type: a text that a spreadsheet would take for a formula begins with an apostrophe.
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
    """Return a text for a CSV file: no formula, without control characters, no longer than a cell."""
    # Cut first: without its start, a text may look like a formula.
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
        cells = [_cell(sheet, value) for value in row]
        for cell in cells:
            cell.alignment = Alignment(wrap_text=True, vertical="top")
            # Text stays text when the cell is edited.
            cell.quotePrefix = True
        sheet.append(cells)
    _save(book, path)


def write_values(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Write an XLSX table for a program to read, without layout: numbers stay numbers, and texts are never formulas."""
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    sheet.append(list(columns))
    for row in rows:
        sheet.append([value if isinstance(value, int) else _cell(sheet, value) for value in row])
    _save(book, path)


def _save(book: Workbook, path: Path) -> None:
    with files.replacing(path) as file:
        book.save(file)


def _clean(value: str) -> str:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    return str(ILLEGAL_CHARACTERS_RE.sub("", value)[-MAX_CELL:])
