"""The shared answer store: a bucket to which processes on several machines add their answers.

`fetch` reads the segments that are not here yet into the local folder of the store; `Sharing` puts what processes
append there. Both know files of one machine and segments (`segments`) alone; answers are read by `Store`.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import filelock
import msgspec

from medvqa import files
from medvqa.records.bucket import CALL, Bucket, BucketError, Exists, advice
from medvqa.records.private import make_private
from medvqa.records.segments import (
    MAX_SEGMENT,
    TRAILER,
    BrokenSegment,
    SegmentName,
    content,
    file_of,
    segment,
)
from medvqa.records.store import FETCHED, MAX_LINE, SUFFIX, Unwritable, head_of

MAX_SEGMENTS = 200_000
"""Segments of one model: a bucket is not trusted."""
MAX_FETCHED = 8 * 2**30
"""Bytes of the segments of one model."""
FETCH = 600.0
"""Seconds of one `fetch`."""
LIST = 60.0
FIRST, EVERY = 5.0, 60.0
"""Seconds after which new answers are put: at first, and later."""
ENOUGH = 2**20
"""Bytes of new answers that are put at once."""
LAST = 30.0
"""Seconds of the last puts of a session that ends by itself."""
LONGEST_WAIT = 60.0

_STATE = ".state"
_MODEL = re.compile(r"[0-9a-f]{32}").fullmatch
_MAX_STATE = 2**26


@dataclass(frozen=True, slots=True)
class SharedStore:
    """A shared store as a process sees it: its bucket, and the local folder with the answers that are here."""

    bucket: Bucket = field(repr=False)
    local: Path

    @property
    def name(self) -> str:
        """The address, as it is typed."""
        return str(self.bucket.address)


# --- reading ------------------------------------------------------------------------------------------------


class _State(msgspec.Struct, frozen=True):
    """The last `fetch` of a model's folder: the session that did it, and why it failed."""

    session: str
    problem: str = ""
    unread: tuple[str, ...] = ()


def check_reachable(store: SharedStore) -> bool:
    """Whether a shared store has any segment. Unwritable if it cannot be read, or its local folder not be made."""
    try:
        make_private(store.local)
        return bool(store.bucket.list("", 0, LIST / 3))
    except BucketError as error:
        raise _unreadable(store, error) from None
    except OSError as error:
        raise Unwritable(f"answers cannot be stored in {store.local}: {error.strerror or error}") from None


def _unreadable(store: SharedStore, error: BucketError) -> Unwritable:
    return Unwritable(
        f"the answer store {store.name} cannot be read: {error}. {advice(store.bucket.address)}. Nothing was asked; "
        "--answers=DIR keeps answers on this machine"
    )


def fetch(store: SharedStore, model: str, session: str) -> tuple[str, ...]:
    """Read the segments of a model's folder that are not here yet, once for each session on this machine.

    Other processes of the session wait meanwhile. Return a line for each segment that cannot be read. Unwritable if the
    store cannot be read, or the local folder not be written.
    """
    try:
        files.subfolder(store.local, model)
        state = files.subfolder(store.local, _STATE)
        with filelock.FileLock(state / f"{model}.lock"):
            done = _state(state / f"{model}.json")
            if done is None or done.session != session:
                try:
                    unread, problem = _fetched(store, model, state), ""
                except BucketError as error:
                    unread, problem = (), str(_unreadable(store, error))
                done = _State(session, problem, unread)
                files.replace(state / f"{model}.json", msgspec.json.encode(done))
    except OSError as error:
        raise Unwritable(f"answers cannot be stored in {store.local}: {error.strerror or error}") from error
    if done.problem:
        raise Unwritable(done.problem)
    return done.unread


def _state(path: Path) -> _State | None:
    try:
        return msgspec.json.decode(files.read(path, _MAX_STATE), type=_State)
    except (OSError, msgspec.DecodeError):
        return None


def _fetched(store: SharedStore, model: str, state: Path) -> tuple[str, ...]:
    """Write the segments that are not here yet into one new file; return the lines about unread ones."""
    folder = store.local / model
    here = _fetched_names(folder, state) | _own_names(folder)
    new, unread = [], list[str]()
    for name, size in _listed(store, model):
        if name.file in here or str(name) in here:
            continue
        if size > MAX_SEGMENT:
            unread.append(f"{store.name}/{model}/{name}: larger than {files.size(MAX_SEGMENT)}")
        else:
            new.append(name)
    if not new:
        return tuple(unread)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    path = folder / f"{now}-{secrets.token_hex(4)}{FETCHED}"
    read: list[str] = []
    with _discarded_if_empty(path) as file:

        def take(name: str, stored: bytes | BucketError) -> None:
            try:
                if isinstance(stored, BucketError):
                    raise stored
                file.write(content(model, stored))
                read.append(name.partition("/")[2])
            except (BucketError, BrokenSegment) as error:
                unread.append(f"{store.name}/{name}: {error}")

        store.bucket.get_all([f"{model}/{name}" for name in sorted(new)], MAX_SEGMENT, FETCH, take)
        # Before the file has its name: a process that is killed in between reads the segments again.
        files.replace(state / f"{path.name}.json", msgspec.json.encode(read))
    return tuple(sorted(unread))


