"""Files of images as a page shows them: the exact pixels, or as many as fit into a number of bytes."""

from __future__ import annotations

import hashlib
import io
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvqa.items import DataError, Image
from medvqa.report.bundle.metadata import Format, without_metadata

if TYPE_CHECKING:
    import PIL.Image

MOST_PIXELS, LONGEST = 25_000_000, 16_384
"""Largest picture of a page, in pixels and by its longest side; a larger one is shrunk."""
LEAST_SIDE = 192
"""Longest side of the smallest picture: a smaller one shows nothing."""
QUALITY = 90
_LEAST_BYTES = 0.05
"""Hardly a PNG has fewer bytes a pixel: larger pictures are not tried."""
_FIRST_SIDE, _TRIES, _ROOM = 320, 5, 1.3
"""A first try tells the bytes a pixel. A try that leaves less than 0.3 of its own bytes is good enough."""


@dataclass(frozen=True)
class PictureFile:
    """A picture, encoded without metadata: its bytes, its format, its width and height."""

    content: bytes
    format: Format
    width: int
    height: int
    exact: bool = True
    """Whether these are all pixels, unchanged."""

    @property
    def name(self) -> str:
        """The name of its file: the SHA-256 of the content."""
        return f"{hashlib.sha256(self.content).hexdigest()}.{self.format}"


def whole(image: Image, pixels: PIL.Image.Image, *, public: bool) -> PictureFile:
    """Return a file with the pixels that the model saw, without loss; a very large picture is shrunk."""
    longest, area = max(pixels.size), pixels.width * pixels.height
    side = min(LONGEST, int(longest * math.sqrt(min(1, MOST_PIXELS / area))))
    if side < longest:
        return _jpeg(pixels, side)
    return exact(image, pixels, public=public) or _png(pixels)


def exact(image: Image, pixels: PIL.Image.Image, *, public: bool, most: int | None = None) -> PictureFile | None:
    """Return a file with the pixels that the model saw, without loss; None if it has clearly more than `most` bytes.

    A `public` image is shown by the coded pixels of its own file if they are the same. Others are encoded as PNG.
    """
    own = without_metadata(_bytes(image)) if public and not image.blank and image.alteration is None else None
    if own is not None:
        content, format = own
        if most is not None and len(content) > most:
            return None
        if _shows(content, pixels):
            return PictureFile(content, format, *pixels.size)
    if most is not None and most < _LEAST_BYTES * pixels.width * pixels.height:
        return None
    return _png(pixels)


def shrunk(pixels: PIL.Image.Image, most: int) -> PictureFile | None:
    """Return a JPEG of at most `most` bytes with about as many pixels as fit; None if even the smallest has more."""
    longest, best = max(pixels.size), None
    side = min(longest, _FIRST_SIDE)
    for _ in range(_TRIES):
        file = _jpeg(pixels, side)
        room = most / len(file.content)
        if room >= 1:
            best = file
            if side == longest or room < _ROOM:
                break
        elif side <= LEAST_SIDE:
            break
        next_side = min(longest, LONGEST, max(LEAST_SIDE, int(0.97 * side * math.sqrt(room))))
        if best is not None and next_side <= max(best.width, best.height):
            break
        side = next_side
    if best is None and len((smallest := _jpeg(pixels, min(longest, LEAST_SIDE))).content) <= most:
        return smallest
    return best


def limited(pixels: PIL.Image.Image, side: int) -> PIL.Image.Image:
    """Return the picture with its longest side at most as long as this."""
    if max(pixels.size) <= side:
        return pixels
    smaller = pixels.copy()
    smaller.thumbnail((side, side), reducing_gap=3.0)
    return smaller


def _bytes(image: Image) -> bytes:
    try:
        return image.read()
    except DataError:
        return b""


def _shows(content: bytes, pixels: PIL.Image.Image) -> bool:
    """Whether a browser shows exactly these pixels for a file."""
    import PIL.Image

    same = False
    # Decoders raise many types.
    with suppress(Exception), PIL.Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as opened:
        # Browsers mix transparent pixels with the page's colour, and read CMYK in ways of their own.
        plain = opened.mode in ("1", "L", "P", "RGB") and getattr(opened, "n_frames", 1) == 1
        same = plain and opened.size == pixels.size and opened.convert("RGB").tobytes() == pixels.tobytes()
    return same


def _png(pixels: PIL.Image.Image) -> PictureFile:
    content = io.BytesIO()
    _grey(pixels).save(content, "PNG")
    return PictureFile(content.getvalue(), "png", *pixels.size)


def _jpeg(pixels: PIL.Image.Image, side: int) -> PictureFile:
    """Encode with a longest side of at most `side`. Colour keeps its full resolution: a contour is one pixel wide."""
    content, smaller = io.BytesIO(), limited(pixels, side)
    _grey(smaller).save(content, "JPEG", quality=QUALITY, subsampling=0, optimize=True)
    return PictureFile(content.getvalue(), "jpg", *smaller.size, exact=False)


def _grey(pixels: PIL.Image.Image) -> PIL.Image.Image:
    """Return a picture without colour as one channel: a third of the bytes."""
    red, green, blue = pixels.split()
    same = red.tobytes()
    return red if same == green.tobytes() == blue.tobytes() else pixels
