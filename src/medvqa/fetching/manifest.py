"""The list of received files in each benchmark's folder, `.medvqa-fetch.jsonl`: a line for each file, the last counts.

It holds digests, so that a file that changes later is noticed even if its owners publish none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated

import msgspec

from medvqa import decode, files
from medvqa.figures import data_size
from medvqa.items import DataError, OriginFile

NAME = ".medvqa-fetch.jsonl"
MAX_LINE = 2**16
MAX_LINES = 2**18
LARGE = 2**28
"""Files of more bytes are read only if they have changed, or on request: one of 9 GB is read for minutes."""
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


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

    def holds(self, status: os.stat_result) -> bool:
        """Whether a file has not been written since it was compared."""
        return (self.size, self.modified) == (status.st_size, status.st_mtime_ns)


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
                try:
                    note = msgspec.json.decode(line, type=FileNote)
                except decode.ERRORS:
                    continue
                notes[note.to] = note
    except OSError:
        pass
    return notes


def write(folder: Path, note: FileNote) -> None:
    """Append a note (OSError)."""
    with open(files.appending(folder / NAME, readable=True), "a+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        # A killed process may have left half a line.
        start = b"\n" if file.read(1) not in (b"", b"\n") else b""
        file.write(start + json.dumps(asdict(note)).encode() + b"\n")


class Notes:
    """The notes of a data folder, by path in it; each list is read once."""

    def __init__(self, data: Path) -> None:
        """Read the lists of `data` when they are asked for."""
        self._data = data
        self._lists: dict[Path, dict[str, FileNote]] = {}

    def get(self, to: str) -> FileNote | None:
        """Return the note of a file."""
        return self.beside(to).get(to)

    def beside(self, to: str) -> dict[str, FileNote]:
        """Return the notes of the list that a file belongs to."""
        folder, name = folder_of(self._data, to)
        if folder not in self._lists:
            self._lists[folder] = {to.removesuffix(name) + note.to: note for note in read(folder).values()}
        return self._lists[folder]

    def put(self, to: str, note: FileNote) -> None:
        """Add a note, unless it says nothing new (OSError)."""
        if note != self.get(to):
            self.beside(to)[to] = note
            write(folder_of(self._data, to)[0], note)


def released(file: OriginFile) -> OriginFile:
    """Return a file of a release with its digest in lower case (DataError for a digest of another kind)."""
    if file.digest and file.digest.partition(":")[0].lower() not in ("md5", "sha256"):
        raise DataError(f"{file.to}: the digest {file.digest!r} is neither md5:HEX nor sha256:HEX")
    return replace(file, digest=file.digest.lower())


def digest(file: BufferedReader | FileIO, kind: str) -> str:
    """Return a digest of a whole file in hex: md5, sha256, or git's of a blob."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = hashlib.new("sha1" if kind == "git" else kind, usedforsecurity=False)
    if kind == "git":
        start.update(b"blob %d\0" % size)
    return hashlib.file_digest(file, lambda: start).hexdigest()


def digests_of(path: Path, kinds: Iterable[str], tell: Callable[[str], None]) -> dict[str, str]:
    """Return digests of a file in hex, by kind (OSError); `tell` gets a line before a large one is read."""
    with files.reading(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > LARGE:
            tell(f"reads {path}, {data_size(size)}, to compare its digest")
        return {kind: digest(file, kind) for kind in kinds}
