"""Project: what a run is made of before the names in its options are resolved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medvqa.session.options import Options
    from medvqa.session.registry import Registry


@dataclass(frozen=True, slots=True)
class Project:
    """The folders, the known names, the options, and the process of a run.

    `root` holds models/ and reports/. `cwd`: the folder that relative paths start from. `workers`: number of asking
    processes, 0 for this one alone. `stops_early`: any wrong answer may end the session, so little is asked ahead.
    `collects_only`: nothing will be asked. `selects`: the options that select questions, as typed. `by_outcome`: they
    select by earlier outcomes.
    """

    root: Path
    cwd: Path
    registry: Registry
    options: Options
    workers: int = 0
    stops_early: bool = False
    collects_only: bool = False
    selects: tuple[str, ...] = ()
    by_outcome: bool = False

    @property
    def reports(self) -> Path:
        """The folder of run folders."""
        return reports_of(self.root)


def reports_of(root: Path) -> Path:
    """Return the folder of run folders of the project in a folder."""
    return root / "reports"
