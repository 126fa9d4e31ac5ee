"""Files of weights in the format safetensors, read without torch: headers and digests."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from medvqa import files
from medvqa.items import DataError

MAX_HEADER = 100_000_000
"""Largest header of a safetensors file, in bytes (https://github.com/huggingface/safetensors: MAX_HEADER_SIZE)."""
CACHED_FROM = 64 * 2**20
"""Minimum size in bytes for caching a file's digest."""
SETTLED = 2.0
"""Seconds after which a file's times reliably show a change."""


def header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: tensor -> dtype, shape, offsets. DataError if it is none."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MAX_HEADER:
                raise ValueError(f"a header of {length} bytes")
            content = json.loads(file.read(length))
    except (OSError, ValueError, struct.error, RecursionError) as error:
        raise DataError(f"{path}: no safetensors file: {error}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: no safetensors file")
    return content


def hub_name(path: Path) -> str | None:
    """The SHA-256 by which the hub's cache names the content of a file; None if it cannot be relied on.

    The cache links a file of a snapshot to `blobs/DIGEST` after that is written. A blob that was written, moved or
    touched later, or whose name is not of 64 hex digits, is read instead. Damage that leaves no time behind, such as a
    failing disk's, is not seen; nor is it for other files whose digests are cached.
    """
    try:
        blob = path.resolve(strict=True)
        state, link = blob.stat(), path.lstat()
    except OSError:
        return None
    in_cache = path.is_symlink() and blob.parent.name == "blobs" and re.fullmatch("[0-9a-f]{64}", blob.name)
    return blob.name if in_cache and max(state.st_mtime_ns, state.st_ctime_ns) <= link.st_mtime_ns else None


def digest(path: Path) -> str:
    """SHA-256 (hex) of a file: the hub's name of it, or computed by one process for all.

    The digest of a large file is cached while its path, size and times are unchanged.
    """
    if named := hub_name(path):
        return named
    state = path.stat()
    kept: Path | None = None
    # A file that changed just now could change again within the resolution of its times.
    if state.st_size >= CACHED_FROM and time.time() - max(state.st_mtime, state.st_ctime) > SETTLED:
        import platformdirs

        what = (str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        key = hashlib.sha256(repr(what).encode(errors="surrogateescape")).hexdigest()
        kept = platformdirs.user_cache_path("pytest-medvqa") / f"weights-{key}.sha256"
        if stored := _stored(kept):
            return stored
        with _alone(kept):
            return _stored(kept) or _computed(path, kept, state.st_ctime_ns)
    return _computed(path, None, state.st_ctime_ns)


def _stored(kept: Path) -> str | None:
    """The digest in a file of the cache."""
    try:
        stored = files.read(kept, 64).decode("ascii")
    except (OSError, ValueError):
        return None
    return stored if re.fullmatch("[0-9a-f]{64}", stored) else None


def _computed(path: Path, kept: Path | None, changed: int) -> str:
    """The digest of a file's content, stored in `kept` if the file's time of change is still `changed`."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if kept is not None and path.stat().st_ctime_ns == changed:
        with suppress(OSError):  # without a cache it is computed again
            files.replace(kept, digest.encode("ascii"))
    return digest


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Hold the lock of a digest, so that other processes wait for it; without one where the cache has no locks."""
    from filelock import FileLock

    lock = FileLock(f"{kept}.lock")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()
