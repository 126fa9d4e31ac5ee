"""Original images of runs, found in the data sets by the digests that a run recorded, and sent without metadata.

No path comes from a run folder or an address: a run names benchmark, question and image, the data set tells the file,
and its bytes must have the recorded digest.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec

from medvqa import printing
from medvqa.child_process import Child, ChildEnded
from medvqa.items import Image, MedVQAError
from medvqa.records import private
from medvqa.records.run_folder import RESULTS
from medvqa.report.bundle.pictures import address
from medvqa.view import image_process
from medvqa.view.image_process import DrawRequest, ImageRequest, IndexRequest, ProcessReply
from medvqa.view.run_index import RecordedImage, RunIndexes
from medvqa.view.sources import Sources

AGAIN = 30
"""Seconds after which a data set that was not found is looked for again."""
LARGEST = 2**28
"""Bytes of a drawn image."""
_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
_ADDRESS = re.compile("[0-9a-f]{64}")


class NoImage(MedVQAError):
    """An image cannot be shown; the message is the reason, for people."""


@dataclass(frozen=True)
class SentImage:
    """The bytes of an image file, and their type for HTTP."""

    content: bytes
    type: str


@dataclass(frozen=True)
class _DataSet:
    """The index of a benchmark's images. `why`: the reason if there is none; `at`: when it was looked for."""

    file: Path
    why: str
    public: bool
    at: float


class Originals:
    """The original images of runs. Threads may share it; `close` ends its process."""

    def __init__(self, sources: Sources, scratch: Path, indexes: RunIndexes) -> None:
        """Read nothing before the first image. `scratch` is a folder of the server's own, for indexes of data sets."""
        self._sources = sources
        self._scratch = scratch
        self._indexes = indexes
        self._data: dict[str, _DataSet] = {}
        self._indexing = threading.Lock()
        self._drawer = Child(image_process.__name__)

    def image(self, folder: Path, name: str) -> SentImage:
        """Return an image of a run folder by its `address` (NoImage)."""
        found = self._recorded(folder, name) if _ADDRESS.fullmatch(name) else None
        if found is None:
            raise NoImage("The run has recorded no such image.")
        benchmark = found.key.benchmark
        data = self._data_set(benchmark)
        if data.why:
            raise NoImage(data.why)
        stored = _in_data(data.file, found)
        if stored is None:
            raise NoImage(f"The data of {printing.line(benchmark)} have no image of this name any more.")
        if stored.digest and stored.digest != found.image.digest:
            raise NoImage("The data folder has another image than the run.")
        image = replace(stored, digest=found.image.digest, alteration=found.image.alteration)
        if address(image) != name:
            raise NoImage("The data folder shows another view of this image than the run.")
        try:
            reply, content = self._drawer.ask(ImageRequest(DrawRequest(image, data.public)), ProcessReply, most=LARGEST)
        except ChildEnded:
            raise NoImage("The image is damaged: its decoder crashed, or took too long.") from None
        if reply.why or reply.format not in _TYPES:
            raise NoImage(printing.line(reply.why))
        return SentImage(content, _TYPES[reply.format])

    def close(self) -> None:
        """End the process that draws."""
        self._drawer.close()

    def _recorded(self, folder: Path, name: str) -> RecordedImage | None:
        index = self._indexes.of(folder)
        try:
            # Lines that came since are read only for an image that is not known, or if the file was replaced.
            with suppress(FileNotFoundError):
                if (found := index.image(name)) is not None:
                    return found
            index.catch_up()
            found = index.image(name)
        except OSError as error:
            raise NoImage(f"{RESULTS} cannot be read: {error.strerror}.") from error
        if found is None and index.problem:
            raise NoImage(f"{index.problem}.")
        return found

    def _data_set(self, benchmark: str) -> _DataSet:
        """The index of a benchmark's images, made by a process of its own when it is first needed."""
        with self._indexing:
            known = self._data.get(benchmark)
            if known is None or (known.why and time.monotonic() - known.at > AGAIN):
                file = self._scratch / f"images-{sha256(benchmark.encode()).hexdigest()[:16]}.sqlite3"
                known = self._indexed(benchmark, file)
                self._data[benchmark] = known
        return known

    def _indexed(self, benchmark: str, file: Path) -> _DataSet:
        child = Child(image_process.__name__)
        try:
            reply, _ = child.ask(ImageRequest(IndexRequest(self._sources, benchmark, str(file))), ProcessReply)
        except (ChildEnded, OSError):
            reply = ProcessReply(f"The data of {benchmark} cannot be read: the process that reads them has ended.")
        finally:
            child.close()
        return _DataSet(file, printing.line(reply.why), reply.public, time.monotonic())


def _in_data(file: Path, found: RecordedImage) -> Image | None:
    """The image of the data: by its place in the question if the run has a pseudonym for it, else by its name."""
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        if private.is_pseudonym(found.image):
            query, values = "select image from places where id = ? and place = ?", (found.key.item, found.position)
            row = database.execute(query, values).fetchone()
        else:
            row = database.execute("select image from names where name = ?", (found.image.name,)).fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=Image)