@contextmanager
def _discarded_if_empty(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that gets its name at the end of the block, unless nothing was written."""
    try:
        with files.replacing(path) as file:
            yield file
            if not file.tell():
                raise _EmptyError
    except _EmptyError:
        pass


class _EmptyError(Exception):
    pass


def _listed(store: SharedStore, model: str) -> list[tuple[SegmentName, int]]:
    """Return names and sizes of a model's segments; BucketError for too many."""
    objects = store.bucket.list(f"{model}/", MAX_SEGMENTS, LIST)
    found = [
        (name, entry.size)
        for entry in objects
        if entry.name.count("/") == 1 and (name := SegmentName.parse(entry.name.partition("/")[2])) is not None
    ]
    if len(objects) > MAX_SEGMENTS:
        raise BucketError(f"more than {MAX_SEGMENTS:,} segments of one model; remove old ones there")
    if (total := sum(size for _, size in found)) > MAX_FETCHED:
        raise BucketError(f"{total / 1e9:.1f} GB of one model's answers; remove old ones there")
    return found


def _fetched_names(folder: Path, state: Path) -> set[object]:
    """Return the names of segments that local files hold; a file that was deleted holds none."""
    names = set[object]()
    for path in folder.glob(f"*{FETCHED}"):
        with suppress(OSError, msgspec.DecodeError):
            names.update(msgspec.json.decode(files.read(state / f"{path.name}.json", _MAX_STATE), type=list[str]))
    return names


def _own_names(folder: Path) -> set[object]:
    """Return what identifies the files that processes here have written."""
    return {file_of(path.name) for path in _own(folder)}


def _own(folder: Path) -> list[Path]:
    """Return the files of a model's folder that processes here have written, oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.endswith(FETCHED))


# --- writing ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Own:
    """A file that a process here writes or wrote. `shared`: the position up to which it is in the store."""

    path: Path
    model: str
    time: str
    token: str
    head: bytes
    shared: int

    @property
    def identity(self) -> tuple[tuple[str, str], int]:
        """The file and the position of the next segment."""
        return (self.time, self.token), self.shared


class Sharing:
    """Puts the answers of this machine's processes into a shared store, in a thread of the process that conducts a run.

    It reads the files that all processes of the run append to. So a worker that dies loses nothing, and answers that
    an earlier session could not put are put by the next one.
    """

    def __init__(self, store: SharedStore, *, first: float = FIRST, every: float = EVERY, enough: int = ENOUGH) -> None:
        """Nothing is read before `start`. `first`, `every`: seconds; `enough`: bytes."""
        self._store = store
        self._first, self._every, self._enough = first, every, enough
        self._own: dict[Path, _Own] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._lines: list[str] = []
        self._failed = 0
        self._began = self._looked = False
        self._too_long = 0

    def start(self) -> None:
        """Begin to put, after what earlier sessions have left. Idempotent."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._work, name="medvqa-sharing", daemon=True)
        self._thread.start()

    def take_lines(self) -> list[str]:
        """Return the lines for the user since the last call."""
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def _say(self, line: str) -> None:
        with self._lock:
            self._lines.append(f"medvqa: {line}")

    def _work(self) -> None:
        due, since = time.monotonic(), None
        while not self._ends.wait(min(1.0, self._first / 4)):
            now = time.monotonic()
            waiting = self._waiting()
            since = (since or now) if waiting else None
            wait = self._every if self._began else self._first
            if since is None or now < due or (waiting < self._enough and now - since < wait):
                continue
            if self.put():
                self._began, due = True, now
            else:
                due = time.monotonic() + min(LONGEST_WAIT, 2.0**self._failed)
            since = None

    def _waiting(self) -> int:
        """The bytes of answers that are not in the store, as far as files are known."""
        with suppress(OSError, BucketError):
            self._look()
        return sum(max(0, _size(own.path) - own.shared) for own in list(self._own.values()))

    def _look(self) -> None:
        """Note new files (OSError, BucketError)."""
        for model in sorted(path for path in self._store.local.iterdir() if _MODEL(path.name)):
            new = [path for path in _own(model) if path not in self._own]
            # The store itself says what it has: a note here would be wrong once somebody removes segments there.
            there = self._in_store(model.name) if new and not self._looked else {}
            for path in new:
                identity, head = file_of(path.name), head_of(path)
                if identity is None or head is None:
                    continue
                own = _Own(path, model.name, *identity, head, len(head))
                while (size := there.get((identity, own.shared), 0)) and _ends_line(
                    path, own.shared + size - len(head)
                ):
                    own.shared += size - len(head)
                self._own[path] = own
        self._looked = True

    def _in_store(self, model: str) -> dict[tuple[tuple[str, str], int], int]:
        """Return the number of bytes before the trailer of each segment, by file and start."""
        return {(name.file, name.start): size - TRAILER for name, size in _listed(self._store, model) if size > TRAILER}

    def put(self, by: float | None = None) -> bool:
        """Put all whole lines that are not in the store yet, until a moment (monotonic); False if that failed."""
        try:
            self._look()
            for own in list(self._own.values()):
                self._put_file(own, by)
        except (BucketError, OSError) as error:
            self._failed += 1
            if self._failed == 1:
                why = error if isinstance(error, BucketError) else error.strerror
                self._say(
                    f"answers cannot be put into {self._store.name}: {why}. They are safe in {self._store.local}, "
                    "and putting them is tried again"
                )
            return False
        if self._failed:
            self._say(f"answers are put into {self._store.name} again")
        self._failed = 0
        return True

    def _put_file(self, own: _Own, by: float | None) -> None:
        while part := _part(own.path, own.shared, self._enough):
            if len(own.head) + len(part) + TRAILER > MAX_SEGMENT:
                self._too_long += 1
                self._say(f"an answer of {len(part):,} bytes is too long for {self._store.name}; it is here alone")
                own.shared += len(part)
                continue
            left = CALL if by is None else min(CALL, by - time.monotonic())
            if left <= 0:
                raise BucketError("the time for it is over")
            own.shared += self._put_part(own, part, left)

    def _put_part(self, own: _Own, part: bytes, seconds: float) -> int:
        """Put lines of a file; return the number of bytes from `own.shared` on that are in the store now."""
        for attempt in range(10):
            path = f"{own.model}/{SegmentName(own.time, own.token, own.shared, attempt)}"
            try:
                self._store.bucket.put(path, segment(own.model, own.head, part), seconds)
            except Exists:
                # An earlier try, of this session or another, may have arrived though its reply did not.
                if there := self._there(own, path, seconds):
                    return there
            else:
                return len(part)
        raise BucketError("the names of its segments are taken")

    def _there(self, own: _Own, path: str, seconds: float) -> int:
        """The number of bytes of an existing segment if its lines are those of the file, else 0 (BucketError)."""
        try:
            lines = content(own.model, self._store.bucket.get(path, MAX_SEGMENT, seconds))
        except BrokenSegment:
            return 0
        lines = lines.removeprefix(own.head)
        with files.reading(own.path) as file:
            file.seek(own.shared)
            return len(lines) if file.read(len(lines)) == lines else 0

    def give_up(self) -> None:
        """End the thread; put nothing more."""
        self._ends.set()

    def close(self, by: float | None = None) -> int:
        """Put the rest until a moment (monotonic, default: in LAST seconds); return the number of unshared answers.

        No process may append any more. Call `take_lines` afterwards.
        """
        by = time.monotonic() + LAST if by is None else by
        self._ends.set()
        if self._thread is not None:
            self._thread.join(max(0.0, by - time.monotonic()))
            if not self._thread.is_alive():
                while not self.put(by) and time.monotonic() < by - 1:
                    time.sleep(min(1.0, max(0.0, by - time.monotonic())))
        self._store.bucket.close()
        unshared = self._too_long + sum(_lines_from(own.path, own.shared) for own in list(self._own.values()))
        if unshared:
            self._say(
                f"{unshared:,} answers are not in {self._store.name}. They are safe in {self._store.local}; the next "
                f"run with --answers={self._store.name} in this folder puts them, and so does medvqa cache push "
                f"--answers={self._store.name}"
            )
        return unshared


def _part(path: Path, start: int, enough: int) -> bytes:
    """Return whole lines of a file from a position on: about `enough` bytes, or one longer line (OSError)."""
    with files.reading(path) as file:
        file.seek(start)
        content = file.read(enough)
        if b"\n" not in content:
            content += file.readline(MAX_LINE)
    return content[: content.rfind(b"\n") + 1]


def _ends_line(path: Path, end: int) -> bool:
    """Whether a position follows a line end of a file."""
    with files.reading(path) as file:
        file.seek(end - 1)
        return file.read(1) == b"\n"


def _lines_from(path: Path, start: int) -> int:
    """Count the whole lines of a file from a position on; 0 for a file that is gone."""
    with suppress(OSError), files.reading(path) as file:
        file.seek(start)
        return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))
    return 0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
