"""Search a text in questions and responses of results.jsonl, a part at a time, so that no request takes long."""

from __future__ import annotations

import re
import threading
import time
from array import array
from collections import OrderedDict
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from medvqa.items import Result
from medvqa.records import run_folder
from medvqa.records.run_folder import MAX_LINE
from medvqa.view.snapshot import Snapshot

SECONDS = 0.04
"""Time that one call searches; the next one goes on."""
PART = 2**18
"""Bytes that are searched between two looks at the clock, unless a line is longer."""
SEARCHES = 16
"""Texts whose search is kept."""

# No quotes, slashes and signs of markup: they may be escaped.
_PLAIN = re.compile(r"[ !#-%(-.0-;=?-\[\]-~]+")


class Search:
    """Finds the lines whose question or response holds a text, in upper or lower case."""

    def __init__(self, text: str) -> None:
        """Search nothing yet."""
        self._text = text.lower()
        # Lines without the longest plain part need not be decoded.
        self._plain = plain_part(self._text)
        self._lock = threading.Lock()
        self._end = 0
        self._hits = array("Q")

    def go_on(self, snapshot: Snapshot, seconds: float = SECONDS) -> tuple[NDArray[np.uint64], int]:
        """Search on for a time; return the offsets of the lines found so far, and the number of bytes not searched.

        FileNotFoundError if the file was replaced, OSError if it cannot be read.
        """
        until = time.monotonic() + seconds
        with self._lock:
            with snapshot.opened() as file:
                file.seek(self._end)
                while self._end < snapshot.searchable and time.monotonic() < until:
                    self._end += self._search(file, snapshot.searchable - self._end, until)
            return np.array(self._hits), max(snapshot.searchable - self._end, 0)

    def _search(self, file: BinaryIO, left: int, until: float) -> int:
        """Search some whole lines; return the number of their bytes."""
        file.seek(self._end)
        part = read_part(file, left)
        lowered, done = part.lower(), 0
        while done < len(part) and time.monotonic() < until:
            place = lowered.find(self._plain, done)
            if place < 0:
                return len(part)
            start = lowered.rfind(b"\n", 0, place) + 1
            end = lowered.find(b"\n", place)
            end = len(part) if end < 0 else end
            if self._holds(part[start:end]):
                self._hits.append(self._end + start)
            done = end + 1
        return min(done, len(part))

    def _holds(self, line: bytes) -> bool:
        try:
            result = run_folder.decode(line)
        except msgspec.DecodeError:
            return False
        return any(self._text in text.lower() for text in texts_of(result))


def read_part(file: BinaryIO, left: int) -> bytes:
    """Read about PART of the `left` bytes, up to the end of a line."""
    part = file.read(min(PART, left))
    if len(part) < left and not part.endswith(b"\n"):
        part += file.readline(min(MAX_LINE, left - len(part)))
    return part


def plain_part(text: str) -> bytes:
    """Return the longest part of a text that stands in JSON as it is, whoever writes it; b"" if there is none."""
    return max(_PLAIN.findall(text), key=len, default="").encode()


def texts_of(result: Result) -> tuple[str, ...]:
    """Return the texts of a result that are searched: question and response."""
    return (result.item.question, result.answer.text) if result.answer is not None else (result.item.question,)


class Searches:
    """The searches in one file, kept for further pages; those used least recently are given up."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._reading: object = None
        self._searches: OrderedDict[str, Search] = OrderedDict()

    def of(self, text: str, snapshot: Snapshot) -> Search:
        """Return the search of a text, begun anew if the file was replaced."""
        with self._lock:
            if self._reading is not snapshot.reading:
                self._searches.clear()
                self._reading = snapshot.reading
            search = self._searches.setdefault(text, Search(text))
            self._searches.move_to_end(text)
            while len(self._searches) > SEARCHES:
                self._searches.popitem(last=False)
            return search
