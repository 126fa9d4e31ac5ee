"""Tools of changes: the scale of a picture, values to pixels, bands of rows, smaller copies, convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image
from scipy import fft

Pixels = NDArray[np.uint8]
Values = NDArray[np.float32]
Change = Callable[[Pixels, Any, Generator], Pixels]
"""Takes pixels, the parameters of a level, and random numbers."""

SIZE = 224
"""Parameters in pixels are those of a picture whose shorter side has so many; they grow with it."""
REDUCED = 4
"""A picture at least so many times as large as its parameters say is blurred as a copy of 2 to 3 times that size."""
BAND = 2**22
"""Values of a picture that are changed at once, so that a large one needs little memory."""


def scale_of(pixels: Pixels, size: int = SIZE) -> float:
    """Return the shorter side of a picture, in units of `size`."""
    sides: tuple[int, ...] = pixels.shape[:2]
    return min(sides) / size


def to_pixels(values: Values) -> Pixels:
    """Clip values of 0 to 255 in place, and drop what is behind the point, as the published code does.

    Single precision must not make an even area a grey level darker: 0.01 is added.
    """
    values += 0.01
    np.clip(values, 0, 255, out=values)
    return values.astype(np.uint8)


def in_bands(change: Change) -> Change:
    """Let a function change a picture by bands of rows, from the top."""

    @wraps(change)
    def banded(pixels: Pixels, parameters: Any, random: Generator) -> Pixels:
        rows = max(1, BAND // max(1, pixels[0].size))
        starts = range(0, len(pixels), rows)
        return np.concatenate([change(pixels[start : start + rows], parameters, random) for start in starts])

    return banded


def reduced(size: int) -> Callable[[Callable[[Pixels, Any, Generator, float], Values]], Change]:
    """Let a blur, which takes the scale of a picture too and returns values of 0 to 255, change pictures of any size.

    A large picture is blurred as a smaller copy, whose loss of detail is much finer than any blur, and enlarged again.
    `size`: the shorter side of the pictures that its parameters are for.
    """

    def changing(blur: Callable[[Pixels, Any, Generator, float], Values]) -> Change:
        @wraps(blur)
        def blurred(pixels: Pixels, parameters: Any, random: Generator) -> Pixels:
            scale = scale_of(pixels, size)
            if scale < REDUCED:
                return to_pixels(blur(pixels, parameters, random, scale))
            factor = int(scale / 2)
            small = np.asarray(Image.fromarray(pixels).reduce(factor))
            changed = Image.fromarray(to_pixels(blur(small, parameters, random, scale / factor)))
            height, width = pixels.shape[:2]
            box = (0, 0, width / factor, height / factor)
            return np.asarray(changed.resize((width, height), Image.Resampling.BICUBIC, box=box))

        return blurred

    return changing


def correlated(pixels: Pixels, kernel: Values, border: Literal["edge", "reflect"]) -> Values:
    """Return each pixel's neighbourhood weighted by a square kernel of odd size; `border`: as in `numpy.pad`."""
    radius, (height, width) = len(kernel) // 2, pixels.shape[:2]
    channels = np.moveaxis(pixels, 2, 0).astype(np.float32, order="C")
    padded = np.pad(channels, ((0, 0), (radius, radius), (radius, radius)), border)
    shape = [fft.next_fast_len(side + 2 * radius, real=True) for side in (height, width)]
    values: Values = fft.irfft2(fft.rfft2(padded, shape) * fft.rfft2(kernel[::-1, ::-1], shape), shape)
    return np.moveaxis(values[:, 2 * radius :, 2 * radius :][:, :height, :width], 0, 2)
