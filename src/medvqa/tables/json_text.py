"""JSON -> values: a document, or a value in each line (JSON lines).

Refuses JSON that parsers read differently: NaN, half a surrogate pair, two values under one key.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from medvqa import decode
from medvqa.items import DataError
from medvqa.tables import limits
from medvqa.tables.problems import Problems, TableProblem


def lines(file: BinaryIO, name: str, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the stripped content of each line that is not blank, without a byte order mark.

    DataError, which begins with `name`, for a line of more than `longest` bytes.
    """
    for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), 1):
        if len(line) > longest:
            raise limits.longer(f"{name} line {number}", longest)
        content = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
        if content:
            yield number, content


def values(file: BinaryIO, name: str, problems: Problems | None = None) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line; a line that is not JSON is a problem (default: DataError)."""
    problems = Problems(name) if problems is None else problems
    value_of = msgspec.json.Decoder().decode
    for number, line in lines(file, name, limits.MAX_TEXT):
        where = f"{name} line {number}"
        try:
            value = value_of(line)
            # Each member has a colon: only a line with more colons needs the slower parser.
            if isinstance(value, dict) and line.count(b":") > len(value):
                decode.parsed(line, where, "JSON", DataError)
        except (*decode.ERRORS, DataError) as error:
            problems.add(TableProblem("json", number, "", _reason(error, where), "", unit="line"))
        else:
            yield number, value


def _reason(error: Exception, where: str) -> str:
    if isinstance(error, DataError):
        return str(error).removeprefix(f"{where}: ")
    return f"not UTF-8: {error.reason}" if isinstance(error, UnicodeDecodeError) else f"not JSON: {error}"


def document(file: BinaryIO, name: str, hint: str) -> Any:
    """Return the value of a whole file; DataError for a file above MAX_DOCUMENT, or one that is not JSON."""
    content = file.read(limits.MAX_DOCUMENT + 1)
    if len(content) > limits.MAX_DOCUMENT:
        raise limits.larger(name, limits.MAX_DOCUMENT, "; write JSON lines")
    return decode.parsed(content, name, "JSON", DataError, hint)


def first(file: BinaryIO, name: str) -> tuple[dict[str, Any] | None, bool]:
    """Return the object in the first line, None if there is none, and whether more lines follow."""
    content = lines(file, name, limits.MAX_RESULT)
    try:
        _, line = next(content)
        value = msgspec.json.decode(line)
    except (*decode.ERRORS, DataError, StopIteration):
        return None, False
    return (value, next(content, None) is not None) if isinstance(value, dict) else (None, False)
