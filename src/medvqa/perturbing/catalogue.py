"""All changes of pixels by name, and how one is applied to a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from medvqa.perturbing import Alteration, PixelChange, artefacts, masks, medmnist_c

if TYPE_CHECKING:
    import PIL.Image


@cache
def changes() -> Mapping[str, PixelChange]:
    """Return all changes by name. A file of further changes adds its own here."""
    return {change.name: change for change in (*medmnist_c.read(), *artefacts.CHANGES, *masks.CHANGES)}


def applied(picture: PIL.Image.Image, alteration: Alteration) -> PIL.Image.Image:
    """Return an RGB picture with its pixels changed."""
    import numpy as np
    import PIL.Image

    change = changes()[alteration.name]
    levels = change.parameters.get(alteration.of)
    parameters = alteration.boxes if levels is None else levels[alteration.level - 1]
    pixels = change.apply(np.asarray(picture), parameters, np.random.default_rng(alteration.seed))
    changed = PIL.Image.fromarray(pixels)
    if alteration.of in medmnist_c.GREY and _is_grey(picture):
        changed = changed.convert("L").convert("RGB")
    return changed


def _is_grey(picture: PIL.Image.Image) -> bool:
    first, *others = (band.tobytes() for band in picture.split())
    return all(band == first for band in others)


def words_of(alteration: Alteration) -> str:
    """Return a change for people: "Gaussian noise, level 3 of chestmnist"."""
    words, level, of = changes()[alteration.name].words, alteration.level, alteration.of
    return words + f", level {level}" * bool(level) + f" of {of}" * bool(of)
