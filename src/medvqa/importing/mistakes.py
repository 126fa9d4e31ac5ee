"""Mistakes in a table: values, and the lines that show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medvqa.items import of_data

SHOWN = 60
"""Characters of a cell in a message."""
LINES_OF_A_KIND = 12
"""Lines of one kind in the terminal; JSON and --report have all."""

RowNumber = int | str


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake.

    `kind` is a slug. `row` is the row as the file counts it, None for the whole file or column. `what` is wrong, `do`
    is what to type. `refused`: the benchmark is refused, or its question ends in error, until it is corrected; False
    marks a warning.
    """

    kind: str
    row: RowNumber | None
    column: str
    what: str
    do: str
    refused: bool = True


@dataclass(frozen=True, slots=True)
class MistakeGroup:
    """Equal mistakes of several rows."""

    mistake: Mistake
    rows: tuple[RowNumber, ...]

    def line(self, name: str, unit: str) -> str:
        """Return the line of the terminal: file, rows, column, the mistake, and what to type."""
        mistake = self.mistake
        rows = f" {unit}{'s' * (len(self.rows) > 1)} {row_list(self.rows)}" if self.rows else ""
        column = f", column '{clipped(mistake.column)}'" if mistake.column else ""
        return f"{name}{rows}{column}: {mistake.what}; {mistake.do}"


def grouped(mistakes: Iterable[Mistake]) -> list[MistakeGroup]:
    """Join equal mistakes of several rows, in the order of their first row; the first refused, then warnings."""
    rows: defaultdict[tuple[str, str, str, str, bool], list[RowNumber]] = defaultdict(list)
    for mistake in mistakes:
        found = rows[mistake.kind, mistake.column, mistake.what, mistake.do, mistake.refused]
        if mistake.row is not None and mistake.row not in found[-1:]:
            found.append(mistake.row)
    groups = [
        MistakeGroup(Mistake(kind, None, column, what, do, refused), tuple(found))
        for (kind, column, what, do, refused), found in rows.items()
    ]
    return sorted(groups, key=lambda group: (not group.mistake.refused, _first(group.rows)))


def _first(rows: Sequence[RowNumber]) -> tuple[int, int]:
    first = rows[0] if rows else 0
    return (0, first) if isinstance(first, int) else (1, 0)


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


def quoted(text: str) -> str:
    """Return the start of a cell in quotes, for a message; without it if texts of the data are withheld."""
    return of_data(f"'{clipped(text)}'")


def clipped(text: str) -> str:
    """Return the start of a text from a table as one line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
