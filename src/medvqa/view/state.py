"""The state of a run folder: whether a session writes it now, and else whether it is finished."""

from __future__ import annotations

from pathlib import Path

from medvqa.records import lock
from medvqa.view.shapes import RunState


def state_of(folder: Path, *, finished: bool) -> RunState:
    """Return the state of a readable run folder; `finished`: as its coverage says (`Coverage.finished`).

    A run that a process of this host holds is running, whatever its coverage. Only reads.
    """
    if lock.live_holder(folder) is not None:
        return "running"
    return "finished" if finished else "unfinished"
