"""Find the lines of results.jsonl that hold a text, without decoding all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from medvqa.records import run_folder
from medvqa.records.run_folder import MAX_LINE

SECONDS = 20.0
"""Time that a search may take."""
PART = 2**18
"""Bytes that are searched between two looks at the clock, unless a line is longer."""

# No quotes, slashes and signs of markup: they may be escaped.
_PLAIN = re.compile(r"[ !#-%(-.0-;=?-\[\]-~]+")


def plain_part(text: str) -> bytes:
    """Return the longest part of a text that stands in JSON as it is, whoever writes it; b"" if there is none."""
    return max(_PLAIN.findall(text), key=len, default="").encode()


def lines_with(
    file: BinaryIO, plain: bytes, start: int, end: int, *, until: float, fold: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield the places of the lines between two places of a file that hold `plain`, and the lines.

    `fold`: upper and lower case are the same, and `plain` is in lower case. TimeoutError at `until` of
    `time.monotonic()`.
    """
    file.seek(start)
    while start < end and (part := _part(file, end - start)):
        if time.monotonic() > until:
            raise TimeoutError(110, f"the search took longer than {SECONDS:.0f} seconds")
        searched = part.lower() if fold else part
        place = searched.find(plain)
        while 0 <= place < len(part):
            first = part.rfind(b"\n", 0, place) + 1
            last = part.find(b"\n", place)
            last = len(part) if last < 0 else last
            yield start + first, part[first:last]
            place = searched.find(plain, last + 1)
        start += len(part)


def _part(file: BinaryIO, left: int) -> bytes:
    """Read about PART of the `left` bytes, up to the end of a line."""
    part = file.read(min(PART, left))
    if len(part) < left and not part.endswith(b"\n"):
        part += file.readline(min(MAX_LINE, left - len(part)))
    return part


def holds(line: bytes, text: str) -> bool:
    """Whether question or response of a line hold a text in lower case."""
    try:
        result = run_folder.decode(line)
    except msgspec.DecodeError:
        return False
    response = result.answer.text if result.answer is not None else ""
    return text in result.item.question.lower() or text in response.lower()
