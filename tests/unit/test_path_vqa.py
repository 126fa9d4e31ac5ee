"""PathVQA and the hub's form of VQA-RAD: rows without ids, grouped by the bytes of their images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from medvqa import benchmarks, metrics
from medvqa.benchmarks import origins, path_vqa
from medvqa.items import Answer, DataError, Result
from medvqa.tables.shards import shards, whole
from support import hub, neighbours

pytest.importorskip("pyarrow")
TEST, VALIDATION, TRAIN = path_vqa.BENCHMARKS
ONE, TWO = "test-00000-of-00002-0a.parquet", "test-00001-of-00002-0b.parquet"


def test_questions_about_the_same_bytes_are_one_group_over_all_files(tmp_path: Path) -> None:
    data = tmp_path / "path-vqa/data"
    hub.write(data / TWO, [hub.question(1, "where is this?", "liver")])
    hub.write(data / ONE, [hub.question(1, "is there necrosis?", "yes"), hub.question(2, "is it benign?", "no ")])
    items = {item.id: item for item in benchmarks.load(TEST, tmp_path)}
    assert [items[name].question for name in "123"] == ["is there necrosis?", "is it benign?", "where is this?"]
    assert [items[name].kind for name in "123"] == ["judgment", "judgment", "short_answer"]
    assert items["2"].answers == ("no",)
    assert items["1"].cluster_id == items["3"].cluster_id != items["2"].cluster_id
    assert items["1"].images[0].pil().getpixel((0, 0)) == (1, 1, 1)
    assert items["3"].tags == {"answer_type": ("open",)}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("yes", "judgment"),
        ("No", "judgment"),
        ("none", "short_answer"),
        ("no tumor", "short_answer"),
        ("", "short_answer"),
    ],
)
def test_closed_is_an_answer_that_is_yes_or_no(tmp_path: Path, answer: str, kind: str) -> None:
    hub.write(tmp_path / "path-vqa/data/test.parquet", [hub.question(1, "is it?", answer)])
    [item] = benchmarks.load(TEST, tmp_path)
    assert (item.kind, item.answers) == (kind, (answer,) if answer else ())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([TWO], "path-vqa: 1 of 2 files are there; missing: test-00000-of-00002"),
        ([ONE, TWO, "test-00001-of-00002-0c.parquet"], "two versions"),
        ([ONE, "test-00001-of-00003-0b.parquet"], "two versions"),
        ([ONE, TWO, "test.parquet"], "two versions"),
        (["test-00007-of-999999999-0b.parquet"], "1 of 999999999 files are there; missing: test-00000-of-999999999"),
    ],
)
def test_missing_and_doubled_files_are_named(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        hub.write(tmp_path / "path-vqa/data" / name, [hub.question(1, "is it?", "yes")])
    assert origins.files_of(TEST, tmp_path)
    with pytest.raises(DataError, match=message):
        benchmarks.load(TEST, tmp_path)


def test_files_of_a_split_are_found_with_and_without_the_folder_data(tmp_path: Path) -> None:
    assert shards(tmp_path, "test") == []
    (tmp_path / "test-extra-00000-of-00001.parquet").touch()
    (tmp_path / ONE).touch()
    assert [path.name for path in shards(tmp_path, "test")] == [ONE]
    assert whole([tmp_path / "test.parquet"], "x") == [tmp_path / "test.parquet"]


def test_a_row_without_image_and_a_file_without_the_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "path-vqa/data/test.parquet"
    hub.write(path, [hub.question(1, "is it?", "yes"), hub.question(None, "is it?", "yes")])
    with pytest.raises(DataError, match=r"path-vqa/data/test.parquet record 2, column 'image': no image"):
        benchmarks.load(TEST, tmp_path)
    hub.write(path, [{"picture": neighbours.png(1), "question": "is it?", "answer": "yes"}])
    with pytest.raises(DataError, match="image"):
        benchmarks.load(TEST, tmp_path)


def test_prompts_and_origin() -> None:
    item = benchmarks.Item("1", "path-vqa-test", "short_answer", "what is it?", answers=("mass",))
    assert callable(TEST.prompt)
    assert TEST.prompt(item, "mc").text == "what is it?\nPlease answer the question concisely."
    closed = replace(item, kind="judgment")
    assert TEST.prompt(closed, "mc").text == "what is it?\nPlease output 'yes' or 'no'(no extra output)."
    ask = TEST.prompts["vlmevalkit"]
    assert callable(ask)
    assert ask(item, "mc").text.endswith("\nPlease directly provide a short answer to the question. ")
    files = [file.to for each in path_vqa.BENCHMARKS if each.origin for file in each.origin.files]
    assert len(files) == len(set(files)) == 13
    assert files[0] == "path-vqa/data/test-00000-of-00003-e9adadb4799f44d3.parquet"
    assert all(each.origin and each.origin.on_request for each in (VALIDATION, TRAIN))


def test_hand_computed_measures(tmp_path: Path) -> None:
    answered = [
        ("is it?", "yes", "Yes."),
        ("is it?", "no", "abnormal"),
        ("where?", "left lobe", "lobe"),
        ("what?", "cyst", "a cyst"),
    ]
    hub.write(
        tmp_path / "path-vqa/data/test.parquet", [hub.question(n, q, key) for n, (q, key, _) in enumerate(answered)]
    )
    results = []
    for item in benchmarks.load(TEST, tmp_path):
        answer = Answer(answered[int(item.id) - 1][2])
        results.append(Result("r", item, "", answer, TEST.score(item, answer)))
    measures = metrics.measures(results, TEST.metrics, TEST.dimensions, benchmark=TEST.name, signature={})
    whole_set = {measure.name: measure.value for measure in measures if not measure.slice}
    assert (whole_set["closed_accuracy"], whole_set["open_recall"], whole_set["open_exact"]) == (0.5, 0.75, 0.5)
    assert whole_set["open_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert (whole_set["open_judged"], whole_set["unparsed_rate"]) == (None, 0.5)
