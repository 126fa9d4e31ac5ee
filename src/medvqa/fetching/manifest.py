"""The list of received files in each benchmark's folder, `.medvqa-fetch.jsonl`: a line for each file, the last counts.

It holds digests, so that a file that changes later is noticed even if its owners publish none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from medvqa import decode, files

NAME = ".medvqa-fetch.jsonl"
MAX_LINE = 2**16
MAX_LINES = 2**18
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class FileNote:
    """A file that was received or found, `to` relative to the folder of the list.

    `source` is the address that it came from, "" if it was found. `modified` is its time of change in ns when it was
    last compared with `sha256`. `checked` is its digest of the kind that the owners publish, such as md5:HEX, "" if
    they publish none. `unpacked` counts the files that an archive gave, None if it was not unpacked. `at` is the date
    in UTC.
    """

    to: str
    size: Number
    sha256: str
    modified: Number
    source: str = ""
    checked: str = ""
    unpacked: Number | None = None
    at: str = ""


def folder_of(data: Path, to: str) -> tuple[Path, str]:
    """Return the folder of the list that a file belongs to, and the file's name in it."""
    first, slash, rest = to.partition("/")
    return (data / first, rest) if slash else (data, to)


def read(folder: Path) -> dict[str, FileNote]:
    """Return the notes of a folder by file; lines that cannot be read, or above MAX_LINES, are left out."""
    notes: dict[str, FileNote] = {}
    path = folder / NAME
    try:
        with files.reading(path, follow=False) as file:
            for number, line in files.lines(file, path, MAX_LINE):
                if number > MAX_LINES:
                    break
                if (note := _note(line)) is not None:
                    notes[note.to] = note
    except OSError:
        pass
    return notes


def _note(line: bytes) -> FileNote | None:
    try:
        return msgspec.json.decode(line, type=FileNote)
    except decode.ERRORS:
        return None


def write(folder: Path, note: FileNote) -> None:
    """Append a note (OSError)."""
    path = folder / NAME
    descriptor = files.appending(path, readable=True)
    try:
        size = os.fstat(descriptor).st_size
        # A killed process may have left half a line.
        start = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
        os.write(descriptor, start + json.dumps(asdict(note)).encode() + b"\n")
    finally:
        os.close(descriptor)


def digests_of(path: Path, names: set[str], tick: Callable[[], None] = lambda: None) -> dict[str, str]:
    """Return digests of a file in hex, by name: md5, sha256 (OSError); `tick` is called for each chunk."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in names}
    with files.reading(path) as file:
        while chunk := file.read(CHUNK):
            tick()
            for one in hashes.values():
                one.update(chunk)
    return {name: one.hexdigest() for name, one in hashes.items()}
