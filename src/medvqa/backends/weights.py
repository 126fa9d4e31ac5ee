"""Files of weights in the format safetensors, read without torch: headers and digests."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import time
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


def digest(path: Path) -> str:
    """SHA-256 (hex) of a file; cached for a large file while path, size and times are unchanged."""
    state = path.stat()
    kept: Path | None = None
    # A file that changed just now could change again within the resolution of its times.
    if state.st_size >= CACHED_FROM and time.time() - max(state.st_mtime, state.st_ctime) > SETTLED:
        import platformdirs

        what = (str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        key = hashlib.sha256(repr(what).encode(errors="surrogateescape")).hexdigest()
        kept = platformdirs.user_cache_path("pytest-medvqa") / f"weights-{key}.sha256"
        try:
            if re.fullmatch("[0-9a-f]{64}", stored := files.read(kept, 64).decode("ascii")):
                return stored
        except (OSError, ValueError):
            pass
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if kept is not None and path.stat().st_ctime_ns == state.st_ctime_ns:
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            files.replace(kept, digest.encode("ascii"))
        except OSError:
            pass  # without a cache it is computed again
    return digest
