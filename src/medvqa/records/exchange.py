"""Give a run's logs to places (`answer_places`) while it lasts, and read those of others again.

A process closes its log now and then, so that it can be put. One process puts them all, the one that conducts the run:
so a worker that dies loses nothing, and what one session could not put is put by the next one.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Sequence, Set
from contextlib import suppress
from math import inf
from pathlib import Path

from medvqa import files
from medvqa.records.answer_places import MAX_LOG, TRIES, LogName, Place, PlaceReader, log_problem
from medvqa.records.lock import holder_of, live_holder
from medvqa.records.log import ANSWERS, Log, LogHead, Unwritable, is_closed, logs, read_log, scan
from medvqa.records.objects import CALL, BucketError, ObjectExists, ObjectMissing, ObjectTooLarge

FIRST, EVERY = 5.0, 60.0
"""Seconds after its first answer in which a log is closed: at first, and later."""
ENOUGH = 2**20
"""Bytes at which a log is closed."""
OFTEN, DOUBLED = 100, 20
"""Logs of a run that are closed that soon, and later ones after which the times double: a run has about 200 objects."""
LAST = 15.0
"""Seconds in which puts that fail are tried again at the end of a session."""
LONGEST_WAIT = 60.0
"""Seconds between two tries."""
SOON = 3.0
"""Seconds after a log was closed in which places are read again: others that began together have put theirs by then."""
QUIET, QUIET_ELSEWHERE = 120.0, 3600.0
"""Seconds without a write after which a log that was not closed is a dead process's: of a run that nobody holds, and of
one that a process of another machine holds, which may wait for its model."""
AT_ONCE = 3
"""Logs in a row that cannot be put: then others are not tried."""


class Outbox:
    """Puts the logs of a run into a place, and those that dead sessions of runs beside it have left.

    A file in the run's answers says that this place is given its logs, and which it has: so another run may go on
    with that. Whether the place has the run's own earlier logs, it is asked itself: it may have been emptied.
    """

    def __init__(self, place: Place, run: Path, session: str) -> None:
        """Nothing is read before `put`."""
        self.place = place
        self.by = inf
        """The moment (monotonic) after which nothing is put."""
        self._run, self._session = run, session
        # The logs that were looked at, with the number of answers that stay here.
        self._done: dict[Path, int] = {}
        self._looked = False
        self._failures, self._due = 0, 0.0
        # The thread of an exchange appends, another one takes.
        self._lines = deque[str]()

    def take_lines(self) -> list[str]:
        """Return the lines for the user since the last call."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def try_put(self, *, ended: bool = False) -> int | None:
        """Put all logs as `put` does; None if that failed. After a failure, 0 until it is time to try again."""
        if time.monotonic() < self._due and not ended:
            return 0
        try:
            put = self.put(ended=ended)
        except (BucketError, OSError) as error:
            self._failures += 1
            self._due = time.monotonic() + min(LONGEST_WAIT, 2.0**self._failures)
            if self._failures == 1:
                why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else error
                self._lines.append(
                    f"answers cannot be put into {self.place.name}: {why}. They are safe in {self._run / ANSWERS}; "
                    "putting them is tried again"
                )
            return None
        if self._failures:
            self._lines.append(f"answers are put into {self.place.name} again")
        self._failures = 0
        return put

    def put(self, *, ended: bool = False) -> int:
        """Put all logs that are closed; return the number of answers (OSError, BucketError).

        `ended`: all processes of this session have ended, so that its open logs are put, too. Those of earlier sessions
        were closed when this one began (`suspects.bury`).
        """
        own = logs(self._run / ANSWERS)
        if own and not self._looked:
            self._write_note(own[0])
        new = [path for path in own if path not in self._done and (ended or is_closed(path))]
        beside = self._beside() if own and not self._looked else []
        number, failed, first = 0, 0, None
        for path in (*new, *beside):
            # A log that cannot be put keeps back no later one, and no log of another run.
            try:
                number, failed = number + self._put_log(path), 0
            except BucketError as error:
                failed, first = failed + 1, first or error
                if failed == AT_ONCE:
                    break
            except OSError:
                # Another run's folder may be read-only: that is no failure of this place.
                if path in new:
                    raise
        if first is not None:
            raise first
        self._looked = self._looked or bool(own)
        return number

    def _beside(self) -> list[Path]:
        """Return the logs that runs beside this one have left and that nobody writes any more."""
        paths = list[Path]()
        for folder, left in left_beside(self._run, self.place).items():
            with suppress(OSError):
                paths += [path for path in left if is_closed(path) or _is_dead(folder.parent, path)]
        return paths

    def _put_log(self, path: Path) -> int:
        """Put a log, and return the number of its answers; 0 if it stays here (OSError, BucketError)."""
        try:
            content = files.read(path, MAX_LOG)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._lines.append(f"{path} stays here: {error.strerror}")
            self._done[path] = _count(path)
            return 0
        reader, lines = scan(content)
        may_grow, size = reader.closed is None, len(content)
        if may_grow:
            content += reader.ending(content[reader.size :])
            reader, lines = scan(content)
        if reader.head is None or log_problem(reader, reader.head.identity) is not None:
            lines = []
        elif lines:
            self._put_content(reader.head, LogName.of(path).log, content, {key for key, _, _ in lines})
        self._done[path] = 0
        self._write_note(path, f"{path.name} {size}\n" if may_grow else f"{path.name}\n")
        return len(lines)

    def _put_content(self, head: LogHead, log: str, content: bytes, keys: Set[bytes]) -> None:
        """Put a log under the first name that is free, unless its answers are there (BucketError)."""
        for name in (LogName(log, tries) for tries in range(TRIES)):
            path = f"{head.identity}/{name}"
            # An earlier session may have put it, or an earlier try have arrived though its reply did not.
            there = self._there(head, path, content, keys) if head.session != self._session else None
            if there is None:
                try:
                    return self.place.objects.put(path, content, self._seconds(content))
                except ObjectExists:
                    there = self._there(head, path, content, keys)
            if there:
                return None
        raise BucketError("there are other objects of these names")

    def _there(self, head: LogHead, path: str, content: bytes, keys: Set[bytes]) -> bool | None:
        """Return whether an object has the answers of a log, None if there is no such object (BucketError).

        One that lacks some is a copy of the log that was closed earlier, as a copy of a run folder has it.
        """
        try:
            found = self.place.objects.get(path, MAX_LOG, self._seconds(content))
        except ObjectMissing:
            return None
        except ObjectTooLarge:
            found = b""
        reader, lines = scan(found)
        if log_problem(reader, head.identity) is None:
            return keys <= {key for key, _, _ in lines}
        self._lines.append(f"{self.place.name}/{path} is not the log that was put there; it is put again")
        return False

    def _seconds(self, content: bytes) -> float:
        seconds = min(CALL + len(content) / ENOUGH, self.by - time.monotonic())
        if seconds <= 0:
            raise BucketError("the time for it is over")
        return seconds

    def _write_note(self, path: Path, line: str = "") -> None:
        """Note beside a log that it was put (OSError)."""
        files.append(path.parent / _note(self.place, path.parent), line.encode())

    def left(self) -> int:
        """Count the answers of the run that other runs may use and that are not in the place."""
        own = logs(self._run / ANSWERS)
        return sum(self._done[path] if path in self._done else _count(path) for path in own)

    def give_up(self) -> int:
        """Put nothing more; return the number of answers that are not in the place. A line says so."""
        self.by = 0.0
        if left := self.left():
            self._lines.append(
                f"{left:,} answers are not in {self.place.name}. They are safe in {self._run / ANSWERS}; the next run "
                f"beside it with --answers={self.place.name} puts them"
            )
        return left


