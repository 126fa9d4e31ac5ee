"""Give a run's logs to places (`answer_places`) while it lasts, and read those of others again.

A process closes its log now and then, so that it can be put. One process puts them all, the one that conducts the run:
so a worker that dies loses nothing, and what one session could not put is put by the next one.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from pathlib import Path

from medvqa import files
from medvqa.records.answer_places import MAX_LOG, TRIES, LogName, Place, PlaceReader, log_problem
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
QUIET = 120.0
"""Seconds after which a log of another run that was not closed belongs to a dead process."""


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
        self._note = _note(place)
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
        number = sum(map(self._put_log, new))
        if own and not self._looked:
            for path in chain.from_iterable(left_beside(self._run, self.place).values()):
                if is_closed(path) or time.time() - path.stat().st_mtime > QUIET:
                    number += self._put_log(path)
            self._looked = True
        return number

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
        if reader.closed is None:
            content += reader.ending(content[reader.size :])
            reader, lines = scan(content)
        if reader.head is None or log_problem(reader, reader.head.identity) is not None:
            lines = []
        elif lines:
            self._put_content(reader.head, LogName.of(path).log, content)
        self._done[path] = 0
        self._write_note(path, path.name + "\n")
        return len(lines)

    def _put_content(self, head: LogHead, log: str, content: bytes) -> None:
        """Put a log under the first name that is free, unless it is there (BucketError)."""
        for name in (LogName(log, tries) for tries in range(TRIES)):
            path = f"{head.identity}/{name}"
            # An earlier session may have put it, or an earlier try have arrived though its reply did not.
            there = self._there(path, content) if head.session != self._session else None
            if there is None:
                try:
                    return self.place.objects.put(path, content, self._seconds(content))
                except ObjectExists:
                    there = self._there(path, content)
            if there:
                return None
            self._lines.append(f"{self.place.name}/{path} is not the log that was put there; it is put again")
        raise BucketError("there are other objects of these names")

    def _there(self, path: str, content: bytes) -> bool | None:
        """Return whether an object has the content, None if there is no such object (BucketError)."""
        try:
            return self.place.objects.get(path, len(content), self._seconds(content)) == content
        except ObjectMissing:
            return None
        except ObjectTooLarge:
            return False

    def _seconds(self, content: bytes) -> float:
        seconds = min(CALL + len(content) / ENOUGH, self.by - time.monotonic())
        if seconds <= 0:
            raise BucketError("the time for it is over")
        return seconds

    def _write_note(self, path: Path, line: str = "") -> None:
        """Note beside a log that it was put (OSError)."""
        files.append(path.parent / self._note, line.encode())

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
    """Return the logs of runs beside one that are to be put into a place and are not there, by their folders (OSError).

    They count as the place's: nobody need ask their questions again until they are put.
    """
    left = dict[Path, list[Path]]()
    for note in sorted(run.parent.glob(f"*/{ANSWERS}/{_note(place)}")):
        if note.parent.parent != run and not (note.parent.is_symlink() or note.parent.parent.is_symlink()):
            known = set(files.read(note, MAX_LOG).decode("utf-8", "replace").splitlines())
            if paths := [path for path in logs(note.parent) if path.name not in known]:
                left[note.parent] = paths
    return left


def _note(place: Place) -> str:
    """Return the name of the file in a run's answers that names the logs that a place has."""
    return f"{hashlib.sha256(place.name.encode()).hexdigest()[:16]}.place"


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
        while not self._ends.wait(min(1.0, self._first / 4)):
            new = self._rotate()
            for outbox in self._outboxes:
                new = bool(outbox.try_put()) or new
            for reader in self._readers if new and not self._ends.is_set() else ():
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
