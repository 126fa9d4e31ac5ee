"""The changes of MedMNIST-C, written anew from their definitions, with its parameters by data set and level.

Source: https://arxiv.org/abs/2406.17536, and the package medmnistc 0.1.0 (corruptions/). Its pictures have 224 x 224
pixels: parameters in pixels grow with the shorter side of a picture (`pixels.scale_of`). Noise is of single pixels in a
picture of any size. Other things than published, as its own assets are its own: the outlines of `stain_deposit` and the
font of `characters`.
"""

from __future__ import annotations

import io
import math
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.perturbing import PixelChange
from medvqa.perturbing.pixels import blurred, correlated, in_bands, scale_of, to_pixels, with_pillow

if TYPE_CHECKING:
    import numpy as np

    from medvqa.perturbing.pixels import Pixels, Values

GREY = frozenset(
    {
        *("tissuemnist", "octmnist", "breastmnist", "chestmnist", "pneumoniamnist"),
        *("organamnist", "organcmnist", "organsmnist"),
    }
)
"""Sets of grey pictures: a picture that was grey is made grey again after its change."""

MARGIN = 10
"""Least distance of blots and texts from the borders, in pixels of a picture of 224."""
QUANTILES = 2**12
"""Steps of the random numbers of shot noise; a larger table is slower, as it fits no cache."""
MARKS, TEXTS, LETTERS, BUBBLES = 5, 6, 10, 25
"""The most of them at any level: numbers are drawn for all, so that each level has the same as the one below."""


def _gaussian_noise(pixels: Pixels, spread: float, random: np.random.Generator) -> Pixels:
    return in_bands(pixels, lambda band: to_pixels(_normal(band, 255 * spread, random) + band))


def _speckle_noise(pixels: Pixels, spread: float, random: np.random.Generator) -> Pixels:
    return in_bands(pixels, lambda band: to_pixels((_normal(band, spread, random) + 1) * band))


def _normal(band: Pixels, spread: float, random: np.random.Generator) -> Values:
    import numpy as np

    return random.standard_normal(band.shape, dtype=np.float32) * np.float32(spread)


def _shot_noise(pixels: Pixels, photons: float, random: np.random.Generator) -> Pixels:
    """`photons`: the mean number of a white pixel."""
    import numpy as np

    shown = _poisson(photons).ravel()

    def noisy(band: Pixels) -> Pixels:
        places = band.astype(np.int64)
        places *= QUANTILES
        places += random.integers(0, QUANTILES, band.shape, dtype=np.uint16)
        return shown.take(places, mode="clip")

    return in_bands(pixels, noisy)


@lru_cache(maxsize=2)
def _poisson(photons: float) -> Pixels:
    """Return quantiles of what a grey value becomes, (256, QUANTILES): drawing from Poisson takes ten times as long."""
    import numpy as np
    from scipy import special

    counts = np.arange(int(2.5 * photons) + 30)
    table = np.empty((256, QUANTILES), np.uint8)
    values = to_pixels((counts * (255 / photons)).astype(np.float32))
    for grey in range(256):
        below = np.rint(special.pdtr(counts, grey * photons / 255) * QUANTILES).astype(int)
        below[-1] = QUANTILES
        table[grey] = np.repeat(values, np.diff(below, prepend=0))
    return table


def _impulse_noise(pixels: Pixels, share: float, random: np.random.Generator) -> Pixels:
    """`share`: of the values of all channels, half of which become white and half black."""

    def noisy(band: Pixels) -> Pixels:
        hit, white = random.random(band.shape) <= share, random.random(band.shape) <= 0.5
        changed = band.copy()
        changed[hit & white], changed[hit & ~white] = 255, 0
        return changed

    return in_bands(pixels, noisy)


def _jpeg_compression(pixels: Pixels, quality: int, random: np.random.Generator) -> Pixels:
    import numpy as np
    import PIL.Image

    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    with PIL.Image.open(file, formats=("JPEG",)) as opened:
        return np.asarray(opened)


