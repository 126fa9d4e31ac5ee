"""Server-sent events: which runs go on, and whether the list of runs has changed.

One watcher serves all connections. It looks only while somebody listens, in a thread, and follows only the runs that a
session writes or whose results have just changed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio.to_thread
import msgspec

from medvqa.records.run_folder import RESULTS
from medvqa.view.following import Followers
from medvqa.view.progress import run_progress
from medvqa.view.shapes import RunEntry, RunProgress
from medvqa.view.shelf import Shelf

POLL = 0.7
"""Seconds between two looks at the runs that go on."""
LIST = 2.0
"""Seconds between two looks at the list; at least ten times as long as one takes."""
HEARTBEAT = 15.0
"""Seconds after which a silent connection gets a comment: a closed one is noticed then."""
AGAIN = 5.0
"""Seconds after which the progress of a run without new results is sent again: its rate falls."""
WATCHED = 32
"""Most runs that are followed at once."""
READING = 0.5
"""Seconds of one look in which results are read."""

RUNS = b"event: runs\ndata: {}\n\n"
RETRY = b"retry: 2000\n\n"
SILENCE = b": \n\n"


def progress_event(progress: RunProgress) -> bytes:
    """Return the event of one run; JSON holds no line end."""
    return b"event: progress\ndata: " + msgspec.json.encode(progress) + b"\n\n"


@dataclass(eq=False)
class _Listener:
    """What one connection has not got yet. A slow one gets the latest progress of each run alone."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    progress: dict[str, bytes] = field(default_factory=dict)
    runs: bool = False

    def take(self) -> list[bytes]:
        events = [*([RUNS] if self.runs else []), *self.progress.values()]
        self.progress, self.runs = {}, False
        self.wake.clear()
        return events


@dataclass
class _Watched:
    """A run that is followed, with the progress that was sent last."""

    folder: Path
    sent: RunProgress | None = None
    at: float = 0.0


class Events:
    """The events of one served folder."""

    def __init__(self, shelf: Shelf, followers: Followers) -> None:
        """Watch nothing before the first connection."""
        self._shelf, self._followers = shelf, followers
        self._listeners: set[_Listener] = set()
        self._task: asyncio.Task[None] | None = None
        # A thread goes on for a moment after its task was cancelled.
        self._looking = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._stamps: dict[str, object] = {}
        self._listed = b""
        self._next_list = 0.0

    @property
    def watching(self) -> bool:
        """Whether the runs are looked at."""
        return self._task is not None

    @property
    def ready(self) -> bool:
        """Whether changes from now on are told."""
        return bool(self._listed)

    async def stream(self, ended: asyncio.Event) -> AsyncIterator[bytes]:
        """Yield the events of one connection until `ended`; the first ones tell how the running sessions stand."""
        listener = _Listener()
        listener.progress = {
            name: progress_event(watched.sent) for name, watched in list(self._watched.items()) if watched.sent
        }
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield RETRY
            while not ended.is_set():
                events = listener.take()
                for event in events:
                    yield event
                if not events and not await _either(listener.wake, ended, HEARTBEAT):
                    yield SILENCE
        finally:
            self._listeners.discard(listener)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _watch(self) -> None:
        # What changed while nobody listened is no news: a page reads the list when it connects.
        self._listed, self._next_list = b"", 0.0
        while True:
            # A look that takes long must not hold the end of the server up, as a thread of asyncio's own would.
            listed, changed = await anyio.to_thread.run_sync(self._look, abandon_on_cancel=True)
            for listener in self._listeners:
                listener.runs |= listed
                listener.progress |= changed
                if listener.runs or listener.progress:
                    listener.wake.set()
            await asyncio.sleep(POLL)

    # --- in a thread, one at a time ---------------------------------------------------------------------------

    def _look(self) -> tuple[bool, dict[str, bytes]]:
        """Return whether the list has changed, and the events of runs by name."""
        with self._looking:
            return self._look_once()

    def _look_once(self) -> tuple[bool, dict[str, bytes]]:
        listed = self._look_at_list() if time.monotonic() >= self._next_list else False
        until, changed = time.monotonic() + READING, {}
        # A run that was not read to its end comes first in the next look.
        for name in sorted(self._watched, key=lambda name: self._watched[name].at):
            if (progress := self._progress(name, until)) is not None:
                changed[name] = progress_event(progress)
        return listed, changed

    def _look_at_list(self) -> bool:
        began = time.monotonic()
        runs = self._shelf.list().runs
        self._next_list = time.monotonic() + max(LIST, 10 * (time.monotonic() - began))
        self._choose(runs)
        before, self._listed = self._listed, msgspec.json.encode([_settled(entry) for entry in runs])
        return bool(before) and before != self._listed

    def _choose(self, runs: Iterable[RunEntry]) -> None:
        """Follow runs that a session writes, and those whose results have changed since the last look."""
        first = not self._stamps
        stamps: dict[str, object] = {}
        chosen: list[tuple[bool, str]] = []
        for entry in runs:
            folder = self._shelf.folder(entry.name)
            if folder is None:
                continue
            stamps[entry.name] = _stamp(folder)
            fresh = not first and stamps[entry.name] != self._stamps.get(entry.name)
            if entry.state == "running" or fresh or entry.name in self._watched:
                chosen.append((entry.state != "running", entry.name))
                self._watched.setdefault(entry.name, _Watched(folder)).folder = folder
        self._stamps = stamps
        # Running ones come first, if there are too many.
        for name in self._watched.keys() - {name for _, name in sorted(chosen)[:WATCHED]}:
            del self._watched[name]

    def _progress(self, name: str, until: float) -> RunProgress | None:
        """Return the progress of a run if it is news; one that is neither running nor changing is watched no more."""
        watched = self._watched[name]
        follower = self._followers.of(watched.folder)
        follower.catch_up(lambda: time.monotonic() > until)
        if follower.behind:
            return None
        progress, now = run_progress(follower, name), time.monotonic()
        sent = watched.sent
        if progress.state != "running":
            del self._watched[name]
            # The list tells its end.
            self._next_list = 0.0
        same = sent is not None and (sent.version, sent.state, sent.selected) == (
            progress.version,
            progress.state,
            progress.selected,
        )
        if same and now - watched.at < AGAIN:
            return None
        watched.sent, watched.at = progress, now
        return progress


def _settled(entry: RunEntry) -> RunEntry:
    """Return an entry without the numbers of which `progress` tells while it runs."""
    return msgspec.structs.replace(entry, answered=0, errors=0, stale=False) if entry.state == "running" else entry


def _stamp(folder: Path) -> object:
    with suppress(OSError):
        status = os.lstat(folder / RESULTS)
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


async def _either(one: asyncio.Event, other: asyncio.Event, seconds: float) -> bool:
    """Wait until one of two events is set; False if none is in time."""
    waiting = [asyncio.create_task(event.wait()) for event in (one, other)]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in waiting:
            task.cancel()
