"""The answer store of a session: a folder, or a store that several machines share and its local folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from medvqa import records


def of(answers: Path | str | None, reports: Path) -> tuple[Path, str | None]:
    """Return the local folder of the store that --answers names, and the address if machines share it."""
    if isinstance(answers, str):
        return records.local_folder(records.Address.of(answers), reports), answers
    return answers or reports / records.STORE, None


def opened(address: str, local: Path) -> records.SharedStore:
    """Return a shared store and its local folder (UsageError without obstore, or for a wrong environment)."""
    return records.SharedStore(records.open_bucket(records.Address.of(address), os.environ), local)


@contextmanager
def sharing(address: str | None, local: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Put the answers of the block into a shared store; nothing without an address. `say` gets lines at the end."""
    if address is None:
        yield
        return
    puts = records.Sharing(opened(address, local))
    puts.start()
    try:
        yield
    finally:
        puts.close()
        for line in puts.take_lines():
            say(line)