def _pixelate(pixels: Pixels, share: float, random: np.random.Generator) -> Pixels:
    """`share`: the blocks along the shorter side, as a share of 224; none are smaller than a pixel."""
    import PIL.Image

    height, width = pixels.shape[:2]
    share = min(1, share / scale_of(pixels))
    small = max(1, int(width * share)), max(1, int(height * share))
    box = PIL.Image.Resampling.BOX
    return with_pillow(pixels, lambda picture: picture.resize(small, box).resize((width, height), box))


def _gaussian_blur(pixels: Pixels, size: int, random: np.random.Generator) -> Pixels:
    """`size`: of the kernel, whose standard deviation is 0.15 size + 0.35."""
    import numpy as np
    from scipy import ndimage

    def blur(pixels: Pixels, scale: float) -> Values:
        sigma, radius = (0.15 * size + 0.35) * scale, round((size - 1) / 2 * scale)
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
        weights /= weights.sum()
        values = pixels.astype(np.float32)
        for axis in (0, 1):
            values = ndimage.correlate1d(values, weights, axis, mode="mirror")
        return np.rint(values)

    return blurred(pixels, blur)


def _defocus_blur(pixels: Pixels, disc: tuple[float, float], random: np.random.Generator) -> Pixels:
    """`disc`: its radius, and the standard deviation in pixels that its edge is softened by."""
    import numpy as np
    from scipy import ndimage

    def blur(pixels: Pixels, scale: float) -> Values:
        radius, alias = (value * scale for value in disc)
        # The kernel has 17 x 17 pixels, and its edge is softened by 3 x 3. A disc of radius 8 fills it, so that its sum
        # is above 1: published pictures of that level are 1 % brighter.
        reach, softened = round(8 * scale), max(1, round(scale))
        along = np.arange(-reach, reach + 1)
        kernel = (along[:, None] ** 2 + along**2 <= radius**2).astype(np.float32)
        kernel /= kernel.sum()
        weights = np.exp(-0.5 * (np.arange(-softened, softened + 1) / alias) ** 2)
        for axis in (0, 1):
            kernel = ndimage.correlate1d(kernel, weights / weights.sum(), axis, mode="mirror")
        return correlated(pixels, kernel, "reflect")

    return blurred(pixels, blur)


def _motion_blur(pixels: Pixels, motion: tuple[float, float], random: np.random.Generator) -> Pixels:
    """`motion`: radius and standard deviation of ImageMagick's MotionBlurImage, in a direction of -45 to 45 degrees.

    Its weights are half of a normal density, at whole pixels along a line from the pixel.
    https://github.com/ImageMagick/ImageMagick6/blob/6.9.11-60/magick/effect.c (MotionBlurImageChannel)
    """
    import numpy as np

    angle = math.radians(random.random() * 90 - 45)

    def blur(pixels: Pixels, scale: float) -> Values:
        radius, sigma = (value * scale for value in motion)
        steps = np.arange(2 * math.ceil(radius) + 1)
        weights = np.exp(-0.5 * (steps / sigma) ** 2)
        right, down = (np.ceil(steps * part - 0.5).astype(int) for part in (math.cos(angle), math.sin(angle)))
        reach = len(steps)
        kernel = np.zeros((2 * reach + 1, 2 * reach + 1), np.float32)
        np.add.at(kernel, (reach + down, reach + right), weights / weights.sum())
        return correlated(pixels, kernel, "edge")

    return blurred(pixels, blur)


def _zoom_blur(pixels: Pixels, zooms: tuple[float, int], random: np.random.Generator) -> Pixels:
    """`zooms`: the step between enlargements, which begin with 1, and their number."""
    import numpy as np
    import PIL.Image

    def blur(pixels: Pixels, scale: float) -> Values:
        picture = PIL.Image.fromarray(pixels)
        total = 2 * pixels.astype(np.float32)
        for number in range(1, zooms[1]):
            boxes = [_middle(side, 1 + number * zooms[0]) for side in picture.size]
            box = (boxes[0][0], boxes[1][0], boxes[0][1], boxes[1][1])
            total += np.asarray(picture.resize(picture.size, PIL.Image.Resampling.BILINEAR, box=box))
        total /= zooms[1] + 1
        return total

    return blurred(pixels, blur)


