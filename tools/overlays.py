"""Marks that show a model where to look: box, mask overlay and contour of a labelled region.

GMAI-MMBench asks at four perceptual granularities: image level (nothing is drawn), box level, mask level
and contour level (paper, section 3.2 and Table 7). The paper does not print how the marks are drawn; its
case studies speak of green boxes (Figure 15), an organ marked in red (Figure 25) and red outlines.

An image is a PIL image of any mode, its mask a boolean array (H, W), True inside the region, which is not empty. Every
function returns a new RGB image of the same size and does not change its arguments.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Mask = NDArray[np.bool_]
Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; the last two are one past the region, as in PIL."""
Granularity = Literal["Image level", "Box level", "Mask level", "Contour level"]

GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""Spelled as in GMAI-MMBench's data."""
RED, GREEN = (255, 0, 0), (0, 255, 0)
FRAME = 2
"""Pixels of a box's frame."""


def bounding_box(mask: Mask) -> Box:
    """Return the smallest box around the True pixels."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def contour(mask: Mask) -> Mask:
    """Return the mask's pixels with a pixel outside beside, above or below; those beyond the edge count as outside."""
    padded = np.pad(mask, 1)
    return mask & ~(padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:])


def frame(mask: Mask) -> Mask:
    """Return a frame around the mask's box, outside of it if the image has room."""
    (left, top, right, bottom), (height, width) = bounding_box(mask), mask.shape
    left, top, right, bottom = max(left - FRAME, 0), max(top - FRAME, 0), right + FRAME, bottom + FRAME
    right, bottom = min(right, width), min(bottom, height)
    drawn = np.zeros(mask.shape, dtype=bool)
    drawn[top:bottom, left:right] = True
    drawn[top + FRAME : bottom - FRAME, left + FRAME : right - FRAME] = False
    return drawn


def mark(image: Image.Image, mask: Mask, granularity: Granularity) -> Image.Image:
    """Mark the image for one of GMAI-MMBench's granularities."""
    pixels = np.array(image.convert("RGB"))
    if granularity == "Box level":
        pixels[frame(mask)] = GREEN
    elif granularity == "Mask level":
        pixels[mask] = np.rint(0.5 * pixels[mask] + 0.5 * np.asarray(RED)).astype(np.uint8)
    elif granularity == "Contour level":
        pixels[contour(mask)] = RED
    return Image.fromarray(pixels)
