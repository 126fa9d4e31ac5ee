"""Artefacts of CT, MRI and ultrasound as MedFM-Robust defines them, and a left-right flip.

Source: arXiv 2605.19027, https://github.com/vfdv52/MedFM-Robust-: the formulas and parameters of its study of
vision-language models (VLM/generate_perturbation.py) if it has the artefact, else those of its study of segmentation
(Segmentation/segmentation_generate_perb_all_V10_adpative_efficient.py) before calibration by SSIM. Three things are
ours. Lengths in pixels hold for a shorter side of SIDE pixels, and scale with it. Random numbers are the same at all
levels. The published last step, a stretch to black and white, is left out: it would undo part of a change.

Photon starvation is left out: as published, it changes values of 0 to 255 by 2.4 at most (one standard deviation). All
others act on pictures of 8 bits, so values that a window has cut off stay lost.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import fft
from scipy.ndimage import gaussian_filter

from medvqa.perturbing.pixels import Pixels, Values, reduced, scale_of

SIDE = 512
"""The shorter side in pixels of the pictures for which lengths are given: that of most CT slices."""


def ct_metal(pixels: Pixels, strength: float, random: Generator) -> Pixels:
    """Add 3 to 7 bright, blurred lines; `strength` is their height as a share of the picture's range."""
    height, width = _reference_shape(pixels)
    canvas = Image.new("L", (width, height))
    for _ in range(random.integers(3, 8)):
        angle = random.uniform(0, np.pi)
        x, y = random.integers(width // 4, 3 * width // 4), random.integers(height // 4, 3 * height // 4)
        half = random.integers(width // 2, width) / 2
        across, down = half * np.cos(angle), half * np.sin(angle)
        line = [(int(x - across), int(y - down)), (int(x + across), int(y + down))]
        # Pillow's width of 3 draws as many pixels as OpenCV's thickness of 2.
        ImageDraw.Draw(canvas).line(line, fill=1, width=3)
    lines = gaussian_filter(np.asarray(canvas, np.float32), 3)
    return _kept(pixels + strength * float(np.ptp(pixels)) * _resized(lines, pixels.shape)[..., None], pixels)


def ct_beam_hardening(pixels: Pixels, strength: float, random: Generator) -> Pixels:
    """Darken towards the lower edge, by the share `strength` there."""
    falling = 1 - strength * np.linspace(0, 1, len(pixels), dtype=np.float32)
    return _kept(pixels * falling[:, None, None], pixels)


def window_level(pixels: Pixels, shift: float, random: Generator) -> Pixels:
    """Narrow the window by `shift` / 2 of the picture's range, and move its centre by up to `shift` of it."""
    low, high = float(pixels.min()), float(pixels.max())
    # A picture of one value stays as it is.
    spread = max(high - low, 1)
    width = spread * (1 - shift / 2)
    start = (low + high) / 2 + random.uniform(-1, 1) * shift * spread - width / 2
    values = np.arange(256)
    return _kept((values - start) / width * spread + low, pixels)[pixels]


def mri_bias_field(pixels: Pixels, strength: float, random: Generator) -> Pixels:
    """Brighten around a point in the middle of the picture, by the share `strength` there."""
    height, width = pixels.shape[:2]
    x, y = width * random.uniform(0.3, 0.7), height * random.uniform(0.3, 0.7)
    reach = 2 * (0.3 * min(height, width)) ** 2
    across = np.exp(-((np.arange(width) - x) ** 2) / reach)
    down = np.exp(-((np.arange(height) - y) ** 2) / reach)
    bias = 1 + strength * np.outer(down, across).astype(np.float32)
    return _kept(pixels * bias[..., None], pixels)


def mri_ghosting(pixels: Pixels, strength: float, random: Generator) -> Pixels:
    """Add the share `strength` of the picture, moved down by a tenth of its height; its end enters at the top."""
    moved = np.roll(pixels, int(len(pixels) * 0.1), axis=0)
    return _kept(pixels + np.float32(strength) * moved, pixels)


@reduced(SIDE)
def mri_motion(pixels: Pixels, amount: tuple[float, float], random: Generator, scale: float) -> Values:
    """Shift lines of k-space as if the patient had moved sideways while they were read.

    `amount`: the longest shift in pixels, and the share of lines that are shifted. The lines of the lowest frequencies
    are spared. As in the published code, frequencies of a line count from its end, so that a shift also turns the
    phase by half a turn for each pixel.
    """
    longest, share = amount
    height, width = pixels.shape[:2]
    spared = max(height // 20, 2)
    first, last = height // 2 - spared // 2, height // 2 + spared // 2
    lines = random.permutation(np.array([*range(first), *range(last, height)], int))
    shifts = random.uniform(-1, 1, len(lines))
    # The first lines of the order move: those of a level move at all higher ones.
    count = min(int(height * share), len(lines))
    moved = np.zeros(height)
    moved[lines[:count]] = shifts[:count] * longest * scale
    moved = gaussian_filter(moved, 0.5)
    moved[np.abs(moved) <= 0.01] = 0
    # In k-space as it is computed, the lowest frequency comes first.
    moved = fft.ifftshift(moved)
    lines = np.flatnonzero(moved)
    turns = np.outer(moved[lines], fft.ifftshift(fft.fftfreq(width))).astype(np.float32)
    # All channels of a grey picture are one.
    channels = 1 if (pixels == pixels[..., :1]).all() else 3
    before = np.moveaxis(pixels[..., :channels], 2, 0).astype(np.float32, order="C")
    seen_lines = fft.fft2(before)
    seen_lines[:, lines] *= np.exp(np.complex64(-2j * np.pi) * turns)
    seen = np.abs(fft.ifft2(seen_lines, overwrite_x=True))
    low, spread, old_low, old_spread = (
        of(values, axis=(1, 2), keepdims=True) for values in (seen, before) for of in (np.min, np.ptp)
    )
    after: Values = np.rint((seen - low) / np.maximum(spread, 1e-8) * old_spread + old_low)
    return np.moveaxis(after, 0, 2).repeat(3 // channels, axis=2)


def us_shadow(pixels: Pixels, attenuation: float, random: Generator) -> Pixels:
    """Darken a column below a point, as bone and stones do; `attenuation`: the share that is lost in its depth."""
    height, width = pixels.shape[:2]
    if min(height, width) < 4:
        return pixels.copy()
    top = int(random.integers(height // 4, height // 2))
    centre = int(random.integers(width // 4, 3 * width // 4))
    depth = np.arange(height - top)[:, None] / (height - top)
    breadth = (int(width * (0.08 + attenuation * 0.15)) * (1 + 0.3 * depth)).astype(int)
    left, right = np.maximum(0, centre - breadth // 2), np.minimum(width, centre + breadth // 2)
    edge = breadth // 6 + 1
    x = np.arange(width)
    inside = np.clip((x - left + edge) / edge, 0, 1) * np.clip((right + edge - x) / edge, 0, 1)
    factor = np.ones((height, width, 1), np.float32)
    factor[top:, :, 0] -= attenuation * (1 - np.exp(-3 * depth)) * inside
    darkened: Pixels = np.rint(pixels * factor).astype(np.uint8)
    return darkened


def us_reverberation(pixels: Pixels, strength: float, random: Generator) -> Pixels:
    """Add bright bands below one another at equal distances, each weaker than the one above.

    `strength` is the first band's height, as a share of the brightness of the interface that echoes.
    """
    height, width = _reference_shape(pixels)
    interface = int(random.integers(height // 6, height // 3))
    breadth = width // 2 + int(random.integers(0, width // 4))
    centre = int(random.integers(width // 4, 3 * width // 4))
    left, right = max(0, centre - breadth // 2), min(width, centre + breadth // 2)
    apart = int(interface * 0.8) + int(strength * 20)
    thickness = max(2, int(3 + strength * 8))
    echoes = np.zeros(height, np.float32)
    for number in range(max(3, int(3 + strength * 10))):
        middle = interface + (number + 1) * apart
        if middle >= height - thickness:
            break
        rows = np.arange(middle - thickness // 2, middle + thickness // 2 + 1)
        echoes[rows] += (0.6 - 0.15 * strength) ** number * np.exp(-(((rows - middle) / (thickness / 3)) ** 2) / 2)
    edge = (right - left) // 10 + 1
    x = np.arange(width)
    # Beyond its ends, a band fades within `edge` pixels; the one on the right begins at `right` itself.
    beyond = np.where(x < left, left - x, np.where(x >= right, x - right, 0))
    sides = np.where((x >= left - edge) & (x < right + edge), np.exp(-((beyond / (edge / 2)) ** 2) / 2), 0)
    bands = _resized(np.outer(echoes, sides).astype(np.float32), pixels.shape)
    scale = scale_of(pixels, SIDE)
    row = pixels[int(interface * scale), int(left * scale) : max(int(right * scale), int(left * scale) + 1)]
    return _kept(pixels + strength * bands[..., None] * row.mean(axis=0, dtype=np.float32), pixels)


def flip(pixels: Pixels, parameters: object, random: Generator) -> Pixels:
    """Exchange left and right."""
    return np.ascontiguousarray(pixels[:, ::-1])


def _kept(changed: NDArray[np.floating], pixels: Pixels) -> Pixels:
    """Round to 8 bits, within the range of the unchanged picture; `changed` is used up."""
    low, high = float(pixels.min()), float(pixels.max())
    np.clip(changed, low, high, out=changed)
    np.rint(changed, out=changed)
    return changed.astype(np.uint8)


def _reference_shape(pixels: Pixels) -> tuple[int, int]:
    """Return height and width of the picture if its shorter side had SIDE pixels."""
    height, width = pixels.shape[:2]
    return round(height / scale_of(pixels, SIDE)), round(width / scale_of(pixels, SIDE))


def _resized(field: Values, shape: tuple[int, ...]) -> Values:
    """Return a smooth field at height and width of a picture."""
    if field.shape == shape[:2]:
        return field
    return np.asarray(Image.fromarray(field).resize((shape[1], shape[0]), Image.Resampling.BILINEAR))
