"""Perturb the images of questions: read the names of changes, and choose parameters and random numbers for a question.

A change is one of `perturbing.catalogue`. Its parameters are those of the MedMNIST-C data set of the question's
modality (MODALITIES). Without one, they are those of the first set of GENERAL that has the change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from medvqa import decode, printing
from medvqa.figures import counted
from medvqa.items import Image, Item, UsageError
from medvqa.perturbing import DEFAULT_LEVEL, FILLS, LEVELS, MASKS, Alteration, catalogue, regions
from medvqa.protocols import question_forms

DIMENSION = "modality"
"""The tag that chooses parameters, and the questions that an artefact is for."""
MODALITIES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ct": ("organamnist", ("ct", "cta", "cbct", "computed_tomography")),
    "mri": ("", ("mri", "mr", "mra", "cmr", "magnetic_resonance")),
    "x_ray": ("chestmnist", ("x_ray", "xray", "cr", "dx", "dr", "xr", "rx", "radiograph", "radiography")),
    "ultrasound": ("breastmnist", ("ultrasound", "us", "sonography", "ultrasonography", "echocardiography")),
    "histopathology": ("pathmnist", ("histopathology", "pathology", "histology")),
    "microscopy": ("bloodmnist", ("microscopy", "cytology", "hematology")),
    "fundus": ("retinamnist", ("fundus", "retinal_photography")),
    "oct": ("octmnist", ("oct", "optical_coherence_tomography")),
    "dermoscopy": ("dermamnist", ("dermoscopy", "dermatoscopy", "dermatology", "clinical_photograph")),
}
"""Modalities -> the data set of MedMNIST-C that is taken for each, "" without one, and the words that name it in a tag.

The choice is ours."""
GENERAL = ("chestmnist", "dermamnist", "pathmnist")
"""Where no modality chooses, the first of these sets that has the change. The choice is ours."""


@lru_cache(maxsize=64)
def of(perturb: str) -> Alteration | None:
    """Return the change of images that a value of --perturb names: [SET/]NAME[:LEVEL] or MASK[:FILL].

    None if there is none, or one of questions; also for a record of another version with an unknown set or level.
    """
    changes = catalogue.changes()
    perturb = f"{perturb}:{FILLS[0]}" if perturb in MASKS else perturb
    if perturb in changes and not changes[perturb].parameters:
        return Alteration(perturb)
    parts = re.fullmatch(f"(?:([^/]*)/)?([^/:]*)(?::([1-{LEVELS}]))?", perturb)
    if parts is None or parts[2] not in changes:
        return None
    sets = changes[parts[2]].parameters
    known = sets and (parts[1] is None or parts[1] in sets)
    return Alteration(parts[2], int(parts[3] or DEFAULT_LEVEL), parts[1] or "") if known else None


def parse(typed: str) -> Alteration:
    """Return the change of images that --perturb names (UsageError)."""
    if (found := of(typed)) is not None:
        return found
    option, changes = f"--perturb={printing.line(typed)}", catalogue.changes()
    before, slash, rest = typed.rpartition("/")
    name, _, level = rest.partition(":")
    if name in MASKS:
        raise UsageError(f"{option}: fills are {', '.join(FILLS)}; type --perturb={name}:{FILLS[0]}")
    if name not in changes:
        names = [*(name for name in changes if ":" not in name), *MASKS]
        near = decode.nearest(name, [*names, *question_forms.FORMS])
        meant = f". Did you mean '{near}'?" if near else "."
        of_questions = ", ".join(question_forms.FORMS)
        raise UsageError(f"{option}: no such change{meant} Of images: {', '.join(names)}. Of questions: {of_questions}")
    sets = changes[name].parameters
    if not sets:
        raise UsageError(f"{option}: {name} has no levels; type --perturb={name}")
    if slash and before not in sets:
        known = f"type --perturb={name}" if "" in sets else f"there are: {', '.join(sets)}"
        raise UsageError(f"{option}: '{printing.line(before)}' is no set of parameters of {name}; {known}")
    if re.fullmatch(f"[1-{LEVELS}]-[1-{LEVELS}]", level):
        grid = f'perturb = "{printing.line(typed)}" under [grid]'
        raise UsageError(f"{option}: a run has one level; medvqa sweep FILE.toml makes a run of each: write {grid}")
    raise UsageError(f"{option}: levels are 1 to {LEVELS}; type --perturb={name}:{DEFAULT_LEVEL}")


def in_words(perturb: str) -> str:
    """Return `Protocol.perturb` in a few words for people."""
    change = of(perturb)
    return question_forms.label(perturb) or printing.line(perturb) if change is None else catalogue.words_of(change)


def needs(perturb: str) -> str:
    """Return what questions must have for `Protocol.perturb` to be for them, in a sentence."""
    change = of(perturb)
    if change is None:
        return f"It needs {question_forms.FORMS[perturb.partition(':')[0]].needs}"
    if change.is_mask:
        return f"It needs a region with room for it elsewhere; a table has regions in a column box: {regions.EXPECTED}"
    words = ", ".join(word for name in catalogue.changes()[change.name].modalities for word in MODALITIES[name][1])
    return "It needs an image" + (f" of its modality: a tag {DIMENSION} with one of the words {words}" if words else "")


def _modalities(item: Item) -> list[str]:
    """Return the modalities that the question's tag names, in its order."""
    slugs = [f"_{slug}_" for slug in item.tags.get(DIMENSION, ())]
    return [
        name for slug in slugs for name, (_, words) in MODALITIES.items() if any(f"_{word}_" in slug for word in words)
    ]


