"""The process that reads data sets and draws images for the server, so that neither fills the server's memory.

`IndexRequest`: write all images of a benchmark to a file of sqlite3, by their names and by their places in the
questions. `DrawRequest`: draw one image. A decoder that hangs or crashes on a hostile file ends this process alone.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from medvqa import benchmarks, child_process
from medvqa.items import DataError, Image, Item, MedVQAError
from medvqa.report.bundle import picture_files, pictures
from medvqa.view.sources import Sources

SECONDS = 120
"""Seconds for one image."""
MEMORY = 16 * 2**30
"""Bytes of address space."""
TABLES = """
create table names (name text primary key, image blob) without rowid;
create table places (id text, place integer, image blob, primary key (id, place)) without rowid;
"""


class IndexRequest(msgspec.Struct, tag=True):
    """Write the images of a benchmark to `file`, which is replaced whole."""

    sources: Sources
    benchmark: str
    file: str


class DrawRequest(msgspec.Struct, tag=True):
    """Draw an image. `public`: its own file may be shown if that has the same pixels."""

    image: Image
    public: bool


class ImageRequest(msgspec.Struct):
    """One of the requests."""

    asked: IndexRequest | DrawRequest


class ProcessReply(msgspec.Struct):
    """`why`: the reason for a failure, "" without one. The bytes of the format `format` follow."""

    why: str = ""
    format: str = ""
    public: bool = False
    """Whether the benchmark's data are declared public."""


def serve() -> None:
    """Answer requests until the input ends."""
    child_process.answer_all(ImageRequest, _answer, memory=MEMORY)


def _answer(request: ImageRequest, _: bytes) -> tuple[ProcessReply, bytes]:
    asked = request.asked
    if isinstance(asked, IndexRequest):
        return _indexed(asked), b""
    # Its default action ends the process, even within a decoder.
    signal.alarm(SECONDS)
    image = asked.image
    try:
        file = picture_files.whole(image, image.pil(), public=asked.public)
    except DataError as error:
        return ProcessReply(f"The image {pictures.reason(image, error)}."), b""
    return ProcessReply(format=file.format), file.content


def _indexed(request: IndexRequest) -> ProcessReply:
    name = request.benchmark
    try:
        if (benchmark := request.sources.registry().benchmarks.get(name)) is None:
            return ProcessReply(
                f"The benchmark {name} is not known here: start medvqa view in the project that declares it, or name "
                "the file that does with --benchmark=FILE."
            )
        items = benchmarks.load_found(benchmark, request.sources.folder)
        if items is None:
            looked = "no data folder is named" if request.sources.data is None else f"not in {request.sources.data}"
            return ProcessReply(f"The data of {name} are not found ({looked}): start medvqa view with --data=DIR.")
        write_index(items, Path(request.file))
    except (MedVQAError, OSError, sqlite3.Error) as error:
        return ProcessReply(f"The data of {name} cannot be read: {error}")
    return ProcessReply(public=benchmark.public)


def write_index(items: Iterable[Item], file: Path) -> None:
    """Write the images of items to a new database, which replaces `file` (sqlite3.Error, OSError)."""
    temporary = file.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
        database.executescript(f"pragma journal_mode = off; pragma synchronous = off; {TABLES} begin;")
        for item in items:
            for place, image in enumerate(item.images):
                stored = msgspec.json.encode(image)
                database.execute("insert or replace into names values (?, ?)", (image.name, stored))
                database.execute("insert or replace into places values (?, ?, ?)", (item.id, place, stored))
        database.execute("commit")
    os.replace(temporary, file)