def _middle(side: int, zoom: float) -> tuple[float, float]:
    """Return the part of a side that is enlarged to the whole: both ends of the part are pixels of the result."""
    cut = math.ceil(side / zoom)
    enlarged = round(cut * zoom)
    step = (cut - 1) / max(1, enlarged - 1)
    start = (side - cut) // 2 + (enlarged - side) // 2 * step + (1 - step) / 2
    return max(0.0, start), min(float(side), start + side * step)


def _brightness(pixels: Pixels, factor: float, random: np.random.Generator) -> Pixels:
    from PIL import ImageEnhance

    return with_pillow(pixels, lambda picture: ImageEnhance.Brightness(picture).enhance(factor))


def _contrast(pixels: Pixels, factor: float, random: np.random.Generator) -> Pixels:
    """`factor`: of the distance from the picture's mean grey."""
    from PIL import ImageEnhance

    return with_pillow(pixels, lambda picture: ImageEnhance.Contrast(picture).enhance(factor))


def _gamma_correction(pixels: Pixels, gamma: float, random: np.random.Generator) -> Pixels:
    table = [int(255.999 * (value / 255) ** gamma) for value in range(256)]
    return with_pillow(pixels, lambda picture: picture.point(table * 3))


def _saturate(pixels: Pixels, more: float, random: np.random.Generator) -> Pixels:
    """`more`: what is added to the saturation of each pixel, from 0 to 1. Grey has the hue of red."""
    import numpy as np

    def saturated(band: Pixels) -> Pixels:
        red, green, blue = (band[..., channel].astype(np.float32) for channel in range(3))
        largest = np.maximum(np.maximum(red, green), blue)
        spread = largest - np.minimum(np.minimum(red, green), blue)
        grey = spread == 0
        # The saturation is that of the largest channel; the others lie below it in the same proportion as before.
        lowered = largest * np.minimum(spread / np.maximum(largest, 1) + more, 1)
        lowered /= np.where(grey, 1, spread)
        changed = np.empty(band.shape, np.float32)
        for place, (values, of_grey) in enumerate(((red, 0), (green, 1), (blue, 1))):
            changed[..., place] = largest - lowered * np.where(grey, of_grey, largest - values)
        return to_pixels(changed)

    return in_bands(pixels, saturated)


def _between(draw: float, low: int, high: int) -> int:
    """Return a whole number from low to high, both included, for a number drawn from 0 to 1."""
    return low + int(draw * (max(low, high) - low + 1))


