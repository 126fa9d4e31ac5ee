"""Counts of questions by tag, beside those that the papers print."""

from pathlib import Path

import pytest

from medvqa.benchmarks import mediconfusion
from medvqa.items import Item, Kind
from medvqa.tags import counting, lexicon

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


def test_modalities_labels_and_cases_are_counted_by_task() -> None:
    """The contour of case 1 is no case of its own, and a multiple response is not counted in Table 5."""
    found = counting.count(ITEMS, "task", "gmai-mmbench-val")
    assert found.columns == ("modality", "label", "questions", "cases")
    assert found.rows == {"bone": (2, 1, 3, 2), "muscle": (1, 3, 2, 1)}
    assert found.total == (2, 4, 5, 3)
    assert found.published is not None
    assert found.published.values["bone"] == (6, 22, 655)


def test_labels_are_unknown_where_the_key_is_withheld() -> None:
    withheld = [item(str(i), task=("bone",), modality=("ct",)) for i in range(2)]
    assert counting.count(withheld, "task", "gmai-mmbench-test").rows == {"bone": (1, None, 2)}


def test_crossed_dimensions_are_counted_by_combination() -> None:
    found = counting.count(ITEMS, "task+granularity")
    assert found.columns == ("questions", "cases")
    assert found.rows["bone+contour_level"] == (1, 0)
    assert (len(found.rows), found.published) == (5, None)


def test_the_published_tables_have_their_totals() -> None:
    """20,244 cases by task and by department, 721 labels, 25,831 questions by granularity, 18,344 of MedLesionVQA."""
    totals = {
        table.dimension: [sum(values) for values in zip(*table.values.values(), strict=True)]
        for table in counting.published()
    }
    assert totals["task"][1:] == [721, 20_244]
    assert totals["department"][2] == 20_244
    assert totals["granularity"][2] == 25_831
    assert totals["granularity"][2] - 5_587 == totals["task"][2], "contour level shows the cases at mask level again"
    assert totals["ability"] == [18_344]
    known = {name: dimension for each in lexicon.lexicons() for name, dimension in each.dimensions.items()}
    for table in counting.published():
        assert set(table.values) <= set(known[table.dimension].values)


@pytest.mark.skipif(not (REFERENCE / "mediconfusion").is_dir(), reason="the MediConfusion data set is not here")
def test_mediconfusion_has_its_published_numbers_of_image_slots() -> None:
    found = counting.count(list(mediconfusion.items(REFERENCE)), "category", "mediconfusion")
    assert found.published is not None
    assert found.rows == found.published.values
