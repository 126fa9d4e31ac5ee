"""Cells of files that a spreadsheet opens."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe in front.

    Numbers stay, the negative ones too; None is an empty cell. Source: OWASP, "CSV Injection",
    https://owasp.org/www-community/attacks/CSV_Injection.
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return "'" + value
    return value


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file (RFC 4180, but for its line ends) of safe cells."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return file.getvalue()
