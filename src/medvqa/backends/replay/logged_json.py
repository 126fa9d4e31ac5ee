"""Decode JSON that Python's json module wrote, which may hold NaN and Infinity: they are read as null."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from medvqa import decode
from medvqa.items import DataError
from medvqa.printing import line

T = TypeVar("T")


def decoded(content: bytes, where: str, type: type[T]) -> T:
    """Return the value as a type; DataError, which begins with `where`, for other content."""
    try:
        return msgspec.json.decode(content, type=type)
    except decode.ERRORS as error:
        first = error
    try:
        value = json.loads(content, parse_constant=lambda _: None)
        # Encoded anew: half a surrogate pair is refused.
        return msgspec.json.decode(msgspec.json.encode(value), type=type)
    except decode.ERRORS:
        raise DataError(line(f"{where}: {first}")) from None
