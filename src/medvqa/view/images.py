"""Original images of runs, found in the data sets by the digests that a run recorded, and sent without metadata.

No path comes from a run folder or an address: a run names benchmark, question and image, the data set tells the file,
and its bytes must have the recorded digest.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec

from medvqa import child_process, files, printing
from medvqa.items import Image, MedVQAError
from medvqa.records import private
from medvqa.records.run_folder import MAX_LINE, RESULTS
from medvqa.report.bundle.pictures import address
from medvqa.view import image_process
from medvqa.view.image_process import DrawRequest, IndexRequest, ProcessReply
from medvqa.view.sources import Sources

AGAIN = 30
"""Seconds after which a data set that was not found is looked for again."""
LARGEST = 2**28
"""Bytes of a drawn image."""
_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_ADDRESS = re.compile("[0-9a-f]{64}")
_TABLES = """
create table if not exists runs (run text primary key, file integer, read integer) without rowid;
create table if not exists recorded (run text, address text, image blob, primary key (run, address)) without rowid;
"""


class NoImage(MedVQAError):
    """An image cannot be shown; the message is the reason, for people."""


@dataclass(frozen=True)
class SentImage:
    """The bytes of an image file, and their type for HTTP."""

    content: bytes
    type: str


class _Recorded(msgspec.Struct):
    """An image as a run recorded it, with its question and its place there."""

    benchmark: str
    id: str
    place: int
    image: Image


class _LineImage(msgspec.Struct):
    name: str
    digest: str = ""
    blank: bool = False
    window: tuple[float, float] | None = None


class _LineItem(msgspec.Struct):
    id: str
    benchmark: str
    images: list[_LineImage] = []


class _RecordedLine(msgspec.Struct):
    item: _LineItem


@dataclass(frozen=True)
class _DataSet:
    """The index of a benchmark's images. `why`: the reason if there is none; `at`: when it was looked for."""

    file: Path
    why: str
    public: bool
    at: float


_lines = msgspec.json.Decoder(_RecordedLine)
_stored = msgspec.json.Decoder(Image)


