"""All changes of pixels by name, and how one is applied to a picture."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.perturbing import FILLS, MASKS, Alteration

if TYPE_CHECKING:
    import PIL.Image

OURS = "ours"
GREY = frozenset(
    {
        *("tissuemnist", "octmnist", "breastmnist", "chestmnist", "pneumoniamnist"),
        *("organamnist", "organcmnist", "organsmnist"),
    }
)
"""Sets of grey pictures: a picture that was grey is made grey again after its change."""


@dataclass(frozen=True, slots=True)
class PixelChange:
    """A named change of pictures.

    `source`: who defined it, with its parameters. `words`: the change in a few words, such as "Gaussian noise".
    `parameters`: by set, those of levels 1 to LEVELS; {} for a change without levels. `modalities`: those of the
    questions that it is for, () for any. `caution`: what its answers need not keep.
    """

    name: str
    source: str
    words: str
    parameters: Mapping[str, tuple[Any, ...]]
    modalities: tuple[str, ...] = ()
    caution: str = ""


@cache
def changes() -> Mapping[str, PixelChange]:
    """Return all changes by name."""
    published = (
        _change(source, name, **fields)
        for source, file in (("MedMNIST-C", "medmnist_c.toml"), ("MedFM-Robust", "artefacts.toml"))
        for name, fields in tomllib.loads(Path(__file__).with_name(file).read_text("utf-8")).items()
    )
    flip = PixelChange("flip", OURS, "left-right flip", {}, caution="answers about sides may change")
    masks = (
        PixelChange(f"{mask}:{fill}", OURS, f"{words} ({fill})", {}) for mask, words in MASKS.items() for fill in FILLS
    )
    return {change.name: change for change in (*published, flip, *masks)}


def _change(source: str, name: str, words: str, modalities: str = "", **levels: list[Any]) -> PixelChange:
    """Return a change of a file of parameters; a key of `levels` may name several sets."""
    parameters = {of: tuple(values) for names, values in levels.items() for of in names.split(" ")}
    return PixelChange(name, source, words, parameters, tuple(modalities.split()))


def applied(picture: PIL.Image.Image, alteration: Alteration) -> PIL.Image.Image:
    """Return an RGB picture with its pixels changed (ValueError: `masks.masked`)."""
    import numpy as np
    import PIL.Image

    from medvqa.perturbing import artefacts, masks, medmnist_c

    pixels, random = np.asarray(picture), np.random.default_rng(alteration.seed)
    if alteration.is_mask:
        return PIL.Image.fromarray(masks.masked(pixels, alteration.boxes, random, alteration.name))
    change = changes()[alteration.name]
    module = medmnist_c if change.source == "MedMNIST-C" else artefacts
    parameters = change.parameters[alteration.of][alteration.level - 1] if alteration.level else None
    changed = PIL.Image.fromarray(getattr(module, alteration.name)(pixels, parameters, random))
    if alteration.of in GREY and (pixels == pixels[..., :1]).all():
        changed = changed.convert("L").convert("RGB")
    return changed


def words_of(alteration: Alteration) -> str:
    """Return a change for people: "Gaussian noise, level 3 of chestmnist"."""
    words, level, of = changes()[alteration.name].words, alteration.level, alteration.of
    return words + f", level {level}" * bool(level) + f" of {of}" * bool(of)
