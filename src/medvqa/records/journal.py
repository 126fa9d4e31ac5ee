"""The calls in flight of each process of a run, so that they are known after its death.

The folder `asking` of a run folder holds a file per process, with a line before and after each batch, and `deaths`,
where the controller appends the questions in flight of a dead process. These questions are asked one by one, so that
the next death identifies the killing one. If a whole session died with several calls in flight, they are asked
together once more: most likely its user stopped it.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.records.private import make_private
from medvqa.records.store import Unwritable, write_all

ASKING = "asking"
EARLIER = "earlier"
"""Name of the session of processes that died with their controller."""
_DEATHS = "deaths"
_SUFFIX = ".calls"
MAX_BYTES = 2**30
"""Limit of one journal: a stranger's folder may hold a file of any size."""
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class _CallLine:
    """The begin of a call with its keys; without keys, its end."""

    call: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Death:
    """The keys in flight of a process that died, its session, and its number of calls in flight."""

    session: str
    keys: tuple[str, ...]
    calls: int = 1


class Journal:
    """The calls of this process. Threads may share it."""

    def __init__(self, run: Path, process: str) -> None:
        """Create a file in a run folder; `process` is a worker's name. Raises Unwritable."""
        path = run / ASKING / f"{process}.{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        try:
            make_private(run)
            files.subfolder(run, ASKING)
            self._file = files.appending(path, new=True)
        except OSError as error:
            raise Unwritable(f"run folder {run} cannot be written: {error.strerror}") from error
        self._path = path
        self._lock = threading.Lock()
        self._calls: set[int] = set()

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """A call begins; its number is its own as long as it lasts."""
        self._append(_CallLine(call, tuple(keys)))

    def end(self, call: int) -> None:
        """A call has ended, and its answers are stored."""
        self._append(_CallLine(call))

    def _append(self, call: _CallLine) -> None:
        try:
            with self._lock:
                write_all(self._file, _encoder.encode(call) + b"\n")
                (self._calls.add if call.keys else self._calls.discard)(call.call)
        except OSError as error:
            raise Unwritable(f"{self._path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file, once, and keep it. Calls in flight are marked as ended: the process ends in order."""
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    write_all(self._file, b"".join(_encoder.encode(_CallLine(call)) + b"\n" for call in self._calls))
                os.close(self._file)
            self._file = -1


def _in_flight(path: Path) -> list[tuple[str, ...]]:
    """The keys of each call that has begun and not ended. A torn last line was not asked yet.

    A line cut by a full disk was not asked either, and spoils the next one.
    """
    calls: dict[int, tuple[str, ...]] = {}
    for line in files.read(path, MAX_BYTES).split(b"\n")[:-1]:
        with suppress(msgspec.DecodeError):
            call = msgspec.json.decode(line, type=_CallLine)
            calls[call.call] = call.keys
    return [keys for keys in calls.values() if keys]


def bury(run: Path, session: str = EARLIER, process: str = "*") -> tuple[str, ...] | None:
    """Record a dead process's questions in flight, and remove its journal. Return the keys, None without a journal.

    The defaults mean all processes of an earlier session. OSError if the folder, or a file in it, is a link.
    """
    folder, keys = files.check_subfolder(run, ASKING), list[str]()
    paths = sorted(folder.glob(f"{process}.*{_SUFFIX}"))
    for path in paths:
        calls = _in_flight(path)
        flying = tuple(key for keys_of_call in calls for key in keys_of_call)
        # Record the death of an idle worker too: workers that take over its tests then look for answers that they
        # have not read.
        if flying or process != "*":
            deaths = files.appending(folder / _DEATHS)
            try:
                write_all(deaths, _encoder.encode(Death(session, flying, len(calls))) + b"\n")
            finally:
                os.close(deaths)
        keys.extend(flying)
        path.unlink(missing_ok=True)
    return tuple(keys) if paths else None


def close(run: Path, *, complete: bool) -> None:
    """Remove the journals of a session that ended in order. Suspects are kept until a session completes the run."""
    try:
        folder = files.check_subfolder(run, ASKING)
    except OSError:
        return  # a link, not this run's own folder: nothing is deleted
    for path in folder.glob(f"*{_SUFFIX}"):
        path.unlink(missing_ok=True)
    if complete:
        (folder / _DEATHS).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        # A session without a result leaves nothing.
        if not any(run.iterdir()):
            run.rmdir()


class Suspects:
    """Questions during which a process died."""

    def __init__(self, run: Path, session: str) -> None:
        """Read nothing before the first `refresh`."""
        self._path = run / ASKING / _DEATHS
        self._session = session
        self._size = 0
        self._deaths: Counter[str] = Counter()
        self._alone: Counter[str] = Counter()
        self._suspected: set[str] = set()
        self._alone_here: set[str] = set()

    def refresh(self) -> bool:
        """Read new deaths; return whether there were any."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        if size <= self._size:
            return False
        with files.reading(self._path) as file:
            file.seek(self._size)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._size += len(line)
                with suppress(msgspec.DecodeError):
                    self._note(msgspec.json.decode(line, type=Death))
        return True

    def _note(self, death: Death) -> None:
        self._deaths.update(death.keys)
        whole = death.session == EARLIER and death.calls > 1
        self._suspected.update(key for key in death.keys if not whole or self._deaths[key] > 1)
        if len(death.keys) == 1:
            self._alone.update(death.keys)
            if death.session == self._session:
                self._alone_here.update(death.keys)

    def suspects(self, key: str) -> bool:
        """Whether a question must be asked alone, because a process died while it was in flight.

        If a whole session died with several calls in flight, it takes two deaths. Otherwise a run with 64 questions in
        flight would ask 64 one by one after every kill.
        """
        return key in self._suspected

    def kills(self, key: str) -> bool:
        """Whether a question kills: a worker died on it, and another while it was asked alone.

        A whole session may have been stopped by its user, so over sessions it takes three deaths, two of them alone.
        """
        deaths = self._deaths[key]
        return (deaths >= 2 and key in self._alone_here) or (deaths >= 3 and self._alone[key] >= 2)
