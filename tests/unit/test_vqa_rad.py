"""VQA-RAD: the owners' JSON and the hub's Parquet are two benchmarks, which tell closed questions in different ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, metrics
from medvqa.benchmarks import vqa_rad
from medvqa.items import Answer, DataError, Item
from support import hub

HUB, OSF, HUB_TRAIN, OSF_TRAIN = vqa_rad.BENCHMARKS
ROW = {
    "qid": 7,
    "phrase_type": "test_freeform",
    "qid_linked_id": "NULL",
    "image_case_url": "https://example.org/case?id=1",
    "image_name": "synpic100.jpg",
    "image_organ": "CHEST",
    "evaluation": "not evaluated",
    "question": "Is there an effusion?",
    "question_rephrase": "NULL",
    "question_type": "PRES, POS",
    "answer": "No",
    "answer_type": "CLOSED",
}


def rows(data: Path, *changes: Mapping[str, Any]) -> Path:
    """DATA/vqa-rad with the owners' file: a row for each of these changes."""
    folder = data / "vqa-rad"
    folder.mkdir(exist_ok=True)
    (folder / vqa_rad.PUBLIC).write_text(json.dumps([ROW | change for change in changes]))
    return data


def load(data: Path) -> dict[str, Item]:
    return {item.id: item for item in benchmarks.load(OSF, data)}


def test_a_row_of_the_owners_file_becomes_an_item(tmp_path: Path) -> None:
    item = load(rows(tmp_path, {}))["7"]
    assert (item.kind, item.answers) == ("judgment", ("No",))
    assert [image.name for image in item.images] == ["vqa-rad/VQA_RAD Image Folder/synpic100.jpg"]
    assert item.tags == {
        "answer_type": ("closed",),
        "question_type": ("pres", "pos"),
        "organ": ("chest",),
        "phrase_type": ("test_freeform",),
    }


def test_names_of_columns_in_any_case_and_numbers_as_answers(tmp_path: Path) -> None:
    rows(tmp_path, {"answer": 2, "answer_type": " OPEN ", "image_name": " synpic100.jpg "})
    path = tmp_path / "vqa-rad" / vqa_rad.PUBLIC
    path.write_text(
        json.dumps([{f" {key.upper()} ": value for key, value in row.items()} for row in json.loads(path.read_text())])
    )
    item = load(tmp_path)["7"]
    assert (item.kind, item.answers, item.images[0].name.endswith("/synpic100.jpg")) == ("short_answer", ("2",), True)
    assert OSF.score(item, Answer("2")).outcome == "unscored"


def test_closed_is_told_by_the_column_and_not_by_the_answer(tmp_path: Path) -> None:
    items = load(rows(tmp_path, {"answer": "Left"}, {"qid": 8, "answer": "Yes", "answer_type": "OPEN"}))
    assert (items["7"].kind, items["8"].kind) == ("judgment", "short_answer")
    assert OSF.score(items["7"], Answer("the left.")).outcome == "correct"


def test_images_cases_and_paraphrases_are_one_group(tmp_path: Path) -> None:
    other = {"image_case_url": "NULL"}
    items = load(
        rows(
            tmp_path,
            {},
            {"qid": 1, "image_name": "synpic2.jpg"},
            {"qid": 2, "image_name": "synpic3.jpg", "qid_linked_id": "abc", **other},
            {"qid": 3, "image_name": "synpic4.jpg", "qid_linked_id": "abc", **other},
            {"qid": 4, "image_name": "synpic5.jpg", **other},
            {"qid": 5, "image_name": "synpic6.jpg", "qid_linked_id": None, **other},
        )
    )
    groups = [items[name].cluster_id for name in ("7", "1", "2", "3", "4", "5")]
    assert groups[0] == groups[1]
    assert groups[2] == groups[3]
    assert len(set(groups)) == 4


def test_the_phrase_type_tells_the_split(tmp_path: Path) -> None:
    rows(
        tmp_path,
        {},
        {"qid": 8, "phrase_type": "test_para"},
        {"qid": 9, "phrase_type": "freeform"},
        {"qid": 10, "phrase_type": "para"},
    )
    assert sorted(load(tmp_path)) == ["7", "8"]
    assert sorted(item.id for item in benchmarks.load(OSF_TRAIN, tmp_path)) == ["10", "9"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (({"answer_type": "?"},), r"vqa-rad/VQA_RAD Dataset Public.json record 1: no answer type '\?'"),
        (({}, {}), "record 2: qid 7 occurs twice"),
        (({"image_name": "../../etc/x.jpg"},), "leaves"),
        (({"question": None},), "record 1: .*question"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, changes: tuple[Mapping[str, Any], ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(rows(tmp_path, *changes))


def test_the_hubs_form_is_a_benchmark_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    name = "vqa-rad/data/test-00000-of-00001-e5bc3d208bb4deeb.parquet"
    hub.write(tmp_path / name, [hub.question(1, "is it?", "no"), hub.question(1, "left or right?", "left")])
    items = benchmarks.load(HUB, tmp_path)
    assert [item.kind for item in items] == ["judgment", "short_answer"]
    assert items[0].cluster_id == items[1].cluster_id
    assert {file.to for file in HUB.origin.files} >= {name} if HUB.origin else False
    known = {benchmark.name: benchmark for benchmark in vqa_rad.BENCHMARKS}
    rows(tmp_path, {})
    assert [b.name for b in benchmarks.choose([], known, tmp_path)] == ["vqa-rad", "vqa-rad-osf"]


def test_numbers_of_the_two_forms_are_not_comparable() -> None:
    told = []
    for benchmark in (HUB, OSF):
        metric = next(metric for metric in benchmark.metrics if metric.name == "closed_accuracy")
        told.append(metrics.parts(metrics.signed(metric, {}))["closed"])
    assert told == ["answer", "answer_type"]
