"""What is kept of a large table between starts: in the user's cache directory, for one state of the file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from medvqa.tables import limits

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


def place_of(path: Path) -> Path:
    """Return the path of an index: in the user's cache, under a digest of the table's path."""
    import platformdirs

    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return platformdirs.user_cache_path("pytest-medvqa") / f"{path.name[:150]}-{key}.medvqa-index.jsonl"


def is_private(file: BinaryIO) -> bool:
    """Whether a file belongs to this user, and nobody else may write it: it holds questions and answer key."""
    status = os.fstat(file.fileno())
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
