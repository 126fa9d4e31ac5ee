"""Problems of a table: records with their place, and the one sink that takes them.

A run raises the first problem that is refused; `medvqa import` collects all of them, with warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medvqa.items import DataError, of_data
from medvqa.printing import clipped
from medvqa.tables import limits

HEADER = "first line"
"""The unit of problems with the names of columns."""

RowNumber = int | str


@dataclass(frozen=True, slots=True)
class TableProblem:
    """One problem of a table.

    `kind` is a slug. `row` is the row as the file counts it, in the unit of the file, and `line` where it begins; None
    for the whole file or column. `what` is wrong, `do` is what to type. `refused`: a run ends with it, until it is
    corrected; False marks a warning.
    """

    kind: str
    row: RowNumber | None
    column: str
    what: str
    do: str
    refused: bool = True
    unit: str = "row"
    line: int = 0

    def text(self, file: str) -> str:
        """Return the line of the problem: file, row, column, what is wrong, and what to type."""
        if self.row is not None:
            file = limits.place(file, self.unit, self.row, self.line)
        return self.at(file)

    def at(self, where: str) -> str:
        """Return the line of the problem at a place."""
        header = f", {HEADER}" if self.unit == HEADER else ""
        column = f", column '{clipped(self.column)}'" if self.column else ""
        return f"{where}{header}{column}: {'; '.join(filter(None, (self.what, self.do)))}"


class Problems:
    """The sink for the problems of one table, which messages call `file`.

    By default the first problem that is refused is raised as a DataError, and warnings are dropped; with `collects`,
    `found` has all of them in the order of a run.
    """

    def __init__(self, file: str, *, collects: bool = False) -> None:
        """Name the table, and choose whether problems are collected."""
        self.file = file
        self.collects = collects
        self.found: list[TableProblem] = []

    def add(self, problem: TableProblem) -> None:
        """Keep a problem, or raise it (DataError); warnings above MAX_ROWS problems are dropped."""
        if self.collects and len(self.found) < limits.MAX_ROWS:
            self.found.append(problem)
        elif self.collects and problem.refused:
            raise limits.above(self.file, limits.MAX_ROWS, "problems")
        elif problem.refused:
            raise DataError(problem.text(self.file))


def quoted(text: str) -> str:
    """Return the start of a cell in quotes, for a message; without it if texts of the data are withheld."""
    return of_data(f"'{clipped(text)}'")


def row_list(rows: Sequence[RowNumber], most: int = 10) -> str:
    """Return row numbers as text, with ranges: `4, 7 to 9 and 12`."""
    parts: list[str] = []
    start: RowNumber | None = None
    last: RowNumber | None = None
    for row in [*rows, None]:
        if isinstance(row, int) and isinstance(last, int) and row == last + 1:
            last = row
            continue
        if start is not None:
            parts += _range(start, last)
        start = last = row
    if len(parts) > most:
        return f"{', '.join(parts[:most])} and more ({len(rows):,} in all)"
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""


def _range(start: RowNumber, last: RowNumber | None) -> list[str]:
    if isinstance(start, int) and isinstance(last, int) and last > start:
        return [f"{start} to {last}"] if last > start + 1 else [str(start), str(last)]
    return [clipped(str(start))]
