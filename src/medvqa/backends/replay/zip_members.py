"""Read members of a ZIP archive within limits, also those that Zstandard compressed (method 93).

Python reads these only from 3.14 on. Nothing is written to disk, so the names of members are only names.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import BinaryIO

from medvqa.items import DataError, UsageError
from medvqa.tables import limits

ZSTANDARD = 93
_LOCAL = struct.Struct("<26xHH")
"""The local header of a member ends with the lengths of its name and of its extra field."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError, ValueError)
"""Exceptions of Python's zipfile at damaged, encrypted and unknown members."""


def content(archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo, where: str) -> bytes:
    """Return the content of a member of an archive that was opened from `file`.

    DataError, which begins with `where`, for a damaged member, and for one that is larger than MAX_RESULT or than it
    says. UsageError if zstandard is needed and missing.
    """
    if max(member.file_size, member.compress_size) > limits.MAX_RESULT:
        raise limits.larger(where, limits.MAX_RESULT)
    try:
        if member.compress_type == ZSTANDARD:
            return _zstandard(file, member, where)
        with archive.open(member) as opened:
            # One byte more than it says shows that it says too little.
            read = opened.read(member.file_size + 1)
    except _DAMAGED as error:
        raise DataError(f"{where}: cannot be unpacked: {error}") from None
    return read


def _zstandard(file: BinaryIO, member: zipfile.ZipInfo, where: str) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise UsageError(f"{where} is compressed by Zstandard: pip install 'pytest-medvqa[inspect]'") from None
    try:
        file.seek(member.header_offset)
        name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        file.seek(name + extra, 1)
        packed = file.read(member.compress_size)
        # The window is memory that a frame asks for.
        reader = zstandard.ZstdDecompressor(max_window_size=limits.MAX_RESULT).stream_reader(packed)
        read = reader.read(member.file_size + 1)
    except (zstandard.ZstdError, struct.error, OSError, ValueError) as error:
        raise DataError(f"{where}: cannot be unpacked: {error}") from None
    if len(read) != member.file_size or zlib.crc32(read) != member.CRC:
        raise DataError(f"{where}: cannot be unpacked: its size or checksum is another")
    return read
