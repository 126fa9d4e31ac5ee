"""The phantom's rows in GMAI-MMBench's format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from PIL import Image

from medvqa.tags import lexicon
from tools import photography, radiology
from tools.canvas import Scene
from tools.overlays import Granularity, mark
from tools.questions import LETTERS, multiple_responses, single_choices
from tools.scenes import draw


@dataclass(frozen=True, slots=True)
class Picture:
    """A scene of which some findings (by position) are marked in the way of a granularity."""

    scene: Scene
    marked: tuple[int, ...] = ()
    granularity: Granularity = "Image level"

    def draw(self) -> Image.Image:
        """The image, RGB."""
        image, masks = draw(self.scene)
        for position in self.marked:
            image = mark(image, masks[position], self.granularity)
        return image


_ORIGINAL_TASKS: dict[Granularity, str] = {
    "Image level": "2D Classification",
    "Box level": "2D Detection",
    "Mask level": "2D Segmentation",
    "Contour level": "2D Segmentation",
}


def rows(seed: int) -> list[tuple[dict[str, str], Picture]]:
    """Rows of GMAI-MMBench's TSV without `index` and `image`, and the picture of each.

    Single choice and multiple response at all four granularities. Rows may share a picture; mask and contour
    level show the same scenes, as they probably do in GMAI-MMBench.
    """
    rng = np.random.default_rng((seed, 1))
    return [*_whole_images(rng), *_boxes(rng), *_regions(rng)]


def _row(
    picture: Picture, modality: str, question: str, options: Mapping[str, str], answer: str
) -> tuple[dict[str, str], Picture]:
    labels = [options[letter] for letter in answer.split(",")]
    task, department = _branch(modality, labels[0])
    return {
        "question": question,
        **{letter: options.get(letter, "") for letter in LETTERS},
        "answer": answer,
        "category": ", ".join(labels),
        "clinical VQA task": task,
        "department": department,
        "perceptual granularity": picture.granularity,
        "modality": modality,
        "original task": _ORIGINAL_TASKS[picture.granularity],
    }, picture


def _branch(modality: str, label: str) -> tuple[str, str]:
    """Task and department of a label, as GMAI-MMBench's lexical tree has them."""
    found = []
    for dimension in ("task", "department"):
        tree = lexicon.gmai_mmbench().trees[dimension, "modality", "label"]
        [value] = [top for top, *leaf in tree if leaf == [lexicon.slug(modality), lexicon.slug(label)]]
        found.append(lexicon.display(dimension, value))
    task, department = found
    return task, "N/A" if department == "None" else department


