"""Add answers to a shared store: segments of the files that the processes of a run append to.

One process puts them, the one that conducts the run: it reads the files of all others. So a worker that dies loses
nothing, and what one session could not put is put by the next one with the same local folder.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

from medvqa import files
from medvqa.records.bucket import CALL, BucketError, ObjectExists
from medvqa.records.segments import MAX_SEGMENT, TRAILER, BrokenSegment, SegmentName, content, file_of, segment
from medvqa.records.shared import LIST, SharedStore, listed, own_files
from medvqa.records.store import MAX_LINE, head_of

FIRST, EVERY = 5.0, 60.0
"""Seconds after which new answers are put: at first, and later."""
ENOUGH = 2**20
"""Bytes of new answers that are put at once, and of a segment."""
LAST = 15.0
"""Seconds in which puts that fail are tried again at the end of a session."""
LONGEST_WAIT = 60.0
"""Seconds between two tries."""
_TRIES = 10


@dataclass(slots=True)
class _Own:
    """A file that a process here writes or wrote. `head`: its first line.

    `shared`: the position up to which its lines are in the store. `name`: what names it in segments.
    """

    path: Path
    name: tuple[str, str]
    head: bytes
    shared: int

    @property
    def model(self) -> str:
        """The model's folder."""
        return self.path.parent.name


class Outbox:
    """The files of processes here, and which of their lines are in the store. One thread uses it at a time."""

    def __init__(self, store: SharedStore, enough: int = ENOUGH) -> None:
        """Nothing is read before `look`. A segment has `enough` bytes or one longer line."""
        self._store = store
        self._enough = enough
        self._own: dict[Path, _Own] = {}
        self._looked = False
        self._made = time.time()
        self.by = inf
        """The moment (monotonic) after which nothing is put."""
        self.answers = 0
        """The number of answers that were put."""
        self.too_long = 0
        """The number of answers that are longer than a segment may be."""

    def look(self) -> None:
        """Note new files (OSError, BucketError)."""
        for folder in self._store.models:
            new = [path for path in own_files(folder) if path not in self._own]
            # The store says what it has of earlier sessions: a note here would be wrong once it was emptied.
            there = self._in_store(folder.name) if new and not self._looked else {}
            for path in new:
                name, head = file_of(path.name), head_of(path)
                if name is not None and head is not None:
                    self._own[path] = _Own(path, name, head, _end(path, len(head), there.get(name, {})))
        self._looked = True

    def _in_store(self, model: str) -> dict[tuple[str, str], dict[int, int]]:
        """Return the size of each segment of a model, without trailer, by file and position."""
        sizes: dict[tuple[str, str], dict[int, int]] = {}
        for name, size in listed(self._store, model, min(LIST, max(0.0, self.by - time.monotonic()))):
            sizes.setdefault(name.file, {})[name.start] = size - TRAILER
        return sizes

    @property
    def waiting(self) -> int:
        """The bytes of answers that are not in the store."""
        return sum(max(0, _size(own.path) - own.shared) for own in self._own.values())

    def put(self) -> None:
        """Put all whole lines that are not in the store (OSError, BucketError)."""
        self.look()
        for own in list(self._own.values()):
            try:
                self._put_file(own)
            except FileNotFoundError:
                del self._own[own.path]  # pruned

    def _put_file(self, own: _Own) -> None:
        while lines := _whole_lines(own.path, own.shared, self._enough):
            if len(own.head) + len(lines) + TRAILER > MAX_SEGMENT:
                self.too_long += 1
                own.shared += len(lines)
                continue
            put = self._put_lines(own, lines)
            own.shared += put
            self.answers += lines[:put].count(b"\n")

    def _put_lines(self, own: _Own, lines: bytes) -> int:
        """Put lines of a file; return how many bytes from `own.shared` on are in the store now."""
        for number in range(_TRIES):
            name = f"{own.model}/{SegmentName(*own.name, own.shared, number)}"
            seconds = min(CALL, self.by - time.monotonic())
            if seconds <= 0:
                raise BucketError("the time for it is over")
            try:
                self._store.bucket.put(name, segment(own.model, own.head, lines), seconds)
            except ObjectExists:
                # An earlier try of this session or another one may have arrived though its reply did not.
                if there := self._there(own, name, seconds):
                    return there
            else:
                return len(lines)
        raise BucketError("there are other segments of these names")

    def _there(self, own: _Own, name: str, seconds: float) -> int:
        """Return how many bytes from `own.shared` on an existing segment has; 0 if its lines are not the file's."""
        try:
            lines = content(own.model, self._store.bucket.get(name, MAX_SEGMENT, seconds)).removeprefix(own.head)
        except BrokenSegment:
            return 0
        with files.reading(own.path) as file:
            file.seek(own.shared)
            return len(lines) if file.read(len(lines)) == lines else 0

    def left(self) -> int:
        """Count the answers here that are not in the store."""
        number = self.too_long
        with suppress(OSError):
            for folder in self._store.models:
                for path in own_files(folder):
                    if (own := self._own.get(path)) is not None:
                        number += _count_lines(path, own.shared)
                    elif path.stat().st_mtime >= self._made:
                        # Never seen, as the store could not be listed; an older file may be in it.
                        number += max(0, _count_lines(path, 0) - 1)
        return number


