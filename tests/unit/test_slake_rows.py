"""SLAKE: rows become items of a language; answer_type tells closed questions; groups go by img_id over languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import slake
from medvqa.items import Answer, Benchmark, DataError, Item
from medvqa.protocols.shots import Chooser, Pool

BY_NAME = {benchmark.name: benchmark for benchmark in slake.BENCHMARKS}
ROW = {
    "img_id": 1,
    "img_name": "xmlab1/source.jpg",
    "question": "Does the picture contain {liver}?",
    "answer": "Yes",
    "q_lang": "en",
    "location": "Abdomen",
    "modality": "X-Ray",
    "answer_type": "CLOSED",
    "base_type": "vqa",
    "content_type": "Organ",
    "triple": ["vhead", "SECRET", "_"],
    "qid": 3,
}


def rows(data: Path, *changes: Mapping[str, Any], file: str = "test.json") -> Path:
    """DATA/slake/FILE with a row for each of these changes."""
    (data / "slake").mkdir(exist_ok=True)
    (data / "slake" / file).write_text(json.dumps([ROW | change for change in changes]), encoding="utf-8")
    return data


def load(name: str, data: Path) -> tuple[Item, ...]:
    return benchmarks.load(BY_NAME[name], data)


def test_a_row_becomes_an_item_without_the_triple_that_may_hold_the_answer(tmp_path: Path) -> None:
    [item] = load("slake-en-test", rows(tmp_path, {}))
    assert (item.id, item.kind, item.answers, item.cluster_id) == ("3", "judgment", ("Yes",), "slake image 1")
    assert [image.name for image in item.images] == ["slake/imgs/xmlab1/source.jpg"]
    assert item.tags == {
        "answer_type": ("closed",),
        "content_type": ("organ",),
        "modality": ("x_ray",),
        "location": ("abdomen",),
        "base_type": ("vqa",),
        "language": ("en",),
    }
    assert "SECRET" not in repr(item)


def test_languages_are_apart_and_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    rows(tmp_path, {}, {"qid": 4, "q_lang": "zh", "answer": "包含", "question": "图中包含肝脏吗?"})
    path = tmp_path / "slake/test.json"
    path.write_text(json.dumps([dict(reversed(row.items())) for row in json.loads(path.read_text())]))
    assert [item.id for item in load("slake-en-test", tmp_path)] == ["3"]
    [item] = load("slake-zh-test", tmp_path)
    assert (item.id, item.answers, item.kind) == ("4", ("包含",), "judgment")


@pytest.mark.parametrize("file", ["validation.json", "validate.json"])
def test_both_names_of_the_validation_file_are_read(tmp_path: Path, file: str) -> None:
    assert len(load("slake-en-validation", rows(tmp_path, {}, file=file))) == 1


def test_a_blank_answer_is_a_withheld_key_and_no_example(tmp_path: Path) -> None:
    rows(tmp_path, {"answer": " "}, {"qid": 4, "img_id": 2, "img_name": "xmlab2/source.jpg"}, file="train.json")
    blank, keyed = sorted(load("slake-en-train", tmp_path), key=lambda item: item.id)
    assert (blank.answers, keyed.answers) == ((), ("Yes",))
    assert slake.closed_open.score(blank, Answer("Yes")).outcome == "unscored"
    [question] = load("slake-en-test", rows(tmp_path, {"qid": 9, "img_id": 3, "img_name": "xmlab3/source.jpg"}))
    assert list(Chooser(Pool("slake-en-train", (blank, keyed)), [question]).candidates(question)) == [keyed]


def test_examples_never_share_an_image_with_the_question_in_either_language(tmp_path: Path) -> None:
    [question] = load("slake-en-test", rows(tmp_path, {"img_id": 7, "img_name": "xmlab7/source.jpg"}))
    zh = {"q_lang": "zh", "answer": "包含"}
    rows(
        tmp_path,
        {"qid": 20, **zh, "img_id": 7, "img_name": "xmlab7/source.jpg"},
        {"qid": 21, **zh, "img_id": 8, "img_name": "xmlab8/source.jpg"},
        {"qid": 22, **zh, "img_id": 7, "img_name": "xmlab7/other.jpg"},
        {"qid": 23, **zh, "img_id": 9, "img_name": "xmlab7/source.jpg"},
        file="train.json",
    )
    pool = Pool("slake-zh-train", load("slake-zh-train", tmp_path))
    assert [item.id for item in Chooser(pool, [question]).candidates(question)] == ["21"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q_lang": "de"}, "slake/test.json record 1: no language 'de'; known: en, zh"),
        ({"answer_type": "x" * 9999}, "^.{30,200}$"),
        ({"answer_type": "HALF"}, "slake/test.json record 1: no answer type 'HALF'; known: CLOSED, OPEN"),
        ({"img_name": "../../secret.jpg"}, "slake/test.json record 1: .*leaves"),
        ({"qid": " "}, "slake/test.json record 1, column 'qid': blank"),
        ({"img_name": None}, "slake/test.json record 1: Expected `str`, got `null` - at `\\$.img_name`"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, change: Mapping[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load("slake-en-test", rows(tmp_path, change))


def test_two_questions_of_one_qid_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"record 2: qid 3 is also that of slake/test.json record 1"):
        load("slake-en-test", rows(tmp_path, {}, {"q_lang": "zh"}))


def test_the_usual_prompts_to_the_byte(tmp_path: Path) -> None:
    data = rows(tmp_path, {}, {"qid": 4, "answer_type": "OPEN"}, {"qid": 5, "q_lang": "zh"},
                {"qid": 6, "q_lang": "zh", "answer_type": "OPEN"})  # fmt: skip

    def asked(name: str, prompt: str = "") -> list[str]:
        benchmark = BY_NAME[name]
        ask = benchmark.prompts[prompt] if prompt else benchmark.prompt
        assert callable(ask)
        return [ask(item, "mc").text.removeprefix(ROW["question"]) for item in load(name, data)]  # type: ignore[arg-type]

    word = "\nAnswer the question using a single word or phrase."
    assert asked("slake-en-test") == [word, "\nPlease answer the question concisely."]
    assert asked("slake-zh-test") == ["\n请用一个单词或者短语回答该问题。", "\n请简要回答该问题。"]
    assert asked("slake-en-test", "lmms-eval") == [word, word]
    assert asked("slake-zh-test", "lmms-eval") == ["\n请用一个词或短语回答问题。"] * 2


def test_training_and_validation_are_evaluated_on_request_alone(tmp_path: Path) -> None:
    for file in ("test.json", "train.json", "validation.json"):
        rows(tmp_path, {}, file=file)
    known: dict[str, Benchmark] = dict(BY_NAME)
    assert [b.name for b in benchmarks.choose(["slake"], known, tmp_path)] == ["slake-en-test", "slake-zh-test"]
    assert [b.name for b in benchmarks.choose([], known, tmp_path)] == ["slake-en-test", "slake-zh-test"]
    assert [b.name for b in benchmarks.choose(["slake-zh-train"], known, tmp_path)] == ["slake-zh-train"]
