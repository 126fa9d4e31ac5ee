"""The process that reads data sets and draws images for the server, so that neither fills the server's memory.

Its input and output are JSON lines; a drawn image follows its line. It ends when its input does. `IndexRequest`: write
all images of a benchmark to a file of sqlite3, by their names and by their places in the questions. `DrawRequest`:
draw one image. A decoder that hangs or crashes on a hostile file ends this process alone.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

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


class ProcessReply(msgspec.Struct):
    """`why`: the reason for a failure, "" without one. `bytes` of the format `format` follow."""

    why: str = ""
    format: str = ""
    bytes: int = 0
    public: bool = False
    """Whether the benchmark's data are declared public."""


_requests = msgspec.json.Decoder(IndexRequest | DrawRequest)


def serve() -> None:
    """Answer requests until the input ends."""
    # Decoders and conftest.py files print to the standard output.
    replies = child_process.replies()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, and the input with it.
    child_process.limit_memory(MEMORY)
    with suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            _answer(_requests.decode(line), replies)


def _answer(request: IndexRequest | DrawRequest, replies: BinaryIO) -> None:
    if isinstance(request, IndexRequest):
        reply, content = _indexed(request), b""
    else:
        # Its default action ends the process, even within a decoder.
        signal.alarm(SECONDS)
        reply, content = _drawn(request)
        signal.alarm(0)
    replies.write(msgspec.json.encode(reply) + b"\n" + content)
    replies.flush()


def _drawn(request: DrawRequest) -> tuple[ProcessReply, bytes]:
    image = request.image
    try:
        file = picture_files.whole(image, image.pil(), public=request.public)
    except DataError as error:
        return ProcessReply(f"The image {pictures.reason(image, error)}."), b""
    return ProcessReply(format=file.format, bytes=len(file.content)), file.content


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
                database.execute("insert or replace into names values (?, ?)", (_text(image.name), stored))
                database.execute("insert or replace into places values (?, ?, ?)", (_text(item.id), place, stored))
        database.execute("commit")
    os.replace(temporary, file)


def _text(text: str) -> bytes:
    """A text as bytes: one with half of a surrogate pair is no text for sqlite3."""
    return text.encode("utf-8", "surrogatepass")


if __name__ == "__main__":
    serve()
