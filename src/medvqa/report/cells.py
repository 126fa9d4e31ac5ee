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
    known: dict[str, object] = {}  # Most texts come again in each row.

    def cell(value: object) -> object:
        if not isinstance(value, str):
            return value
        if value not in known:
            known[value] = safe(value)
        return known[value]

    writer.writerows(list(map(cell, row)) for row in rows)
    return file.getvalue()
