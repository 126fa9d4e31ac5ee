"""MedXpertQA-MM: both released forms, the protocol of two turns, and bad rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import medvqa
from medvqa import benchmarks
from medvqa.benchmarks import medxpertqa, origins
from medvqa.items import Answer, DataError, Item, Prompt, UsageError
from medvqa.records import run_folder
from support.neighbours import write_image, write_lines
from support.neighbours_frames import as_in_the_owners_code, exam_row, write_exam

(BENCHMARK,) = medxpertqa.BENCHMARKS


def loaded(data: Path, *rows: dict[str, Any]) -> tuple[Item, ...]:
    write_lines(data / "medxpertqa-mm/MM/test.jsonl", rows)
    return benchmarks.load(BENCHMARK, data)


def test_the_form_of_the_owners_code_gives_the_same_questions(tmp_path: Path) -> None:
    rows = [exam_row(0, "B"), exam_row(1, "E", images=6)]
    items = loaded(tmp_path / "hub", *rows)
    write_lines(tmp_path / "code/medxpertqa-mm/medxpertqa_mm_input.jsonl", map(as_in_the_owners_code, rows))
    others = benchmarks.load(BENCHMARK, tmp_path / "code")
    without_paths = [
        [replace(item, images=tuple(replace(image, path="") for image in item.images)) for item in form]
        for form in (items, others)
    ]
    assert without_paths[0] == without_paths[1]
    assert [image.name for image in items[1].images][::5] == [
        "medxpertqa-mm/images/MM-1-a.jpeg",
        "medxpertqa-mm/images/MM-1-f.jpeg",
    ]
    assert items[0].question == "Which bone of patient 0 is broken?"
    assert items[0].tags["body_system"] == ("other_na",)


def test_the_options_are_printed_once_and_in_the_order_of_a_rotation(tmp_path: Path) -> None:
    (item,) = loaded(tmp_path, exam_row(0, "B"))
    for ask in (BENCHMARK.prompt, *BENCHMARK.prompts.values()):
        assert not isinstance(ask, str)
        assert [ask(item, "mc").text.count(text) for text in item.options.values()] == [1] * 5
    turned = replace(item, options=dict(zip("ABCDE", reversed(item.options.values()), strict=True)))
    assert not isinstance(BENCHMARK.prompt, str)
    assert (
        "Answer Choices: (A) Femur (B) Fibula (C) Tibia (D) Radius (E) Ulna\nA:" in BENCHMARK.prompt(turned, "mc").text
    )


def test_the_prompts_are_the_owners_to_the_byte(tmp_path: Path) -> None:
    row = exam_row(0, "B")
    (item,) = loaded(tmp_path, row)
    assert not isinstance(BENCHMARK.prompt, str)
    asked = BENCHMARK.prompt(item, "mc")
    assert asked.text == f"Q: {row['question']}\nA: Let's think step by step."
    assert asked.then == ("Therefore, among A through E, the answer is",)
    assert (asked.system, asked.order) == ("You are a helpful medical assistant.", "text-first")
    direct = BENCHMARK.prompts["direct"]
    assert not isinstance(direct, str)
    assert direct(item, "mc").text == f"Q: {row['question']}\nA: Among A through E, the answer is"
    assert (direct(item, "mc").system, direct(item, "mc").then) == ("Please answer only.", ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "F"}, r"line 1, column 'label': answer 'F' is none of its options A, B, C, D, E"),
        ({"label": []}, r"line 1, column 'label': 0 labels; a question has one"),
        ({"label": ["A", "B"]}, r"line 1, column 'label': 2 labels"),
        (
            {"options": {"A": "Ulna", "C": "Radius"}},
            r"its options are called A, C; they are A, B, C \.\.\. in this order",
        ),
        ({"options": {}}, r"0 options; a question has 2 to 25"),
        ({"options": {"A": "Ulna", "B": "Tibia"}}, r"the options at the end of the question are not those"),
        ({"options": 7}, r"line 1: Expected"),
        ({"images": ["../../etc/passwd"]}, r"line 1: path '../../etc/passwd' leaves the data folder"),
        ({"images": ["/etc/passwd"]}, r"leaves the data folder"),
        ({"images": [7]}, r"line 1: Expected"),
        ({"images": ["a.png"] * 101}, r"column 'images': 101 images; a question has at most 100"),
        ({"images": None}, r"line 1: Expected"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as raised:
        loaded(tmp_path, exam_row(0, "B") | changes)
    assert "\n" not in str(raised.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    row = exam_row(0, "B")
    del row["body_system"]
    with pytest.raises(
        DataError, match=r"medxpertqa-mm/MM/test.jsonl line 1: Object missing required field `body_system`"
    ):
        loaded(tmp_path, row)


class Reasoner(medvqa.Backend):
    """Reasons first, naming another option; its second reply is the letter."""

    title = "reasoner"
    sends_to = None
    converses = True
    _asked: ClassVar[list[Prompt]] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        self._asked.extend(prompts)
        return [Answer("B" if prompt.turns else "It could be A or C. The answer is C.") for prompt in prompts]


class OneTurn(medvqa.Backend):
    """Takes one turn alone."""

    title = "one-turn"
    sends_to = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer("C") for _ in prompts]


def test_the_second_reply_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_exam(tmp_path / "data")
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    options: Any = {"data": tmp_path / "data", "folder": tmp_path, "benchmark": "medxpertqa-mm"}
    for extraction in ("sound", "official"):
        run = medvqa.evaluate(Reasoner(), run=extraction, extraction=extraction, **options)
        results = {result.item.id: result for result in run_folder.read(run.folder).results}
        assert {name: result.score.outcome for name, result in results.items()} == {
            "MM-0": "correct",
            "MM-1": "wrong",
            "MM-2": "wrong",
        }
        answer = results["MM-0"].answer
        assert answer is not None
        assert answer.earlier == ("It could be A or C. The answer is C.",)
    second = next(prompt for prompt in Reasoner._asked if prompt.turns)
    assert second.text == "Therefore, among A through E, the answer is"
    assert second.turns[0].reply.startswith("It could be")
    with pytest.raises(UsageError, match=r"'medxpertqa-mm': backend 'oneturn' takes .* --prompt=direct$"):
        medvqa.evaluate(OneTurn(), run="refused", **options)
    with pytest.raises(UsageError, match=r"benchmark 'medxpertqa-mm': it has turns of its own; leave --reasoning and"):
        medvqa.evaluate(Reasoner(), run="refused", reasoning="cot", **options)
    direct = medvqa.evaluate(OneTurn(), run="direct", prompt="direct", **options)
    assert {result.score.extracted for result in run_folder.read(direct.folder).results} == {("C",)}


def test_images_alone_are_no_data(tmp_path: Path) -> None:
    assert origins.files_of(BENCHMARK, tmp_path) == ()
    write_image(tmp_path / "medxpertqa-mm/images/a.png")
    assert origins.files_of(BENCHMARK, tmp_path) == ()
