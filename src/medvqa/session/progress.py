"""The progress line of a run."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping

from medvqa.items import OUTCOMES, Outcome

CATEGORY: Mapping[Outcome, str] = {outcome: outcome for outcome in OUTCOMES} | {"error": "unanswered"}
"""Names in the line, and in pytest's last line. Not "failed" or "error": pytest lists those, in quadratic time."""
INTERVAL = 0.2
"""Seconds between two rewrites."""
MARKS = 30
"""Number of moments, at least a second apart, over which the rate is computed."""


class Progress:
    """The line of one run: rewritten on a terminal, elsewhere written at each tenth."""

    def __init__(
        self, write: Callable[[str], None], rewrite: Callable[[str], None] | None = None, *, pause: float = 0.0
    ) -> None:
        """`rewrite` replaces the line on a terminal, None elsewhere; `pause`: seconds between two calls of `write`."""
        self._write, self._rewrite, self._pause = write, rewrite, pause
        self._shown = time.monotonic()
        self._tenth = 0
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)

    def show(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far if it is time to; `total` counts all questions, `state` is that of a pool."""
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

    def _rate(self, now: float, done: int) -> float | None:
        """Return the recent number of questions a second: stored answers come much faster than new ones.

        None in the first second, when a whole batch may have come at once.
        """
        if not self._marks or now - self._marks[-1][0] >= 1:
            self._marks.append((now, done))
        since, before = self._marks[0]
        return (done - before) / (now - since) if now - since >= 1 else None


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
