"""Progress of a download: bars on a terminal, else a line now and then, on standard error."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from medvqa import printing
from medvqa.figures import data_size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

EVERY = 10.0
"""Seconds between two lines if standard error is no terminal."""


class FetchProgress:
    """Files done of a number of files; methods may be called by several threads."""

    def __init__(self, bars: Progress | None) -> None:
        """Draw `bars`, or write lines without them."""
        self._bars = bars
        self._whole = None if bars is None else bars.add_task("files", amount="")
        self._total = self._files = 0
        self._bytes: dict[str, int] = {}
        self._tasks: dict[str, TaskID] = {}
        self._shown = time.monotonic()
        self._lock = threading.Lock()

    def expect(self, total: int) -> None:
        """Count to a number of files."""
        self._total = total

    def received(self, name: str, done: int, size: int | None) -> None:
        """Show the bytes of a file that are there."""
        amount = data_size(done) if size is None else f"{data_size(done)} of {data_size(size)}"
        with self._lock:
            self._bytes[name] = done
            if self._bars is None:
                self._line(f"; {name}: {amount}")
                return
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(printing.line(name), amount="")
            self._bars.update(self._tasks[name], completed=done, total=size, amount=amount)

    def ended(self, name: str) -> None:
        """Count a file that is done or given up."""
        with self._lock:
            self._files += 1
            if self._bars is None or self._whole is None:
                self._line("")
                return
            if name in self._tasks:
                self._bars.remove_task(self._tasks.pop(name))
            amount = f"{self._files:,} of {self._total:,} files"
            self._bars.update(self._whole, completed=self._files, total=self._total, amount=amount)

    def tell(self, text: str) -> None:
        """Show a line."""
        with self._lock:
            line = printing.lines(f"medvqa: {text}")
            if self._bars is not None:
                self._bars.console.print(line, markup=False, highlight=False)
            else:
                printing.to_stderr(f"{line}\n")

    def _line(self, more: str) -> None:
        if time.monotonic() - self._shown >= EVERY:
            self._shown = time.monotonic()
            text = f"  {self._files:,} of {self._total:,} files, {data_size(sum(self._bytes.values()))}{more}"
            printing.to_stderr(printing.lines(text) + "\n")


@contextmanager
def show() -> Iterator[FetchProgress]:
    """Yield the progress of a download."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield FetchProgress(None)
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[amount]}", markup=False),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield FetchProgress(bars)