def set_of(item: Item, change: Alteration) -> tuple[str, bool]:
    """Return the set of parameters for a question, and whether it is of GENERAL; "" for a change with one set alone."""
    sets = catalogue.changes()[change.name].parameters
    if change.of or not any(sets):
        return change.of, False
    own = next((one for name in _modalities(item) if (one := MODALITIES[name][0]) in sets), "")
    return own or next(one for one in (*GENERAL, *sets) if one in sets), not own


def altered(images: Iterable[Image], item: Item, perturb: str) -> tuple[Image, ...]:
    """Return the images of a question as `Protocol.perturb` changes them; as they are if it changes none.

    The random numbers follow from benchmark, item id and the image's place in the question. They are the same at all
    levels, and for all changes. A mask changes the first image alone. A region of a stranger's record that is wrong is
    none, which `Image.pil` refuses.
    """
    images, change = tuple(images), of(perturb)
    if change is None:
        return images
    number = 1 if change.is_mask else len(images)
    change = replace(change, of=set_of(item, change)[0])
    if change.is_mask:
        with suppress(ValueError):
            change = replace(change, boxes=regions.boxes_of(item.extra))
    changed = (
        replace(image, alteration=replace(change, seed=question_forms.draw(item, str(place))))
        for place, image in enumerate(images[:number])
    )
    return (*changed, *images[number:])


def can_change(item: Item, perturb: str) -> bool:
    """Return whether a change of images is for a question; runs ask no others.

    A question needs an image. A mask is for questions whose first image has a region, and a place elsewhere of its
    size. An artefact of a modality is for questions of that modality, and for those that name none. ValueError if a
    region is wrong, or leaves its image.
    """
    change = of(perturb)
    if change is None or not item.images:
        return change is None
    if not change.is_mask:
        wanted = catalogue.changes()[change.name].modalities
        return not (wanted and item.tags.get(DIMENSION)) or not set(wanted).isdisjoint(_modalities(item))
    boxes = regions.boxes_of(item.extra)
    # The size of an image without a file is not known; its question ends as an error.
    if not boxes or (size := item.images[0].blanked().size) is None:
        return bool(boxes)
    if not regions.are_inside(boxes, size):
        raise ValueError(f"its region {boxes[0]} leaves its image of {size[0]} x {size[1]} pixels: {regions.EXPECTED}")
    from medvqa.perturbing import masks

    return bool(masks.free_places(boxes, size).any())


def parameters_used(items: Collection[Item], perturb: str) -> str:
    """Return a change of images, and how many questions got which parameters; "" if `Protocol.perturb` is none.

    "Gaussian noise, level 3, parameters of chestmnist for 120 questions (MedMNIST-C)".
    """
    if (change := of(perturb)) is None:
        return ""
    defined = catalogue.changes()[change.name]
    source = "by medvqa" if defined.source == catalogue.OURS else defined.source
    used = Counter(set_of(item, change) for item in items)
    told = [
        f"{f'parameters of {name} ' * bool(name)}for {counted(number, 'questions')} ({source}"
        f"{f', by medvqa, as no tag {DIMENSION} names a set: --perturb=SET/{change.name} does' * general})"
        for (name, general), number in sorted(used.items())
    ]
    return f"{catalogue.words_of(change)}, " + "; ".join(filter(None, [*told, defined.caution]))
