"""ReXVQA: paths within the data folder, options with prefixes, patients that stay unnamed, and bad rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import origins, rexvqa
from medvqa.items import DataError, Item
from support.neighbours import CANARY, write_image, write_json
from support.neighbours_frames import study_row

TEST, VALID = rexvqa.BENCHMARKS


def loaded(data: Path, split: str = "test", **rows: Any) -> tuple[Item, ...]:
    write_json(data / f"rexvqa/metadata/{split}_vqa_data.json", rows)
    return benchmarks.load(TEST if split == "test" else VALID, data)


def test_patients_are_clusters(tmp_path: Path) -> None:
    rows = {f"q{n}": study_row(n, "A", images=1 + n % 2) for n in range(4)}
    first, second, third, fourth = loaded(tmp_path, **rows)
    assert first.cluster_id == second.cluster_id != third.cluster_id == fourth.cluster_id
    assert [len(item.images) for item in (first, second)] == [1, 2]
    assert first.images[0].path == str(tmp_path / "rexvqa/deid_png/MUSTERMANN0/a0/0.png")
    assert first.images[0].name == "rexvqa/deid_png/MUSTERMANN0/a0/0.png"
    assert first.extra == {}
    assert not TEST.public, "else runs record patients"


def test_a_study_stands_in_for_a_missing_patient(tmp_path: Path) -> None:
    rows = {
        "q0": study_row(0, "A", PatientID=None, study_id="s"),
        "q1": study_row(1, "A", PatientID=None, study_id="s"),
    }
    rows["q2"] = study_row(2, "A", PatientID=None, study_id=None)
    clusters = [item.cluster_id for item in loaded(tmp_path, **rows)]
    assert clusters[0] == clusters[1] is not None
    assert clusters[2] is None


def test_the_split_is_the_file(tmp_path: Path) -> None:
    assert [item.id for item in loaded(tmp_path, "valid", v1=study_row(1, "A"))] == ["v1"]
    assert origins.files_of(TEST, tmp_path) == ()


@pytest.mark.parametrize(
    "options",
    [["A. Left", "B. Right"], ["A.Left", "B.Right"], [" A: Left", "B) Right "], ["Left", "Right"]],
)
def test_prefixes_are_cut_once(tmp_path: Path, options: list[str]) -> None:
    (item,) = loaded(tmp_path, q=study_row(1, "B", options=options))
    assert item.options == {"A": "Left", "B": "Right"}
    assert not isinstance(TEST.prompt, str)
    assert "Options:\nA. Left\nB. Right\n\nAnswer:" in TEST.prompt(item, "mc").text


def test_a_named_prompt_sends_the_first_image_alone(tmp_path: Path) -> None:
    (item,) = loaded(tmp_path, q=study_row(1, "B", images=3))
    first = TEST.prompts["first-image"]
    assert not isinstance(first, str)
    assert not isinstance(TEST.prompt, str)
    assert first(item, "mc").images == item.images[:1]
    assert TEST.prompt(item, "mc").images == item.images
    assert first(item, "mc").text == TEST.prompt(item, "mc").text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ImagePath": ["../../deid_png/x.png"]}, r"record 1: path \[cell\] leaves the data folder"),
        ({"ImagePath": ["../../../etc/passwd"]}, "leaves the data folder"),
        ({"ImagePath": ["/etc/passwd"]}, "leaves the data folder"),
        ({"ImagePath": ["..\\..\\x.png"]}, "has a backslash"),
        ({"ImagePath": ["../deid_png/\x00.png"]}, "is not a path"),
        ({"ImagePath": 7}, "record 1: Expected"),
        ({"ImagePath": ["../deid_png/0.png"] * 101}, "'ImagePath': 101 images; a question has at most 100"),
        ({"options": ["A. Left", "Right"]}, r"the options' prefixes are not A, B, C \.\.\. in this order"),
        ({"options": ["B. Left", "A. Right"]}, "the options' prefixes are not"),
        ({"options": ["A. Left"]}, "1 options"),
        ({"correct_answer": "E"}, r"column 'correct_answer': answer \[cell\] is none of its options A, B, C, D"),
        ({"question": 3}, "record 1: Expected `str`"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, q=study_row(1, "B") | changes)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path / "elsewhere/0.png")
    (tmp_path / "rexvqa").mkdir()
    (tmp_path / "rexvqa/deid_png").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="leaves the data folder"):
        loaded(tmp_path, q=study_row(1, "B", ImagePath=["../deid_png/0.png"]))


@pytest.mark.parametrize("content", [[], {}, {"q": []}, {"q": 3}, "x", [study_row(1, "A")]])
def test_a_file_of_another_form_is_one_line(tmp_path: Path, content: Any) -> None:
    write_json(tmp_path / "rexvqa/metadata/test_vqa_data.json", content)
    with pytest.raises(DataError, match=r"^(rexvqa/metadata/test_vqa_data.json|rexvqa-test).*") as raised:
        benchmarks.load(TEST, tmp_path)
    assert "\n" not in str(raised.value)
    assert CANARY not in str(raised.value)
