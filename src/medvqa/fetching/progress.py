"""Progress of a download: bars on a terminal, else a line now and then, on standard error."""

from __future__ import annotations

import sys
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
    """Files done of a number of files; `received` and `tell` may be called by several threads."""

    def __init__(self, bars: Progress | None) -> None:
        """Draw `bars`, or write lines without them."""
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._bytes: dict[str, int] = {}
        self._total = self._files = 0
        self._shown = time.monotonic()

    def expect(self, total: int) -> None:
        """Count to a number of files."""
        self._total = total
        self._show("", 0, total, f"0 of {total:,} files")

    def received(self, name: str, done: int, size: int | None) -> None:
        """Show the bytes of a file that are there."""
        self._bytes[name] = done
        self._show(name, done, size, data_size(done) if size is None else f"{data_size(done)} of {data_size(size)}")

    def ended(self, name: str) -> None:
        """Count a file that is done or given up."""
        self._files += 1
        if self._bars is not None and name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self._show("", self._files, self._total, f"{self._files:,} of {self._total:,} files")

    def tell(self, text: str) -> None:
        """Show a line."""
        line = printing.lines(f"medvqa: {text}")
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False)
        else:
            printing.to_stderr(f"{line}\n")

    def _show(self, name: str, done: int, size: int | None, amount: str) -> None:
        """Move the bar of a file, or of all files; without bars, write a line if it is time."""
        if self._bars is not None:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(printing.line(name) or "files", amount="")
            self._bars.update(self._tasks[name], completed=done, total=size, amount=amount)
        elif (now := time.monotonic()) - self._shown >= EVERY:
            self._shown = now
            received = data_size(sum(list(self._bytes.values())))
            of_file = f"; {name}: {amount}" if name else ""
            line = f"  {self._files:,} of {self._total:,} files, {received}{of_file}"
            printing.to_stderr(printing.lines(line) + "\n")


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
