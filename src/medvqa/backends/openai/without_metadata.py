"""Copies of JPEG and PNG files without metadata, and with the same pixels.

Only segments and chunks that decoding needs are copied. So comments, EXIF, XMP, thumbnails, profiles, and bytes after
the end stay here. Files of other forms, and those with any irregularity, have no copy (None): they must be decoded.

https://www.w3.org/Graphics/JPEG/itu-t81.pdf (annex B), https://www.w3.org/TR/png-3/ (clauses 5, 7 and 11).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentFile:
    """A copy of an encoded picture: its format (png or jpeg), bytes and size.

    `late_metadata`: whether metadata that stay here stood after the pixels.
    """

    kind: str
    data: bytes
    width: int
    height: int
    late_metadata: bool = False


def copied(data: bytes, max_pixels: int) -> SentFile | None:
    """Return a copy of an 8-bit grey or RGB picture of at most `max_pixels` without its metadata; None without one."""
    try:
        copy = _jpeg(data) if data.startswith(_SOI) else _png(data, max_pixels)
    except (_NoCopyError, IndexError, struct.error, zlib.error):
        return None
    return copy if 0 < copy.width * copy.height <= max_pixels else None


class _NoCopyError(Exception):
    """The file must be decoded."""


# --- JPEG -----------------------------------------------------------------------------------------------------

_SOI, _EOI = b"\xff\xd8", b"\xff\xd9"
_END, _SOS, _DQT, _DHT, _DRI, _APP0, _APP14 = 0xD9, 0xDA, 0xDB, 0xC4, 0xDD, 0xE0, 0xEE
_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
"""Huffman coding: baseline, extended, progressive."""
_DROPPED = frozenset({*range(0xE0, 0xF0), 0xFE})
"""Application segments and comments."""
_AFTER_ENTROPY = re.compile(rb"\xff[^\x00\xd0-\xd7]", re.DOTALL)
"""The marker after entropy-coded data, which have stuffed zeros and restart markers."""
_JFIF = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
"""Version 1.01, square pixels, no thumbnail."""
_ADOBE_LENGTH = 12
_SAMPLE_BITS = 8


def _jpeg(data: bytes) -> SentFile:
    parts: list[bytes] = []
    size: tuple[int, int] | None = None
    jfif, adobe, scans, late = False, b"", 0, False
    place = len(_SOI)
    while True:
        if data[place : place + 1] != b"\xff":
            raise _NoCopyError
        marker = data[place + 1]
        if marker == _END:
            break
        (length,) = struct.unpack_from(">H", data, place + 2)
        segment, body = data[place : place + 2 + length], data[place + 4 : place + 2 + length]
        if len(segment) != 2 + length:
            raise _NoCopyError
        place += len(segment)
        if marker in _DROPPED:
            late = late or scans > 0
            if marker == _APP0 and body.startswith(b"JFIF\x00"):
                jfif = True
            elif marker == _APP14 and body.startswith(b"Adobe"):
                if len(body) != _ADOBE_LENGTH or adobe:
                    raise _NoCopyError
                # The last byte tells the colour transform; the others do not affect decoding.
                adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + body[-1:]
            continue
        parts.append(segment)
        if marker in _FRAMES:
            if size is not None:
                raise _NoCopyError
            size = _frame(body)
        elif marker == _SOS:
            if size is None or len(body) < 1 or len(body) != 4 + 2 * body[0]:
                raise _NoCopyError
            end = _AFTER_ENTROPY.search(data, place)
            if end is None:
                raise _NoCopyError
            parts.append(data[place : end.start()])
            place, scans = end.start(), scans + 1
        elif not _is_table(marker, body):
            raise _NoCopyError
    if size is None or not scans:
        raise _NoCopyError
    heads = [_SOI, _JFIF if jfif else b"", adobe]
    return SentFile("jpeg", b"".join((*heads, *parts, _EOI)), *size, late_metadata=late)


def _frame(body: bytes) -> tuple[int, int]:
    """Return width and height of a frame of one or three components of 8 bits."""
    bits, height, width, components = struct.unpack_from(">BHHB", body)
    if bits != _SAMPLE_BITS or components not in (1, 3) or len(body) != 6 + 3 * components:
        raise _NoCopyError
    return width, height


def _is_table(marker: int, body: bytes) -> bool:
    """Whether a segment is a table of exactly the length that it says, so that it holds nothing else."""
    if marker == _DRI:
        return len(body) == 2
    place = 0
    while place < len(body):
        if marker == _DQT:
            place += 129 if body[place] >> 4 else 65
        elif marker == _DHT:
            place += 17 + sum(body[place + 1 : place + 17])
        else:
            return False
    return bool(body) and place == len(body)


# --- PNG ------------------------------------------------------------------------------------------------------

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Mapping[int, int] = {0: 1, 2: 3}
"""Colour types: grey, RGB."""
_FILTERS = 5
_ANIMATED = frozenset({b"acTL", b"fcTL", b"fdAT"})
_TURNING = (b"Raw profile type", b"adobe.xmp")
"""Beginnings of texts that may hold an orientation."""


def _png(data: bytes, max_pixels: int) -> SentFile:
    if not data.startswith(_SIGNATURE):
        raise _NoCopyError
    header, late = b"", False
    pixels: list[bytes] = []
    for kind, body in _chunks(data):
        if not header:
            if kind != b"IHDR":
                raise _NoCopyError
            header = body
        elif kind == b"IDAT":
            if late:
                raise _NoCopyError
            pixels.append(body)
            continue
        elif kind == b"IEND":
            break
        elif not _may_be_dropped(kind, body):
            raise _NoCopyError
        late = bool(pixels)
    width, height, bits, colour, *methods = struct.unpack(">IIBBBBB", header)
    if bits != _SAMPLE_BITS or colour not in _CHANNELS or any(methods) or width * height > max_pixels:
        raise _NoCopyError
    compressed = b"".join(pixels)
    _check_rows(compressed, 1 + width * _CHANNELS[colour], height)
    chunks = ((b"IHDR", header), (b"IDAT", compressed), (b"IEND", b""))
    copy = _SIGNATURE + b"".join(_chunk(kind, body) for kind, body in chunks)
    return SentFile("png", copy, width, height, late_metadata=late)


def _may_be_dropped(kind: bytes, body: bytes) -> bool:
    """Whether a chunk changes no pixel: none that may turn or animate the picture, or that a decoder must know."""
    if kind in _ANIMATED or kind == b"eXIf" or any(text in body for text in _TURNING):
        return False
    # The first letter is a capital if a decoder must know a chunk; a picture without a palette has PLTE as a hint.
    return kind == b"PLTE" or not kind[:1].isupper()


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while True:
        length, kind = struct.unpack_from(">I4s", data, place)
        end = place + 8 + length
        (told,) = struct.unpack_from(">I", data, end)
        if zlib.crc32(memoryview(data)[place + 4 : end]) != told or not kind.isalpha():
            raise _NoCopyError
        yield kind, data[place + 8 : end]
        place = end + 4


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _check_rows(compressed: bytes, width: int, height: int) -> None:
    """Refuse a stream that is not exactly `height` rows of `width` bytes, each with a filter, or that has more after.

    zlib checks the checksum.
    """
    decompressor = zlib.decompressobj()
    rows = decompressor.decompress(compressed, width * height + 1)
    if len(rows) != width * height or not decompressor.eof or decompressor.unused_data:
        raise _NoCopyError
    if height and max(rows[::width]) >= _FILTERS:
        raise _NoCopyError
