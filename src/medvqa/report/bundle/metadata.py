"""Files of images without their metadata: the same coded pixels, and nothing else of the file."""

from __future__ import annotations

import re
from typing import Literal

Format = Literal["png", "jpg", "webp"]
"""Formats that all browsers open, by the ends of their files' names."""

_PNG = b"\x89PNG\r\n\x1a\n"
_CHUNKS = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
"""Chunks of a PNG that make pixels. Colour profiles, gamma and transparency are dropped: models do not see them."""
_SEGMENTS = frozenset({0xC0, 0xC1, 0xC2, 0xC4, 0xDA, 0xDB, 0xDD})
"""Markers of a JPEG that make pixels: frames (baseline, extended, progressive), tables, restarts and scans."""
_END, _SCAN, _JFIF, _ADOBE = 0xD9, 0xDA, 0xE0, 0xEE
_DROPPED = frozenset({*range(0xE0, 0xF0), 0xFE})
"""Markers of application data and comments."""
_AFTER_SCAN = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]")
"""The marker after the data of a scan: no escaped byte and no restart."""


def without_metadata(data: bytes) -> tuple[bytes, Format] | None:
    """Return the file without metadata, and its format by its first bytes.

    None for other formats, and for unusual or damaged files.
    """
    try:
        if data.startswith(_PNG):
            return _png(data), "png"
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data), "jpg"
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data), "webp"
    except (IndexError, ValueError):
        return None
    return None


def _png(data: bytes) -> bytes:
    """https://www.w3.org/TR/png-3/#5Chunk-layout: length, type, content, checksum."""
    kept, at, kind = [_PNG], len(_PNG), b""
    while kind != b"IEND":
        kind, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4])
        if end > len(data):
            raise ValueError("cut off")
        if kind in _CHUNKS:
            kept.append(data[at:end])
        elif not kind[:1].islower():
            raise ValueError("an unknown chunk that makes pixels")
        at = end
    return b"".join(kept)


def _jpeg(data: bytes) -> bytes:
    """https://www.w3.org/Graphics/JPEG/itu-t81.pdf, Annex B: segments of marker, length and content."""
    kept, at = [data[:2]], 2
    while True:
        if data[at] != 0xFF:
            raise ValueError("no marker")
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        if marker == _END:
            return b"".join([*kept, b"\xff\xd9"])
        length = int.from_bytes(data[at + 1 : at + 3])
        content, at = data[at + 3 : at + 1 + length], at + 1 + length
        if length < 2 or at > len(data):
            raise ValueError("cut off")
        if marker == _JFIF and content[:5] == b"JFIF\0":
            content = content[:12] + b"\0\0"  # no thumbnail
        elif marker == _ADOBE and content[:5] == b"Adobe":
            content = content[:12]
        elif marker in _DROPPED:
            continue
        elif marker not in _SEGMENTS:
            raise ValueError("an unknown segment")
        kept += [bytes((0xFF, marker)), (len(content) + 2).to_bytes(2), content]
        if marker == _SCAN:
            found = _AFTER_SCAN.search(data, at)
            if found is None:
                raise ValueError("no end")
            kept.append(data[at : found.start()])
            at = found.start()


def _webp(data: bytes) -> bytes:
    """https://www.rfc-editor.org/rfc/rfc9649#section-2.5: one chunk of coded pixels, without metadata."""
    if data[12:16] not in (b"VP8 ", b"VP8L"):
        raise ValueError("an extended file")
    end = 20 + int.from_bytes(data[16:20], "little")
    end += end % 2
    if end > len(data):
        raise ValueError("cut off")
    return b"RIFF" + (end - 8).to_bytes(4, "little") + data[8:end]
