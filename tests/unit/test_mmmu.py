"""MMMU Health: Parquet rows, options as a string of a list, images by number, and the owners' rules."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, scoring
from medvqa.benchmarks import mmmu
from medvqa.items import Answer, Benchmark, DataError, Item, Result, Score
from support.neighbours import CANARY
from support.neighbours_choices import OPEN
from support.neighbours_choices import exam_row as row
from support.neighbours_choices import write_exam as write

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'pytest-medvqa[data]'")

VAL, TEST = mmmu.BENCHMARKS


def load(data: Path, benchmark: Benchmark = VAL) -> dict[str, Item]:
    return {item.id: item for item in benchmarks.load(benchmark, data)}


def pharmacy(data: Path, *rows: dict[str, Any]) -> Item:
    return load(write(data, {"Pharmacy": rows}))[rows[0]["id"]]


def test_a_row_becomes_an_item_with_its_images_in_order(tmp_path: Path) -> None:
    item = pharmacy(tmp_path, row())
    assert (item.kind, item.question, item.answers) == ("single_choice", "Which drug does <image 1> show?", ("A",))
    assert item.options == {"A": "aspirin", "B": "Crohn's drug", "C": "<image 2>"}
    assert [image.pil().getpixel((0, 0)) for image in item.images] == [(10, 10, 10), (20, 20, 20)]
    assert item.tags == {
        "subject": ("pharmacy",),
        "question_type": ("multiple_choice",),
        "difficulty": ("easy",),
        "image_type": ("diagrams", "photographs"),
        "subfield": ("pharmacology",),
    }


@pytest.mark.parametrize("kind", ["open", "short-answer"])
def test_an_open_question_has_one_reference_or_several(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a").mkdir()
    assert pharmacy(tmp_path / "a", row(**{**OPEN, "question_type": kind})).answers == ("0.5", "half")
    for answer, expected in (("[H+]", "[H+]"), ("12", "12"), ("[[1]]", "[[1]]")):
        item = pharmacy(tmp_path / "a", row(**{**OPEN, "answer": answer}))
        assert (item.kind, item.options, item.answers) == ("short_answer", {}, (expected,))


def test_the_explanation_reaches_no_item_and_no_prompt(tmp_path: Path) -> None:
    item = pharmacy(tmp_path, row())
    prompt: Any = VAL.prompt
    assert CANARY not in json.dumps([asdict(item), asdict(prompt(item, "mc"))], default=str)


def test_the_prompts_are_the_owners_with_images_at_their_marks(tmp_path: Path) -> None:
    prompt: Any = VAL.prompt
    choice = prompt(pharmacy(tmp_path, row()), "mc")
    assert (choice.order, choice.max_tokens) == ("in-place", 128)
    assert choice.text == (
        "Which drug does <image 1> show?\n(A) aspirin\n(B) Crohn's drug\n(C) <image 2>\n\n"
        "Answer with the option's letter from the given choices directly."
    )
    question = prompt(pharmacy(tmp_path, row(**OPEN)), "mc")
    assert question.text == "How many mg, by <image 1>?\nAnswer the question using a single word or phrase."
    assert question.order == "in-place"


def test_questions_that_share_an_image_share_a_cluster(tmp_path: Path) -> None:
    rows = [row(id="1"), row(id="2", image_1=20, image_2=None), row(id="3", image_1=99, image_2=None)]
    items = load(write(tmp_path, {"Pharmacy": rows, "Public_Health": [row(id="4", image_1=98, image_2=None)]}))
    assert items["1"].cluster_id == items["2"].cluster_id
    assert len({items[name].cluster_id for name in ("1", "3", "4")}) == 3


EVIL = "__import__('os').mkdir('owned')"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": EVIL}, "column 'options': options are a list of texts"),
        ({"options": f"[{EVIL}]"}, "column 'options': options are a list of texts"),
        ({"options": "['a', 1]"}, "column 'options': options are a list of texts"),
        ({"options": "{'a': 'b'}"}, "column 'options': options are a list of texts"),
        ({"options": "(" * 5000}, "column 'options': options are a list of texts"),
        ({"options": "[" * 90_000 + "]" * 90_000}, "column 'options': options are a list of texts"),
        ({"options": "['a'"}, "column 'options': options are a list of texts"),
        ({"options": None}, "column 'options': options are a list of texts"),
        ({"options": "['a']"}, "a multiple-choice question with 1 options"),
        ({"options": str(["x"] * 26)}, "26 options; a question has at most 25"),
        ({"answer": "D"}, "column 'answer': 'D' is none of its options A, B, C"),
        ({"answer": " "}, "column 'answer': blank"),
        ({"question_type": "essay"}, "column 'question_type': no question type 'essay'; known: multiple-choice, open"),
        ({"image_1": None}, "an image is missing before another one"),
        ({"id": " "}, "column 'id': blank"),
    ],
)
def test_a_wrong_row_is_an_error_with_its_place_and_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"Pharmacy/validation-00000-of-00001.parquet record 1.*{message}"):
        load(write(tmp_path, {"Pharmacy": [row(**changes)]}))
    assert not Path("owned").exists()


def test_nine_options_and_no_image_are_fine(tmp_path: Path) -> None:
    item = pharmacy(tmp_path, row(options=str(list("abcdefghi")), answer="I", image_1=None, image_2=None))
    assert ("".join(item.options), item.answers, item.images, item.cluster_id) == ("ABCDEFGHI", ("I",), (), None)


def test_a_missing_subject_or_column_is_named(tmp_path: Path) -> None:
    write(tmp_path, {})
    shutil.rmtree(tmp_path / "mmmu-health/Public_Health")
    with pytest.raises(DataError, match=r"mmmu-health: no file Public_Health/validation-\*\.parquet"):
        load(tmp_path)
    part = tmp_path / "mmmu-health/Pharmacy/validation-00000-of-00001.parquet"
    write(tmp_path, {})
    part.rename(part.with_name("validation-00001-of-00002.parquet"))
    with pytest.raises(DataError, match="mmmu-health, Pharmacy: 1 of 2 files are there; missing: validation-00000-of"):
        load(tmp_path)
    part.with_name("validation-00001-of-00002.parquet").unlink()
    lacking = {name: value for name, value in row().items() if name != "question_type"}
    with pytest.raises(DataError, match="missing column question_type"):
        load(write(tmp_path, {"Pharmacy": [lacking]}))


def test_the_test_split_has_no_key_and_its_answers_become_a_submission(tmp_path: Path) -> None:
    rows = [row(id="test_Pharmacy_2"), row(id="test_Pharmacy_10", **{**OPEN, "answer": "?"})]
    items = load(write(tmp_path, {"Pharmacy": rows}, "test"), TEST)
    assert all(item.answers == () for item in items.values())
    assert mmmu.official(items["test_Pharmacy_2"], Answer("(B)")).outcome == "unscored"
    said = {"test_Pharmacy_2": Answer("(B)"), "test_Pharmacy_10": Answer("0.5 mg"), "test_Public_Health_1": None}
    results = [
        Result("run", items[name], "", answer, VAL.score(items[name], answer) if answer else Score(None, "error"))
        for name, answer in said.items()
    ]
    path = mmmu.submission(results, tmp_path)
    assert path.name == "mmmu-health-test-submission.json"
    assert list(json.loads(path.read_text()).items()) == [
        ("test_Pharmacy_2", "B"),
        ("test_Pharmacy_10", "0.5 mg"),
        ("test_Public_Health_1", ""),
    ]


# --- rules ------------------------------------------------------------------------------------------------------------

OPTIONS = {"A": "normal", "B": "abnormal", "C": "a cyst"}


@pytest.mark.parametrize(
    ("said", "official", "ours"),
    [
        ("", "", ""),
        ("B", "B", "B"),
        ("B.", "B", "B"),
        ("(B)", "B", "B"),
        ("(B) or (C)", "C", ""),
        ("A patient with C", "C", ""),
        ("The scan is abnormal in this place", "A", "B"),
        ("abnormal", "", "B"),
        ("I cannot tell from it, sorry for that", "", ""),
        ("a", "", "A"),
    ],
)
def test_a_choice_by_the_owners_rule_and_by_ours(said: str, official: str, ours: str) -> None:
    """Where the owners draw an option, both are unparsed (trap 7). "abnormal" holds "normal", which stands later."""
    assert "".join(scoring.mmmu_rule(said, OPTIONS).letters) == official
    assert "".join(scoring.read_options(said, OPTIONS).letters) == ours


@pytest.mark.parametrize(
    ("said", "references", "official", "ours"),
    [
        ("0.5", ("0.5",), True, True),
        ("0.504 mg", ("0.5",), True, True),
        # The owners strip full stops at both ends of the answer.
        (".504 mg", ("0.5",), False, True),
        ("1,000", ("1000",), True, True),
        ("The answer is 1,000.00 units", ("1000",), True, True),
        ("5", ("0.5",), False, False),
        ("aspirin", ("Aspirin",), True, True),
        ("So it is aspirin", ("aspirin",), True, False),
        ("not aspirin", ("aspirin",), True, False),
        ("2 of 5", ("5",), True, False),
        ("x = 7\n\ny = 8", ("7",), False, False),
        ("x = 7", ("7",), True, True),
        ("e", ("e",), True, True),
        ("yes", ("e",), False, False),
        ("", ("0.5",), False, False),
        ("nan", ("nan",), False, True),
        ("<answer>half</answer>", ("half",), True, True),
        ("<think>0.5?</think>0.7", ("0.5",), True, False),
    ],
)
def test_an_open_answer_by_the_owners_rule_and_by_ours(
    said: str, references: tuple[str, ...], official: bool, ours: bool
) -> None:
    item = Item("1", "mmmu-health-val", "short_answer", "?", {}, references)
    right = [scorer(item, Answer(said)).outcome == "correct" for scorer in (mmmu.official, mmmu.score)]
    assert right == [official, ours]


def test_hostile_answers_are_read_in_time() -> None:
    item = Item("1", "mmmu-health-val", "short_answer", "?", {}, ("1",))
    for said in ("1" * 300_000, "1,111" * 60_000, "1." * 100_000, "is " * 100_000, "-" * 300_000, "1e" * 100_000):
        for scorer in (mmmu.official, mmmu.score):
            assert scorer(item, Answer(said)).value in (0.0, 1.0)
