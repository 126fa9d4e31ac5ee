"""Places: folders and buckets to which runs on several machines give their logs (`exchange`), and which they read.

A place has an object for each closed log: `IDENTITY/zTIME-TOKEN-TRY.log`. IDENTITY is that of the model and its role,
TIME that of the log, TOKEN the random end of the log's name, and TRY counts objects of one log. An object is created
once and never replaced. It is read whole, and is no log unless the digest in its last line is right. A log that rotted
there is put again, as another TRY, by the next session that has it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from medvqa import files, printing
from medvqa.backend import is_remote
from medvqa.items import Answer, Prompt, UsageError
from medvqa.records.address import Address
from medvqa.records.answer_index import IndexedLogs
from medvqa.records.bucket import advice, endpoint, open_bucket
from medvqa.records.log import TORN, LogReader, Unwritable, scan, unwritable
from medvqa.records.objects import (
    CALL,
    BucketError,
    FolderObjects,
    ObjectMissing,
    Objects,
    ObjectTooLarge,
    OutOfTime,
)
from medvqa.records.run_record import RUN

HERE = "this machine"
"""Any server of this machine, whatever its port: a bucket may be reached by another way in a later session."""
MARKER = "medvqa-answers.txt"
"""File that marks a folder as a place."""
MAX_LOGS = 200_000
"""Logs of one model that are read: a bucket is not trusted."""
MAX_LOG = 2**25
"""Bytes of a log in a place: many are read at once."""
MAX_READ = 16 * 2**30
"""Bytes of the logs of one model."""
LIST, READ = 60.0, 600.0
"""Seconds for the names of a model's logs, and for reading them."""
PROGRESS = 5.0
"""Seconds between two lines of progress."""
LATE = timedelta(hours=2)
"""How much earlier than the latest name a new one may be: clocks differ, and a log is put after it was begun."""
FAILURES = 8
"""Objects in a row that cannot be read: then the place cannot."""
MAX_UNREAD = 50
"""Most objects that are named because they cannot be read."""
_MARK = b"Answers of pytest-medvqa, put here by --answers. Others may read them; nothing here is ever replaced.\n"
TRIES = 10
"""Most objects of one log."""
# An object whose name is no path hides others of its page (`bucket`). Names begin with z, and listings there: so that
# hardly any name of a stranger stands among them.
_NAME = re.compile(r"z(?P<log>[0-9]{8}T[0-9]{6}\.[0-9]{6}-[0-9a-f]{16})-(?P<tries>[0-9])\.log", re.ASCII)
_BEFORE = "y~"
_TIME = "%Y%m%dT%H%M%S.%f"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, order=True)
class LogName:
    """The name of an object: the time and token of its log, and the number of the try."""

    log: str
    tries: int = 0

    def __str__(self) -> str:
        """Return the name, without the model's folder."""
        return f"z{self.log}-{self.tries}.log"

    @classmethod
    def parse(cls, name: str) -> LogName | None:
        """Return the name that a text holds, None if it is no log's."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(match["log"], int(match["tries"]))

    @classmethod
    def of(cls, path: Path) -> LogName:
        """Return the name of the first try for a local log. The name of its process stays here."""
        parts = path.stem.split("-")
        return cls(f"{parts[0]}-{parts[-1]}")


# --- a place --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or a bucket. `name`: its address or path, for the user; `folder`: None for a bucket.

    `server`: that of a bucket, if the environment names one, or HERE. Data that may go to one server may not go to
    another.
    """

    name: str
    objects: Objects = field(repr=False)
    folder: Path | None
    advice: str = field(repr=False)
    server: str = ""

    def check(self, say: Say = lambda line: None) -> bool:
        """Return whether the place has any object; make and mark a folder. `say` gets lines about odd names.

        Unwritable if it cannot be read, or the folder not be made.
        """
        if self.folder is not None:
            with unwritable(f"answers cannot be stored in {self.name}"):
                with suppress(FileExistsError):
                    self.folder.mkdir(files.PRIVATE)
                with suppress(FileExistsError):
                    files.write_new(self.folder / MARKER, _MARK)
        try:
            page = next(self.objects.listed("", "", 2 * CALL), ())
        except BucketError as error:
            raise self.unreadable(error) from None
        for entry in page:
            if entry.size is None and self.folder is None:
                say(f"medvqa: {self.name}: {_odd(entry.name)}")
        return any(entry.name != MARKER for entry in page)

    def unreadable(self, error: BucketError) -> Unwritable:
        """Return the error of a place that cannot be read."""
        return Unwritable(
            f"the answers in {self.name} cannot be read: {error}. {self.advice}. Without what is stored there, "
            "questions would be asked again; a run without --answers keeps its answers in its own folder"
        )


