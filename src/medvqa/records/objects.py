"""Objects of a place: created once, never replaced, listed by name. A folder has them as files (`FolderObjects`).

Every call ends within a time: a server or a network disk that hangs holds nobody. No error repeats what a server said.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from medvqa import files
from medvqa.items import MedVQAError

CALL = 5.0
"""Seconds of one call: a put, or a get."""
CONCURRENT = 32
"""Objects that are read at once."""
TRIES = 3
"""Tries of reading one object."""

Value = TypeVar("Value")


class BucketError(MedVQAError):
    """A call to a place failed; the message is one short line without keys."""


class ObjectExists(BucketError):
    """An object of this name is there already."""


class ObjectMissing(BucketError):
    """There is no object of this name, or no bucket."""


class ObjectTooLarge(BucketError):
    """An object has more bytes than were asked for."""


class OutOfTime(BucketError):
    """The time for a call is over."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object: its name below the place, and its size in bytes; None if nothing of this name is read (a link)."""

    name: str
    size: int | None


_STATUS = re.compile(r"status code: ([1-5][0-9]{2})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{3,60})</Code>")
_KNOWN = {
    "kind: timeout": "no answer in time",
    "connectionrefused": "connection refused",
    "connectionreset": "connection reset",
    "incompletemessage": "the connection was closed before an answer",
    "body error": "its answer was cut off",
    "dns error": "the server's name is not known",
    "certificate": "its certificate is not trusted",
    "badscheme": "not https://",
    "kind: connect": "no connection",
    "latest/api/token": "no keys in the environment",
    "missing account": "no account in the environment",
    "missingaccount": "no account in the environment",
    "invalidpath": "an object there has an odd name",
}
"""What may be told of a message, by what it contains. Its own text repeats URLs, and all that the server sent."""


def reduced(error: BaseException) -> str:
    """Return an error in one line: its class, the status and what else is known to hold no key."""
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    text = str(error)[:20_000]
    lower = text.lower()
    parts = [f"status {match[1]}"] if (match := _STATUS.search(text)) else []
    parts += [match[1]] if (match := _CODE.search(text)) else []
    parts += [said for known, said in _KNOWN.items() if known in lower][:1]
    kind = type(error).__name__
    return f"{', '.join(parts)} ({kind})" if parts else kind


class Objects(ABC):
    """The objects of a place. Each call runs in a thread of its own.

    The threads are daemons: neither the end of a process nor a signal waits for them.
    """

    @abstractmethod
    def _put(self, name: str, content: bytes) -> None:
        """Create an object; any exception."""

    @abstractmethod
    def _get(self, name: str, most: int) -> bytes:
        """Return the content of an object of at most `most` bytes; ObjectTooLarge, any other exception."""

    @abstractmethod
    def _pages(self, folder: str, after: str) -> Iterator[Sequence[StoredObject]]:
        """Yield objects as `listed` does; any exception."""

    def put(self, name: str, content: bytes, seconds: float = CALL) -> None:
        """Create an object. ObjectExists if there is one of that name; BucketError."""
        _within(seconds, lambda: self._put(name, content))

    def get(self, name: str, most: int, seconds: float = CALL) -> bytes:
        """Return the content of an object; ObjectMissing, ObjectTooLarge for more than `most` bytes, BucketError."""
        return _within(seconds, lambda: self._get(name, most))

    def listed(self, folder: str, after: str, seconds: float) -> Iterator[Sequence[StoredObject]]:
        """Yield pages of the objects below a folder ("" for all) whose names come after `after`, in their order.

        BucketError, OutOfTime after so many seconds: earlier pages are good.
        """
        return _timed([self._pages(folder, after)], seconds)

    def get_all(self, names: Sequence[str], most: int, seconds: float) -> Iterator[tuple[str, bytes | BucketError]]:
        """Read objects, many at once; yield their names and contents, or the error, as they come.

        OutOfTime after `seconds` in all.
        """

        def read(names: Sequence[str]) -> Iterator[tuple[str, bytes | BucketError]]:
            for name in names:
                yield name, self._got(name, most)

        return _timed([read(names[thread::CONCURRENT]) for thread in range(min(CONCURRENT, len(names)))], seconds)

    def _got(self, name: str, most: int) -> bytes | BucketError:
        """Return the content of an object, or the error of the last of some tries."""
        for tries in range(1, TRIES + 1):
            reply = _tried(lambda: self._get(name, most))
            if isinstance(reply, bytes | ObjectMissing | ObjectTooLarge):
                break
            time.sleep(tries % TRIES)
        return reply


