"""Tools of changes: the scale of a picture, values to pixels, bands of rows, convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import PIL.Image
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    Values = NDArray[np.float32]

SIZE = 224
"""Parameters in pixels are those of a picture whose shorter side has so many; they grow with it."""
REDUCED = 4
"""A blur of a picture at least so many times as large is computed on a smaller copy of 2 to 3 times SIZE."""
BAND = 2**22
"""Values of a picture that are changed at once, so that a large one needs little memory."""

HAIR = 0.01
"""Of a grey level."""


def scale_of(pixels: Pixels) -> float:
    """Return the shorter side of a picture, in units of SIZE."""
    sides: tuple[int, ...] = pixels.shape[:2]
    return min(sides) / SIZE


def to_pixels(values: Values) -> Pixels:
    """Clip values of 0 to 255 in place, and drop what is behind the point, as the published code does.

    Single precision must not make an even area a grey level darker: HAIR is added.
    """
    import numpy as np

    values += HAIR
    np.clip(values, 0, 255, out=values)
    return values.astype(np.uint8)


def in_bands(pixels: Pixels, change: Callable[[Pixels], Pixels]) -> Pixels:
    """Change a picture by bands of rows, from the top."""
    import numpy as np

    rows = max(1, BAND // max(1, pixels[0].size))
    if rows >= len(pixels):
        return change(pixels)
    return np.concatenate([change(pixels[start : start + rows]) for start in range(0, len(pixels), rows)])


def with_pillow(pixels: Pixels, change: Callable[[PIL.Image.Image], PIL.Image.Image]) -> Pixels:
    """Change a picture by a function of Pillow's."""
    import numpy as np
    import PIL.Image

    return np.asarray(change(PIL.Image.fromarray(pixels)))


def blurred(pixels: Pixels, blur: Callable[[Pixels, float], Values]) -> Pixels:
    """Blur a picture: `blur` takes pixels and their scale, and returns values of 0 to 255.

    A large picture is blurred as a smaller copy, whose loss of detail is much finer than any blur, and enlarged again.
    """
    import numpy as np
    import PIL.Image

    scale = scale_of(pixels)
    if scale < REDUCED:
        return to_pixels(blur(pixels, scale))
    factor = int(scale / 2)
    small = PIL.Image.fromarray(pixels).reduce(factor)
    changed = PIL.Image.fromarray(to_pixels(blur(np.asarray(small), scale / factor)))
    height, width = pixels.shape[:2]
    box = (0, 0, width / factor, height / factor)
    return np.asarray(changed.resize((width, height), PIL.Image.Resampling.BICUBIC, box=box))


def correlated(pixels: Pixels, kernel: Values, border: str) -> Values:
    """Return each pixel's neighbourhood weighted by a square kernel of odd size, by Fourier transforms.

    `border`: how `numpy.pad` continues the picture.
    """
    import numpy as np
    from scipy import fft

    radius = len(kernel) // 2
    height, width = pixels.shape[:2]
    shape = tuple(fft.next_fast_len(side + 2 * radius, real=True) for side in (height, width))
    transformed = fft.rfft2(kernel[::-1, ::-1], shape)
    values = np.empty(pixels.shape, np.float32)
    for channel in range(pixels.shape[2]):
        padded = np.pad(pixels[..., channel], radius, mode=border).astype(np.float32)  # type: ignore[call-overload]
        whole = fft.irfft2(fft.rfft2(padded, shape) * transformed, shape)
        values[..., channel] = whole[2 * radius : 2 * radius + height, 2 * radius : 2 * radius + width]
    return values