def open_place(named: Path | str, environ: Mapping[str, str]) -> Place:
    """Return the place that a folder or an address names; nothing is made or sent yet.

    UsageError for a folder that is neither a place nor empty, without obstore, or for a wrong environment.
    """
    address = Address.of(named) if isinstance(named, str) else None
    if address is not None and address.scheme != "file":
        url = urlsplit(endpoint(address, environ) or "")
        server = HERE if url.netloc and not is_remote(f"{url.scheme}://{url.netloc}") else url.netloc
        return Place(str(address), open_bucket(address, environ), None, advice(address), server)
    folder = Path(address.prefix) if address is not None else Path(named)
    shown = f"--answers={printing.line(str(named))}"
    if not folder.parent.is_dir():
        # A disk that is not mounted: a new folder of this machine would be shared with nobody.
        raise UsageError(f"{shown}: no folder {printing.line(str(folder.parent))}; is the shared disk mounted?")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{shown} is no folder")
    try:
        if (folder / RUN).exists():
            raise UsageError(f"{shown} is the folder of a run: type --answers={printing.line(str(folder))} to read it")
        strange = [name for name in (os.listdir(folder) if folder.exists() else []) if not name.startswith(".")]
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from None
    if strange and MARKER not in strange:
        raise UsageError(
            f"{shown} has other files and is no place for answers: name a new or empty folder, which becomes one, or "
            "the folder of a run"
        )
    return Place(
        str(named), FolderObjects(folder), folder, "Name a folder of answers alone, which can be read and written"
    )


def _odd(name: str) -> str:
    return f"{printing.line(name[:200])}: an odd name; it is skipped"


# --- reading --------------------------------------------------------------------------------------------------


