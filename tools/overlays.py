"""Marks that show a model where to look: box, mask overlay and contour of a labelled region.

GMAI-MMBench asks at four perceptual granularities: image level (nothing is drawn), box level, mask level
and contour level (paper, section 3.2 and Table 7). The paper does not print how the marks are drawn; its
case studies speak of green boxes (Figure 15), an organ marked in red (Figure 25) and red outlines. Those
colours are the defaults here.

An image is a PIL image of any mode, its mask a boolean array (H, W), True inside the region. Every
function returns a new RGB image of the same size and does not change its arguments.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Mask = NDArray[np.bool_]
Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels; the last two are one past the region, as in PIL."""
Granularity = Literal["Image level", "Box level", "Mask level", "Contour level"]

GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""Spelled as in GMAI-MMBench's data."""
RED: Colour = (255, 0, 0)
GREEN: Colour = (0, 255, 0)


def bounding_box(mask: Mask) -> Box:
    """Return the smallest box around the True pixels; ValueError if there are none."""
    _check_mask(mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def contour(mask: Mask, width: int = 1) -> Mask:
    """Return the mask's pixels that lie less than `width` steps (up, down, left, right) from a pixel outside.

    Pixels beyond the edge of the image count as outside. ValueError for an empty mask or a width below 1.
    """
    _check_mask(mask)
    _check_width(width)
    inner = mask
    for _ in range(width):
        padded = np.pad(inner, 1)
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inner


def draw_box(image: Image.Image, box: Box, colour: Colour = GREEN, width: int = 2) -> Image.Image:
    """Draw a frame of `width` pixels around the box, outside of it if the image has room.

    ValueError for a box that is empty or reaches beyond the image, or a width below 1.
    """
    _check_width(width)
    left, top, right, bottom = box
    if not (0 <= left < right <= image.width and 0 <= top < bottom <= image.height):
        raise ValueError(f"box {box} does not lie in an image of {image.width} x {image.height} pixels")
    frame = np.zeros((image.height, image.width), dtype=bool)
    left, top = max(left - width, 0), max(top - width, 0)
    right, bottom = min(right + width, image.width), min(bottom + width, image.height)
    frame[top:bottom, left:right] = True
    frame[top + width : bottom - width, left + width : right - width] = False
    return _tint(image, frame, colour, 1.0)


def draw_mask(image: Image.Image, mask: Mask, colour: Colour = RED, alpha: float = 0.5) -> Image.Image:
    """Tint the region: (1 - alpha) of each pixel plus alpha of the colour, alpha in [0, 1].

    ValueError for an empty mask, one of another size than the image, or an alpha out of range.
    """
    _check_mask(mask, image)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; it lies between 0 and 1")
    return _tint(image, mask, colour, alpha)


def draw_contour(image: Image.Image, mask: Mask, colour: Colour = RED, width: int = 1) -> Image.Image:
    """Draw the region's `contour` in one colour; its inside is unchanged.

    ValueError for an empty mask, one of another size than the image, or a width below 1.
    """
    _check_mask(mask, image)
    return _tint(image, contour(mask, width), colour, 1.0)


def mark(image: Image.Image, mask: Mask, granularity: Granularity) -> Image.Image:
    """Mark the image for one of GMAI-MMBench's granularities; ValueError for another name."""
    _check_mask(mask, image)
    if granularity == "Image level":
        return image.convert("RGB")
    if granularity == "Box level":
        return draw_box(image, bounding_box(mask))
    if granularity == "Mask level":
        return draw_mask(image, mask)
    if granularity == "Contour level":
        return draw_contour(image, mask)
    raise ValueError(f"no granularity '{granularity}'; known: {', '.join(GRANULARITIES)}")


def _tint(image: Image.Image, mask: Mask, colour: Colour, alpha: float) -> Image.Image:
    pixels = np.array(image.convert("RGB"))
    pixels[mask] = np.rint((1 - alpha) * pixels[mask] + alpha * np.asarray(colour)).astype(np.uint8)
    return Image.fromarray(pixels)


def _check_mask(mask: Mask, image: Image.Image | None = None) -> None:
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise ValueError(f"a mask is a boolean array (H, W); this one is {mask.dtype} {mask.shape}")
    if image is not None and mask.shape != (image.height, image.width):
        raise ValueError(f"the mask is {mask.shape} (H, W), the image ({image.height}, {image.width})")
    if not mask.any():
        raise ValueError("the mask is empty: no pixel is True")


def _check_width(width: int) -> None:
    if width < 1:
        raise ValueError(f"width is {width}; it is at least 1 pixel")
