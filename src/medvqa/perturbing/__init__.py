"""Change the pixels of pictures as scanners, cameras, files and people do: names, levels and parameters.

Pictures are arrays of 8-bit RGB, (height, width, 3). `medmnist_c`, `artefacts` and `masks` change them, by functions of
pixels, the parameters of a level, and a generator of random numbers, which return new pixels of the same shape. They
need numpy, scipy and Pillow, and are imported when a picture is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEVELS = 5
DEFAULT_LEVEL = 3
EDITION = 1
"""Of the definitions; part of every key, so that no answer to the pixels of an earlier edition is taken for one."""

Box = tuple[int, int, int, int]
"""A region of a picture in its pixels: left, top, width, height."""

MASKS: Mapping[str, str] = {"mask_region": "region hidden", "mask_elsewhere": "as large a place elsewhere hidden"}
"""The masks, and what they do in a few words."""
FILLS = ("mean", "blur", "noise", "black")
"""What stands in the place of hidden pixels: the picture's mean colour, a blur, pixels drawn from the picture, black.

The blur has a standard deviation of a quarter of the longest side of a box: light and dark stay, shapes do not.
"""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of pictures as `--perturb` names it; with `of`, `seed` and `boxes`, it determines every pixel of one.

    `level`: 1 to LEVELS, 0 for a change without levels. `of`: the set of its parameters, such as "chestmnist"; "" if it
    has one alone. `seed`: of its random numbers; the same at all levels. `boxes`: the regions that a mask hides.
    """

    name: str
    level: int = 0
    of: str = ""
    seed: int = 0
    boxes: tuple[Box, ...] = ()

    @property
    def text(self) -> str:
        """The value of --perturb that names it: "gaussian_noise:3"."""
        return (f"{self.of}/" if self.of else "") + self.name + (f":{self.level}" if self.level else "")

    @property
    def key(self) -> str:
        """The change as a text that no other change of the same picture has."""
        return f"{self.text} {self.seed:x} {self.boxes or '-'} edition {EDITION}"

    @property
    def is_mask(self) -> bool:
        """Whether it hides a region, or a place elsewhere."""
        return self.name.partition(":")[0] in MASKS
