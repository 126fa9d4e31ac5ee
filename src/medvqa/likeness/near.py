"""Pairs of perceptual hashes that differ in few bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from medvqa.likeness.pictures import WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROWS, COLUMNS = 32, 8192
"""Hashes of either side that are compared at a time: their last words fit a processor's cache."""
KEPT = 50
"""Hashes that are kept for each hash, the nearest: a set of images that all look alike must not fill the memory."""


class NearPairs(NamedTuple):
    """Pairs of hashes: places in either array and the bits that differ, sorted by the first place and by bits."""

    one: NDArray[np.intp]
    other: NDArray[np.intp]
    bits: NDArray[np.intp]


def packed(looks: Sequence[str]) -> NDArray[np.uint64]:
    """Return hashes in hex as numbers of 64 bits, (hashes, words)."""
    import numpy as np

    words = np.frombuffer(bytes.fromhex("".join(looks)), dtype=">u8")
    return words.astype(np.uint64).reshape(-1, WORDS)


def within(one: NDArray[np.uint64], other: NDArray[np.uint64], most: int) -> NearPairs:
    """Return the pairs of hashes that differ in at most `most` bits, for each of `one` the KEPT nearest.

    Both are (hashes, words), with the same number of words. The search is exact. It compares the last word of every
    pair, which holds the highest frequencies, and the others only where that one is near: a pair that differs in at
    most `most` bits does so in each of its words.
    """
    import numpy as np

    last = np.ascontiguousarray(other[:, -1])
    blocks = [_block(one[start : start + ROWS], other, last, most) for start in range(0, len(one), ROWS)]
    nothing = np.empty(0, dtype=np.intp)
    if not blocks:
        return NearPairs(nothing, nothing, nothing)
    starts = np.repeat(np.arange(len(blocks)) * ROWS, [len(block.one) for block in blocks])
    first, second, bits = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return NearPairs(first + starts, second, bits)


def _block(rows: NDArray[np.uint64], others: NDArray[np.uint64], last: NDArray[np.uint64], most: int) -> NearPairs:
    """The pairs of a few hashes with all of the other side; `last` has the last words of these."""
    import numpy as np

    first, second, bits = (np.empty(0, dtype=np.intp) for _ in range(3))
    for place in range(0, len(others), COLUMNS):
        columns = others[place : place + COLUMNS]
        near_last = _bits(rows[:, None, -1] ^ last[None, place : place + COLUMNS]) <= most
        # Much faster than np.nonzero, since few pairs are near.
        i, j = np.divmod(np.flatnonzero(near_last), len(columns))
        apart = _bits(rows[i] ^ columns[j]).sum(axis=1, dtype=np.intp)
        near = apart <= most
        if not near.any():
            continue
        first, second = np.append(first, i[near]), np.append(second, j[near] + place)
        bits = np.append(bits, apart[near])
        order = np.lexsort((second, bits, first))
        first, second, bits = first[order], second[order], bits[order]
        rank = np.arange(len(first)) - np.searchsorted(first, first)
        first, second, bits = first[rank < KEPT], second[rank < KEPT], bits[rank < KEPT]
    return NearPairs(first, second, bits)


def _bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bits that are set in each word."""
    import numpy as np

    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words), dtype=np.uint8)
    return counted(words)


def counted(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bits that are set in each word, without numpy 2: sums of neighbours (Hacker's Delight, 5-1)."""
    import numpy as np

    two, four, eight, ones = (
        np.uint64(mask) for mask in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x0101010101010101)
    )
    sums = words - ((words >> np.uint64(1)) & two)
    sums = (sums & four) + ((sums >> np.uint64(2)) & four)
    sums = (sums + (sums >> np.uint64(4))) & eight
    return np.asarray((sums * ones) >> np.uint64(56), dtype=np.uint8)
