"""Show the progress of a run: a bar in a notebook, a line in a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from medvqa import printing
from medvqa.face import drawn
from medvqa.items import Outcome
from medvqa.session.progress import Progress, line


class Display(Protocol):
    """A place that shows progress and messages."""

    def say(self, message: str) -> None:
        """Show a message that stays."""

    def update(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far, of `total` questions."""

    def close(self) -> None:
        """Show the last state."""


def chosen(progress: bool | None) -> Display:
    """Return the display for progress: in a notebook a bar, in a terminal a line.

    Elsewhere, True shows a line and None nothing. False always shows nothing.
    """
    if progress is False:
        return Silent()
    if (display := _notebook()) is not None:
        return InNotebook(display)
    return InTerminal() if progress or sys.stderr.isatty() else Silent()


def _notebook() -> Callable[..., Any] | None:
    """Return IPython's `display` in a notebook's kernel, else None. A notebook has imported IPython."""
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

    def update(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Drawn:
    """A line that is redrawn from time to time."""

    def __init__(self) -> None:
        self._progress = Progress(self._pass, lambda text: self._draw(text, ended=False))
        self._state: tuple[Counter[Outcome], int] = Counter(), 0

    def update(self, counts: Counter[Outcome], total: int, state: str = "") -> None:
        """Show the outcomes so far, of `total` questions, and the state of a pool of models."""
        self._state = counts, total
        self._progress.show(counts, total, state)

    def close(self) -> None:
        """Show the last state."""
        if self._state[1]:
            self._draw(line(*self._state, None), ended=True)

    def _pass(self, text: str) -> None:
        pass

    def _draw(self, text: str, *, ended: bool) -> None:
        raise NotImplementedError


class InTerminal(_Drawn):
    """Rewrites a line on standard error; without a terminal, prints only the last state."""

    def say(self, message: str) -> None:
        """Print a message."""
        over = "\r\x1b[K" if sys.stderr.isatty() else ""
        printing.to_stderr(f"{over}{printing.lines(message)}\n")

    def _draw(self, text: str, *, ended: bool) -> None:
        if sys.stderr.isatty():
            printing.to_stderr(f"\r{text}\x1b[K" + ("\n" if ended else ""))
        elif ended:
            printing.to_stderr(text + "\n")


class InNotebook(_Drawn):
    """Updates a bar in the cell's output."""

    def __init__(self, display: Callable[..., Any]) -> None:
        """Take IPython's `display`; nothing is shown yet."""
        super().__init__()
        self._display = display
        self._handle: Any = None

    def say(self, message: str) -> None:
        """Show a message in the cell's output."""
        self._display(_Html(drawn.paragraph(message), printing.lines(message)))

    def _draw(self, text: str, *, ended: bool) -> None:
        counts, total = self._state
        bar = "" if ended else f'<progress value="{counts.total()}" max="{total}"></progress> '
        content = _Html(f"<div>{bar}{drawn.text(text)}</div>", text.strip())
        if self._handle is None:
            self._handle = self._display(content, display_id=True)
        else:
            self._handle.update(content)


class _Html:
    """HTML for IPython, with a plain text for displays without HTML."""

    def __init__(self, html: str, plain: str) -> None:
        self._html = html
        self._plain = plain

    def __repr__(self) -> str:
        return self._plain

    def _repr_html_(self) -> str:
        return self._html
