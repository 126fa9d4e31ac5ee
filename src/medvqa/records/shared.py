"""Read a shared answer store: a bucket to which processes on several machines add their answers (`sharing`).

`fetch` reads the segments that are not here yet into the local folder of the store, where `Store` reads them as it
reads the files that processes here write.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import filelock
import msgspec

from medvqa import files
from medvqa.records.bucket import CALL, Bucket, BucketError, ObjectMissing, advice
from medvqa.records.private import make_private
from medvqa.records.segments import MAX_SEGMENT, BrokenSegment, SegmentName, content, file_of
from medvqa.records.store import FETCHED, SUFFIX, Unwritable, is_about

MAX_SEGMENTS = 200_000
"""Segments of one model: a bucket is not trusted."""
MAX_FETCHED = 16 * 2**30
"""Bytes of the segments of one model."""
FETCH = 600.0
"""Seconds of one `fetch`."""
LIST = 60.0
"""Seconds for the names of a model's segments."""
MAX_UNREAD = 50
"""Most segments that are named because they cannot be read."""

_STATE = ".state"
"""Folder beside those of the models: what the last `fetch` of each did, and the names of fetched segments."""
_MODEL = re.compile(r"[0-9a-f]{32}")
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

    @property
    def models(self) -> list[Path]:
        """The local folders of models (OSError)."""
        return sorted(path for path in self.local.iterdir() if _MODEL.fullmatch(path.name))


class _State(msgspec.Struct, frozen=True):
    """The last `fetch` of a model's folder: the session that did it, and why it failed."""

    session: str
    problem: str = ""
    unread: tuple[str, ...] = ()


def check_reachable(store: SharedStore) -> bool:
    """Whether a shared store has any object. Unwritable if it cannot be read, or its local folder not be made."""
    try:
        make_private(store.local)
        return bool(store.bucket.list("", 0, 2 * CALL))
    except BucketError as error:
        raise _unreadable(store, error) from None
    except OSError as error:
        raise _unwritable(store, error) from None


def _unreadable(store: SharedStore, error: BucketError) -> Unwritable:
    return Unwritable(
        f"the answer store {store.name} cannot be read: {error}. {advice(store.bucket.address)}. Without what is "
        "stored there, questions would be asked again; --answers=DIR keeps answers on this machine"
    )


def _unwritable(store: SharedStore, error: OSError) -> Unwritable:
    return Unwritable(f"answers cannot be stored in {store.local}: {error.strerror or error}")


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
                    done = _State(session, unread=_fetched(store, model, state))
                except BucketError as error:
                    done = _State(session, str(_unreadable(store, error)))
                files.replace(state / f"{model}.json", msgspec.json.encode(done))
    except OSError as error:
        raise _unwritable(store, error) from error
    if done.problem:
        raise Unwritable(done.problem)
    return done.unread


def fetch_all(store: SharedStore, session: str) -> tuple[str, ...]:
    """Read the segments of all models' folders that are not here yet, as `fetch`."""
    try:
        objects = store.bucket.list("", MAX_SEGMENTS, LIST)
    except BucketError as error:
        raise _unreadable(store, error) from None
    models = {model for entry in objects if _MODEL.fullmatch(model := entry.name.partition("/")[0])}
    return tuple(line for model in sorted(models) for line in fetch(store, model, session))


def _state(path: Path) -> _State | None:
    try:
        return msgspec.json.decode(files.read(path, _MAX_STATE), type=_State)
    except (OSError, msgspec.DecodeError):
        return None


def _fetched(store: SharedStore, model: str, state: Path) -> tuple[str, ...]:
    """Write the segments that are not here yet into one new file; return lines about unread ones."""
    folder = store.local / model
    fetched, own = _fetched_names(folder, state), {file_of(path.name) for path in own_files(folder)}
    new = [name for name, _ in listed(store, model) if str(name) not in fetched and name.file not in own]
    if not new:
        return ()
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    path = folder / f"{now}-{secrets.token_hex(4)}{FETCHED}"
    read, unread = list[str](), list[str]()
    with _unless_empty(path) as file:
        for name, reply in store.bucket.get_all([f"{model}/{name}" for name in sorted(new)], MAX_SEGMENT, FETCH):
            try:
                file.write(_lines(model, reply))
            except ObjectMissing:
                continue  # somebody removed it since
            except (BucketError, BrokenSegment) as error:
                # Not noted: the next session tries again, and says so again.
                unread.append(f"{store.name}/{name}: {error}")
            else:
                read.append(name.partition("/")[2])
        # Before the file has its name: a process that is killed in between reads the segments again.
        if read:
            files.replace(state / f"{path.name}.json", msgspec.json.encode(read))
    unread.sort()
    more = [f"{store.name}/{model}: and {len(unread) - MAX_UNREAD:,} more segments"] if len(unread) > MAX_UNREAD else []
    return (*unread[:MAX_UNREAD], *more)


def _lines(model: str, reply: bytes | BucketError) -> bytes:
    """Return the lines of a segment that was read; BrokenSegment if they are no process's."""
    if isinstance(reply, BucketError):
        raise reply
    lines = content(model, reply)
    if not is_about(model, lines[: lines.index(b"\n") + 1]):
        raise BrokenSegment("it does not say who wrote it")
    return lines


@contextmanager
def _unless_empty(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that gets its name at the end of the block, unless nothing was written."""
    with suppress(_EmptyError), files.replacing(path) as file:
        yield file
        if not file.tell():
            raise _EmptyError


class _EmptyError(Exception):
    """Nothing was written."""


def listed(store: SharedStore, model: str, seconds: float = LIST) -> list[tuple[SegmentName, int]]:
    """Return names and sizes of a model's segments; BucketError, also for too many."""
    objects = store.bucket.list(f"{model}/", MAX_SEGMENTS, seconds)
    segments = [
        (name, entry.size)
        for entry in objects
        if (name := SegmentName.parse(entry.name.removeprefix(f"{model}/"))) is not None
    ]
    if len(objects) > MAX_SEGMENTS:
        raise BucketError(f"more than {MAX_SEGMENTS:,} segments of one model; remove old ones there")
    if (total := sum(size for _, size in segments)) > MAX_FETCHED:
        raise BucketError(f"{total / 1e9:,.1f} GB of one model's answers; remove old ones there")
    return segments


def _fetched_names(folder: Path, state: Path) -> set[str]:
    """Return the names of segments that local files hold; a file that was deleted holds none."""
    names = set[str]()
    for path in folder.glob(f"*{FETCHED}"):
        with suppress(OSError, msgspec.DecodeError):
            names.update(msgspec.json.decode(files.read(state / f"{path.name}.json", _MAX_STATE), type=list[str]))
    return names


def own_files(folder: Path) -> list[Path]:
    """Return the files of a model's folder that processes here have written, oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.endswith(FETCHED))
