"""A picture for tests of changed pixels: even areas, edges, fine and coarse structure, colours, black and white."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def drawn(height: int = 224, width: int = 224, *, stripes: bool = True) -> NDArray[np.uint8]:
    """Return the picture of any size, (height, width, 3); the same parts at the same places by share of the sides.

    Blocks of pixels and blurs meet the fine `stripes` in phase or not: without them, more of a change changes more.
    """
    down, right = np.mgrid[0:height, 0:width].astype(float)
    down, right = (down + 0.5) / height, (right + 0.5) / width
    picture = np.stack([60 + 150 * right, 80 + 100 * down, 90 + 60 * np.sin(9 * (right + down))], axis=2)
    for y, x, radius, colour in (
        (0.3, 0.3, 0.16, (225, 40, 60)),
        (0.62, 0.4, 0.12, (20, 160, 90)),
        (0.45, 0.75, 0.14, (128, 128, 128)),
        (0.8, 0.75, 0.07, (255, 255, 255)),
        (0.78, 0.15, 0.08, (0, 0, 0)),
    ):
        picture[(down - y) ** 2 + (right - x) ** 2 < radius**2] = colour
    if stripes:
        picture[(down < 0.12) & (np.sin(2 * np.pi * 28 * right) > 0)] = (240, 230, 40)
    return np.rint(np.clip(picture, 0, 255)).astype(np.uint8)
