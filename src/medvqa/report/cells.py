"""Cells of files for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from medvqa.data import sheets


def safe(value: object) -> object:
    """Make a cell inert, so that no spreadsheet takes it for a formula (`sheets.inert`); numbers stay unchanged."""
    return sheets.inert(value) if isinstance(value, str) else value


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file (RFC 4180, but for its line ends) of safe cells."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return file.getvalue()
