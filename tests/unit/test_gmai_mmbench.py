"""GMAI-MMBench from file to item, prompt, score and submission sheet."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks import gmai_mmbench, origins
from medvqa.items import TECHNIQUES, Answer, DataError, Item, Result, Score, Technique
from medvqa.tables import cached
from medvqa.tags import lexicon
from support.laws import examples

OTHERS = ("index", "image", "question")
COLUMNS = (
    *("index", "image", "question", "A", "B", "C", "D", "E", "answer", "category", "clinical VQA task"),
    *("department", "perceptual granularity", "modality", "original task"),
)


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "make_gmai.py"
    spec = importlib.util.spec_from_file_location("make_gmai", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pixels(seed: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(90)).decode()


def row(index: str, **cells: str) -> dict[str, str]:
    return {
        "index": index,
        "image": pixels(int(index)),
        "question": "What is the most likely abnormality?",
        "A": "osteoporotic bone",
        "B": "healthy bone",
        "C": "",
        "D": "",
        "E": "",
        "answer": "A",
        "category": "osteoporotic bone",
        "clinical VQA task": "Disease Diagnosis",
        "department": "Orthopedic Surgery",
        "perceptual granularity": "Mask level",
        "modality": "X-ray",
        "original task": "2D Segmentation",
        **cells,
    }


def write(folder: Path, *rows: dict[str, str], name: str = "GMAI-MMBench_VAL.tsv", without: str = "") -> Path:
    path = folder / "gmai-mmbench" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows or [row("1")], dtype=str).drop(columns=without or [])
    frame.to_csv(path, sep="\t", index=False)
    return path


def val(folder: Path, *rows: dict[str, str], **options: str) -> list[Item]:
    write(folder, *rows, **options)
    return list(gmai_mmbench.VAL.items(folder))


def of_test(folder: Path) -> list[Item]:
    return list(gmai_mmbench.TEST.items(folder))


# Rows


def test_a_row_becomes_an_item(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("17"))
    assert (item.id, item.benchmark, item.kind, item.cluster_id) == ("17", "gmai-mmbench-val", "single_choice", "17")
    assert item.question == "What is the most likely abnormality?"
    assert item.options == {"A": "osteoporotic bone", "B": "healthy bone"}
    assert item.answers == ("A",)
    assert item.tags == {
        "task": ("disease_diagnosis",),
        "department": ("orthopedic_surgery",),
        "granularity": ("mask_level",),
        "modality": ("x_ray",),
        "original_task": ("2d_segmentation",),
        "label": ("osteoporotic_bone",),
    }
    assert item.extra == {"category": "osteoporotic bone"}
    (image,) = item.images
    assert image.name == "gmai-mmbench/GMAI-MMBench_VAL.tsv row 1"
    assert image.digest == hashlib.sha256(image.read()).hexdigest()
    assert image.read() == base64.b64decode(pixels(17))


def test_columns_are_found_by_name_in_any_order_and_case(tmp_path: Path) -> None:
    (wanted,) = val(tmp_path, row("1"))
    shuffled = {key.upper() if len(key) > 1 else key.lower(): row("1")[key] for key in reversed(COLUMNS)}
    (item,) = val(tmp_path, shuffled)
    assert (item.options, item.tags, item.answers, item.extra) == (
        wanted.options,
        wanted.tags,
        wanted.answers,
        wanted.extra,
    )


def test_unknown_columns_are_kept_and_optional_ones_may_be_absent(tmp_path: Path) -> None:
    cells = {key: value for key, value in row("1").items() if key not in {"C", "D", "E", "category", "original task"}}
    (item,) = val(tmp_path, {**cells, "Hospital": "two words", "F": "fracture"})
    assert item.extra == {"hospital": "two words"}
    assert item.options == {"A": "osteoporotic bone", "B": "healthy bone", "F": "fracture"}
    assert "original_task" not in item.tags


def test_what_looks_missing_is_text_and_an_empty_option_is_none(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1", A="None", B="NA", C="N/A", E=" ", department="N/A", answer="B"))
    assert item.options == {"A": "None", "B": "NA", "C": "N/A"}
    assert item.tags["department"] == ("none",)
    assert item.tags["label"] == ("na",)


def test_an_answer_of_several_letters_is_a_multiple_response(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1", C="cyst", answer="a, C"))
    assert (item.kind, item.answers) == ("multiple_response", ("A", "C"))
    assert item.tags["label"] == ("osteoporotic_bone", "cyst")


def test_items_that_show_the_same_image_share_a_cluster(tmp_path: Path) -> None:
    rows = [row("5"), row("6", image="5"), row("7"), row("8", image=pixels(7)), row("9")]
    items = val(tmp_path, *rows)
    assert [item.cluster_id for item in items] == ["5", "5", "7", "7", "9"]
    assert items[0].images[0] == items[1].images[0]
    assert items[1].images[0].read() == base64.b64decode(pixels(5))


def test_unreadable_images_are_no_common_image(tmp_path: Path) -> None:
    broken = "!" * 70
    items = val(tmp_path, row("1", image=broken), row("2", image=broken))
    assert [item.cluster_id for item in items] == ["1", "2"]
    with pytest.raises(DataError, match=r"image gmai-mmbench/GMAI-MMBench_VAL\.tsv row 2: not base64"):
        items[1].images[0].pil()


def test_an_image_cell_that_holds_no_image_is_the_error_of_its_item(tmp_path: Path) -> None:
    good, bad = val(tmp_path, row("1"), row("2", image=base64.b64encode(b"%PDF-1.7" * 20).decode()))
    assert good.images[0].read()
    with pytest.raises(DataError, match=r"image gmai-mmbench/GMAI-MMBench_VAL\.tsv row 2: not an image"):
        bad.images[0].pil()


# Bad files


@pytest.mark.parametrize("letters", ["C", "F", "A,C", "AB", "1"])
def test_an_answer_without_option_names_file_and_row(tmp_path: Path, letters: str) -> None:
    wrong = letters.split(",")[-1]
    with pytest.raises(
        DataError,
        match=rf"gmai-mmbench/GMAI-MMBench_VAL\.tsv row 2 \(line 3\), index '4': "
        rf"answer '{wrong}' is none of its options \(A, B\)",
    ):
        val(tmp_path, row("3"), row("4", answer=letters))


@pytest.mark.parametrize("column", ["question", "A", "answer", "clinical VQA task", "modality", "image", "index"])
def test_a_missing_column_is_named_with_those_found(tmp_path: Path, column: str) -> None:
    with pytest.raises(DataError, match=rf"GMAI-MMBench_VAL\.tsv: missing column (?i:{column}); found: .*department"):
        val(tmp_path, without=column)


def test_a_file_of_another_benchmark_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path)
    path.write_text("index\timage\tquestion\thint\tA\tB\tanswer\tl2-category\n")
    with pytest.raises(DataError, match=r"missing column clinical vqa task, .*Is this the file of another data set\?"):
        list(gmai_mmbench.VAL.items(tmp_path))


def test_a_duplicate_index_names_both_rows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"VAL\.tsv row 2 \(line 3\): index '1' is also that of row 1"):
        val(tmp_path, row("1"), row("1"))


def test_an_index_that_two_files_share_names_both_rows(tmp_path: Path) -> None:
    write(tmp_path, row("1"), name="GMAI_TEST_1.tsv")
    write(tmp_path, row("2"), row("1", question="Another?"), name="GMAI_TEST_2.tsv")
    message = r"TEST_2\.tsv row 2 \(line 3\): index '1' is also that of gmai-mmbench/.*TEST_1\.tsv row 1 \(line 2\)"
    with pytest.raises(DataError, match=message):
        of_test(tmp_path)


def test_a_reference_to_no_row_names_file_and_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"VAL\.tsv row 1 \(line 2\): its image is that of index '99', which no row"):
        val(tmp_path, row("1", image="99"))


# Files


def test_files_are_found_by_the_split_in_their_names_in_natural_order(tmp_path: Path) -> None:
    for name in (
        *("GMAI-MMBench_VAL.tsv", "gmai_mm_bench_val.tsv", "GMAI_mm_bench_TEST_part_10.tsv"),
        *("GMAI_mm_bench_TEST_part_2.tsv", "GMAI_mm_bench_TEST_part_1.tsv", "intervals.tsv", "latest.tsv"),
    ):
        write(tmp_path, name=name)
    (tmp_path / "gmai-mmbench" / "GMAI-MMBench_VAL.tsv.medvqa-index.jsonl").write_text("")
    found = [path.name for path in origins.files_of(gmai_mmbench.VAL, tmp_path)]
    assert found == ["GMAI-MMBench_VAL.tsv", "gmai_mm_bench_val.tsv"]
    assert [path.name for path in origins.files_of(gmai_mmbench.TEST, tmp_path)] == [
        "GMAI_mm_bench_TEST_part_1.tsv",
        "GMAI_mm_bench_TEST_part_2.tsv",
        "GMAI_mm_bench_TEST_part_10.tsv",
    ]


def test_there_may_be_no_files(tmp_path: Path) -> None:
    assert not [benchmark for benchmark in gmai_mmbench.BENCHMARKS if origins.files_of(benchmark, tmp_path)]


def test_one_file_under_both_names_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, row("1"), row("2"), name="GMAI_mm_bench_VAL.tsv")
    assert [item.id for item in val(tmp_path, row("1"), row("2"))] == ["1", "2"]


@pytest.mark.parametrize(
    ("there", "named"),
    [
        ((1, 3), "GMAI_mm_bench_TEST_part_2.tsv and 8 more are not there"),
        (range(1, 11), "GMAI_mm_bench_TEST_part_11.tsv is not there"),
    ],
    ids=["nine", "one"],
)
def test_missing_parts_of_test_are_refused(tmp_path: Path, there: Sequence[int], named: str) -> None:
    for part in there:
        write(tmp_path, row(str(part)), name=f"GMAI_mm_bench_TEST_part_{part}.tsv", without="answer")
    with pytest.raises(DataError, match=f"^gmai-mmbench-test: {named}; put parts 1 to 11 beside GMAI"):
        of_test(tmp_path)


def test_parts_of_test_that_are_all_there_are_read_and_so_are_tables_of_other_names(tmp_path: Path) -> None:
    for part in range(1, 12):
        write(tmp_path / "all", row(str(part)), name=f"GMAI_mm_bench_TEST_part_{part}.tsv", without="answer")
    assert len(of_test(tmp_path / "all")) == 11
    write(tmp_path / "some", row("1"), name="GMAI_TEST_1.tsv", without="answer")
    assert len(of_test(tmp_path / "some")) == 1


@pytest.fixture
def withheld(tmp_path: Path) -> list[Item]:
    rows = [
        row("1", category=" Healthy  BONE"),
        row("2", category="none of these"),
        row("10", category="same", A="same", B="Same"),
    ]
    write(tmp_path, *rows, name="GMAI_TEST.tsv", without="answer")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return of_test(tmp_path)


def test_answers_of_test_are_withheld(withheld: list[Item]) -> None:
    assert {item.benchmark for item in withheld} == {"gmai-mmbench-test"}
    assert [(item.answers, item.tags.get("label")) for item in withheld] == [((), None)] * 3


def test_recover_takes_the_one_option_that_the_category_spells(withheld: list[Item]) -> None:
    assert gmai_mmbench.TEST.owners.recover is not None
    assert gmai_mmbench.VAL.owners.recover is None
    right, unknown, ambiguous = map(gmai_mmbench.TEST.owners.recover, withheld)
    assert (right.answers, right.tags["label"]) == (("B",), ("healthy_bone",))
    assert (unknown, ambiguous) == tuple(withheld[1:])


def test_recover_leaves_a_given_answer_alone(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1", answer="A", category="healthy bone"))
    assert gmai_mmbench.recover(item) == item


# Prompts


def test_the_prompt_is_the_harness_s_to_the_byte(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1", C="{braces}"))
    prompt = gmai_mmbench.VAL.prompt(item, "mc")
    assert prompt.text == (
        "Question: What is the most likely abnormality?\n"
        "Options:\n"
        "A. osteoporotic bone\n"
        "B. healthy bone\n"
        "C. {braces}\n"
        "Please select the correct answer from the options above. \n"
    )
    assert (prompt.images, prompt.template.partition("@")[0]) == (item.images, "gmai-mmbench/mc")


def test_the_prompt_of_a_multiple_response_is_that_of_table_8(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1", answer="A,B"))
    prompt = gmai_mmbench.VAL.prompt(item, "mc")
    assert prompt.text.splitlines()[-2:] == [
        "Please select all correct answers from the options above. Note that there is more than one correct answer.",
        "Please output the answer options directly, separated by commas. For example: A,B",
    ]
    assert prompt.template.partition("@")[0] == "gmai-mmbench/mc-multiple"


def test_gd_asks_as_mc_does_and_ps_without_options(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1"))
    mc, gd, ps = (gmai_mmbench.VAL.prompt(item, technique) for technique in gmai_mmbench.VAL.techniques)
    assert gd == replace(mc, technique="gd")
    assert ps.text == "Question: What is the most likely abnormality? Answer:"
    assert ps.options == {"A": "osteoporotic bone", "B": "healthy bone"}
    assert ps.template.partition("@")[0] == "gmai-mmbench/ours-ps"


@pytest.mark.parametrize("key", ["A", "A,B"])
def test_the_likeliest_option_is_sought_where_one_is_right(tmp_path: Path, key: str) -> None:
    (item,) = val(tmp_path, row("1", answer=key))
    asked = [technique for technique in TECHNIQUES if gmai_mmbench.VAL.applies(item, technique)]
    assert asked == (["mc", "gd", "ps"] if key == "A" else ["mc"])


@pytest.mark.parametrize("technique", ["mc", "gd", "ps"])
@pytest.mark.parametrize("answer", ["A", "A,B"])
def test_no_prompt_gives_the_answer_away(tmp_path: Path, answer: str, technique: Technique) -> None:
    (item,) = val(tmp_path, row("1", answer=answer, A="red", B="blue", category="the secret category"))
    assert "secret" not in repr(gmai_mmbench.VAL.prompt(item, technique))


# Scores


@pytest.mark.parametrize(
    ("key", "response", "outcome"),
    [
        ("A", "The answer is A.", "correct"),
        ("A", "B", "wrong"),
        ("A", "healthy bone", "wrong"),
        ("A", "It is hard to see anything here.", "unparsed"),
        ("A,B", "A,B", "correct"),
        ("A,B", "C", "wrong"),
    ],
)
def test_answers_are_scored_by_kind(tmp_path: Path, key: str, response: str, outcome: str) -> None:
    (item,) = val(tmp_path, row("1", answer=key, C="cyst"))
    assert gmai_mmbench.VAL.score(item, Answer(response)).outcome == outcome


def test_the_official_rule_is_the_harness_s_exact_matching(tmp_path: Path) -> None:
    (item,) = val(tmp_path, row("1"))
    assert gmai_mmbench.VAL.owners.rule is not None
    assert gmai_mmbench.VAL.owners.rule.score(item, Answer("A")).outcome == "correct"
    assert "ChatGPT" in gmai_mmbench.VAL.owners.rule.note


def test_metrics_are_named_and_the_headline_is_one_of_them() -> None:
    names = [metric.name for metric in gmai_mmbench.VAL.metrics]
    assert set(gmai_mmbench.VAL.headline) < set(names)
    assert {"accuracy", "macro_accuracy", "precision_mcls", "recall_mcls", "exact_match", "invalid_rate"} <= set(names)
    assert len(set(names)) == len(names)


# The sheet


def test_the_sheet_is_what_the_harness_writes(withheld: list[Item], tmp_path: Path) -> None:
    responses = ["=1+1", "B\x00\x1b", "x" * 40_000 + " B"]
    results = [
        Result("run", item, "digest", Answer(text), Score(None, "unscored"))
        for item, text in zip(withheld, responses, strict=True)
    ]
    assert gmai_mmbench.TEST.owners.submission is not None
    path = gmai_mmbench.TEST.owners.submission(results[::-1], tmp_path)
    sheet = pd.read_excel(path, keep_default_na=False)
    assert list(sheet.columns) == [
        *("index", "question", "A", "B", "category", "clinical vqa task", "department"),
        *("perceptual granularity", "modality", "original task", "prediction"),
    ]
    assert list(sheet["index"]) == [1, 2, 10]
    assert list(sheet["prediction"][:2]) == ["=1+1", "B"]
    assert sheet["prediction"][2].endswith("x B")
    assert len(sheet["prediction"][2]) == 32_767
    assert sheet["clinical vqa task"][0] == "Disease Diagnosis"
    assert sheet["category"][1] == "none of these"


def test_the_sheet_has_the_letter_where_a_technique_gives_no_text(withheld: list[Item], tmp_path: Path) -> None:
    answer, score = Answer("", {"A": -2.0, "B": -1.0}), Score(None, "unscored", ("B",))
    results = [Result("run", item, "digest", answer, score, "gd") for item in withheld]
    assert gmai_mmbench.TEST.owners.submission is not None
    sheet = pd.read_excel(gmai_mmbench.TEST.owners.submission(results, tmp_path))
    assert list(sheet["prediction"]) == ["B", "B", "B"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=8))
@examples(30)
def test_no_cell_of_the_sheet_is_a_formula(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    from openpyxl import load_workbook

    items = [
        Item(f"={number}", "b", "single_choice", text, {"A": "@" + text, "B": "-1"})
        for number, text in enumerate(texts)
    ]
    results = [Result("run", item, "", Answer("+" + item.question), Score(None, "unscored")) for item in items]
    results.append(Result("run", Item("7", "b", "single_choice", "no answer"), "", None, Score(None, "error")))
    sheet = load_workbook(gmai_mmbench.submission(results, tmp_path_factory.getbasetemp())).active
    cells = [cell for line in sheet.iter_rows(min_row=2) for cell in line if cell.value is not None]
    assert {cell.data_type for cell in cells} <= {"s", "n"}
    assert [cell.value for cell in cells if cell.data_type == "n"] == [7]


# Generated tables


def test_a_generated_table_is_valid_and_has_known_tags_alone(
    tmp_path: Path, generator: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    generator.main([str(tmp_path), "--rows", "60", "--bytes", "3e5", "--references", "0.3"])
    assert "GMAI-MMBench_VAL.tsv: " in capsys.readouterr().out
    items = list(gmai_mmbench.VAL.items(tmp_path))
    assert len(items) == 60
    assert not any(lexicon.unknown_values(items, lexicon.gmai_mmbench()).values())
    assert {item.images[0].pil().mode for item in items} == {"RGB"}
    assert 30 < len({item.cluster_id for item in items}) < 60
    (path,) = (tmp_path / "gmai-mmbench").glob("*.tsv")
    assert 2e5 < path.stat().st_size < 4e5


def test_a_generated_table_depends_on_its_seed_alone(tmp_path: Path, generator: ModuleType) -> None:
    paths = [tmp_path / name for name in ("a.tsv", "b.tsv", "c.tsv")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        generator.write(path, rows=5, size=10_000, seed=seed)
    one, same, other = (path.read_bytes() for path in paths)
    assert one == same != other


def test_a_generated_table_has_the_asked_number_of_items_per_task(tmp_path: Path, generator: ModuleType) -> None:
    path = tmp_path / "gmai-mmbench" / "GMAI_mm_bench_TEST.tsv"
    generator.write(path, rows=0, size=10_000, counts={"DD": 5, "OR-HN": 3}, withheld=True)
    tasks = Counter(item.tags["task"] for item in of_test(tmp_path))
    assert tasks == {("disease_diagnosis",): 5, ("organ_recognition_head_and_neck",): 3}


def test_the_index_of_a_large_table_is_used_by_the_next_start(
    tmp_path: Path, generator: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    generator.main([str(tmp_path), "--rows", "20", "--bytes", str(cached.SMALL * 1.5)])
    capsys.readouterr()
    first = list(gmai_mmbench.VAL.items(tmp_path))
    assert capsys.readouterr().err.startswith("indexing GMAI-MMBench_VAL.tsv, ")
    assert list(gmai_mmbench.VAL.items(tmp_path)) == first
    assert capsys.readouterr().err == ""


def test_a_cell_of_csv_s_limit_and_more_is_read(tmp_path: Path) -> None:
    big = base64.b64encode(bytes(csv.field_size_limit() + 1)).decode()
    (item,) = val(tmp_path, row("1", image=big))
    assert len(item.images[0].read()) == csv.field_size_limit() + 1
