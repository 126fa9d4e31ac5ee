"""Cut a table (TSV) into cells with one chunk in memory: texts are collected, images only digested."""

from __future__ import annotations

import binascii
import codecs
import hashlib
from collections.abc import Callable
from typing import BinaryIO

from medvqa.image import WHITESPACE
from medvqa.items import DataError
from medvqa.tables import limits

CHUNK = 2**20
"""Bytes that are read at once."""

REFERENCE = 64
"""Maximum characters of an image cell that names, by its `index`, the row with the image.
https://github.com/open-compass/VLMEvalKit/blob/895762d302b923d9d1f24ac16a7a2cbc461bb1cf/vlmeval/dataset/image_base.py
"""


class Text:
    """Collects a text cell."""

    def __init__(self, where: str, column: str = "") -> None:
        """`where` and `column` name the cell in errors."""
        self._where = where
        self._column = column
        self._pieces: list[bytes] = []
        self._left = limits.MAX_TEXT

    def take(self, piece: bytes) -> None:
        """Keep a piece of the cell; DataError above MAX_TEXT."""
        self._left -= len(piece)
        if self._left < 0:
            raise limits.long_text(self._where, self._column)
        self._pieces.append(piece)

    def value(self, length: int) -> str:
        """Return the first `length` bytes as text; DataError if they are not UTF-8."""
        try:
            return b"".join(self._pieces)[:length].decode()
        except UnicodeDecodeError as error:
            column = f", column '{self._column}'" if self._column else ""
            raise DataError(f"{self._where}{column}: not UTF-8: {error.reason}") from error


class Payload:
    """Digests the decoded base64 of an image cell without keeping it."""

    def __init__(self) -> None:
        """Begin a cell."""
        self._sha = hashlib.sha256()
        self._size = 0
        self._head = b""
        self._rest = b""
        self._valid = True

    def take(self, piece: bytes) -> None:
        """Digest a piece of the cell."""
        self._size += len(piece)
        if len(self._head) <= REFERENCE:
            self._head += piece[: REFERENCE + 1]
        # The last four characters wait for the end: only they may hold padding.
        text = self._rest + piece.translate(None, WHITESPACE)
        cut = max(0, len(text) - 1) // 4 * 4
        self._rest = text[cut:]
        self._decode(text[:cut])
        self._valid = self._valid and b"=" not in text[:cut]

    def _decode(self, text: bytes) -> None:
        if self._valid:
            try:
                self._sha.update(binascii.a2b_base64(text, strict_mode=True))
            except binascii.Error:
                self._valid = False

    def reference(self) -> str:
        """Return the index that a short cell refers to, "" for an image."""
        return self._head.decode(errors="replace").strip() if self._size <= REFERENCE else ""

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the image; "" for a reference, and if the cell is not base64."""
        self._decode(self._rest)
        return self._sha.hexdigest() if self._valid and self._size > REFERENCE else ""


class Cells:
    """Cuts a table into cells, with one chunk in memory.

    Quotes are read as by `csv` and pandas: a cell that begins with a quote ends at the next one that is not
    doubled, and may hold tabs and line ends. Lines end in LF or CRLF.
    """

    def __init__(self, file: BinaryIO, advance: Callable[[int], None]) -> None:
        """Begin at the start of a file; `advance` gets the number of bytes read, chunk by chunk."""
        self._file = file
        self._advance = advance
        self._chunk = b""
        self._base = len(codecs.BOM_UTF8) if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else file.seek(0)
        self._at = 0
        self._last = b""
        self.line = 1
        self.where = ""

    def cell(self, take: Callable[[bytes], None]) -> tuple[int, int, bool]:
        """Pass the next cell to `take` in pieces; return its start, its length and whether its row goes on."""
        if self._peek() == b'"':
            start, end = self._quoted(take)
            if self._peek() == b"\r":
                self._at += 1
            if self._peek() not in (b"\t", b"\n", b""):
                raise DataError(f"{self.where}: text follows a closing quote")
        else:
            start = self._offset
            self._last = b""
            self._until(b"\t\n", take)
            end = self._offset
            if self._peek() != b"\t" and self._last == b"\r":
                end -= 1
        stop = self._peek()
        self._at += len(stop)
        self.line += stop == b"\n"
        return start, end - start, stop == b"\t"

    def skip_blank(self) -> bool:
        """Pass over blank lines; return whether something follows."""
        while self._peek() in (b"\r", b"\n"):
            self.line += self._peek() == b"\n"
            self._at += 1
        return not self.at_end()

    def at_end(self) -> bool:
        """Whether nothing follows."""
        return not self._peek()

    @property
    def _offset(self) -> int:
        return self._base + self._at

    def _peek(self) -> bytes:
        """The next byte, b"" at the end of the file."""
        if self._at == len(self._chunk):
            self._base += self._at
            self._at = 0
            self._chunk = self._file.read(CHUNK)
            self._advance(self._base)
        return self._chunk[self._at : self._at + 1]

    def _until(self, stops: bytes, take: Callable[[bytes], None]) -> None:
        """Pass all bytes before the next stop, or before the end of the file, to `take`."""
        while self._peek():
            end = len(self._chunk)
            for stop in stops:
                position = self._chunk.find(stop, self._at, end)
                end = end if position < 0 else position
            piece = self._chunk[self._at : end]
            self._at = end
            if piece:
                self._last = piece[-1:]
                take(piece)
            if end < len(self._chunk):
                return

    def _quoted(self, take: Callable[[bytes], None]) -> tuple[int, int]:
        def count_lines(piece: bytes) -> None:
            self.line += piece.count(b"\n")
            take(piece)

        self._at += 1
        start = self._offset
        while True:
            self._until(b'"', count_lines)
            if not self._peek():
                raise DataError(f"{self.where}: a quote is never closed, the file may be truncated")
            end = self._offset
            self._at += 1
            if self._peek() != b'"':
                return start, end
            take(b'"')
            self._at += 1
