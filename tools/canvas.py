"""What a scene is made of, and the canvas it is painted on.

Positions are fractions of the image's side, x to the right and y downwards. Shapes are signed distance
fields, negative inside: painted with a soft edge they give the image, cut at zero the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Field = NDArray[np.float64]
"""(H, W): for each pixel the distance to a shape's edge, as a fraction of the image's side."""
Colour = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in a scene. `size` is its radius as a fraction of the image's side, `angle` in radians."""

    name: str
    x: float
    y: float
    size: float
    colour: str = ""
    shape: str = "subcircular"
    border: str = "well-defined"
    angle: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be drawn: findings, in painting order, over the background of a look.

    `seed` fixes everything accidental (textures, ragged edges). `variant` is the look's own business.
    `quarter_turns` turn the finished image counter-clockwise; `poor` blurs it and takes its contrast.
    """

    look: str
    findings: tuple[Finding, ...]
    seed: int
    variant: str = ""
    quarter_turns: int = 0
    poor: bool = False


class Canvas:
    """An RGB image in the making, `size` pixels a side, and the shapes to paint on it."""

    def __init__(self, size: int, seed: int) -> None:
        """A black canvas; `seed` fixes its `rng`."""
        centres = (np.arange(size) + 0.5) / size
        self.x, self.y = np.meshgrid(centres, centres)
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.rgb = np.zeros((size, size, 3))

    def fill(self, colour: Colour | float, waves: float = 0.0) -> None:
        """The whole canvas in one colour, brighter and darker in slow waves of that amplitude."""
        self.rgb[:] = colour
        for across, down, phase in self.rng.uniform(-9, 9, (5, 3)):
            self.rgb += waves / 3 * np.sin(across * self.x + down * self.y + phase)[..., None]

    def paint(self, shape: Field, colour: Colour | float, edge: float = 0.0) -> Field:
        """The shape in that colour, its edge `edge` wide (at least a pixel); returns the shape."""
        cover = np.clip(0.5 - shape / max(edge, 1 / self.size), 0, 1)[..., None]
        self.rgb = self.rgb * (1 - cover) + np.asarray(colour) * cover
        return shape

    def noise(self, amplitude: float, grain: int = 1) -> Field:
        """Normal noise of that amplitude, (H, W), in squares of `grain` pixels."""
        squares = -(-self.size // grain)
        coarse = self.rng.normal(0, amplitude, (squares, squares))
        return np.asarray(np.kron(coarse, np.ones((grain, grain)))[: self.size, : self.size])

    def ellipse(self, x: float, y: float, rx: float, ry: float | None = None, angle: float = 0.0) -> Field:
        """Centre, half axes (a circle without `ry`), and the angle of the first one, clockwise on the screen."""
        ry = rx if ry is None else ry
        across, down = self.x - x, self.y - y
        along = (across * np.cos(angle) + down * np.sin(angle)) / rx
        beside = (down * np.cos(angle) - across * np.sin(angle)) / ry
        return np.asarray((np.hypot(along, beside) - 1) * min(rx, ry))

    def lumpy(self, x: float, y: float, radius: float, lumps: int) -> Field:
        """A disc whose edge bulges about `lumps` times, unevenly."""
        across, down = self.x - x, self.y - y
        angle, (first, second) = np.arctan2(down, across), self.rng.uniform(0, 2 * np.pi, 2)
        bulge = 1 + 0.11 * np.sin(lumps * angle + first) + 0.09 * np.sin((lumps + 1) * angle + second)
        return np.asarray(np.hypot(across, down) - radius * bulge)

    def line(self, points: Sequence[tuple[float, float]], width: float) -> Field:
        """A line of that width with round ends through the points."""
        return join(*(self._segment(start, end) for start, end in pairwise(points))) - width / 2

    def _segment(self, start: tuple[float, float], end: tuple[float, float]) -> Field:
        (x, y), (dx, dy) = start, (end[0] - start[0], end[1] - start[1])
        share = np.clip(((self.x - x) * dx + (self.y - y) * dy) / (dx * dx + dy * dy), 0, 1)
        return np.asarray(np.hypot(self.x - x - share * dx, self.y - y - share * dy))


def join(*shapes: Field) -> Field:
    """What lies in any of the shapes."""
    return np.asarray(np.minimum.reduce(shapes))


def meet(*shapes: Field) -> Field:
    """What lies in all of the shapes."""
    return np.asarray(np.maximum.reduce(shapes))


def ring(shape: Field, width: float) -> Field:
    """A band of that width along the shape's edge."""
    return np.asarray(np.abs(shape) - width / 2)


def around(x: float, y: float, radius: float, count: int, start: float = 0.0) -> list[tuple[float, float]]:
    """So many points at equal distances on a circle."""
    angles = start + 2 * np.pi * np.arange(count) / count
    return list(zip((x + radius * np.cos(angles)).tolist(), (y + radius * np.sin(angles)).tolist(), strict=True))


def spots(rng: Generator, count: int, low: float, high: float, cells: int = 4) -> list[tuple[float, float]]:
    """So many points that keep apart: in cells of a grid from low to high, each a little off its cell's centre."""
    step = (high - low) / cells
    chosen = rng.permutation(cells * cells)[:count].tolist()
    shifts = rng.uniform(-0.18, 0.18, (count, 2)).tolist()
    return [
        (low + step * (cell % cells + 0.5 + dx), low + step * (cell // cells + 0.5 + dy))
        for cell, (dx, dy) in zip(chosen, shifts, strict=True)
    ]


def new_seed(rng: Generator) -> int:
    """A scene's `seed`."""
    return int(rng.integers(2**32))


@dataclass(frozen=True, slots=True)
class Look:
    """One way an image can look: how to think up a scene, paint what lies behind, each finding, and what lies on top.

    The painter of a finding returns its shape, from which the mask is cut.
    """

    make: Callable[[Generator], Scene]
    background: Callable[[Canvas, Scene], None]
    findings: Mapping[str, Callable[[Canvas, Finding], Field]]
    finish: Callable[[Canvas], None]


def grain(amplitude: float) -> Callable[[Canvas], None]:
    """A `Look.finish` that adds grey noise of that amplitude."""

    def add(canvas: Canvas) -> None:
        canvas.rgb += canvas.noise(amplitude)[..., None]

    return add
