"""Counts of questions by tag."""

from pathlib import Path

import pytest

from medvqa.benchmarks import mediconfusion
from medvqa.items import Item, Kind
from medvqa.tags import counting

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"


def item(id: str, kind: Kind = "single_choice", **tags: tuple[str, ...]) -> Item:
    return Item(id, "gmai-mmbench-val", kind, "Which?", {"A": "a", "B": "b"}, ("A",), tags=tags)


ITEMS = [
    item("1", task=("bone",), modality=("ct",), label=("ulna",), granularity=("mask_level",)),
    item("2", task=("bone",), modality=("ct",), label=("ulna",), granularity=("contour_level",)),
    item("3", task=("bone",), modality=("x_ray",), label=("ulna",), granularity=("image_level",)),
    item("4", task=("muscle",), modality=("ct",), label=("psoas",), granularity=("box_level",)),
    item("5", "multiple_response", task=("muscle",), modality=("ct",), label=("a", "b"), granularity=("image_level",)),
]


def test_modalities_labels_and_questions_are_counted_by_task() -> None:
    found = counting.count(ITEMS, "task")
    assert found.columns == ("modality", "label", "questions")
    assert found.rows == {"bone": (2, 1, 3), "muscle": (1, 3, 2)}
    assert found.total == (2, 4, 5)


def test_labels_are_left_out_where_the_key_is_withheld() -> None:
    withheld = [item(str(i), task=("bone",), modality=("ct",)) for i in range(2)]
    found = counting.count(withheld, "task")
    assert (found.columns, found.rows) == (("modality", "questions"), {"bone": (1, 2)})


def test_crossed_dimensions_are_counted_by_combination() -> None:
    found = counting.count(ITEMS, "task+granularity")
    assert found.columns == ("questions",)
    assert (found.rows["bone+contour_level"], len(found.rows)) == ((1,), 5)


@pytest.mark.skipif(not (REFERENCE / "mediconfusion").is_dir(), reason="the MediConfusion data set is not here")
def test_mediconfusion_has_its_published_numbers_of_image_slots() -> None:
    found = counting.count(list(mediconfusion.items(REFERENCE)), "category")
    published = {
        **{"cerebral": 79, "vascular": 73, "head_and_neck": 67, "spinal": 51, "musculoskeletal": 42, "cardiac": 52},
        **{"gastrointestinal": 43, "pulmonary": 20, "nuclear_medicine": 14},
    }
    assert found.rows == {category: (number,) for category, number in published.items()}