def _whole_images(rng: Generator) -> Iterator[tuple[dict[str, str], Picture]]:
    counts = [f"the number of lymphocytes:{count}" for count in range(1, 9)]
    for number, (_, options, answer) in enumerate(single_choices(rng, counts, 16, 4)):
        picture = Picture(photography.histopathology(rng, number % 8 + 1))
        question = "This is a histopathology image. How many lymphocytes (dark purple cells) does it show?"
        yield _row(picture, "Histopathology", question, options, answer)

    grades = ("image with good quality", "image with bad quality")
    eyes = single_choices(rng, photography.EYES, 8, 2)
    qualities = [*single_choices(rng, grades, 8, 2)]
    # Eye and quality vary independently: two of the eight pictures for each combination.
    for number, (eye, options, answer) in enumerate(eyes):
        quality, grade_options, grade_answer = qualities[number // 2 % 2 + number // 4 * 2]
        picture = Picture(photography.fundus(rng, eye, poor=quality == grades[1]))
        question = (
            "This is a fundus photograph; the optic disc lies on the side of the nose. "
            "Is it the right eye (oculus dexter) or the left eye (oculus sinister)?"
        )
        yield _row(picture, "Fundus Photography", question, options, answer)
        question = "This is a fundus photograph. How good is the quality of the image?"
        yield _row(picture, "Fundus Photography", question, grade_options, grade_answer)

    directions = ("towards up", "towards left", "towards down", "towards right")
    turned = [f"direction: {direction}" for direction in directions]
    for direction, options, answer in single_choices(rng, turned, 8, 4):
        picture = Picture(radiology.chest(rng, quarter_turns=turned.index(direction)))
        question = "This is an X-ray image of a chest. In which direction does the neck point?"
        yield _row(picture, "X-ray", question, options, answer)

    for organ, options, answer in single_choices(rng, radiology.ULTRASOUND_ORGANS, 8, 4):
        picture = Picture(radiology.ultrasound(rng, organ))
        question = "This is an ultrasound image. Which organ does it show?"
        yield _row(picture, "UltraSound", question, options, answer)

    # At image level the tree has shorter names for the same signs.
    short = {sign: sign.removeprefix("pulmonary ").removeprefix("pleural ") for sign in radiology.CHEST_SIGNS}
    for present, options, answer in multiple_responses(rng, radiology.CHEST_SIGNS, 3):
        named = {letter: short[option] for letter, option in options.items()}
        question = "This is an X-ray image of a chest. Which of these does it show?"
        yield _row(Picture(radiology.chest(rng, present)), "X-ray", question, named, answer)


def _boxes(rng: Generator) -> Iterator[tuple[dict[str, str], Picture]]:
    cells = ("red blood cell", "white blood cell", "platelet")
    for cell, options, answer in single_choices(rng, cells, 9, 3):
        scene = photography.smear(rng)
        question = "This is a microscopy image of blood. What does the green box enclose?"
        yield _row(_marked(scene, (cell,), "Box level"), "Microscopy", question, options, answer)

    for sign, options, answer in single_choices(rng, radiology.CHEST_SIGNS, 10, 4):
        scene = radiology.chest(rng, _with_another(rng, (sign,)))
        question = "This is an X-ray image of a chest. What does the green box enclose?"
        yield _row(_marked(scene, (sign,), "Box level"), "X-ray", question, options, answer)

    for signs, options, answer in multiple_responses(rng, radiology.CHEST_SIGNS, 2):
        scene = radiology.chest(rng, _with_another(rng, signs))
        question = "This is an X-ray image of a chest. What do the green boxes enclose?"
        yield _row(_marked(scene, signs, "Box level"), "X-ray", question, options, answer)


def _with_another(rng: Generator, signs: tuple[str, ...]) -> tuple[str, ...]:
    """The signs and one more that is not asked for, so that seeing what is there does not answer the question."""
    return *signs, str(rng.choice([sign for sign in radiology.CHEST_SIGNS if sign not in signs]))


def _regions(rng: Generator) -> Iterator[tuple[dict[str, str], Picture]]:
    """Marked regions: every question once at mask and once at contour level."""
    organs = ("liver", "gallbladder", "stomach", "spleen", "kidney")
    retina = ("retinal vessel", "optic disc", "retinal hemorrhages", "retinal hard exudates")
    asked: list[tuple[Scene, tuple[str, ...], str, str, dict[str, str], str]] = []
    for organ, options, answer in single_choices(rng, organs, 10, 4):
        question = "This is a CT image of an abdomen. Which organ is marked in red?"
        asked.append((radiology.abdomen(rng), (organ,), "CT", question, options, answer))
    for part, options, answer in single_choices(rng, retina, 4, 4):
        question = "This is a fundus photograph. What is marked in red?"
        asked.append((photography.fundus(rng), (part,), "Fundus Photography", question, options, answer))
    for pattern, options, answer in single_choices(rng, photography.PATTERNS, 4, 4):
        question = "This is a dermoscopy image. Which pattern does the lesion marked in red have?"
        asked.append((photography.dermoscopy(rng, pattern), (pattern,), "Dermoscopy", question, options, answer))
    for several, options, answer in multiple_responses(rng, organs, 2):
        question = "This is a CT image of an abdomen. Which organs are marked in red?"
        asked.append((radiology.abdomen(rng), several, "CT", question, options, answer))
    for scene, names, modality, question, options, answer in asked:
        yield _row(_marked(scene, names, "Mask level"), modality, question, options, answer)
        yield _row(_marked(scene, names, "Contour level"), modality, question, options, answer)


def _marked(scene: Scene, names: Iterable[str], granularity: Granularity) -> Picture:
    """The first finding of each name marked."""
    present = [finding.name for finding in scene.findings]
    return Picture(scene, tuple(present.index(name) for name in names), granularity)
