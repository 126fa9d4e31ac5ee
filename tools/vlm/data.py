"""What phantom-vlm is trained on: phantoms of other seeds than the one that ships."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medvqa.benchmarks import medlesionvqa
from medvqa.items import Item, Kind
from tools.phantom import JPEG_QUALITY
from tools.questions import LETTERS, SHIPPED_SEED
from tools.questions import gmai_mmbench as gmai_questions
from tools.questions import mediconfusion as confusing_pairs
from tools.questions import medlesionvqa as lesion_questions
from tools.questions.gmai_mmbench import Picture

Pixels = NDArray[np.uint8]
"""(N, 112, 112, 3), RGB."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question about one picture; `picture` is its row in the array of images, None for a text-only question."""

    item: Item
    picture: int | None


@dataclass(frozen=True, slots=True)
class Lesson:
    """Questions and the images that they are about."""

    asked: tuple[Asked, ...]
    images: Pixels


def phantom(seed: int) -> Lesson:
    """All questions of the phantom of a seed, with their pictures as the files would show them."""
    asked: list[Asked] = []
    images: list[Image.Image] = []
    places: dict[Picture, int] = {}

    def place(picture: Picture, *, jpeg: bool = False) -> int:
        if picture not in places:
            places[picture] = len(images)
            image = picture.draw()
            images.append(_through_jpeg(image) if jpeg else image)
        return places[picture]

    for row, picture in gmai_questions.rows(seed):
        options = {letter: row[letter] for letter in LETTERS if row[letter]}
        answers = tuple(row["answer"].split(","))
        kind: Kind = "multiple_response" if len(answers) > 1 else "single_choice"
        item = Item(f"{seed}-{len(asked)}", "phantom-gmai-mmbench", kind, row["question"], options, answers)
        asked.append(Asked(item, place(picture)))
    pairs, scenes = confusing_pairs.pairs(seed)
    for pair in pairs.values():
        options = {"A": pair["option_A"], "B": pair["option_B"]}
        for which in ("im_1", "im_2"):
            answers = (pair[f"{which}_correct"],)
            name = f"{seed}-{len(asked)}"
            item = Item(name, "phantom-mediconfusion", "single_choice", pair["question"], options, answers)
            asked.append(Asked(item, place(Picture(scenes[pair[f"{which}_local"]]), jpeg=True)))
    for lesion, scene in lesion_questions.rows(seed):
        kind, options = medlesionvqa.KINDS[lesion["question_type"]], lesion["options"] or {}
        answers = tuple(lesion["answer"].split(",")) if options else (lesion["answer"],)
        item = Item(f"{seed}-{len(asked)}", "phantom-medlesionvqa", kind, lesion["question"], options, answers)
        asked.append(Asked(item, None if scene is None else place(Picture(scene))))
    return Lesson(tuple(asked), np.stack([np.asarray(image) for image in images]))


def phantoms(seeds: Sequence[int], processes: int = 1) -> Lesson:
    """The phantoms of several seeds as one lesson; ValueError if one of them is reserved for evaluation."""
    if SHIPPED_SEED in seeds:
        raise ValueError(f"seed {SHIPPED_SEED} is what ships: it is reserved for evaluation")
    asked: list[Asked] = []
    images: list[Pixels] = []
    count = 0
    for lesson in _drawn(seeds, processes):
        asked += [Asked(one.item, None if one.picture is None else one.picture + count) for one in lesson.asked]
        images.append(lesson.images)
        count += len(lesson.images)
    return Lesson(tuple(asked), np.concatenate(images))


def _drawn(seeds: Iterable[int], processes: int) -> Iterator[Lesson]:
    if processes == 1:
        yield from map(phantom, seeds)
        return
    # Spawned, because torch's threads may be running already.
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(phantom, seeds)


def _through_jpeg(image: Image.Image) -> Image.Image:
    data = io.BytesIO()
    image.save(data, "JPEG", quality=JPEG_QUALITY)
    return Image.open(data).convert("RGB")
