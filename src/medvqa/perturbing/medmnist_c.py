"""The changes of MedMNIST-C, written anew from their definitions. medmnist_c.toml has its parameters.

Source: https://arxiv.org/abs/2406.17536, and the package medmnistc 0.1.0 (corruptions/). Its pictures have 224 x 224
pixels: parameters in pixels grow with the shorter side of a picture (`pixels.scale_of`). Noise is of single pixels in a
picture of any size. Other things than published, as its own assets are its own: the outlines of `stain_deposit` and the
font of `characters`.
"""

from __future__ import annotations

import io
import math
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageFont
from scipy import ndimage, special

from medvqa.perturbing.pixels import SIZE, Pixels, Values, correlated, in_bands, reduced, scale_of, to_pixels

MARGIN = 10
"""Least distance of blots and texts from the borders, in pixels of a picture of 224."""
QUANTILES = 2**12
"""Steps of the random numbers of shot noise; a larger table is slower, as it fits no cache."""
MARKS, TEXTS, LETTERS, BUBBLES = 5, 6, 10, 25
"""The most of them at any level: numbers are drawn for all, so that each level has the same as the one below."""


@in_bands
def gaussian_noise(pixels: Pixels, spread: float, random: Generator) -> Pixels:
    """`spread`: the standard deviation, as a share of white."""
    return to_pixels(_normal(pixels, 255 * spread, random) + pixels)


@in_bands
def speckle_noise(pixels: Pixels, spread: float, random: Generator) -> Pixels:
    """`spread`: the standard deviation, as a share of each value."""
    return to_pixels((_normal(pixels, spread, random) + 1) * pixels)


def _normal(pixels: Pixels, spread: float, random: Generator) -> Values:
    return random.standard_normal(pixels.shape, dtype=np.float32) * np.float32(spread)


@in_bands
def shot_noise(pixels: Pixels, photons: float, random: Generator) -> Pixels:
    """`photons`: the mean number of a white pixel."""
    places = pixels.astype(np.int64)
    places *= QUANTILES
    places += random.integers(0, QUANTILES, pixels.shape, dtype=np.uint16)
    return _poisson(photons).ravel().take(places, mode="clip")


@lru_cache(maxsize=2)
def _poisson(photons: float) -> Pixels:
    """Return quantiles of what a grey value becomes, (256, QUANTILES): drawing from Poisson takes ten times as long."""
    counts = np.arange(int(2.5 * photons) + 30)
    table = np.empty((256, QUANTILES), np.uint8)
    values = to_pixels((counts * (255 / photons)).astype(np.float32))
    for grey in range(256):
        below = np.rint(special.pdtr(counts, grey * photons / 255) * QUANTILES).astype(int)
        below[-1] = QUANTILES
        table[grey] = np.repeat(values, np.diff(below, prepend=0))
    return table


@in_bands
def impulse_noise(pixels: Pixels, share: float, random: Generator) -> Pixels:
    """`share`: of the values of all channels, half of which become white and half black."""
    hit, white = random.random(pixels.shape) <= share, random.random(pixels.shape) <= 0.5
    changed = pixels.copy()
    changed[hit & white], changed[hit & ~white] = 255, 0
    return changed


def jpeg_compression(pixels: Pixels, quality: int, random: Generator) -> Pixels:
    """`quality`: as Pillow counts it."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    with Image.open(file, formats=("JPEG",)) as opened:
        return np.asarray(opened)


def pixelate(pixels: Pixels, share: float, random: Generator) -> Pixels:
    """`share`: the blocks along the shorter side, as a share of 224; none are smaller than a pixel."""
    height, width = pixels.shape[:2]
    share = min(1, share / scale_of(pixels))
    small, box = (max(1, int(width * share)), max(1, int(height * share))), Image.Resampling.BOX
    return np.asarray(Image.fromarray(pixels).resize(small, box).resize((width, height), box))


@reduced(SIZE)
def gaussian_blur(pixels: Pixels, size: int, random: Generator, scale: float) -> Values:
    """`size`: of the kernel, whose standard deviation is 0.15 size + 0.35."""
    weights = _bell(round((size - 1) / 2 * scale), (0.15 * size + 0.35) * scale)
    values = pixels.astype(np.float32)
    for axis in (0, 1):
        values = ndimage.correlate1d(values, weights, axis, mode="mirror")
    return np.rint(values)


def _bell(radius: int, sigma: float) -> NDArray[np.float64]:
    """Return the weights of a normal density at -radius to radius; their sum is 1."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    bell: NDArray[np.float64] = weights / weights.sum()
    return bell


@reduced(SIZE)
def defocus_blur(pixels: Pixels, disc: tuple[float, float], random: Generator, scale: float) -> Values:
    """`disc`: its radius, and the standard deviation in pixels that its edge is softened by."""
    radius, alias = (value * scale for value in disc)
    # The kernel has 17 x 17 pixels, and its edge is softened by 3 x 3. A disc of radius 8 fills it, so that its sum
    # is above 1: published pictures of that level are 1 % brighter.
    reach = round(8 * scale)
    along = np.arange(-reach, reach + 1)
    kernel = (along[:, None] ** 2 + along**2 <= radius**2).astype(np.float32)
    kernel /= kernel.sum()
    for axis in (0, 1):
        kernel = ndimage.correlate1d(kernel, _bell(max(1, round(scale)), alias), axis, mode="mirror")
    return correlated(pixels, kernel, "reflect")


