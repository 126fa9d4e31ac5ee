"""What a session with vqa items prints: its status words, a line of progress, and the table at the end."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping

import pytest

from medvqa.items import OUTCOMES, Outcome
from medvqa.report import Report
from medvqa.report.terminal import GLYPHS, summary

CATEGORY: Mapping[Outcome, str] = {outcome: outcome for outcome in OUTCOMES} | {"error": "unanswered"}
"""Names in pytest's last line. Not "failed" or "error": pytest lists those one by one, in quadratic time."""
_GREEN: frozenset[Outcome] = frozenset({"correct", "partial"})


def status(outcome: Outcome, verbosity: int) -> tuple[str, str, str | tuple[str, dict[str, bool]]]:
    """Category, letter and word of an item; without -v neither letter nor word, since progress is shown."""
    if verbosity <= 0:
        return CATEGORY[outcome], "", ""
    colour = "green" if outcome in _GREEN else "red" if outcome == "error" else "yellow"
    return CATEGORY[outcome], outcome[0], (outcome.upper(), {colour: True})


class Progress:
    """A line that says how far a run is: rewritten on a terminal, elsewhere one line for each tenth.

    Silent with -q, and with -v, where each item has a line of its own.
    """

    INTERVAL = 0.2
    """Seconds between two rewrites."""
    MARKS = 30
    """Moments from the oldest of which the rate is counted, at least a second apart."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        """Nothing has come yet."""
        self._reporter = reporter
        self._shown = time.monotonic()
        self._tenth = 0
        self._marks: deque[tuple[float, int]] = deque(maxlen=self.MARKS)

    def show(self, counts: Counter[Outcome], total: int) -> None:
        """Show the count of items so far when it is time to."""
        if self._reporter.config.get_verbosity() != 0:
            return
        now, tenth = time.monotonic(), 10 * counts.total() // max(total, 1)
        rate = self._rate(now, counts.total())
        if self._reporter.isatty:
            if now - self._shown >= self.INTERVAL or tenth == 10:
                self._shown = now
                self._reporter.rewrite(line(counts, total, rate), erase=True)
        elif tenth > self._tenth:
            self._tenth = tenth
            # Not `write_line`, after which pytest would name the file again.
            self._reporter.write("\n" + line(counts, total, rate))

    def _rate(self, now: float, done: int) -> float | None:
        """Items a second, of late: stored answers come much faster than those that are asked for after them.

        None in the first second, when a whole batch may have come at once.
        """
        if not self._marks or now - self._marks[-1][0] >= 1:
            self._marks.append((now, done))
        since, before = self._marks[0]
        return (done - before) / (now - since) if now - since >= 1 else None

    def close(self) -> None:
        """Go on below the line."""
        self._reporter.write("\n")


def line(counts: Counter[Outcome], total: int, rate: float | None) -> str:
    """For instance "  120/300 items  40 %  95/s  0:02 left  correct 31  wrong 89"; `rate` in items a second."""
    done = counts.total()
    outcomes = [f"{CATEGORY[outcome]} {counts[outcome]}" for outcome in OUTCOMES if counts[outcome]]
    speed = [f"{rate:.3g}/s" if rate < 10 else f"{rate:.0f}/s", f"{clock((total - done) / rate)} left"] if rate else []
    return "  ".join(["", f"{done}/{total} items", f"{100 * done // max(total, 1)} %", *speed, *outcomes])


def clock(seconds: float) -> str:
    """Seconds as M:SS or H:MM:SS."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def summarise(reporter: pytest.TerminalReporter, report: Report) -> None:
    """Print the report after pytest's own lines."""
    reporter.section("medvqa")
    # What goes into a file or a pipe is text to be read by lines.
    bars = bool(reporter.isatty) and _can_write(GLYPHS, getattr(reporter._tw._file, "encoding", None))
    reporter.write_line(summary(report, width=reporter._tw.fullwidth, colour=reporter.hasmarkup, bars=bars))


def _can_write(text: str, encoding: str | None) -> bool:
    """Whether a terminal of this encoding has these characters; one that does not tell has not."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
