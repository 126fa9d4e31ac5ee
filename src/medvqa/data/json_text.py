"""JSON -> values: a document, or a value in each line (JSON lines).

Refuses JSON that parsers read differently: NaN, half a surrogate pair, two values under one key.
"""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from medvqa.data import limits
from medvqa.items import DataError, of_data

ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
"""Exceptions of parsers for JSON that is damaged, not UTF-8 or nested too deep."""


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


def values(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line; DataError for a line that is not JSON."""
    decode = msgspec.json.Decoder().decode
    for number, line in lines(file, name, limits.MAX_TEXT):
        where = f"{name} line {number}"
        try:
            value = decode(line)
        except ERRORS as error:
            raise _not_json(where, error) from error
        # Each member has a colon: only a line with more colons needs the slower parser.
        if isinstance(value, dict) and line.count(b":") > len(value):
            _parsed(line, where)
        yield number, value


def document(file: BinaryIO, name: str, hint: str) -> Any:
    """Return the value of a whole file; DataError for a file above MAX_DOCUMENT, or one that is not JSON."""
    content = file.read(limits.MAX_DOCUMENT + 1)
    if len(content) > limits.MAX_DOCUMENT:
        raise limits.larger(name, limits.MAX_DOCUMENT, "; write JSON lines")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{name} line {line}: not UTF-8: {error.reason}{hint}") from None
    value = _parsed(content, name, hint)
    try:
        # The stricter parser: records are written with it.
        msgspec.json.decode(content)
    except ERRORS as error:
        raise _not_json(name, error, hint) from error
    return value


def first(file: BinaryIO, name: str) -> tuple[dict[str, Any] | None, bool]:
    """Return the object in the first line, None if there is none, and whether more lines follow."""
    content = lines(file, name, limits.MAX_RESULT)
    try:
        _, line = next(content)
        value = msgspec.json.decode(line)
    except (*ERRORS, DataError, StopIteration):
        return None, False
    return (value, next(content, None) is not None) if isinstance(value, dict) else (None, False)


def once(members: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return the members of a JSON object; DataError, which begins with `where`, for a key that occurs twice."""
    members_by_key = dict(members)
    if len(members_by_key) < len(members):
        key, _ = Counter(key for key, _ in members).most_common(1)[0]
        raise DataError(f"{where}: the key {of_data(repr(key))} occurs twice")
    return members_by_key


def _parsed(content: bytes, where: str, hint: str = "") -> Any:
    # A plain parse keeps the last of several values under one key and says nothing.
    try:
        return json.loads(content.decode(), object_pairs_hook=lambda members: once(members, where))
    except ERRORS as error:
        raise _not_json(where, error, hint) from error


def _not_json(where: str, error: Exception, hint: str = "") -> DataError:
    reason = f"UTF-8: {error.reason}" if isinstance(error, UnicodeDecodeError) else f"JSON: {error}"
    return DataError(f"{where}: not {reason}{hint}")
