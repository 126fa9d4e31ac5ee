"""Write the terminal output of a session with vqa items: status words, a line of progress, and the summary."""

from __future__ import annotations

from collections import Counter

import pytest

from medvqa.items import Outcome
from medvqa.report import Report
from medvqa.report.terminal import can_draw, summary
from medvqa.session.display import CATEGORY, LineDisplay

_GREEN: frozenset[Outcome] = frozenset({"correct", "partial"})


def status(outcome: Outcome, verbosity: int) -> tuple[str, str, str | tuple[str, dict[str, bool]]]:
    """Return category, letter and word of an item; without -v, no letter and no word, as progress is shown."""
    if verbosity <= 0:
        return CATEGORY[outcome], "", ""
    colour = "green" if outcome in _GREEN else "red" if outcome == "error" else "yellow"
    return CATEGORY[outcome], outcome[0], (outcome.upper(), {colour: True})


class TerminalDisplay(LineDisplay):
    """Messages and the progress line of a run, written by pytest's reporter."""

    def __init__(self, reporter: pytest.TerminalReporter, session: pytest.Session | None, *, progress: bool) -> None:
        """`session` counts the tests. `progress`: False with -v, as each test has a line of its own."""

        def rewrite(line: str) -> None:
            reporter.rewrite(line, erase=True)

        # Not `write_line`: after it, pytest would print the file's name again.
        super().__init__(lambda line: reporter.write("\n" + line), rewrite if reporter.isatty else None)
        self._reporter = reporter
        self._session = session
        self._progress = progress

    def say(self, message: str) -> None:
        """Write a line."""
        self._reporter.write_line(message)

    def show(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far, of all tests, if it is time to: tests may ask questions that nobody selected."""
        if self._progress:
            super().show(counts, total if self._session is None else self._session.testscollected, state)

    def close(self) -> None:
        """End the line."""
        if self.last[0]:
            self._reporter.write("\n")
        self._begin()


def summarise(reporter: pytest.TerminalReporter, report: Report) -> None:
    """Print the report after pytest's own lines."""
    reporter.section("medvqa")
    # Draw bars only on terminals: files and pipes get plain lines.
    bars = bool(reporter.isatty) and can_draw(getattr(reporter._tw._file, "encoding", None))
    reporter.write_line(summary(report, width=reporter._tw.fullwidth, colour=reporter.hasmarkup, bars=bars))
