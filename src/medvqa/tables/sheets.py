"""Tables that people open: CSV and XLSX, written without formulas.

Cells come from models and data sets: none may become a formula.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import files, printing

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.cell import Cell
    from openpyxl.worksheet._write_only import WriteOnlyWorksheet


def _cell(sheet: WriteOnlyWorksheet, value: str) -> Cell:
    """Return a cell of an XLSX sheet that is text and never a formula (`printing.cell`)."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, printing.cell(value))
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
        writer.writerows([printing.inert(value) for value in row] for row in rows)
        text.detach()


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
