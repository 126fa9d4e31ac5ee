"""The answer store of a session: a folder, or a store that several machines share and its local folder."""

from __future__ import annotations

import os
from pathlib import Path

from medvqa import records


def of(answers: Path | str | None, reports: Path) -> tuple[Path, str | None]:
    """Return the local folder of the store that --answers names, and the address if machines share it."""
    if isinstance(answers, str):
        return records.local_folder(records.Address.of(answers), reports), answers
    return answers or reports / records.STORE, None


def opened(address: str, local: Path) -> records.SharedStore:
    """Return a shared store, whose bucket the caller closes (UsageError without obstore)."""
    return records.SharedStore(records.open_bucket(records.Address.of(address), os.environ), local)


def fetch(address: str, local: Path, model: str, session: str) -> tuple[str, ...]:
    """Read answers of a model that are not here yet (`records.fetch`; UsageError, Unwritable)."""
    store = opened(address, local)
    try:
        return records.fetch(store, model, session)
    finally:
        store.bucket.close()
