"""Show the progress of a run: a bar in a notebook, a line in a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from medvqa import printing
from medvqa.report import drawn
from medvqa.session.display import Display, LineDisplay, StderrDisplay


def chosen(progress: bool | None) -> Display:
    """Return the display for progress: in a notebook a bar, in a terminal a line.

    Elsewhere, True shows lines and None nothing. False always shows nothing.
    """
    if progress is False:
        return Display()
    if (display := _notebook()) is not None:
        return NotebookDisplay(display)
    return StderrDisplay(pause=0.0) if progress or sys.stderr.isatty() else Display()


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


class NotebookDisplay(LineDisplay):
    """Updates a bar in the cell's output."""

    def __init__(self, display: Callable[..., Any]) -> None:
        """Take IPython's `display`; nothing is shown yet."""
        super().__init__(self._paragraph, self._bar)
        self._display = display
        self._handle: Any = None
        self._ended = False

    def close(self) -> None:
        """Show the last state, without a bar."""
        self._ended = True
        super().close()

    def _paragraph(self, message: str) -> None:
        self._display(_Html(drawn.paragraph(message), printing.lines(message)))

    def _bar(self, text: str) -> None:
        counts, total = self.last
        bar = "" if self._ended else f'<progress value="{counts.total()}" max="{total}"></progress> '
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
