"""PMC-VQA: rows of both versions, keys that contradict each other, the owners' rule, and the caption."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, scoring
from medvqa.benchmarks import pmc_vqa
from medvqa.items import Answer, Benchmark, DataError, DataWarning, Item
from medvqa.scoring import kits
from support.neighbours import CANARY
from support.neighbours_choices import CLEAN_ROW as ROW
from support.neighbours_choices import SECOND_ROW as ROW_2
from support.neighbours_choices import write_figures as write

CLEAN, SECOND = pmc_vqa.BENCHMARKS


def load(data: Path, benchmark: Benchmark = CLEAN) -> tuple[Item, ...]:
    return benchmarks.load(benchmark, data)


def renamed(row: Mapping[str, str]) -> dict[str, str]:
    return {("Anwser" if name == "Answer" else name): value for name, value in row.items()}


def test_a_row_of_each_version_becomes_an_item(tmp_path: Path) -> None:
    write(tmp_path, ROW)
    write(tmp_path, ROW_2, file="test_2.csv")
    (first,), (second,) = load(tmp_path), load(tmp_path, SECOND)
    assert (first.id, first.question, first.answers, first.cluster_id) == (
        "PMC1_F1-1",
        "What does the arrow show?",
        ("B",),
        "PMC1",
    )
    assert first.options == {"A": "Mass", "B": "Cyst", "C": "Stone", "D": "Clip"} == second.options
    assert (second.id, second.answers, second.images[0].name) == (
        "PMC1_Fig4_41-1",
        ("B",),
        "pmc-vqa/images/PMC1_Fig4_41.jpg",
    )


@pytest.mark.parametrize("folder", ["images", "figures", "."])
def test_images_lie_where_an_archive_or_a_kit_puts_them(tmp_path: Path, folder: str) -> None:
    place = write(tmp_path, ROW) / "pmc-vqa" / folder
    place.mkdir(exist_ok=True)
    (place / "PMC1_F1.jpg").write_bytes(b"x")
    assert Path(load(tmp_path)[0].images[0].path).is_file()


@pytest.mark.parametrize("prefix", ["{}:", " {}:", "{} : ", " {}: "])
def test_options_lose_one_prefix_of_their_own_letter(tmp_path: Path, prefix: str) -> None:
    texts = dict(zip("ABCD", ("C: elegans", "B: B cell", "", "A:B"), strict=True))
    choices = {f"Choice {letter}": prefix.format(letter) + text for letter, text in texts.items()}
    (item,) = load(write(tmp_path, ROW | choices | {"Answer": ""}))
    assert item.options == {"A": "C: elegans", "B": "B: B cell", "D": "A:B"}
    plain = {f"Choice {letter}": text for letter, text in texts.items() if text} | {"Choice C": "clip"}
    (item,) = load(write(tmp_path, ROW | plain | {"Answer": ""}))
    assert item.options["A"] == "C: elegans"


@pytest.mark.parametrize("answer", ["Cyst", " B:Cyst", "B: cyst ", "B", "cyst", "", "something else"])
@pytest.mark.parametrize("old", [False, True], ids=["Answer", "Anwser"])
def test_the_label_decides_and_the_answer_may_be_written_in_any_way(tmp_path: Path, answer: str, old: bool) -> None:
    row = ROW | {"Answer": answer}
    assert load(write(tmp_path, renamed(row) if old else row))[0].answers == ("B",)


@pytest.mark.parametrize("answer", ["Cyst", " B:Cyst", "B", "cyst"])
def test_without_a_label_the_answer_decides(tmp_path: Path, answer: str) -> None:
    row = {name: value for name, value in ROW.items() if name != "Answer_label"} | {"Answer": answer}
    assert load(write(tmp_path, row))[0].answers == ("B",)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"Answer": "Mass"}, "the label is B, and the answer is that of A"),
        ({"Answer": "A"}, "the label is B, and the answer is that of A"),
        ({"Answer": "B:Mass"}, "the label is B, and the answer is the letter of one option with the text of another"),
        ({"Answer": "A:Cyst"}, "the label is B, and the answer is the letter of one option with the text of another"),
        ({"Answer_label": "E"}, "the label 'E' is none of its options"),
        ({"Answer_label": "Cyst"}, "the label 'Cyst' is none of its options"),
        ({"Answer_label": "", "Answer": "Gallstone"}, "the answer is none of its options"),
        ({"Answer_label": "", "Answer": ""}, "the answer is none of its options"),
        ({"Answer_label": "", "Choice A": "A:cyst"}, "the answer is that of A and B"),
        ({"Answer_label": "", "Answer": "D:Pin", "Choice D": "D:"}, "the answer is none of its options"),
        ({"Choice A": "A:", "Choice C": "", "Choice D": " "}, "it has fewer than 2 options"),
        ({"Choice A": "B:Mass", "Choice B": "A:Cyst"}, "the prefixes are not A to D in order"),
    ],
)
def test_a_contradiction_is_named_and_the_question_stays_unscored(
    tmp_path: Path, change: dict[str, str], why: str
) -> None:
    write(tmp_path, ROW, ROW | {"Figure_path": "PMC2_F1.jpg"} | change)
    with pytest.warns(DataWarning) as warned:
        items = load(tmp_path)
    (message,) = [str(each.message) for each in warned]
    assert message.startswith("pmc-vqa-test-clean: 1 question has no usable answer key and will be unscored: ")
    assert message.endswith(f"pmc-vqa/test_clean.csv row 3, {why}")
    assert [item.answers for item in items] == [("B",), ()]
    assert CLEAN.score(items[1], Answer("B")).outcome == "unscored"


def test_many_contradictions_are_one_warning(tmp_path: Path) -> None:
    write(tmp_path, *(ROW | {"Answer": "Mass"} for _ in range(5)))
    with pytest.warns(DataWarning, match="5 questions have .* row 4, .*; and 2 more$"):
        assert len(load(tmp_path)) == 5


def test_questions_of_an_article_share_a_cluster_and_those_of_a_figure_are_numbered(tmp_path: Path) -> None:
    rows = [
        ROW,
        ROW,
        ROW | {"Figure_path": "PMC1_F2.jpg"},
        ROW | {"Figure_path": "PMC2_F1.jpg"},
        ROW | {"Figure_path": "x.jpg"},
        ROW | {"Figure_path": "x.png"},
    ]
    assert [(item.id, item.cluster_id) for item in load(write(tmp_path, *rows))] == [
        ("PMC1_F1-1", "PMC1"),
        ("PMC1_F1-2", "PMC1"),
        ("PMC1_F2-1", "PMC1"),
        ("PMC2_F1-1", "PMC2"),
        ("x-1", "x.jpg"),
        ("x-2", "x.png"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Figure_path": "../../etc/passwd"}, "leaves the data folder"),
        ({"Figure_path": "/etc/passwd"}, "leaves the data folder"),
        ({"Figure_path": "a\\b.jpg"}, "has a backslash"),
        ({"Figure_path": " "}, "column 'figure_path': blank"),
    ],
)
def test_a_wrong_path_is_an_error_with_its_row(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=rf"test_clean.csv row 2.*{message}"):
        load(write(tmp_path, ROW | change))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing column choice d; found: figure_path"):
        load(write(tmp_path, {name: value for name, value in ROW.items() if name != "Choice D"}))


def test_the_caption_reaches_no_item_and_no_prompt(tmp_path: Path) -> None:
    (item,) = load(write(tmp_path, ROW_2, file="test_2.csv"), SECOND)
    prompts = [SECOND.prompt(item, technique) for technique in SECOND.techniques]  # type: ignore[operator]
    prompts.append(SECOND.prompts["medevalkit"](item, "mc"))  # type: ignore[operator]
    written = json.dumps([asdict(item), *map(asdict, prompts)], default=str)
    assert CANARY not in written


def test_the_prompts_are_those_of_the_owners_and_of_medevalkit(tmp_path: Path) -> None:
    (item,) = load(write(tmp_path, ROW))
    prompt: Any = CLEAN.prompt
    named: Any = CLEAN.prompts["medevalkit"]
    assert prompt(item, "mc").text == (
        "Question: What does the arrow show?Choices: A:Mass B:Cyst C:Stone D:ClipThe Answer is:"
    )
    assert named(item, "mc").text == (
        "\nQuestion: What does the arrow show?\nOptions: \n A:Mass\n B:Cyst\n C:Stone\n D:Clip\n"
        "Answer with the option's letter from the given choices directly."
    )
    assert prompt(item, "ps").text == "Question: What does the arrow show? Answer:"


OPTIONS = {"A": "Mass", "B": "Cyst", "C": "Stone", "D": "Clip"}


@pytest.mark.parametrize(
    ("said", "owners", "medevalkit", "ours"),
    [
        # An empty answer is A for MedEvalKit, wrong for the owners' code, and unparsed for us.
        ("", "", "A", ""),
        ("zzz", "", "A", ""),
        ("B", "B", "B", "B"),
        (" B:Cyst", "B", "B", "B"),
        ("b", "", "B", "B"),
        ("Cyst", "B", "B", "B"),
        # Whatever is nearest counts.
        ("the lung", "D", "D", ""),
        ("It is not a cyst", "B", "B", ""),
        ("Massachusetts", "A", "A", ""),
        ("I cannot tell", "C", "C", ""),
        ("B\n\nThe cyst is dark.", "B", "B", "B"),
        ("The answer is C", "A", "C", "C"),
        ("<answer>D</answer>", "A", "D", "D"),
    ],
)
def test_rules_of_similarity_beside_ours(said: str, owners: str, medevalkit: str, ours: str) -> None:
    """Read by the owners' code and by MedEvalKit's (`test_pinned_scorers.py`), and by our extraction."""
    written = [scoring.PMC_VQA.format(letter=letter, text=text) for letter, text in OPTIONS.items()]
    assert [letter for letter in OPTIONS if kits.medevalkit_choice(written, letter, said)] == [medevalkit]
    read = (scoring.similar_rule(said, OPTIONS, form=scoring.PMC_VQA), scoring.read_options(said, OPTIONS))
    assert ["".join(reading.letters) for reading in read] == [owners, ours]


def test_an_endless_answer_is_not_compared() -> None:
    long = {"A": "x" * 10_000, "B": "y"}
    assert scoring.similar_rule("x" * 10_000, long).why == "most similar option: too long to compare"
    for said in ("<answer>" * 100_000, "\\boxed{" * 100_000):
        assert kits.medevalkit_choice(["A. Mass", "B. Cyst"], "B", said) in (True, False)
