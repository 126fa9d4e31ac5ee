"""Pictures like those of scanners, the same in every environment: only sums and products of whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def scan(height: int, width: int) -> NDArray[np.uint8]:
    """Return a grey picture of three channels: bright and dark discs on an uneven ground, with fine stripes."""
    y, x = np.mgrid[:height, :width]
    y, x = 1000 * y // height, 1000 * x // width
    picture = 40 + x // 20 + (y % 40 // 20) * 6
    for down, across, reach, brightness in ((450, 500, 380, 70), (380, 380, 120, 60), (560, 620, 90, -90)):
        picture = picture + brightness * ((y - down) ** 2 + (x - across) ** 2 < reach**2)
    return np.repeat(np.clip(picture, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
