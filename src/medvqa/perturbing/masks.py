"""Hide regions of a picture, or as much of it elsewhere.

The place elsewhere has the size and shape of the regions, and meets none of them. The question's seed draws CANDIDATES
places; the one is taken whose brightness has the mean and the standard deviation nearest to the regions'. It is the
same for all fills, so that runs are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from medvqa.perturbing import Box, PixelChange, regions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

CANDIDATES = 200


FILLS = ("mean", "blur", "noise", "black")
"""What stands in the place of hidden pixels: the picture's mean colour, a blur, pixels drawn from the picture, black.

The blur has a standard deviation of a quarter of the longest side of a box: light and dark stay, shapes do not.
"""
DEFAULT_FILL = "mean"
MASKS = {"mask_region": "region hidden", "mask_elsewhere": "as large a place elsewhere hidden"}
"""The masks, and what they do in a few words."""


def masked(pixels: Pixels, boxes: Sequence[Box], random: np.random.Generator, *, mask: str, fill: str) -> Pixels:
    """Return the picture with its regions hidden, or a place elsewhere.

    Raises ValueError if the boxes are not in the picture, or if it has no place elsewhere.
    """
    import numpy as np
    from PIL import Image, ImageFilter

    height, width = pixels.shape[:2]
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
        drawn = (random.integers(0, height * width, width) for _ in range(height))
        filled = np.stack([pixels.reshape(-1, 3)[row] for row in drawn])
    changed = pixels.copy()
    for left, top, across, down in hidden:
        where = slice(top, top + down), slice(left, left + across)
        changed[where] = filled[where]
    return changed


CHANGES = tuple(
    PixelChange(f"{mask}:{fill}", "ours", f"{words} ({fill})", partial(masked, mask=mask, fill=fill), {})
    for mask, words in MASKS.items()
    for fill in FILLS
)
"""Each mask with each fill."""


def elsewhere(pixels: Pixels, boxes: Sequence[Box], random: np.random.Generator) -> tuple[Box, ...]:
    """Return the boxes, moved together to the place that is most like theirs; () if there is no place."""
    import numpy as np

    free = regions.free_moves(boxes, (pixels.shape[1], pixels.shape[0]))
    if not free.any():
        return ()
    drawn = random.integers(0, free.size, 50 * CANDIDATES)
    places = drawn[free.ravel()[drawn]][:CANDIDATES]
    if len(places) < CANDIDATES:
        # Few moves are free, so that a list of all is short.
        places = random.permutation(np.flatnonzero(free))[:CANDIDATES]
    rows, columns = np.divmod(places, free.shape[1])
    start = regions.corner(boxes)
    moves = np.stack([columns - start[0], rows - start[1]], axis=1)
    # The last is no move.
    shifts = np.append(moves, np.zeros((1, 2), np.int64), axis=0)
    mean, square = (_means(pixels, boxes, shifts, power) for power in (1, 2))
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    far = np.hypot(mean - mean[-1], spread - spread[-1])[:-1]
    right, down = map(int, moves[int(np.argmin(far))])
    return tuple((left + right, top + down, width, height) for left, top, width, height in boxes)


def _means(pixels: Pixels, boxes: Sequence[Box], shifts: NDArray[np.int64], power: int) -> NDArray[np.float64]:
    """Return the mean of a power of the brightness under the boxes after each shift, (shifts,).

    One table of sums at a time: those of a large picture need much memory.
    """
    import numpy as np

    sums = np.zeros((pixels.shape[0] + 1, pixels.shape[1] + 1))
    inner = sums[1:, 1:]
    pixels.mean(axis=2, out=inner)
    inner **= power
    for axis in (0, 1):
        inner.cumsum(axis, out=inner)
    count, total = 0, np.zeros(len(shifts))
    for left, top, width, height in boxes:
        x, y = left + shifts[:, 0], top + shifts[:, 1]
        count += width * height
        total += sums[y + height, x + width] - sums[y, x + width] - sums[y + height, x] + sums[y, x]
    return total / count
