"""Show the messages and the progress of a run: to nobody, or as lines of a terminal."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from shutil import get_terminal_size

from medvqa import printing
from medvqa.items import OUTCOMES, Outcome

CATEGORY: Mapping[Outcome, str] = {outcome: outcome for outcome in OUTCOMES} | {"error": "unanswered"}
"""Names in the line, and in pytest's last line. Not "failed" or "error": pytest lists those, in quadratic time."""
INTERVAL = 0.2
"""Seconds between two rewrites."""
MARKS = 30
"""Number of moments, at least a second apart, over which the rate is computed."""


PAUSE = 10.0
"""Seconds between two lines of progress if standard error is no terminal."""


class Display:
    """A place for the messages and the progress of a run. This one shows nothing."""

    def say(self, message: str) -> None:
        """Show a message that stays."""

    def show(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far of `total` questions, and the state of a pool of models (`replicas.pool_state`)."""

    def close(self) -> None:
        """Show the last state: the run has ended, and another may begin."""


class LineDisplay(Display):
    """A line of progress: rewritten on a terminal, elsewhere written at each tenth."""

    def __init__(
        self, write: Callable[[str], None], rewrite: Callable[[str], None] | None = None, *, pause: float = 0.0
    ) -> None:
        """`rewrite` replaces the line on a terminal, None elsewhere; `pause`: seconds between two calls of `write`."""
        self._write, self._rewrite, self._pause = write, rewrite, pause
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)
        self._begin()

    def _begin(self) -> None:
        self._marks.clear()
        self._shown, self._tenth = time.monotonic(), 0
        self.last: tuple[Counter[Outcome], int] = Counter(), 0
        """The outcomes of the last call of `show`, and the number of all questions."""

    def say(self, message: str) -> None:
        """Write a message."""
        self._write(message)

    def show(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far if it is time to."""
        self.last = counts, total
        now, done = time.monotonic(), counts.total()
        tenth = 10 * done // max(total, 1)
        rate = self._rate(now, done)
        if self._rewrite is not None:
            if now - self._shown >= INTERVAL or tenth == 10:
                self._shown = now
                self._rewrite(line(counts, total, rate, state))
        elif tenth > self._tenth and now - self._shown >= self._pause:
            self._tenth, self._shown = tenth, now
            self._write(line(counts, total, rate, state))

    def close(self) -> None:
        """Rewrite the line with the last state, without a rate."""
        if self._rewrite is not None and self.last[1]:
            self._rewrite(line(*self.last, None))
        self._begin()

    def _rate(self, now: float, done: int) -> float | None:
        """Return the recent number of questions a second: stored answers come much faster than new ones.

        None in the first second, when a whole batch may have come at once.
        """
        if not self._marks or now - self._marks[-1][0] >= 1:
            self._marks.append((now, done))
        since, before = self._marks[0]
        return (done - before) / (now - since) if now - since >= 1 else None


class StderrDisplay(LineDisplay):
    """Messages on standard error, and the line of progress below them."""

    def __init__(self, pause: float | None = None) -> None:
        """`pause`: seconds between two lines of progress if it is no terminal, by default PAUSE."""
        pause = PAUSE if pause is None else pause
        super().__init__(self._print, self._redraw if sys.stderr.isatty() else None, pause=pause)
        self._drawn = False

    def close(self) -> None:
        """End the line of progress."""
        super().close()
        if self._drawn:
            printing.to_stderr("\n")
            self._drawn = False

    def _print(self, message: str) -> None:
        blank = f"\r{'':{_width()}}\r" if self._drawn else ""
        self._drawn = False
        printing.to_stderr(f"{blank}{printing.lines(message)}\n")

    def _redraw(self, text: str) -> None:
        self._drawn = True
        printing.to_stderr(f"\r{text[: _width()]:{_width()}}")


def _width() -> int:
    """Characters of a line of the terminal, without the last, after which some terminals begin another."""
    return get_terminal_size().columns - 1


def line(counts: Counter[Outcome], total: int, rate: float | None, state: str = "") -> str:
    """Return a line such as "  120/300 items  40 %  95/s  0:02 left  correct 31  wrong 89"; `rate`: items a second.

    `state` follows the rate (`replicas.pool_state`).
    """
    done = counts.total()
    outcomes = [f"{CATEGORY[outcome]} {counts[outcome]}" for outcome in OUTCOMES if counts[outcome]]
    speed = [f"{rate:.3g}/s" if rate < 10 else f"{rate:.0f}/s", f"{clock((total - done) / rate)} left"] if rate else []
    pool = [state] if state else []
    return "  ".join(["", f"{done}/{total} items", f"{100 * done // max(total, 1)} %", *speed, *pool, *outcomes])


def clock(seconds: float) -> str:
    """Seconds as M:SS or H:MM:SS."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
