"""Hide regions of a picture, or as much of it elsewhere.

The place elsewhere has the size and shape of the regions, and meets none of them. The question's seed draws CANDIDATES
places; the one is taken whose brightness has the mean and the standard deviation nearest to the regions'. It is the
same for all fills, so that runs are paired.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from medvqa.perturbing import Box, regions
from medvqa.perturbing.pixels import Pixels

CANDIDATES = 200


def masked(pixels: Pixels, boxes: Sequence[Box], random: Generator, name: str) -> Pixels:
    """Return the picture with its regions hidden, or a place elsewhere; `name`: MASK:FILL.

    Raises ValueError if the boxes are not in the picture, or if it has no place elsewhere.
    """
    height, width = pixels.shape[:2]
    mask, _, fill = name.partition(":")
    if not boxes or not regions.are_inside(boxes, (width, height)):
        raise ValueError(f"its region is not within its {width} x {height} pixels")
    hidden = elsewhere(pixels, boxes, random) if mask == "mask_elsewhere" else boxes
    if not hidden:
        raise ValueError("it has no place of the region's size elsewhere")
    filled = np.zeros_like(pixels)
    if fill == "mean":
        filled[:] = np.rint(pixels.mean(axis=(0, 1)))
    elif fill == "blur":
        radius = max(max(box[2:]) for box in boxes) / 4
        filled = np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))
    elif fill == "noise":
        filled = pixels.reshape(-1, 3)[random.integers(0, height * width, (height, width))]
    changed = pixels.copy()
    for left, top, across, down in hidden:
        where = slice(top, top + down), slice(left, left + across)
        changed[where] = filled[where]
    return changed


def elsewhere(pixels: Pixels, boxes: Sequence[Box], random: Generator) -> tuple[Box, ...]:
    """Return the boxes, moved together to the place that is most like theirs; () if there is no place."""
    free = free_places(boxes, (pixels.shape[1], pixels.shape[0]))
    if not free.any():
        return ()
    rows, columns = np.divmod(random.choice(np.flatnonzero(free), CANDIDATES), free.shape[1])
    # The last is no move.
    x, y = _corner(boxes)
    moves = np.stack([np.append(columns, x) - x, np.append(rows, y) - y], axis=1)
    mean, square = (_means(pixels, boxes, moves, power) for power in (1, 2))
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    far = np.hypot(mean - mean[-1], spread - spread[-1])[:-1]
    right, down = map(int, moves[int(np.argmin(far))])
    return tuple((left + right, top + down, width, height) for left, top, width, height in boxes)


def free_places(boxes: Sequence[Box], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return where the corner of all boxes together may lie, (rows, columns), for a picture of this width and height.

    The boxes then are in the picture, and clear of every box where it was.
    """
    x, y = _corner(boxes)
    columns = size[0] - max(left + width for left, _, width, _ in boxes) + x + 1
    rows = size[1] - max(top + height for _, top, _, height in boxes) + y + 1
    free = np.ones((max(rows, 0), max(columns, 0)), bool)
    for left, top, width, height in boxes:
        for other_left, other_top, other_width, other_height in boxes:
            # The two meet within a rectangle of places.
            right, down = other_left - left + x, other_top - top + y
            across = slice(max(right - width + 1, 0), max(right + other_width, 0))
            free[max(down - height + 1, 0) : max(down + other_height, 0), across] = False
    return free


def _corner(boxes: Sequence[Box]) -> tuple[int, int]:
    """Return the left and the top of all boxes together."""
    return min(box[0] for box in boxes), min(box[1] for box in boxes)


def _means(pixels: Pixels, boxes: Sequence[Box], moves: NDArray[np.int64], power: int) -> NDArray[np.float64]:
    """Return the mean of a power of the brightness under the boxes after each move, (moves,).

    One table of sums at a time: those of a large picture need much memory.
    """
    sums = np.zeros((pixels.shape[0] + 1, pixels.shape[1] + 1))
    inner = sums[1:, 1:]
    pixels.mean(axis=2, out=inner)
    inner **= power
    for axis in (0, 1):
        inner.cumsum(axis, out=inner)
    count, total = 0, np.zeros(len(moves))
    for left, top, width, height in boxes:
        x, y = left + moves[:, 0], top + moves[:, 1]
        count += width * height
        total += sums[y + height, x + width] - sums[y, x + width] - sums[y + height, x] + sums[y, x]
    return total / count