class Sharing:
    """Puts answers into a shared store while a session runs, in a thread, and the last ones at its end."""

    def __init__(self, store: SharedStore, *, first: float = FIRST, every: float = EVERY, enough: int = ENOUGH) -> None:
        """Nothing is read before `start`. `first`, `every`: seconds; `enough`: bytes."""
        self._store = store
        self._outbox = Outbox(store, enough)
        self._first, self._every, self._enough = first, every, enough
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        # The thread appends, another one takes.
        self._lines: deque[str] = deque()
        self._failures = 0

    def start(self) -> None:
        """Begin to put, also what earlier sessions have left. Idempotent."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="medvqa-sharing", daemon=True)
            self._thread.start()

    def take_lines(self) -> list[str]:
        """Return the lines for the user since the last call."""
        return [self._lines.popleft() for _ in range(len(self._lines))]

    def _say(self, line: str) -> None:
        self._lines.append(f"medvqa: {line}")

    def _work(self) -> None:
        due, since, wait = 0.0, None, self._first
        while not self._ends.wait(min(1.0, self._first / 4)):
            now = time.monotonic()
            if now < due:
                continue
            failed = self._tried(looks=True)
            if not failed and (waiting := self._outbox.waiting):
                since = now if since is None else since
                if waiting < self._enough and now - since < wait:
                    continue
                failed = self._tried()
                since, wait = None, self._every
            due = now + min(LONGEST_WAIT, 2.0**self._failures) if failed else 0.0

    def _tried(self, *, looks: bool = False) -> bool:
        """Put what is waiting, or only look for it; return whether that failed."""
        try:
            if looks:
                self._outbox.look()
                return False
            self._outbox.put()
        except (BucketError, OSError) as error:
            self._failures += 1
            if self._failures == 1:
                why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else error
                self._say(
                    f"answers cannot be put into {self._store.name}: {why}. They are safe in {self._store.local}; "
                    "putting them is tried again"
                )
            return True
        if self._failures:
            self._say(f"answers are put into {self._store.name} again")
        self._failures = 0
        return False

    def give_up(self) -> None:
        """End the thread; put nothing more."""
        self._ends.set()

    def close(self, by: float | None = None) -> int:
        """Put the rest, and return the number of answers here that are not in the store.

        `by`: when to give up (monotonic); None: LAST seconds after now, or when all is put. No process appends any
        more. Call `take_lines` afterwards. A KeyboardInterrupt ends the putting.
        """
        if self._thread is None:
            return 0
        until = time.monotonic() + LAST if by is None else by
        if by is not None:
            self._outbox.by = by
        self._ends.set()
        try:
            self._put_rest(self._thread, until)
        except KeyboardInterrupt:
            self._outbox.by = 0.0
        left = self._outbox.left()
        if left:
            self._say(
                f"{left:,} answers are not in {self._store.name}. They are safe in {self._store.local}; the next "
                f"run with --answers={self._store.name} here puts them, or: {push_command(self._store)}"
            )
        return left

    def _put_rest(self, thread: threading.Thread, until: float) -> None:
        # A put that hangs has its own limit.
        thread.join(max(0.0, until - time.monotonic()))
        while not thread.is_alive() and self._tried() and time.monotonic() < until - 1:
            time.sleep(1.0)


def push(store: SharedStore) -> tuple[int, int]:
    """Put all answers of the local folder that are not in the store; return the numbers of those put, and left.

    BucketError, OSError.
    """
    outbox = Outbox(store)
    outbox.put()
    return outbox.answers, outbox.left()


def push_command(store: SharedStore) -> str:
    """Return the command that puts what is left."""
    return f"medvqa cache push --answers={store.name}"


def _end(path: Path, start: int, sizes: dict[int, int]) -> int:
    """Return the position up to which a file is in the store; `start`: the length of its first line (OSError).

    `sizes`: the size of each of its segments, first line included, by position.
    """
    end = start
    while (length := sizes.get(end, 0) - start) > 0 and _ends_line(path, end + length):
        end += length
    return end


def _whole_lines(path: Path, start: int, enough: int) -> bytes:
    """Return whole lines of a file from a position on: at most `enough` bytes, or one longer line (OSError)."""
    with files.reading(path) as file:
        file.seek(start)
        lines = file.read(enough)
        if lines and b"\n" not in lines:
            lines += file.readline(MAX_LINE)
    return lines[: lines.rfind(b"\n") + 1]


def _ends_line(path: Path, end: int) -> bool:
    """Whether a line of a file ends at a position (OSError)."""
    with files.reading(path) as file:
        file.seek(end - 1)
        return file.read(1) == b"\n"


def _count_lines(path: Path, start: int) -> int:
    """Count the whole lines of a file from a position on; 0 for a file that is gone."""
    with suppress(OSError), files.reading(path) as file:
        file.seek(start)
        return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))
    return 0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
