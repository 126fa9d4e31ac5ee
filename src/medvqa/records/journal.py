"""What each process of a run is asking this moment, so that it is known after its death.

The folder `asking` of a run folder holds a file for each process, to which a line is appended before a batch is asked
and one after, and `deaths`, to which the controller of the run appends what a process that died was asking. Questions
that stand there are asked one by one, so that the next death names the one that kills. If a session died as a whole
while several calls were in flight, its questions are asked together once more: most likely somebody stopped it.
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
"""Stands for the session of processes that died with their controller."""
_DEATHS = "deaths"
_SUFFIX = ".calls"
MAX_BYTES = 2**30
"""Of one journal: a stranger's folder may hold a file of any size."""
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class _CallLine:
    """A call of the model that begins with so many keys, or with none has ended."""

    call: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Death:
    """What a process was asking when it died, in a session of the run; `calls` counts its calls of the model."""

    session: str
    keys: tuple[str, ...]
    calls: int = 1


class Journal:
    """The calls of this process. Threads may share it."""

    def __init__(self, run: Path, process: str) -> None:
        """Make a file in a run folder; `process` is a worker's name. Unwritable when that is not possible."""
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
        """Close the file, once; it stays. What is in flight is no longer asked for: the process ends in order."""
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    write_all(self._file, b"".join(_encoder.encode(_CallLine(call)) + b"\n" for call in self._calls))
                os.close(self._file)
            self._file = -1


def _in_flight(path: Path) -> list[tuple[str, ...]]:
    """The keys of each call that has begun and not ended. What follows the last whole line was not asked yet.

    A line of which a full disk took a part alone was not asked either, and takes the next one with it.
    """
    calls: dict[int, tuple[str, ...]] = {}
    for line in files.read(path, MAX_BYTES).split(b"\n")[:-1]:
        with suppress(msgspec.DecodeError):
            call = msgspec.json.decode(line, type=_CallLine)
            calls[call.call] = call.keys
    return [keys for keys in calls.values() if keys]


def bury(run: Path, session: str = EARLIER, process: str = "*") -> tuple[str, ...] | None:
    """Note what a process of the session was asking when it died, and forget its calls; the keys, None without journal.

    The defaults stand for all processes of an earlier session that left no more than its files. OSError where the
    folder is a link, or a file of it is.
    """
    folder, keys = files.check_subfolder(run, ASKING), list[str]()
    paths = sorted(folder.glob(f"{process}.*{_SUFFIX}"))
    for path in paths:
        calls = _in_flight(path)
        flying = tuple(key for keys_of_call in calls for key in keys_of_call)
        # The death of a worker that asked nothing just then is noted too: others take over its tests, and look at the
        # note whether there are answers that they have not seen.
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
    """A session of the run has ended in order. What is suspected is known until a session completes the run."""
    try:
        folder = files.check_subfolder(run, ASKING)
    except OSError:
        return  # not this run's own: nothing of it was used, and nothing of it is deleted
    for path in folder.glob(f"*{_SUFFIX}"):
        path.unlink(missing_ok=True)
    if complete:
        (folder / _DEATHS).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        # A session that ended before it had a result leaves nothing.
        if not any(run.iterdir()):
            run.rmdir()


class Suspects:
    """Questions during which a process died."""

    def __init__(self, run: Path, session: str) -> None:
        """Nothing is read before the first `refresh`."""
        self._path = run / ASKING / _DEATHS
        self._session = session
        self._size = 0
        self._deaths: Counter[str] = Counter()
        self._alone: Counter[str] = Counter()
        self._suspected: set[str] = set()
        self._alone_here: set[str] = set()

    def refresh(self) -> bool:
        """Read what is new; whether there was anything."""
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
        """Whether it must be asked alone: a process died while it was asked.

        If a session died as a whole while several calls were in flight, it takes two deaths. Else a run that asks 64
        questions at once would ask 64 one by one whenever it was killed.
        """
        return key in self._suspected

    def kills(self, key: str) -> bool:
        """Whether it is known to kill: a worker died on it before, and another when it was asked alone.

        A session that died as a whole may have been stopped by its user; so over sessions it takes three deaths,
        two of them alone.
        """
        deaths = self._deaths[key]
        return (deaths >= 2 and key in self._alone_here) or (deaths >= 3 and self._alone[key] >= 2)
