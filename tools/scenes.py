"""Synthetic scenes that look like medical images: `scene` thinks one up, `draw` paints it.

A `Scene` says what there is and where, before a pixel is drawn, so no question is read off an image. The
makers of `radiology` and `photography` (`chest`, `fundus`, `skin` ...) take what a question needs to be
fixed as arguments and draw the rest from a seeded generator.

Nothing here is anatomy. The drawings keep just enough of it (the liver lies on the left of the image, an
effusion fills the lung from below) for the labels of real benchmarks to mean something.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from PIL import Image

from tools import photography, radiology
from tools.canvas import Canvas, Field, Look, Scene
from tools.overlays import Mask

SIZE = 112
"""Side of the images in pixels, unless told otherwise."""
LOOKS: dict[str, Look] = photography.LOOKS | radiology.LOOKS


def scene(rng: Generator, look: str | None = None) -> Scene:
    """A scene of that look, or of any; KeyError for a look that is not in `LOOKS`."""
    return LOOKS[look or tuple(LOOKS)[int(rng.integers(len(LOOKS)))]].make(rng)


def draw(scene: Scene, size: int = SIZE) -> tuple[Image.Image, tuple[Mask, ...]]:
    """The scene as an RGB image of size x size pixels, and the mask (size, size) of each finding, in their order."""
    look = LOOKS[scene.look]
    canvas = Canvas(size, scene.seed)
    look.background(canvas, scene)
    masks = [look.findings[finding.name](canvas, finding) < 0 for finding in scene.findings]
    look.finish(canvas)
    rgb = 70 + 0.45 * _blur(canvas.rgb, size // 30) if scene.poor else canvas.rgb
    # Steps of 8 are hardly seen and cut the size of a noisy PNG to a third.
    pixels = np.clip(np.rint(rgb / 8) * 8, 0, 255).astype(np.uint8)
    image = Image.fromarray(np.ascontiguousarray(np.rot90(pixels, scene.quarter_turns)))
    return image, tuple(np.rot90(mask, scene.quarter_turns) for mask in masks)


def _blur(rgb: Field, radius: int) -> Field:
    for axis in (0, 1, 0, 1):
        rgb = np.mean([np.roll(rgb, step, axis) for step in range(-radius, radius + 1)], axis=0)
    return rgb