class Originals:
    """The original images of runs. Threads may share it; `close` ends its process."""

    def __init__(self, sources: Sources, scratch: Path) -> None:
        """Read nothing before the first image. `scratch` is a folder of the server's own, for its index."""
        self._sources = sources
        self._scratch = scratch
        self._data: dict[str, _DataSet] = {}
        self._reading, self._indexing, self._drawing = threading.Lock(), threading.Lock(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def image(self, folder: Path, name: str) -> SentImage:
        """Return an image of a run folder by its `address` (NoImage)."""
        found = self._recorded(folder, name) if _ADDRESS.fullmatch(name) else None
        if found is None:
            raise NoImage("The run has recorded no such image.")
        data = self._data_set(found.benchmark)
        if data.why:
            raise NoImage(data.why)
        stored = self._in_data(data.file, found)
        if stored is None:
            raise NoImage(f"The data of {printing.line(found.benchmark)} have no image of this name any more.")
        if stored.digest and stored.digest != found.image.digest:
            raise NoImage("The data folder has another image than the run.")
        image = replace(stored, digest=found.image.digest)
        if address(image) != name:
            raise NoImage("The data folder shows another view of this image than the run.")
        return self._drawn(DrawRequest(image, data.public))

    def close(self) -> None:
        """End the process that draws."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _in_data(self, file: Path, found: _Recorded) -> Image | None:
        """The image of the data: by its place in the question if the run has a pseudonym for it, else by its name."""
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            if private.is_pseudonym(found.image):
                query, values = "select image from places where id = ? and place = ?", (_text(found.id), found.place)
                row = database.execute(query, values).fetchone()
            else:
                row = database.execute("select image from names where name = ?", (_text(found.image.name),)).fetchone()
        return None if row is None else _stored.decode(row[0])

    def _recorded(self, folder: Path, name: str) -> _Recorded | None:
        """The image that a run recorded under an address; lines of results.jsonl that came since are read first."""
        run = str(folder)
        file = self._scratch / "recorded.sqlite3"
        with self._reading, closing(sqlite3.connect(file, isolation_level=None)) as database:
            database.executescript(f"pragma journal_mode = off; pragma synchronous = off; {_TABLES}")
            query = "select image from recorded where run = ? and address = ?"
            row = database.execute(query, (_text(run), name)).fetchone()
            if row is None:
                self._read(folder, run, database)
                row = database.execute(query, (_text(run), name)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=_Recorded)

    def _read(self, folder: Path, run: str, database: sqlite3.Connection) -> None:
        """Add the images of whole lines that are new since the last time; a replaced file is read from its start."""
        path = folder / RESULTS
        known = database.execute("select file, read from runs where run = ?", (_text(run),)).fetchone() or (0, 0)
        try:
            with files.reading(path, follow=False) as file:
                status = os.fstat(file.fileno())
                start = known[1] if known[0] == status.st_ino and known[1] <= status.st_size else 0
                file.seek(start)
                database.execute("begin")
                if start == 0:
                    database.execute("delete from recorded where run = ?", (_text(run),))
                for _, line in files.lines(file, path, MAX_LINE):
                    if not line.endswith(b"\n"):
                        break
                    start += len(line)
                    database.executemany(
                        "insert or replace into recorded values (?, ?, ?)",
                        [(_text(run), key, msgspec.json.encode(found)) for key, found in _images(line)],
                    )
                values = (_text(run), status.st_ino, start)
                database.execute("insert or replace into runs values (?, ?, ?)", values)
                database.execute("commit")
        except OSError as error:
            raise NoImage(f"{RESULTS} cannot be read: {error.strerror}.") from error

    def _data_set(self, benchmark: str) -> _DataSet:
        """The index of a benchmark's images, made by a process of its own when it is first needed."""
        with self._indexing:
            known = self._data.get(benchmark)
            if known is None or (known.why and time.monotonic() - known.at > AGAIN):
                file = self._scratch / f"images-{sha256(_text(benchmark)).hexdigest()[:16]}.sqlite3"
                reply = _indexed(IndexRequest(self._sources, benchmark, str(file)))
                known = _DataSet(file, printing.line(reply.why), reply.public, time.monotonic())
                self._data[benchmark] = known
        return known

    def _drawn(self, request: DrawRequest) -> SentImage:
        with self._drawing:
            if self._process is None or self._process.poll() is not None:
                self._process = child_process.start(image_process.__name__)
            try:
                reply, content = _asked(self._process, request)
            except (OSError, EOFError, msgspec.DecodeError):
                self.close()
                raise NoImage("The image is damaged: its decoder crashed, or took too long.") from None
        if reply.why or reply.format not in _TYPES:
            raise NoImage(printing.line(reply.why))
        return SentImage(content, _TYPES[reply.format])


def _images(line: bytes) -> Iterator[tuple[str, _Recorded]]:
    """Yield the addresses of the images of a result, and what the run recorded of them."""
    try:
        item = _lines.decode(line).item
        for place, each in enumerate(item.images):
            image = Image(each.name, digest=each.digest, blank=each.blank, window=each.window)
            if key := address(image):
                yield key, _Recorded(item.benchmark, item.id, place, image)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MedVQAError):
        return


def _indexed(request: IndexRequest) -> ProcessReply:
    process = child_process.start(image_process.__name__)
    try:
        return _asked(process, request)[0]
    except (OSError, EOFError, msgspec.DecodeError):
        return ProcessReply(f"The data of {request.benchmark} cannot be read: the process that reads them has ended.")
    finally:
        _end(process)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _asked(process: subprocess.Popen[bytes], request: IndexRequest | DrawRequest) -> tuple[ProcessReply, bytes]:
    """Send a request and read the reply (OSError, EOFError or msgspec.DecodeError if the process is broken)."""
    if process.stdin is None or process.stdout is None:
        raise EOFError
    process.stdin.write(msgspec.json.encode(request) + b"\n")
    process.stdin.flush()
    reply = msgspec.json.decode(process.stdout.readline(2**16), type=ProcessReply)
    if not 0 <= reply.bytes <= LARGEST:
        raise EOFError
    content = process.stdout.read(reply.bytes)
    if len(content) < reply.bytes:
        raise EOFError
    return reply, content
