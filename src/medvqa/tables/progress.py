"""Progress of indexing a large table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medvqa import printing

Progress = Callable[[int, int], None]
"""Gets the number done and the number in total: of bytes, or of images."""


@contextmanager
def show(path: Path) -> Iterator[Progress]:
    """Yield a `progress` function: a bar on stderr, or one line at start and end if stderr is no terminal.

    Nothing is shown unless it is called.
    """
    with ExitStack() as stack:
        update: Callable[[int], None] | None = None

        def progress(done: int, total: int) -> None:
            nonlocal update
            if update is None:
                update = stack.enter_context(_display(path.name, total))
            update(done)

        yield progress


@contextmanager
def _display(name: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich import progress
    from rich.console import Console

    name = printing.line(name)
    console = Console(stderr=True)
    if console.is_terminal:
        text = progress.TextColumn("{task.description}", markup=False)
        columns = progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn()
        with progress.Progress(text, *columns, console=console) as bar:
            task = bar.add_task(f"indexing {name}", total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        start = time.monotonic()
        print(f"indexing {name}, {total / 1e9:.2f} GB, once ...", file=sys.stderr, flush=True)
        yield lambda done: None
        print(f"indexed {name} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
