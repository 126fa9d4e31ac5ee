"""Typed arrays, one after the other in one block."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from medvqa.report.bundle.shape import Shape

ColumnType = Literal["u8", "u16", "u32", "i32", "f32", "f64"]
CODES: dict[ColumnType, str] = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}
"""The type codes of Python's `array`, which are those of `struct` too."""
MOST = 2**53
"""Largest whole number that JavaScript tells from its neighbours."""
_UNSIGNED: dict[ColumnType, int] = {"u8": 2**8, "u16": 2**16, "u32": 2**32}
ALIGNED = 8
"""Each array starts at a multiple of this number of bytes."""


class TypedArray(Shape, frozen=True):
    """Where a typed array lies in the block `columns`."""

    name: str
    type: ColumnType
    start: int
    """The first byte, a multiple of 8."""
    length: int
    """The number of elements."""


class TypedArrays:
    """Collects arrays; OverflowError for a value outside the range of its type."""

    def __init__(self) -> None:
        """No array has come."""
        self.heads: list[TypedArray] = []
        self._block = bytearray()

    def add(self, name: str, type: ColumnType, values: Iterable[Any]) -> None:
        """Append an array, little-endian."""
        typed = array(CODES[type], values)
        if sys.byteorder == "big":
            typed.byteswap()
        self._block.extend(bytes(-len(self._block) % ALIGNED))
        self.heads.append(TypedArray(name, type, len(self._block), len(typed)))
        self._block.extend(typed.tobytes())

    def add_whole(self, name: str, values: Sequence[float]) -> None:
        """Append whole numbers in the smallest unsigned type that holds them, else as f64, at most 2 ** 53."""
        least, most = min(values, default=0), max(values, default=0)
        kinds = [kind for kind, limit in _UNSIGNED.items() if least >= 0 and most < limit]
        if kinds:
            self.add(name, kinds[0], map(int, values))
        else:
            self.add(name, "f64", (max(-MOST, min(MOST, value)) for value in values))

    def add_lists(self, name: str, lists: Iterable[Iterable[int]]) -> None:
        """Append lists as two arrays: `NAME.values`, and `NAME.offsets` (u32), where list i ends at offset i + 1."""
        offsets, values = array("I", [0]), array("I")
        for each in lists:
            values.extend(each)
            offsets.append(len(values))
        self.add(f"{name}.offsets", "u32", offsets)
        self.add_whole(f"{name}.values", values)

    @property
    def block(self) -> bytes:
        """All arrays."""
        return bytes(self._block)


def read(block: bytes, head: TypedArray) -> array[Any]:
    """Read one array of a block."""
    typed = array(CODES[head.type])
    typed.frombytes(block[head.start : head.start + head.length * typed.itemsize])
    if sys.byteorder == "big":
        typed.byteswap()
    return typed
