"""Segments: parts of a process's file of answers, as they lie in a shared store.

A segment is `ABOUT LINES TRAILER`: the first line of the file, whole lines of it in their order, and a line
`CHECKSUM end LENGTH`. LENGTH counts the bytes before the trailer, and CHECKSUM (BLAKE2b, 128 bits, keyed by the model's
folder) covers them and LENGTH. A segment without a right trailer is no answer: it is named, and not read.

Its name is `TIME-TOKEN-START-TRY.segment`: the time of the file, a hash of the file's name, the position of the first
of LINES in the file, and the number of the attempt. So each process can say which parts of its files are in the store.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

SEGMENT = ".segment"
MAX_SEGMENT = 2**24
"""Bytes of a segment: a bucket is not trusted, and many are read at once."""

_NAME = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6})-([0-9a-f]{16})-([0-9]{12})-([0-9])\.segment")
_FILE = re.compile(r"([0-9]{8}T[0-9]{6}\.[0-9]{6})-")
_CHECKSUM = 32
TRAILER = _CHECKSUM + len(b" end 000000000000\n")
"""Bytes of the last line of a segment."""
_TRAILER = re.compile(rb"([0-9a-f]{32}) end ([0-9]{12})\n")


class BrokenSegment(ValueError):
    """A segment that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """The name of a segment. Names are ordered by the time of their files, then by the position in them."""

    time: str
    token: str
    start: int
    attempt: int = 0

    def __str__(self) -> str:
        """Return the name, without the model's folder."""
        return f"{self.time}-{self.token}-{self.start:012d}-{self.attempt}{SEGMENT}"

    @property
    def file(self) -> tuple[str, str]:
        """What identifies the file that the segment is a part of."""
        return self.time, self.token

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        """Return the name that a text holds, None if it is no segment's."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(match[1], match[2], int(match[3]), int(match[4]))


def file_of(name: str) -> tuple[str, str] | None:
    """What identifies a process's file in the names of its segments; None if its name has no time.

    The token is a hash of the name: the host's name, which is a part of it, stays here.
    """
    match = _FILE.match(name)
    return None if match is None else (match[1], hashlib.blake2b(name.encode(), digest_size=8).hexdigest())


def segment(folder: str, head: bytes, lines: bytes) -> bytes:
    """Return the segment of whole lines of a file that begins with `head`; `folder` is the model's."""
    content = head + lines
    length = b"%012d" % len(content)
    return content + _checksum(folder, content, length) + b" end " + length + b"\n"


def content(folder: str, stored: bytes) -> bytes:
    """Return the lines of a segment without the trailer; BrokenSegment if a part is missing or changed."""
    match = _TRAILER.fullmatch(stored[-TRAILER:])
    if match is None:
        raise BrokenSegment("its end is missing")
    lines = stored[:-TRAILER]
    if int(match[2]) != len(lines) or not lines.endswith(b"\n"):
        raise BrokenSegment("a part is missing")
    if _checksum(folder, lines, match[2]) != match[1]:
        raise BrokenSegment("the checksum does not match")
    return lines


def _checksum(folder: str, content: bytes, length: bytes) -> bytes:
    made = hashlib.blake2b(content, digest_size=_CHECKSUM // 2, key=folder.encode())
    made.update(length)
    return made.hexdigest().encode()