class PlaceReader(IndexedLogs):
    """The answers of one model in a place, as a process has read them. Threads may share it.

    `used`: the number of answers that `recall` returned. What was read is kept in a file without a name.
    """

    def __init__(self, place: Place, identity: str, session: str, folder: Path) -> None:
        """Read nothing yet. Logs of the `session` itself are left out. The file is made in `folder` (Unwritable)."""
        super().__init__(identity)
        self.place = place
        self.name = place.name
        self.used = 0
        self._session = session
        self._lock = threading.Lock()
        self._read: set[LogName] = set()
        # Listed and not read yet, with their sizes: a later list begins behind them.
        self._waiting: dict[LogName, int] = {}
        self._after = _BEFORE
        self._unread: list[str] = []
        self._bytes = 0
        with unwritable(f"answers cannot be stored in {folder}"):
            self._file = files.unnamed(folder)

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the latest answer that can be read (Unwritable)."""
        return self.recall([key])[0]

    @property
    def damaged(self) -> int:
        """The number of lines of `unread`: a quick look for news."""
        return len(self._unread)

    @property
    def unread(self) -> tuple[str, ...]:
        """A line for each object and answer that cannot be read, in their order: objects are read side by side."""
        with self._lock:
            rest = len(self._unread) - MAX_UNREAD
            more = [f"{self.place.name}: and {rest:,} more that cannot be read"] if rest > 0 else []
            return (*sorted(self._unread[:MAX_UNREAD]), *more)

    def read(self, say: Say = lambda line: None, seconds: float = READ) -> int:
        """List the logs, read those that are new, and return their number. `say` gets lines for the user.

        What is not read in time is read the next time. Unwritable if the place cannot be read.
        """
        by, shown, number, failed, in_a_row = time.monotonic() + seconds, time.monotonic(), 0, 0, 0
        try:
            new = self._listed(say, min(LIST, seconds))
            for path, reply in self.place.objects.get_all(new, MAX_LOG, max(0.0, by - time.monotonic())):
                self._take(path, reply)
                number += 1
                fails = isinstance(reply, BucketError) and not isinstance(reply, ObjectMissing | ObjectTooLarge)
                failed, in_a_row = failed + fails, in_a_row + 1 if fails else 0
                if isinstance(reply, BucketError) and (in_a_row >= FAILURES or 1 < failed == len(new)):
                    raise reply
                if time.monotonic() > shown + PROGRESS:
                    shown = time.monotonic()
                    say(f"medvqa: {self.place.name}: {number:,} of {len(new):,} logs read")
        except OutOfTime:
            say(f"medvqa: {self.place.name}: {number:,} of {len(new):,} logs read in {seconds:g} s; the others are not")
        except BucketError as error:
            raise self.place.unreadable(error) from None
        except OSError as error:
            raise Unwritable(f"answers cannot be stored: {error.strerror or error}") from error
        return number

    def _listed(self, say: Say, seconds: float) -> list[str]:
        """Return the paths of logs that were not read, newest first (BucketError)."""
        total, shown = 0, time.monotonic()
        try:
            for page in self.place.objects.listed(self._identity, self._after, seconds):
                for entry in page:
                    name = LogName.parse(short := entry.name.removeprefix(f"{self._identity}/"))
                    if name is None or entry.size is None:
                        self._note(_odd(short))
                    elif name not in self._read:
                        self._waiting[name] = entry.size
                total += len(page)
                self._after = page[-1].name.removeprefix(f"{self._identity}/") if page else self._after
                if time.monotonic() > shown + PROGRESS:
                    shown = time.monotonic()
                    say(f"medvqa: {self.place.name}: {total:,} logs listed")
        except OutOfTime as error:
            if not self._waiting:
                raise BucketError(str(error)) from None
            say(f"medvqa: {self.place.name}: {total:,} logs listed in {seconds:g} s; later ones are not read yet")
        else:
            self._after = _somewhat_before(self._after)
        chosen = sorted(self._waiting, reverse=True)[: MAX_LOGS - len(self._read)]
        while chosen and self._bytes + sum(self._waiting[name] for name in chosen) > MAX_READ:
            chosen = chosen[: len(chosen) // 2]
        if left := len(self._waiting) - len(chosen):
            self._note(f"{left:,} old logs are not read: there are too many, or too large ones")
        self._waiting = {name: self._waiting[name] for name in chosen}
        return [f"{self._identity}/{name}" for name in chosen]

    def _note(self, why: str) -> None:
        line = f"{self.place.name}/{self._identity}/{why}"
        if line not in self._unread:
            self._unread.append(line)

    def _take(self, path: str, reply: bytes | BucketError) -> None:
        """Index the answers of a log (OSError)."""
        name = LogName.parse(path.rpartition("/")[2])
        if name is None:
            return
        found, lines = scan(reply if isinstance(reply, bytes) else b"")
        with self._lock:
            if self._file.closed:
                return
            if isinstance(reply, BucketError) and not isinstance(reply, ObjectMissing):
                self._note(f"{name}: {reply}")
            if isinstance(reply, BucketError) and not isinstance(reply, ObjectMissing | ObjectTooLarge):
                return  # it is read the next time
            self._read.add(name)
            self._waiting.pop(name, None)
            mine = found.head is not None and found.head.session == self._session
            if isinstance(reply, BucketError) or mine:
                return
            if (why := log_problem(found, self._identity)) is not None:
                self._note(f"{name}: {why}")
                return
            for number, why in found.problems:
                if why != TORN:
                    self._note(f"{name} line {number}: {why}")
            os.pwrite(self._file.fileno(), reply, self._bytes)
            self._add(str(name), lines, self._bytes)
            self._bytes += len(reply)

    def recall(self, keys: Sequence[str]) -> list[Answer | None]:
        """Return the latest answer for each key that can be read (Unwritable)."""
        with self._lock, unwritable("stored answers cannot be read"):
            found = [self._found(key) for key in keys]
        self.used += sum(one is not None for one in found)
        return [None if one is None else one[1] for one in found]

    def _line(self, log: str, start: int, length: int) -> bytes:
        return os.pread(self._file.fileno(), length, start)

    def _note_line(self, log: str, start: int, why: str) -> None:
        self._note(f"{log}: {why}")

    def close(self) -> None:
        """Give the disk back; nothing is recalled or read any more."""
        with self._lock:
            self._file.close()


def log_problem(reader: LogReader, identity: str) -> str | None:
    """Return why the object that a reader has read is no log for other runs; None if it is one."""
    if reader.head is None:
        return "it does not say who wrote it"
    if reader.head.identity != identity:
        return "it is a log of another model"
    if reader.closed is None or reader.torn:
        return "its end is missing"
    if not reader.whole:
        return "its digest does not match"
    return None if reader.head.reuse == "all" else "its first line says that other runs may not use it"


def _somewhat_before(name: str) -> str:
    """Return a name from which new ones are listed, once all were listed up to `name`."""
    latest = LogName.parse(name)
    if latest is None:
        return _BEFORE
    with suppress(ValueError, OverflowError):
        # A clock that is ahead, or a name of the year 9999, hides no later log.
        time_of_name = min(datetime.strptime(latest.log[:22], _TIME), datetime.now(UTC).replace(tzinfo=None))
        return f"z{(time_of_name - LATE).strftime(_TIME)}"
    return _BEFORE
