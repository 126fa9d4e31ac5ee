"""A table whose columns have no roles yet, with its problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa.benchmarks import table
from medvqa.printing import clipped
from medvqa.tables import TableRow, encodings, is_blank, limits
from medvqa.tables.problems import Problems, TableProblem


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table. `unit` names its rows ("row", "line", "record", or the key of a JSON object); blank rows are left out.

    `problems` collects those of the file and of its rows. `encoding` is that of text which is not UTF-8, as a benchmark
    file declares it.
    """

    name: str
    unit: str
    columns: tuple[str, ...]
    rows: Sequence[TableRow]
    problems: Problems
    encoding: str = ""

    def position(self, column: str) -> int | None:
        """Return the place of a column by its name; letter case and blanks around words do not count."""
        wanted = column.casefold().split()
        return next((i for i, name in enumerate(self.columns) if name.casefold().split() == wanted), None)

    def shown(self, position: int) -> str:
        """Return the name of a column for messages, in one line."""
        return clipped(self.columns[position])

    def values(self, position: int) -> list[Any]:
        """Return the cells of a column that are not blank."""
        column = self.columns[position]
        return [value for row in self.rows if not is_blank(value := row.values.get(column))]


def read(path: Path, name: str, *, encoding: str = "", delimiter: str = "", sheet: str = "") -> Sheet:
    """Return the table of a file, with its problems; DataError if it is none.

    `encoding` and `delimiter` are those of text and CSV; by default they are guessed. `sheet` is that of an XLSX file
    (default: the first).
    """
    problems = Problems(name, collects=True)
    encoding = encoding or _guessed(path, problems)
    rows = table.read(path, problems, encoding=encoding, delimiter=delimiter, sheet=sheet)
    columns = tuple(dict.fromkeys(column for row in rows for column in row.values))
    return Sheet(name, rows[0].place[0], columns, rows, problems, "" if encoding == "utf-8" else encoding)


def _guessed(path: Path, problems: Problems) -> str:
    """Return the likely encoding of a text file, with a warning unless it is UTF-8 (""), or cannot be told."""
    with limits.opened(path, problems.file) as file:
        encoding, line = encodings.detected(file)
    if encoding:
        what = f"the text is not UTF-8, first at line {line}; it is read as {encoding}"
        do = "look at letters such as ä or 肝; type --set encoding=NAME if they are wrong, or save it as CSV UTF-8"
        problems.add(TableProblem("encoding", None, "", what, do, refused=False))
    return encoding