def left_beside(run: Path, place: Place) -> dict[Path, list[Path]]:
    """Return the logs of runs beside one that are to be put into a place and are not there, by their folders.

    They count as the place's: nobody need ask their questions again until they are put. Folders that cannot be read are
    left out.
    """
    left = dict[Path, list[Path]]()
    for folder in sorted(run.parent.glob(f"*/{ANSWERS}")):
        if folder.parent == run or folder.is_symlink() or folder.parent.is_symlink():
            continue
        with suppress(OSError):
            note = folder / _note(place, folder)
            if note.exists():
                known = set(files.read(note, MAX_LOG).decode("utf-8", "replace").splitlines())
                if paths := [path for path in logs(folder) if not _is_noted(path, known)]:
                    left[folder] = paths
    return left


def _note(place: Place, folder: Path) -> str:
    """Return the name of the file in a run's answers that names the logs that a place has (OSError).

    It is that of this folder on this disk: a folder from elsewhere, whatever it holds, is given to no place, and none
    to another server than the run has named.
    """
    told = f"{place.name}\n{place.server}\n{folder.stat().st_ino}"
    return f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.place"


def _is_noted(path: Path, known: Set[str]) -> bool:
    """Return whether a note has a log: one that was not closed then, only if it has not grown since (OSError)."""
    return path.name in known or f"{path.name} {path.stat().st_size}" in known


