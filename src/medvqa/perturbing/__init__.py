"""Change the pixels of pictures as scanners, cameras, files and people do: names, levels and parameters.

Pictures are arrays of 8-bit RGB, (height, width, 3). numpy, scipy and Pillow are imported when a picture is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVELS = 5
DEFAULT_LEVEL = 3
EDITION = 1
"""Of the definitions; part of every key, so that no answer to the pixels of an earlier edition is taken for one."""

Box = tuple[int, int, int, int]
"""A region of a picture in its pixels: left, top, width, height."""
Source = Literal["MedMNIST-C", "MedFM-Robust", "ours"]
"""Who defined a change, with its parameters."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of one picture, which determines every pixel.

    `level`: 1 to LEVELS, 0 for a change without levels. `of`: the set of its parameters, such as "chestmnist"; "" if it
    has one alone. `seed`: of its random numbers; the same at all levels. `boxes`: the regions that a mask hides.
    """

    name: str
    level: int = 0
    of: str = ""
    seed: int = 0
    boxes: tuple[Box, ...] = ()

    @property
    def key(self) -> str:
        """The change as a text that no other change of the same picture has."""
        return f"{self.name} {self.level} {self.of or '-'} {self.seed:x} {self.boxes or '-'} edition {EDITION}"


@dataclass(frozen=True, slots=True)
class PixelChange:
    """A named change of pictures.

    `apply` takes pixels, the parameters of a level, and a generator of random numbers; it returns new pixels of the
    same shape. `parameters`: by set, those of levels 1 to LEVELS. A change without levels has {}, and `apply` gets the
    boxes of its `Alteration`. `words`: the change in a few words for people, such as "Gaussian noise". `modalities`:
    words of the tag `modality` of the questions that it is for, () for any. `caution`: what its answers need not keep.
    """

    name: str
    source: Source
    words: str
    apply: Callable[[NDArray[np.uint8], Any, np.random.Generator], NDArray[np.uint8]]
    parameters: Mapping[str, tuple[Any, ...]]
    modalities: tuple[str, ...] = ()
    caution: str = ""
