"""Equal problems of several rows in one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from medvqa.tables.problems import RowNumber, TableProblem, row_list

LINES_OF_A_KIND = 12
"""Lines of one kind in the terminal; JSON and --report have all."""


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """Equal problems of several rows."""

    problem: TableProblem
    rows: tuple[RowNumber, ...]

    def line(self, name: str, unit: str) -> str:
        """Return the line of the terminal: file, rows, column, the problem, and what to type."""
        rows = f" {unit}{'s' * (len(self.rows) > 1)} {row_list(self.rows)}" if self.rows else ""
        return self.problem.at(f"{name}{rows}")


def grouped(problems: Iterable[TableProblem]) -> list[ProblemGroup]:
    """Join equal problems of several rows, in the order of their first row; the first refused, then warnings."""
    rows: defaultdict[TableProblem, list[RowNumber]] = defaultdict(list)
    for problem in problems:
        found = rows[replace(problem, row=None, line=0)]
        if problem.row is not None and problem.row not in found[-1:]:
            found.append(problem.row)
    groups = [ProblemGroup(problem, tuple(found)) for problem, found in rows.items()]
    return sorted(groups, key=lambda group: (not group.problem.refused, _first(group.rows)))


def _first(rows: Sequence[RowNumber]) -> tuple[int, int]:
    first = rows[0] if rows else 0
    return (0, first) if isinstance(first, int) else (1, 0)