@reduced(SIZE)
def motion_blur(pixels: Pixels, motion: tuple[float, float], random: Generator, scale: float) -> Values:
    """`motion`: radius and standard deviation of ImageMagick's MotionBlurImage, in a direction of -45 to 45 degrees.

    Its weights are half of a normal density, at whole pixels along a line from the pixel.
    https://github.com/ImageMagick/ImageMagick6/blob/6.9.11-60/magick/effect.c (MotionBlurImageChannel)
    """
    angle = math.radians(random.random() * 90 - 45)
    radius, sigma = (value * scale for value in motion)
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    right, down = (np.ceil(steps * part - 0.5).astype(int) for part in (math.cos(angle), math.sin(angle)))
    reach = len(steps)
    kernel = np.zeros((2 * reach + 1, 2 * reach + 1), np.float32)
    np.add.at(kernel, (reach + down, reach + right), weights / weights.sum())
    return correlated(pixels, kernel, "edge")


@reduced(SIZE)
def zoom_blur(pixels: Pixels, zooms: tuple[float, int], random: Generator, scale: float) -> Values:
    """`zooms`: the step between enlargements, which begin with 1, and their number."""
    picture = Image.fromarray(pixels)
    total = 2 * pixels.astype(np.float32)
    for number in range(1, zooms[1]):
        (left, right), (top, bottom) = (_middle(side, 1 + number * zooms[0]) for side in picture.size)
        box = (left, top, right, bottom)
        total += np.asarray(picture.resize(picture.size, Image.Resampling.BILINEAR, box=box))
    total /= zooms[1] + 1
    return total


def _middle(side: int, zoom: float) -> tuple[float, float]:
    """Return the part of a side that is enlarged to the whole: both ends of the part are pixels of the result."""
    cut = math.ceil(side / zoom)
    enlarged = round(cut * zoom)
    step = (cut - 1) / max(1, enlarged - 1)
    start = (side - cut) // 2 + (enlarged - side) // 2 * step + (1 - step) / 2
    return max(0.0, start), min(float(side), start + side * step)


def brightness_up(pixels: Pixels, factor: float, random: Generator) -> Pixels:
    """`factor`: of each value."""
    return np.asarray(ImageEnhance.Brightness(Image.fromarray(pixels)).enhance(factor))


def contrast_up(pixels: Pixels, factor: float, random: Generator) -> Pixels:
    """`factor`: of the distance from the picture's mean grey."""
    return np.asarray(ImageEnhance.Contrast(Image.fromarray(pixels)).enhance(factor))


def gamma_corr_up(pixels: Pixels, gamma: float, random: Generator) -> Pixels:
    """`gamma`: the exponent of values from 0 to 1."""
    return np.array([int(255.999 * (value / 255) ** gamma) for value in range(256)], np.uint8)[pixels]


brightness_down, contrast_down, gamma_corr_down = brightness_up, contrast_up, gamma_corr_up


@in_bands
def saturate(pixels: Pixels, more: float, random: Generator) -> Pixels:
    """`more`: what is added to the saturation of each pixel, from 0 to 1. Grey has the hue of red."""
    channels = np.moveaxis(pixels, 2, 0).astype(np.float32, order="C")
    largest = channels.max(axis=0)
    spread = largest - channels.min(axis=0)
    # The saturation is that of the largest channel; the others lie below it in the same proportion as before.
    below = (largest - channels) / np.maximum(spread, 1)
    below[1:, spread == 0] = 1
    changed = largest - largest * np.minimum(spread / np.maximum(largest, 1) + more, 1) * below
    return np.moveaxis(to_pixels(changed), 0, 2)


def _between(draw: float, low: int, high: int) -> int:
    """Return a whole number from low to high, both included, for a number drawn from 0 to 1."""
    return low + int(draw * (max(low, high) - low + 1))


def stain_deposit(pixels: Pixels, marks: tuple[int, int], random: Generator) -> Pixels:
    """`marks`: the most black blots, and the size of each in pixels."""
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


def bubble(pixels: Pixels, bubbles: tuple[int, int], random: Generator) -> Pixels:
    """`bubbles`: their largest radius in pixels, and their largest number. They are white and let the picture through.

    A later one stands before the earlier ones; each has a brighter border of 2 pixels.
    """
    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    draws = random.random(1 + 3 * BUBBLES)
    border, white = max(1, round(2 * scale)), Image.new("L", (width, height), 0)
    canvas = ImageDraw.Draw(white)
    for number in range(_between(draws[0], 7, bubbles[1])):
        of_radius, left, top = draws[1 + 3 * number : 4 + 3 * number]
        radius = round(_between(of_radius, 3, bubbles[0]) * scale)
        x, y = _between(left, radius, width - radius), _between(top, radius, height - radius)
        for reach, fill in ((radius + border, 130), (radius, 100)):
            canvas.ellipse((x - reach, y - reach, x + reach, y + reach), fill=fill)
    return np.asarray(Image.composite(Image.new("RGB", white.size, "white"), Image.fromarray(pixels), white))


def black_corner(pixels: Pixels, factor: float, random: Generator) -> Pixels:
    """`factor`: the radius of the disc that stays, by half of the shorter side."""
    height, width = pixels.shape[:2]
    x, y = width // 2, height // 2
    radius = int(min(x, y, width - x, height - y) * factor)
    outside = (np.arange(height) - y)[:, None] ** 2 + (np.arange(width) - x) ** 2 > radius**2
    changed = pixels.copy()
    changed[outside] = 0
    return changed


def characters(pixels: Pixels, texts: tuple[int, int, float], random: Generator) -> Pixels:
    """`texts`: the largest number of texts, of their letters, and their size by that of OpenCV's font, 21 pixels."""
    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    most, longest, largest = texts
    margin, draws = round(MARGIN * scale), random.random((1 + TEXTS, 7 + LETTERS))
    picture = Image.fromarray(pixels)
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
    return np.asarray(picture)