def _is_dead(run: Path, path: Path) -> bool:
    """Return whether the process of a log that was not closed is dead, as far as this machine can tell (OSError)."""
    holder, quiet = holder_of(run), time.time() - path.stat().st_mtime
    if holder is not None and not holder.is_here:
        return quiet > QUIET_ELSEWHERE
    return live_holder(run) is None and quiet > QUIET


def _count(path: Path) -> int:
    """Count the answers of a log that other runs may use; 0 for a log that is gone."""
    with suppress(OSError):
        reader, places = read_log(path)
        return len(places) if reader.head is not None and reader.head.reuse == "all" else 0
    return 0


class Exchange:
    """A thread of each process of a session: it closes the process's logs in time, puts logs, and reads again."""

    def __init__(
        self,
        run: Path,
        session: str,
        places: Sequence[Place],
        *,
        puts: bool,
        first: float = FIRST,
        every: float = EVERY,
        enough: int = ENOUGH,
    ) -> None:
        """Nothing is read before `start`. `puts`: in the process that conducts the run, the only one that puts."""
        self._outboxes = [Outbox(place, run, session) for place in places] if puts else []
        self._run = run
        self._first, self._every, self._enough = first, every, enough
        self._logs: list[Log] = []
        self._readers: list[PlaceReader] = []
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._lines = deque[str]()

    def add(self, log: Log, readers: Sequence[PlaceReader]) -> None:
        """Close this log in time, and let these readers read again."""
        self._readers += readers
        self._logs.append(log)

    def start(self) -> None:
        """Begin, also to put what earlier sessions have left. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="medvqa-places", daemon=True)
            self._thread.start()

    def take_lines(self) -> list[str]:
        """Return the lines for the user since the last call."""
        put = [f"medvqa: {line}" for outbox in self._outboxes for line in outbox.take_lines()]
        return [*put, *(self._lines.popleft() for _ in range(len(self._lines)))]

    def _work(self) -> None:
        due = inf
        while not self._ends.wait(min(1.0, self._first / 4)):
            new = self._rotate()
            for outbox in self._outboxes:
                new = bool(outbox.try_put()) or new
            if new:
                due = min(due, time.monotonic() + min(SOON, self._first / 2))
            if time.monotonic() >= due and not self._ends.is_set():
                due = inf
                for reader in self._readers:
                    with suppress(Unwritable):
                        reader.read(self._lines.append, self._every)

    def _rotate(self) -> bool:
        """Close the logs of this process whose time has come; return whether there was one."""
        closed = False
        for log in self._logs:
            if log.first_answer is None:
                continue
            more = max(0.0, len(logs(self._run / ANSWERS)) - OFTEN)
            seldom = 2.0 ** (more / DOUBLED)
            wait = self._every * seldom if log.rotated else self._first
            # A longer log could not be put any more.
            enough = min(self._enough * seldom, MAX_LOG / 2)
            if log.size >= enough or time.monotonic() - log.first_answer >= wait:
                # A disk that is full tells the thread that asks, too.
                with suppress(Unwritable):
                    closed = log.rotate() is not None or closed
        return closed

    def give_up(self) -> None:
        """End the thread; put nothing more."""
        self._ends.set()

    def close(self, by: float | None = None) -> int:
        """Put the rest, and return the number of answers of the run that are not in a place.

        `by`: when to give up (monotonic); None: LAST seconds after now, or when all is put. All logs are closed, or
        their processes dead. Call `take_lines` afterwards. A KeyboardInterrupt ends the putting.
        """
        self._ends.set()
        until = time.monotonic() + LAST if by is None else by
        try:
            if self._thread is not None:
                # A put that hangs has its own limit.
                self._thread.join(max(0.0, until - time.monotonic()))
            idle = self._thread is not None and not self._thread.is_alive()
            for outbox in self._outboxes:
                outbox.by = inf if by is None else by
                while idle and outbox.try_put(ended=True) is None and time.monotonic() < until - 1:
                    time.sleep(1.0)
        except KeyboardInterrupt:
            pass
        return sum(outbox.give_up() for outbox in self._outboxes) if self._thread is not None else 0
