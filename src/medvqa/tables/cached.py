"""Records of large files, stored in the user's cache directory between starts, each file's for one state of it.

A stored file is JSON lines: the stamp, the records, and the SHA-256 (hex) of all lines before. `load` trusts it only
if the stamp is the caller's, nothing was cut off, and nobody else may have written it: it may hold answer keys.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from medvqa import files
from medvqa.tables import limits

T = TypeVar("T")

SMALL = 4 * 2**20
"""Bytes; a smaller table is read at every start, in milliseconds, and leaves nothing behind."""
_SAMPLE = 2**20


class Stamp(msgspec.Struct, frozen=True):
    """The state of a file: `sample` is the SHA-256 of its first and last _SAMPLE bytes.

    `ctime_ns` changes with every write, even if `mtime_ns` is set back.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    sample: str


def stamp_of(path: Path) -> Stamp:
    """Return the state of a file (DataError if it cannot be read)."""
    with limits.opened(path, str(path)) as file:
        status = os.fstat(file.fileno())
        sample = hashlib.sha256(file.read(_SAMPLE))
        file.seek(max(0, status.st_size - _SAMPLE))
        sample.update(file.read(_SAMPLE))
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, sample.hexdigest())


def place_of(path: Path, kind: str = "index") -> Path:
    """Return the path of stored records of one kind: in the user's cache, under a digest of the path of their file."""
    import platformdirs

    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return platformdirs.user_cache_path("pytest-medvqa") / f"{path.name[:150]}-{key}.medvqa-{kind}.jsonl"


def load(place: Path, stamp: Any, record: type[T], share: Callable[[T], T] = lambda record: record) -> list[T] | None:
    """Return the stored records; None if they are missing, damaged, of another stamp, or not this user's alone.

    `stamp` is any value of JSON: the state of the file, a version of the records, and whatever else they depend on.
    `share` lets equal texts of records be one object.
    """
    decode = msgspec.json.Decoder(record).decode
    records = []
    try:
        with files.reading(place, follow=False) as file:
            if not _is_private(file) or (line := file.readline()) != msgspec.json.encode(stamp) + b"\n":
                return None
            digest = hashlib.sha256(line)
            line = file.readline()
            for following in file:
                digest.update(line)
                records.append(share(decode(line)))
                line = following
    except (OSError, msgspec.DecodeError):
        return None
    return records if line == digest.hexdigest().encode() + b"\n" else None


def store(place: Path, stamp: Any, records: Iterable[Any]) -> None:
    """Store records for `load` (OSError)."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    encode = msgspec.json.Encoder().encode
    digest = hashlib.sha256()
    with files.replacing(place, mode=0o600) as file:
        for value in chain([stamp], records):
            line = encode(value) + b"\n"
            digest.update(line)
            file.write(line)
        file.write(digest.hexdigest().encode() + b"\n")


def _is_private(file: BinaryIO) -> bool:
    """Whether a file belongs to this user, and nobody else may write it."""
    status = os.fstat(file.fileno())
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