def _stain_deposit(pixels: Pixels, marks: tuple[int, int], random: np.random.Generator) -> Pixels:
    """`marks`: the most black blots, and the size of each in pixels."""
    import numpy as np

    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    size, margin = max(1, round(marks[1] * scale)), round(MARGIN * scale)
    draws = random.random((1 + MARKS, 10))
    changed = pixels.copy()
    along = (np.arange(size) + 0.5) * 2 / size - 1
    across = along[:, None]
    angles, distances = np.arctan2(across, along), np.hypot(across, along)
    for left, top, *waves in draws[1 : 1 + _between(draws[0, 0], 1, marks[0])]:
        x = _between(left, margin, width - size - margin)
        y = _between(top, margin, height - size - margin)
        edge = 0.8 + sum(
            0.1 * waves[n] * np.cos((n + 2) * angles + 2 * math.pi * waves[n + 4]) for n in range(len(waves) // 2)
        )
        window = changed[y : y + size, x : x + size]
        window[(distances <= edge)[: window.shape[0], : window.shape[1]]] = 0
    return changed


def _bubble(pixels: Pixels, bubbles: tuple[int, int], random: np.random.Generator) -> Pixels:
    """`bubbles`: their largest radius in pixels, and their largest number. They are white and let the picture through.

    A later one stands before the earlier ones; each has a brighter border of 2 pixels.
    """
    import PIL.Image
    from PIL import ImageDraw

    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    draws = random.random(1 + 3 * BUBBLES)
    border, white = max(1, round(2 * scale)), PIL.Image.new("L", (width, height), 0)
    canvas = ImageDraw.Draw(white)
    for number in range(_between(draws[0], 7, bubbles[1])):
        of_radius, left, top = draws[1 + 3 * number : 4 + 3 * number]
        radius = round(_between(of_radius, 3, bubbles[0]) * scale)
        x, y = _between(left, radius, width - radius), _between(top, radius, height - radius)
        for reach, fill in ((radius + border, 130), (radius, 100)):
            canvas.ellipse((x - reach, y - reach, x + reach, y + reach), fill=fill)
    even = PIL.Image.new("RGB", white.size, "white")
    return with_pillow(pixels, lambda picture: PIL.Image.composite(even, picture, white))


def _black_corner(pixels: Pixels, factor: float, random: np.random.Generator) -> Pixels:
    """`factor`: the radius of the disc that stays, by half of the shorter side."""
    import numpy as np

    height, width = pixels.shape[:2]
    x, y = width // 2, height // 2
    radius = int(min(x, y, width - x, height - y) * factor)
    outside = (np.arange(height) - y)[:, None] ** 2 + (np.arange(width) - x) ** 2 > radius**2
    changed = pixels.copy()
    changed[outside] = 0
    return changed


def _characters(pixels: Pixels, texts: tuple[int, int, float], random: np.random.Generator) -> Pixels:
    """`texts`: the largest number of texts, of their letters, and their size by that of OpenCV's font, 21 pixels."""
    import PIL.Image
    from PIL import ImageDraw, ImageFont

    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    most, longest, largest = texts
    margin, draws = round(MARGIN * scale), random.random((1 + TEXTS, 7 + LETTERS))

    def written(picture: PIL.Image.Image) -> PIL.Image.Image:
        canvas = ImageDraw.Draw(picture)
        for row in draws[1 : 1 + _between(draws[0, 0], 1, most)]:
            letters = _between(row[0], 3, longest)
            text = "".join(chr(ord("a") + int(26 * draw)) for draw in row[7 : 7 + letters])
            # A capital of Pillow's font has 0.7 of its size.
            size = _between(row[1], 14, int(largest * 100)) / 100 * 21 * scale / 0.7
            x = _between(row[2], margin, width - round(8 * letters * scale))
            y = _between(row[3], margin, height - margin)
            colour = (int(256 * row[4]), int(256 * row[5]), int(256 * row[6]))
            canvas.text((x, y), text, fill=colour, font=ImageFont.load_default(max(size, 1)), anchor="ls")
        return picture

    return with_pillow(pixels, written)


_APPLY: Mapping[str, Callable[[Pixels, Any, np.random.Generator], Pixels]] = {
    "gaussian_noise": _gaussian_noise,
    "speckle_noise": _speckle_noise,
    "impulse_noise": _impulse_noise,
    "shot_noise": _shot_noise,
    "jpeg_compression": _jpeg_compression,
    "pixelate": _pixelate,
    "defocus_blur": _defocus_blur,
    "motion_blur": _motion_blur,
    "zoom_blur": _zoom_blur,
    "gaussian_blur": _gaussian_blur,
    "brightness_up": _brightness,
    "brightness_down": _brightness,
    "contrast_up": _contrast,
    "contrast_down": _contrast,
    "saturate": _saturate,
    "gamma_corr_up": _gamma_correction,
    "gamma_corr_down": _gamma_correction,
    "stain_deposit": _stain_deposit,
    "bubble": _bubble,
    "black_corner": _black_corner,
    "characters": _characters,
}


def read() -> tuple[PixelChange, ...]:
    """Read the parameters of all changes."""
    table = tomllib.loads(Path(__file__).with_name("medmnist_c.toml").read_text("utf-8"))
    return tuple(_change(name, **fields) for name, fields in table.items())


def _change(name: str, words: str, **levels: list[Any]) -> PixelChange:
    """Return a change; a key of `levels` may name several sets."""
    parameters = {one: tuple(of) for names, of in levels.items() for one in names.split()}
    return PixelChange(name, "MedMNIST-C", words, _APPLY[name], parameters)
