"""The phantom's confusing pairs in MediConfusion's format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from tools import radiology
from tools.canvas import Scene


@dataclass(frozen=True, slots=True)
class _Case:
    """A kind of scene with two yes-or-no choices, and for each choice a question with the answers for no and yes."""

    categories: tuple[str, ...]
    make: Callable[[Generator, bool, bool], Scene]
    questions: tuple[tuple[str, str, str], tuple[str, str, str]]


_CASES = (
    _Case(
        ("Cerebral",),
        radiology.head,
        (
            ("In which half of the image does the brain lesion lie?", "In the left half", "In the right half"),
            ("How does the lesion look beside the brain around it?", "Brighter", "Darker"),
        ),
    ),
    _Case(
        ("Cerebral", "Vascular"),
        radiology.angiogram,
        (
            ("Which branch of the vessel, as seen in the image, is altered?", "The left branch", "The right branch"),
            ("How is the branch of the vessel altered?", "It bulges, as an aneurysm", "It is narrow, as a stenosis"),
        ),
    ),
    _Case(
        ("Head and Neck",),
        radiology.nodule,
        (
            ("How does the thyroid nodule look beside the tissue around it?", "Brighter", "Darker"),
            ("What is the edge of the thyroid nodule like?", "Sharp", "Blurred"),
        ),
    ),
    _Case(
        ("Cardiac",),
        radiology.heart,
        (
            ("On which side of the spine, as seen in the image, does most of the heart lie?", "Right", "Left"),
            ("How large is the heart?", "Less than half as wide as the chest", "Half as wide as the chest"),
        ),
    ),
    _Case(
        ("Pulmonary",),
        radiology.lung_nodule,
        (
            ("In which half of the image does the lung nodule lie?", "In the left half", "In the right half"),
            ("In which part of the lung does the nodule lie?", "In the upper part", "In the lower part"),
        ),
    ),
    _Case(
        ("Spinal",),
        radiology.spine,
        (
            ("Which half of this part of the spine is altered?", "The upper half", "The lower half"),
            ("What is wrong with the altered vertebra?", "It has collapsed", "It has a dark hole"),
        ),
    ),
    _Case(
        ("Gastrointestinal",),
        radiology.abdominal_lesion,
        (
            ("Which organ holds the lesion?", "The liver", "The spleen"),
            ("How does the lesion look beside the organ around it?", "Brighter", "Darker"),
        ),
    ),
    _Case(
        ("Musculoskeletal",),
        radiology.long_bone,
        (
            ("Which half of the bone, as seen in the image, is broken?", "The upper half", "The lower half"),
            ("How does the fracture run?", "Straight across the bone", "Obliquely"),
        ),
    ),
    _Case(
        ("Nuclear Medicine", "Musculoskeletal"),
        radiology.bone_scan,
        (
            ("Where does the tracer gather?", "In the chest", "In the pelvis"),
            ("At how many places does the tracer gather?", "At one", "At two"),
        ),
    ),
)


def pairs(seed: int) -> tuple[dict[str, dict[str, Any]], dict[int, Scene]]:
    """MediConfusion's dataset.json, and the scene of each image by its local number.

    The two images of a pair come from the same random numbers and differ in what is asked alone. For each case
    two pairs share an image and two stand alone.
    """
    rng = np.random.default_rng((seed, 2))
    entries: dict[str, dict[str, Any]] = {}
    scenes: dict[int, Scene] = {}

    def image(case: _Case, twin: int, choices: Sequence[bool]) -> int:
        scenes[len(scenes) + 1] = case.make(np.random.default_rng(twin), *choices)
        return len(scenes)

    def pair(case: _Case, asked: int, first: int, second: int, choice: bool) -> None:
        question, no, yes = case.questions[asked]
        right, wrong = (yes, no) if choice else (no, yes)
        first_is_a = len(entries) % 2 == 0
        entries[str(len(entries) + 1)] = {
            "im_1": f"phantom/{first}",
            "im_2": f"phantom/{second}",
            "im_1_local": first,
            "im_2_local": second,
            "category_1": list(case.categories),
            "category_2": list(case.categories),
            "question": question,
            "option_A": right if first_is_a else wrong,
            "option_B": wrong if first_is_a else right,
            "im_1_correct": "A" if first_is_a else "B",
            "im_2_correct": "B" if first_is_a else "A",
        }

    for case in _CASES:
        for asked in ((0, 1), (0,), (1,)):
            twin, choices = int(rng.integers(2**32)), [bool(choice) for choice in rng.integers(2, size=2)]
            base = image(case, twin, choices)
            for which in asked:
                changed = [choice != (position == which) for position, choice in enumerate(choices)]
                pair(case, which, base, image(case, twin, changed), choices[which])
    return entries, scenes
