"""How far a run is: a bar in a notebook, a line in a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from medvqa import printing
from medvqa.face import drawn
from medvqa.items import OUTCOMES, Outcome

INTERVAL = 0.2
"""Seconds between two updates."""


class Shown(Protocol):
    """Where progress and messages go."""

    def say(self, message: str) -> None:
        """Show a message, which stays."""

    def update(self, counts: Counter[Outcome], total: int) -> None:
        """Show the outcomes so far, of `total` questions."""

    def close(self) -> None:
        """Show the last state."""


def chosen(progress: bool | None) -> Shown:
    """The place for progress: None finds out whether there is a notebook or a terminal, False shows nothing.

    True shows a line if there is neither.
    """
    if progress is False:
        return Silent()
    if (display := _notebook()) is not None:
        return InNotebook(display)
    return InTerminal() if progress or sys.stderr.isatty() else Silent()


def _notebook() -> Callable[..., Any] | None:
    """IPython's `display` in a notebook's kernel, else None. A notebook has imported IPython."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # IPython in a terminal has no kernel, and shows no HTML.
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    show: Callable[..., Any] = display
    return show


class Silent:
    """Shows nothing."""

    def say(self, message: str) -> None:
        """Do nothing."""

    def update(self, counts: Counter[Outcome], total: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Paced:
    """Draws the state at most every `INTERVAL` seconds, and at the end."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._drawn = 0.0
        self._state: tuple[Counter[Outcome], int] | None = None

    def update(self, counts: Counter[Outcome], total: int) -> None:
        """Show the outcomes so far, of `total` questions."""
        self._state = counts, total
        now = time.monotonic()
        if now - self._drawn >= INTERVAL:
            self._drawn = now
            self._draw(*self._state, ended=False)

    def close(self) -> None:
        """Show the last state."""
        if self._state is not None:
            self._draw(*self._state, ended=True)

    def _line(self, counts: Counter[Outcome], total: int, *, ended: bool) -> str:
        return line(counts, total, 0 if ended else time.monotonic() - self._began)

    def _draw(self, counts: Counter[Outcome], total: int, *, ended: bool) -> None:
        raise NotImplementedError


class InTerminal(_Paced):
    """Rewrites a line on standard error; if that is no terminal, prints the last state."""

    def say(self, message: str) -> None:
        """Print a message."""
        print(printing.lines(message), file=sys.stderr)

    def _draw(self, counts: Counter[Outcome], total: int, *, ended: bool) -> None:
        if sys.stderr.isatty():
            print(
                f"\r{self._line(counts, total, ended=ended)}\x1b[K",
                end="\n" if ended else "",
                file=sys.stderr,
                flush=True,
            )
        elif ended:
            print(self._line(counts, total, ended=ended), file=sys.stderr, flush=True)


class InNotebook(_Paced):
    """Updates a bar in the cell's output."""

    def __init__(self, display: Callable[..., Any]) -> None:
        """Take IPython's `display`; nothing is shown yet."""
        super().__init__()
        self._display = display
        self._handle: Any = None

    def say(self, message: str) -> None:
        """Show a message in the cell's output."""
        self._display(_Html(drawn.paragraph(message), printing.lines(message)))

    def _draw(self, counts: Counter[Outcome], total: int, *, ended: bool) -> None:
        words = self._line(counts, total, ended=ended)
        bar = "" if ended else f'<progress value="{counts.total()}" max="{total}"></progress> '
        content = _Html(f"<div>{bar}{drawn.text(words)}</div>", words)
        if self._handle is None:
            self._handle = self._display(content, display_id=True)
        else:
            self._handle.update(content)


class _Html:
    """HTML that IPython displays, with a text for where HTML is not shown."""

    def __init__(self, html: str, plain: str) -> None:
        self._html = html
        self._plain = plain

    def __repr__(self) -> str:
        return self._plain

    def _repr_html_(self) -> str:
        return self._html


def line(counts: Counter[Outcome], total: int, seconds: float) -> str:
    """The state in a line, such as "120/300 items  40 %  95/s  0:02 left  correct 31  wrong 89".

    Rate and time left are shown from the first second on.
    """
    done = counts.total()
    parts = [f"{done:,}/{total:,} items", f"{100 * done // max(total, 1)} %"]
    if seconds >= 1 and 0 < done < total:
        rate = done / seconds
        minutes, rest = divmod(round((total - done) / rate), 60)
        parts += [f"{rate:.3g}/s" if rate < 10 else f"{rate:.0f}/s", f"{minutes}:{rest:02} left"]
    return "  ".join([*parts, *(f"{outcome} {counts[outcome]}" for outcome in OUTCOMES if counts[outcome])])
