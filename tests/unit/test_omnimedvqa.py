"""OmniMedVQA: folders of JSON lists whose key is the text of an option."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, scoring
from medvqa.benchmarks import omnimedvqa
from medvqa.items import Answer, DataError, DataWarning, Image, Item, UsageError
from medvqa.tables.image_files import ImageFolder, image_file
from support.neighbours_choices import OMNI_ROW

(OMNI,) = omnimedvqa.BENCHMARKS
ROW = dict(OMNI_ROW)


def write(data: Path, *rows: Mapping[str, Any], file: str = "X.json", root: str = "omnimedvqa") -> Path:
    folder = data / root / "QA_information/Open-access"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(json.dumps(rows))
    return data


def load(data: Path) -> tuple[Item, ...]:
    return benchmarks.load(OMNI, data)


@pytest.mark.parametrize("root", ["omnimedvqa", "omnimedvqa/OmniMedVQA"])
def test_a_row_becomes_an_item_wherever_the_zip_was_unpacked(tmp_path: Path, root: str) -> None:
    (item,) = load(write(tmp_path, ROW, root=root))
    assert (item.id, item.kind, item.options, item.answers) == (
        "X_0001",
        "single_choice",
        {"A": "MRI", "B": "CT"},
        ("B",),
    )
    assert item.images[0].name == f"{root}/Images/X/1.png" == item.cluster_id
    assert item.tags == {
        "question_type": ("modality_recognition",),
        "modality": ("ct_computed_tomography",),
        "dataset": ("x",),
    }


def test_options_are_two_to_four_and_files_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path, ROW | {"option_C": "X-ray", "option_D": None})
    write(tmp_path, ROW | {"question_id": "A_1", "option_C": "X-ray", "option_D": "US"}, file="A.json")
    assert [(item.id, "".join(item.options)) for item in load(tmp_path)] == [("A_1", "ABCD"), ("X_0001", "ABC")]


def test_the_restricted_part_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    other = tmp_path / "omnimedvqa/QA_information/Restricted-access"
    other.mkdir()
    (other / "Y.json").write_text(json.dumps([ROW | {"question_id": "Y_1"}]))
    assert len(load(tmp_path)) == 1


def test_one_released_row_names_its_modality_otherwise(tmp_path: Path) -> None:
    row = {name: value for name, value in ROW.items() if name not in ("modality_type", "dataset")} | {"modality": "MR"}
    (item,) = load(write(tmp_path, row, file="Chest CT Scan.json"))
    assert item.tags["modality"] == ("mr",)
    assert item.tags["dataset"] == ("chest_ct_scan",)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"option_C": "CT"}, "the answer is the text of B and C"),
        ({"gt_answer": "PET"}, "the answer is the text of no option"),
        ({"gt_answer": "ct"}, "the answer is the text of no option"),
        ({"gt_answer": "B"}, "the answer is the text of no option"),
    ],
)
def test_an_ambiguous_key_is_named_and_the_question_stays_unscored(
    tmp_path: Path, change: dict[str, str], why: str
) -> None:
    write(tmp_path, ROW, ROW | {"question_id": "X_0002"} | change)
    with pytest.warns(DataWarning) as warned:
        first, second = load(tmp_path)
    (message,) = [str(each.message) for each in warned]
    assert message == (
        "omnimedvqa: 1 question has no usable answer key and will be unscored: "
        f"omnimedvqa/QA_information/Open-access/X.json record 2, X_0002: {why}"
    )
    assert (first.answers, second.answers) == (("B",), ())
    for score in (OMNI.score, omnimedvqa.official):
        assert score(second, Answer("B")).outcome == "unscored"


def test_equal_options_that_are_not_the_key_leave_the_key_clear(tmp_path: Path) -> None:
    assert load(write(tmp_path, ROW | {"option_C": "MRI"}))[0].answers == ("B",)


def test_questions_about_an_image_share_a_cluster(tmp_path: Path) -> None:
    rows = [ROW, ROW | {"question_id": "X_2"}, ROW | {"question_id": "X_3", "image_path": "Images/X/2.png"}]
    one, two, three = load(write(tmp_path, *rows))
    assert one.cluster_id == two.cluster_id != three.cluster_id


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, ROW], "two items have the id 'X_0001'"),
        ([ROW | {"image_path": "../../../secret.png"}], r"X.json record 1: path .* leaves the data folder"),
        ([{**ROW, "gt_answer": ["CT"]}], "column 'gt_answer': no text"),
        ([{name: ROW[name] for name in ROW if name != "option_B"}], "missing column option_B"),
        ([["row"]], "Expected `object`, got `array`"),
        ([], "no rows"),
    ],
)
def test_wrong_rows_are_errors_with_their_place(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(write(tmp_path, *rows))


def test_the_prompts_are_medevalkits_and_the_owners(tmp_path: Path) -> None:
    (item,) = load(write(tmp_path, ROW))
    prompt: Any = OMNI.prompt
    owners: Any = OMNI.prompts["owners"]
    assert prompt(item, "mc").text == (
        "\nQuestion: Which modality is this?\nOptions: \nA. MRI\nB. CT\n"
        "Answer with the option's letter from the given choices directly."
    )
    assert owners(item, "mc").text == (
        "Which modality is this?Here are 2 candidate answers:['MRI', 'CT'] Only return what you think is the correct "
        "answer from the candidate answers, do not return any other irrelevant text!"
    )
    with pytest.raises(UsageError, match="prompt 'owners' is not defined for technique 'gd'; it has: mc"):
        owners(item, "gd")


@pytest.mark.parametrize(
    ("said", "official", "ours"),
    [
        ("CT", "correct", "correct"),
        ("", "unparsed", "unparsed"),
        ("B", "unparsed", "correct"),
        ("CTA", "correct", "unparsed"),
    ],
)
def test_the_owners_rule_reads_texts_and_no_letters(tmp_path: Path, said: str, official: str, ours: str) -> None:
    (item,) = load(write(tmp_path, ROW))
    scores = (scoring.scorer(OMNI, extraction)(item, Answer(said)) for extraction in ("official", "sound"))
    assert [score.outcome for score in scores] == [official, ours]


@pytest.mark.parametrize(
    "file",
    [
        *("1.png", "a/1.png", "a/b/1.png", "./1.png", "a/./1.png", "a//1.png", "a/../1.png", "missing/x.png", "x "),
        *("../1.png", "a/../../../x.png", "/etc/passwd", "a\\b.png", "in.png", "out.png", "linked/1.png", "away/x.png"),
        *("", ".", "a/", "..", "a\0b.png", "é/日本.png"),
    ],
)
def test_a_folder_of_images_names_them_as_one_image_is_named(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "data" / "set"
    (folder / "a/b").mkdir(parents=True)
    (folder / "in.png").symlink_to("a/1.png")
    (folder / "out.png").symlink_to("/etc/passwd")
    (folder / "linked").symlink_to("a")
    (folder / "away").symlink_to("/etc")

    def outcome(refer: Callable[[], Image]) -> Image | str:
        try:
            return refer()
        except DataError as error:
            return str(error).partition(":")[0]

    images = ImageFolder(folder, tmp_path / "data")
    expected = outcome(lambda: image_file(file, folder=folder, root=tmp_path / "data", where="row 1"))
    for _ in range(2):
        assert outcome(lambda: images.image(file, "row 1")) == expected
