"""The phantom's rows in MedLesionVQA's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator

from tools import photography
from tools.canvas import Finding, Scene, spots
from tools.questions import arranged, single_choices


@dataclass(frozen=True, slots=True)
class _Disease:
    """How a disease shows itself here: its lesion, how many, whether in a band; why they come, what helps."""

    lesion: str
    count: int
    band: bool
    mechanism: str
    treatment: str


_DISEASES = {
    "nevus": _Disease("nevus", 1, False, "cells that make pigment gather", "observation alone"),
    "vitiligo": _Disease("depigmentation", 2, False, "cells that make pigment are lost", "light therapy"),
    "tinea corporis": _Disease("plaque", 1, False, "a fungus spreads outwards from one place", "an antifungal"),
    "herpes zoster": _Disease("vesicle", 7, True, "a virus awakes in a nerve", "an antiviral"),
    "urticaria": _Disease("wheal", 3, False, "small vessels leak into the skin", "an antihistamine"),
    "impetigo": _Disease("crust", 3, False, "bacteria make the skin ooze, and it dries", "an antibiotic"),
}
_LESIONS = tuple(disease.lesion for disease in _DISEASES.values())
_SIZES = ("1 cm", "2 cm", "3 cm", "4 cm")
_QUANTITIES = {"1": 1, "2": 2, "3": 3, "multiple": 8}
_DISTRIBUTIONS = ("scattered", "cluster-like", "zonal", "symmetrical")
_BOUNDARIES = ("well-defined", "poorly-defined")
_RELATIONS = {"to the left of": (-1, 0), "to the right of": (1, 0), "above": (0, -1), "below": (0, 1)}
_CAUSES = {
    "tinea corporis": "a fungus",
    "herpes zoster": "a virus",
    "impetigo": "bacteria",
    "scabies": "mites",
}
_YES_NO = ("yes", "no")
_SPELLINGS = {
    "1": ["one"],
    "2": ["two"],
    "3": ["three"],
    "multiple": ["many"],
    "to the left of": ["left of", "left"],
    "to the right of": ["right of", "right"],
    "a fungus": ["fungi"],
    "a virus": ["viruses"],
    "bacteria": ["bacterium"],
    "mites": ["mite"],
}
"""Other ways to write the terms of the closed vocabularies."""

Row = tuple[dict[str, Any], Scene | None]


def rows(seed: int) -> list[Row]:
    """Rows of MedLesionVQA's JSONL without `id` and `image`, and the scene of each; None for a text-only question.

    Open questions name their closed vocabulary and carry it as `vocabulary`, each term with other ways to write
    it. Rows may share a scene.
    """
    rng = np.random.default_rng((seed, 3))
    return [*_diseases(rng), *_lesions(rng), *_attributes(rng), *_places(rng), *_knowledge()]


def _diseases(rng: Generator) -> Iterator[Row]:
    def asked(scene: Scene, name: str, **row: Any) -> Row:
        return _row(scene, lesions=[_DISEASES[name].lesion], diseases=[name], **row)

    scenes = {name: _affected(rng, name) for name in _DISEASES}
    for name, disease in _DISEASES.items():
        question = f"Which kind of lesion does the skin show: {_listed(_LESIONS)}?"
        row = _open("short_answer", question, disease.lesion, _LESIONS)
        yield asked(scenes[name], name, ability="lesion_recognition", **row)
        question = f"Which of these diseases does the skin show: {_listed(tuple(_DISEASES))}?"
        row = _open("short_answer", question, name, tuple(_DISEASES))
        yield asked(scenes[name], name, ability="disease_diagnosis", **row)

    tasks = (
        ("disease_diagnosis", "Which disease does the skin show?", {name: name for name in _DISEASES}),
        ("lesion_reasoning", "How did this lesion come about?", {name: d.mechanism for name, d in _DISEASES.items()}),
        (
            "suggestion_treatment",
            "What is usually done about this?",
            {name: d.treatment for name, d in _DISEASES.items()},
        ),
    )
    scenes = {name: _affected(rng, name) for name in _DISEASES}
    for ability, question, texts in tasks:
        for name, (_, options, answer) in zip(texts, single_choices(rng, tuple(texts.values()), 6, 4), strict=True):
            yield asked(scenes[name], name, ability=ability, **_choice(question, options, answer))


def _lesions(rng: Generator) -> Iterator[Row]:
    places = list(combinations("ABCD", 2))
    for number, place in enumerate(rng.permutation(len(places))):
        present = _LESIONS[number], _LESIONS[(number + 1) % 6]
        at = spots(rng, 4, 0.06, 0.94, cells=2)
        scene = photography.skin(rng, *map(partial(photography.lesion, rng), present * 2, at))
        others = rng.permutation([lesion for lesion in _LESIONS if lesion not in present]).tolist()[:2]
        options, answer = arranged(rng, present, others, places[place]), ",".join(places[place])
        row = _choice("Which kinds of lesion does the skin show?", options, answer)
        yield _row(scene, ability="lesion_recognition", lesions=list(present), **row)

    names = tuple(_DISEASES)
    for number in (2, 3, 4):
        for name, answer in ((names[number], "yes"), (names[number - 1], "no")):
            question = f"Does the skin show a {_LESIONS[number]}?"
            row = _open("judgment", question, answer, _YES_NO)
            lesion = _DISEASES[name].lesion
            yield _row(_affected(rng, name), ability="lesion_recognition", lesions=[lesion], **row)


def _attributes(rng: Generator) -> Iterator[Row]:
    def asked(attribute: str, scene: Scene, row: dict[str, Any]) -> Row:
        return _row(scene, ability="attribute_recognition", attribute=attribute, lesions=["patch"], **row)

    for colour in photography.COLOURS:
        question = f"The lesion is ____ in colour ({_listed(tuple(photography.COLOURS))})."
        scene = photography.skin(rng, _patch(rng, colour=colour))
        yield asked("color", scene, _open("fill_in_the_blank", question, colour, tuple(photography.COLOURS)))
    for shape, options, answer in single_choices(rng, photography.SHAPES, 4, 4):
        scene = photography.skin(rng, _patch(rng, shape=shape, size=0.2, angle=rng.uniform(0, np.pi)))
        yield asked("shape", scene, _choice("What is the shape of the lesion?", options, answer))
    for size in _SIZES:
        question = f"The ticks of the ruler are 1 cm apart. The lesion is ____ in diameter ({_listed(_SIZES)})."
        radius = photography.RULER_CM * int(size[0]) / 2
        scene = photography.skin(rng, _patch(rng, size=radius, y=0.43), variant="ruler")
        yield asked("size", scene, _open("fill_in_the_blank", question, size, _SIZES))
    for quantity, count in _QUANTITIES.items():
        question = f"How many lesions does the skin show: {_listed(tuple(_QUANTITIES))}?"
        scene = photography.skin(rng, *_patches(rng, spots(rng, count, 0.06, 0.94)))
        yield asked("quantity", scene, _open("short_answer", question, quantity, tuple(_QUANTITIES)))
    for distribution, options, answer in single_choices(rng, _DISTRIBUTIONS, 4, 4):
        scene = photography.skin(rng, *_patches(rng, _layout(rng, distribution), size=0.04))
        yield asked("distribution", scene, _choice("How are the lesions distributed?", options, answer))
    for number, boundary in enumerate(_BOUNDARIES * 2):
        scene = photography.skin(rng, _patch(rng, border=boundary, colour=("red", "black")[number // 2]))
        answer = "yes" if boundary == "well-defined" else "no"
        question = "Is the boundary of the lesion well-defined?"
        yield asked("boundary", scene, _open("judgment", question, answer, _YES_NO))


def _places(rng: Generator) -> Iterator[Row]:
    regions = photography.BODY_REGIONS
    on_skin = {"face": (0.5, 0.62), "hand": (0.5, 0.68), "foot": (0.5, 0.5), "abdomen": (0.5, 0.3)}

    def on(region: str) -> Scene:
        x, y = on_skin[region]
        patch = _patch(rng, x=x + rng.uniform(-0.08, 0.08), y=y + rng.uniform(-0.05, 0.05), size=0.05)
        return photography.skin(rng, patch, variant=region)

    def located(region: str, row: dict[str, Any]) -> Row:
        return _row(on(region), ability="location_recognition", region=region, lesions=["patch"], **row)

    for region in regions:
        question = f"On which part of the body does the lesion lie: {_listed(regions)}?"
        yield located(region, _open("short_answer", question, region, regions))
    for region, options, answer in single_choices(rng, regions, 4, 4):
        yield located(region, _choice("On which part of the body does the lesion lie?", options, answer))

    def related(relation: str, row: dict[str, Any]) -> Row:
        (across, down), shift = _RELATIONS[relation], rng.uniform(-0.06, 0.06, 2).tolist()
        x, y = 0.5 + shift[0], 0.5 + shift[1]
        black = _patch(rng, x=x + 0.2 * across, y=y + 0.2 * down, size=0.08, colour="black")
        red = _patch(rng, x=x - 0.2 * across, y=y - 0.2 * down, size=0.08, colour="red")
        return _row(photography.skin(rng, black, red), ability="spatial_relation", lesions=["patch"], **row)

    for relation in _RELATIONS:
        question = f"The black lesion lies ____ the red one ({_listed(tuple(_RELATIONS))})."
        yield related(relation, _open("fill_in_the_blank", question, relation, tuple(_RELATIONS)))
    for relation, asked in zip(_RELATIONS, ("to the left of", "to the left of", "below", "below"), strict=True):
        question = f"Does the black lesion lie {asked} the red one?"
        yield related(relation, _open("judgment", question, "yes" if relation == asked else "no", _YES_NO))


def _knowledge() -> Iterator[Row]:
    """Text-only questions: what one knows, or does not, without a picture."""
    causes = tuple(_CAUSES.values())
    for disease, cause in _CAUSES.items():
        question = f"What causes {disease}: {_listed(causes)}?"
        row = _open("short_answer", question, cause, causes)
        yield _row(None, ability="lesion_reasoning", diseases=[disease], **row)
    infections = ("tinea corporis", "herpes zoster", "impetigo")
    for number, disease in enumerate(infections):
        for other, answer in ((disease, "yes"), (infections[number - 1], "no")):
            question = f"Is {_DISEASES[other].treatment} the usual treatment of {disease}?"
            row = _open("judgment", question, answer, _YES_NO)
            yield _row(None, ability="suggestion_treatment", diseases=[disease], **row)


def _affected(rng: Generator, name: str) -> Scene:
    """Skin with that disease."""
    disease = _DISEASES[name]
    if disease.band:
        slope, along = rng.uniform(-0.4, 0.4), np.linspace(-0.38, 0.38, disease.count).tolist()
        places = [(0.5 + x, 0.5 + slope * x + rng.uniform(-0.05, 0.05)) for x in along]
    elif disease.count == 1:
        places = spots(rng, 1, 0.3, 0.7, cells=1)
    else:
        places = spots(rng, disease.count, 0.06, 0.94, cells=2)
    return photography.skin(rng, *(photography.lesion(rng, disease.lesion, place) for place in places))


def _patch(rng: Generator, *, size: float = 0.14, **fixed: Any) -> Finding:
    """A flat lesion near the middle, of any colour."""
    x, y, colour = rng.uniform(0.4, 0.6), rng.uniform(0.4, 0.6), str(rng.choice([*photography.COLOURS]))
    return replace(Finding("patch", x, y, size, colour), **fixed)


def _patches(rng: Generator, places: Sequence[tuple[float, float]], size: float = 0.06) -> list[Finding]:
    colour = str(rng.choice(["red", "black"]))
    return [Finding("patch", x, y, size, colour) for x, y in places]


def _layout(rng: Generator, distribution: str) -> list[tuple[float, float]]:
    """Where lesions lie that are distributed in that way."""
    if distribution == "scattered":
        return spots(rng, 7, 0.03, 0.97, cells=3)
    if distribution == "cluster-like":
        low = rng.uniform(0.1, 0.5)
        return spots(rng, 7, low, low + 0.38, cells=3)
    if distribution == "zonal":
        slope = rng.uniform(-0.3, 0.3)
        return [(0.5 + along, 0.5 + slope * along) for along in np.linspace(-0.42, 0.42, 8).tolist()]
    return [(x, y) for half, y in spots(rng, 4, 0.06, 0.44, cells=2) for x in (half, 1 - half)]


def _listed(vocabulary: Sequence[str]) -> str:
    return f"{', '.join(vocabulary[:-1])} or {vocabulary[-1]}"


def _choice(question: str, options: dict[str, str], answer: str) -> dict[str, Any]:
    return {"question_type": "multi_choice", "question": question, "options": options, "answer": answer}


def _open(kind: str, question: str, answer: str, vocabulary: Sequence[str]) -> dict[str, Any]:
    return {
        "question_type": kind,
        "question": question,
        "options": None,
        "answer": answer,
        "vocabulary": {term: _SPELLINGS.get(term, []) for term in vocabulary},
    }


def _row(
    scene: Scene | None,
    *,
    ability: str,
    attribute: str | None = None,
    region: str = "skin of undetermined location",
    lesions: Sequence[str] = (),
    diseases: Sequence[str] = (),
    **row: Any,
) -> Row:
    return {
        "split": "val",
        "ability": ability,
        "attribute": attribute,
        **row,
        "modality_dependence": "multimodal" if scene else "text_only",
        "language": "en",
        "meta": {"body_region": region if scene else None, "lesions": list(lesions), "diseases": list(diseases)},
    }, scene
