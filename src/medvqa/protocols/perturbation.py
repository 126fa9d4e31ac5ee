"""Perturb the images of questions: read the names of changes, and choose parameters and random numbers for a question.

A change is one of `perturbing.catalogue`. Its parameters are those of the MedMNIST-C data set of the question's
modality (MODALITIES). Without one, they are those of the first set of GENERAL that has the change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import blake2b

from medvqa import printing
from medvqa.decode import did_you_mean
from medvqa.figures import counted
from medvqa.items import Image, Item, UsageError
from medvqa.perturbing import DEFAULT_LEVEL, LEVELS, Alteration, PixelChange, catalogue, masks, regions
from medvqa.protocols import question_forms

DIMENSION = "modality"
"""The tag that chooses parameters."""
MODALITIES: Mapping[str, tuple[str, ...]] = {
    "pathmnist": ("histopathology", "pathology", "histology"),
    "bloodmnist": ("microscopy", "microscopy_images", "cytology", "hematology"),
    "dermamnist": ("dermoscopy", "dermatoscopy", "dermatology", "clinical_photograph", "photograph"),
    "retinamnist": ("fundus_photography", "fundus", "retinal_photography"),
    "octmnist": ("oct", "oct_optical_coherence_tomography", "optical_coherence_tomography"),
    "breastmnist": ("ultrasound", "us", "sonography"),
    "chestmnist": ("x_ray", "xray", "cr", "dx", "xr", "rx", "radiograph", "radiography", "chest_x_ray"),
    "organamnist": ("ct", "cta", "ct_computed_tomography", "computed_tomography"),
}
"""Data sets of MedMNIST-C -> the slugs of the modality that they are taken for. The choice is ours."""
GENERAL = ("chestmnist", "dermamnist", "pathmnist")
"""Where no modality chooses, the first of these sets that has the change. The choice is ours."""
BY_GENERAL = "by medvqa's choice: no modality with a set"
"""Why a question has the general set."""
_BY_SLUG = {slug: name for name, slugs in MODALITIES.items() for slug in slugs}


@dataclass(frozen=True, slots=True)
class ImagePerturbation:
    """A change of images as --perturb names it; `of`: the set of its parameters if one was typed."""

    name: str
    level: int
    of: str = ""

    @property
    def text(self) -> str:
        """The value of --perturb that names it: "gaussian_noise:3"."""
        return (f"{self.of}/" if self.of else "") + self.name + (f":{self.level}" if self.level else "")

    @property
    def words(self) -> str:
        """The change for people: "Gaussian noise, level 3"."""
        return catalogue.words_of(Alteration(self.name, self.level, self.of))

    @property
    def is_mask(self) -> bool:
        """Whether it hides a region, or a place elsewhere."""
        return self.name.partition(":")[0] in masks.MASKS

    @property
    def needs(self) -> str:
        """The text on questions that it is for, after "has"."""
        if self.is_mask:
            return f"a region with room for it elsewhere; a table names regions in a column box: {regions.EXPECTED}"
        words = ", ".join(self.change.modalities)
        return "an image" + (f" of its modality: a tag {DIMENSION} with one of the words {words}" if words else "")

    @property
    def change(self) -> PixelChange:
        """Its definition."""
        return catalogue.changes()[self.name]


def parse(typed: str) -> ImagePerturbation:
    """Read [SET/]NAME[:LEVEL] of a change of images, or MASK[:FILL] (UsageError)."""
    option = f"--perturb={printing.line(typed)}"
    changes = catalogue.changes()
    typed = f"{typed}:{masks.DEFAULT_FILL}" if typed in masks.MASKS else typed
    if typed in changes and not changes[typed].parameters:
        return ImagePerturbation(typed, 0)
    before, slash, rest = typed.rpartition("/")
    name, colon, level = rest.partition(":")
    if name in changes and re.fullmatch(f"[1-{LEVELS}]-[1-{LEVELS}]", level):
        grid = f'perturb = "{printing.line(typed)}" under [grid]'
        raise UsageError(f"{option}: a run has one level; medvqa sweep FILE.toml makes a run of each: write {grid}")
    if name not in changes:
        listed = ", ".join(changes), ", ".join(question_forms.NAMES)
        near = did_you_mean(name, [*changes, *question_forms.NAMES])
        meant = near[near.index(". Did you mean") :] if ". Did you mean" in near else ""
        raise UsageError(f"{option}: no such change. Of images: {listed[0]}. Of questions: {listed[1]}{meant}")
    change = changes[name]
    if slash and before not in change.parameters:
        sets = ", ".join(filter(None, change.parameters))
        known = f"there are: {sets}" if sets else f"type --perturb={rest}"
        raise UsageError(f"{option}: '{printing.line(before)}' is no set of parameters of {name}; {known}")
    if not change.parameters:
        raise UsageError(f"{option}: {name} has no levels; type --perturb={name}")
    if colon and not re.fullmatch(f"[1-{LEVELS}]", level):
        raise UsageError(f"{option}: levels are 1 to {LEVELS}; type --perturb={name}:{DEFAULT_LEVEL}")
    return ImagePerturbation(name, int(level or DEFAULT_LEVEL), before)


@lru_cache(maxsize=64)
def of(perturb: str) -> ImagePerturbation | None:
    """Return the change of images that `Protocol.perturb` names; None if there is none, or one of questions.

    None too for a record of another version with a set or level that does not exist.
    """
    name = perturb.rpartition("/")[2].partition(":")[0]
    # A form of questions may name a file.
    if {name, perturb}.isdisjoint(catalogue.changes()) or question_forms.is_form(perturb):
        return None
    try:
        return parse(perturb)
    except UsageError:
        return None


def in_words(perturb: str) -> str:
    """Return `Protocol.perturb` in a few words for people."""
    found = of(perturb)
    return found.words if found is not None else question_forms.label(perturb) or printing.line(perturb)


@cache
def _general(name: str) -> str:
    """Return the set of a change where no modality chooses one; "" if it has one alone."""
    sets = catalogue.changes()[name].parameters
    return next((one for one in (*GENERAL, *sets) if one in sets), "")


def set_of(item: Item, perturbation: ImagePerturbation) -> tuple[str, str]:
    """Return the set of parameters for a question, and why; "" and "" for a change with one set alone."""
    sets = perturbation.change.parameters
    if perturbation.of or not any(sets):
        return perturbation.of, "as typed" if perturbation.of else ""
    named = (_BY_SLUG.get(slug, "") for slug in item.tags.get(DIMENSION, ()))
    if (name := next((name for name in named if name in sets), "")) != "":
        return name, "by modality"
    return _general(perturbation.name), BY_GENERAL


def altered(images: Iterable[Image], item: Item, perturb: str) -> tuple[Image, ...]:
    """Return the images of a question as `Protocol.perturb` changes them; as they are if it changes none.

    The random numbers follow from benchmark, item id and the image's place in the question. They are the same at all
    levels, and for all changes. A region of a stranger's record that is wrong is none, which `Image.pil` refuses.
    """
    perturbation = of(perturb) if perturb else None
    if perturbation is None:
        return tuple(images)
    if perturbation.is_mask and (images := tuple(images)):
        first, *others = images
        try:
            boxes = regions.boxes_of(item.extra)
        except ValueError:
            boxes = ()
        change = Alteration(perturbation.name, seed=_seed(item, 0), boxes=boxes)
        return replace(first, alteration=change), *others
    name, _ = set_of(item, perturbation)
    return tuple(
        replace(image, alteration=Alteration(perturbation.name, perturbation.level, name, _seed(item, place)))
        for place, image in enumerate(images)
    )


def can_change(item: Item, perturb: str) -> bool:
    """Return whether `Protocol.perturb` is for a question; runs ask no others.

    A question needs an image. A mask is for questions whose first image has a region, and a place elsewhere of its
    size. An artefact of a modality is for questions of that modality, and for those that name none. ValueError if a
    region is wrong, or leaves its image.
    """
    perturbation = of(perturb)
    if perturbation is None or not item.images:
        return perturbation is None
    if not perturbation.is_mask:
        told, wanted = item.tags.get(DIMENSION, ()), perturbation.change.modalities
        return not (told and wanted) or any(f"_{word}_" in f"_{slug}_" for slug in told for word in wanted)
    boxes = regions.boxes_of(item.extra)
    # The size of an image without a file is not known; its question ends as an error.
    if not boxes or (size := item.images[0].blanked().size) is None:
        return bool(boxes)
    if not regions.are_inside(boxes, size):
        raise ValueError(f"its region {boxes[0]} leaves its image of {size[0]} x {size[1]} pixels: {regions.EXPECTED}")
    return regions.has_place(boxes, size)


def _seed(item: Item, place: int) -> int:
    text = "\0".join([item.benchmark, item.id, str(place)])
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())


def parameters_used(items: Collection[Item], perturb: str) -> str:
    """Return how many questions got which parameters, "" if `Protocol.perturb` changes no images.

    "parameters of chestmnist for 120 questions (MedMNIST-C)".
    """
    perturbation = of(perturb)
    if perturbation is None:
        return ""
    shown, source = (
        [set_of(item, perturbation) for item in items],
        perturbation.change.source.replace("ours", "by medvqa"),
    )
    number, ours = Counter(name for name, _ in shown), Counter(name for name, why in shown if why == BY_GENERAL)
    told = [
        f"{f'parameters of {name} ' * bool(name)}for {counted(number[name], 'questions')} ({source}"
        f"{f'; {ours[name]:,} {BY_GENERAL}' * (name in ours)})"
        for name in sorted(number)
    ]
    return "; ".join(filter(None, [*told, perturbation.change.caution]))
