"""Check a spreadsheet of cases, and make a benchmark of it.

    read (`sheet`) -> guess the columns (`roles`) -> declaration (`writing`)
    -> questions, as in a run (`benchmarks.table`) -> report (`validation`, `report_text`) -> benchmark file

Files are hostile: cells are limited, columns that name patients are not read, and messages hold no cell of a patient's
column.
"""

from __future__ import annotations

from medvqa.importing.roles import Guess, RoleColumns, RoleQuestion, guess
from medvqa.importing.sheet import Sheet, read
from medvqa.importing.validation import Validation, validate

__all__ = ["Guess", "RoleColumns", "RoleQuestion", "Sheet", "Validation", "guess", "read", "validate"]