class FolderObjects(Objects):
    """A folder on a disk that several machines may share. Links and other irregular files in it are never read."""

    def __init__(self, folder: Path) -> None:
        """The folder exists; its subfolders and files get its permissions."""
        self._folder = folder

    def _put(self, name: str, content: bytes) -> None:
        folder, _, name = name.rpartition("/")
        mode = stat.S_IMODE(self._folder.stat().st_mode)
        within = files.check_subfolder(self._folder, folder)
        with suppress(FileExistsError):
            within.mkdir(mode)
            within.chmod(mode)
        files.write_once(within / name, content, mode & 0o666)

    def _get(self, name: str, most: int) -> bytes:
        folder, _, name = name.rpartition("/")
        with files.reading(files.check_subfolder(self._folder, folder) / name, follow=False) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ObjectTooLarge(f"larger than {files.size(most)}")
        return content

    def _pages(self, folder: str, after: str) -> Iterator[Sequence[StoredObject]]:
        try:
            within = files.check_subfolder(self._folder, folder) if folder else self._folder
        except OSError:
            # A link or a file in its place.
            yield [StoredObject(f"{folder}/", None)]
            return
        try:
            with os.scandir(within) as entries:
                names = sorted(entry.name for entry in entries if entry.name > after and entry.name[0] != ".")
        except FileNotFoundError:
            return
        for start in range(0, len(names), 1000):
            page = list[StoredObject]()
            for name in names[start : start + 1000]:
                with suppress(FileNotFoundError):
                    status = os.lstat(within / name)
                    size = status.st_size if stat.S_ISREG(status.st_mode) else None
                    page.append(StoredObject(f"{folder}/{name}" if folder else name, size))
            yield page


def _tried(call: Callable[[], Value]) -> Value | BucketError:
    """Return the value of a call, or its error, reduced: obstore's own may hold a URL, or all that a server sent."""
    try:
        return call()
    except BucketError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - obstore raises many classes; a panic in it is no Exception
        kind, why, number = type(error).__name__, reduced(error), getattr(error, "errno", None)
    if kind in ("AlreadyExistsError", "PreconditionError") or number == errno.EEXIST:
        return ObjectExists(why)
    return ObjectMissing(why) if kind in ("FileNotFoundError", "NotFoundError") else BucketError(why)


def _within(seconds: float, call: Callable[[], Value]) -> Value:
    """Return the value of a call that runs in a thread of its own (BucketError)."""
    try:
        return next(_timed([((call(),) for _ in "1")], seconds))[0]
    except OutOfTime:
        raise OutOfTime(f"no answer within {seconds:.2g} s") from None


def _timed(sources: Sequence[Iterator[Value]], seconds: float) -> Iterator[Value]:
    """Yield values of iterators as they come, for so many seconds; each runs in a thread (BucketError, OutOfTime)."""
    # Bounded: few values wait in memory for a slow consumer.
    replies: queue.Queue[Value | BucketError | None] = queue.Queue(4)
    ended = threading.Event()

    def work(source: Iterator[Value]) -> None:
        reply: Value | BucketError | None = None
        while not ended.is_set():
            reply = _tried(lambda: next(source, None))
            while not ended.is_set():
                with suppress(queue.Full):
                    replies.put(reply, timeout=1.0)
                    break
            if reply is None or isinstance(reply, BucketError):
                return

    for source in sources:
        threading.Thread(target=work, args=(source,), name="medvqa-place", daemon=True).start()
    by, left = time.monotonic() + seconds, len(sources)
    try:
        while left:
            try:
                reply = replies.get(timeout=max(0.0, by - time.monotonic()))
            except queue.Empty:
                raise OutOfTime(f"not done within {seconds:.2g} s") from None
            if isinstance(reply, BucketError):
                raise reply
            if reply is None:
                left -= 1
            else:
                yield reply
    finally:
        ended.set()
