"""Text files in other encodings than UTF-8: read if the encoding is declared, else refused with a guess."""

from __future__ import annotations

import codecs
import io
import os
import re
from typing import BinaryIO

from medvqa.items import DataError
from medvqa.tables import limits, parquet, workbooks

KNOWN = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "cp1250", "cp1251", "iso-8859-1", "iso-8859-15"),
    *("mac-roman", "gbk", "gb18030", "big5", "shift_jis", "euc-jp", "euc-kr"),
)
"""The encodings that a table may be declared to have."""

_SAMPLE = 2**16
"""Bytes that a guess looks at."""
_HIGH = re.compile(rb"[\x80-\xff]+")


def decoded(file: BinaryIO, encoding: str, name: str) -> BinaryIO:
    """Return the content of a text file in UTF-8; DataError, which begins with `name`, if it is not in `encoding`.

    The text is held in memory: at most MAX_DOCUMENT bytes are read.
    """
    content = file.read(limits.MAX_DOCUMENT + 1)
    if len(content) > limits.MAX_DOCUMENT:
        raise limits.larger(name, limits.MAX_DOCUMENT, "; write it as UTF-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise DataError(f"{name} line {line}: not {encoding}, which is declared: {error.reason}") from None
    return io.BytesIO(text.encode("utf-8", "surrogatepass"))


def advice(file: BinaryIO) -> str:
    """Return the end of an error about a file that is not UTF-8: its likely encoding, and how to save or declare it."""
    file.seek(0)
    encoding, known_as = guessed(file.read(_SAMPLE))
    return (
        f". It looks like {known_as}: save it as UTF-8 (in Excel: CSV UTF-8), or declare encoding = "
        f'"{encoding}" in a benchmark file'
    )


def detected(file: BinaryIO) -> tuple[str, int]:
    """Return the likely encoding of a text file that is not UTF-8, and the line where that shows; "" and 0 for others.

    Files that are no text have none, and neither has text that no likely encoding fits, or above MAX_DOCUMENT.
    """
    is_packed = file.read(4) in (workbooks.START, workbooks.OLD_START, parquet.START)
    if is_packed or os.fstat(file.fileno()).st_size > limits.MAX_DOCUMENT or not (line := undecodable(file)):
        return "", 0
    file.seek(0)
    content = file.read()
    encoding, _ = guessed(content)
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return "", 0
    return encoding, line


def is_utf_16(content: bytes) -> bool:
    """Return whether text begins with the mark of UTF-16."""
    return content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def guessed(content: bytes) -> tuple[str, str]:
    """Return the likely encoding of text that is not UTF-8, and its name for people.

    Chinese characters in GBK are pairs of bytes, both mostly above 0x80, and the first of a frequent one is 0xB0 to
    0xD7. Accented letters of Western encodings mostly stand alone, and small ones begin at 0xDF.
    """
    if is_utf_16(content):
        return "utf-16", 'UTF-16 (Excel calls it "Unicode Text")'
    runs = _HIGH.findall(content)
    firsts = b"".join(run[::2] for run in runs if len(run) % 2 == 0)
    frequent = sum(0xA1 <= byte <= 0xA9 or 0xB0 <= byte <= 0xD7 for byte in firsts)
    if 4 * frequent > sum(map(len, runs)):
        return "gb18030", "Chinese text in GBK"
    return "cp1252", "Windows-1252, the encoding of Excel's plain CSV"


def undecodable(file: BinaryIO) -> int:
    """Return the line of the first byte of a text that is not UTF-8, 0 without one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    file.seek(0)
    try:
        while chunk := file.read(2**16):
            line += decoder.decode(chunk).count("\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return line + error.object[: error.start].count(b"\n")
    return 0
