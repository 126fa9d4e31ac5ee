"""RadImageNet-VQA: three types of questions, slices by content and type, and `no pathology seen` as an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, metrics
from medvqa.benchmarks import origins, radimagenet_vqa
from medvqa.items import Answer, DataError, Item, Result
from support.neighbours import write_parquet
from support.neighbours_frames import scan_row

pytest.importorskip("pyarrow")
(BENCHMARK,) = radimagenet_vqa.BENCHMARKS
FILE = "radimagenet-vqa/benchmark/test-00000-of-00001.parquet"
TYPES = {"multiple_choice": "B", "closed": "no", "open": "no pathology seen"}


def loaded(data: Path, *rows: dict[str, Any]) -> tuple[Item, ...]:
    write_parquet(data / FILE, rows)
    return benchmarks.load(BENCHMARK, data)


def with_metadata(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**row, "metadata": {**row["metadata"], **changes}}


def test_each_type_has_its_kind_and_images_with_equal_bytes_are_a_cluster(tmp_path: Path) -> None:
    rows = [scan_row(n, *entry, grey=n // 2) for n, entry in enumerate(TYPES.items())]
    items = loaded(tmp_path, *rows)
    assert [item.kind for item in items] == ["single_choice", "judgment", "short_answer"]
    assert [item.answers for item in items] == [("B",), ("no",), ("no pathology seen",)]
    assert items[0].cluster_id == items[1].cluster_id != items[2].cluster_id
    assert items[0].tags.keys() == {"content_type", "question_type", "modality"}
    assert all(item.extra == {} for item in items)


@pytest.mark.parametrize("ids", [(1, 1), (1, None)])
def test_ids_that_are_missing_or_shared_are_replaced_by_row_numbers(
    tmp_path: Path, ids: tuple[int | None, ...]
) -> None:
    items = loaded(tmp_path, *(with_metadata(scan_row(1, "closed", "no"), question_id=name) for name in ids))
    assert [item.id for item in items] == ["1", "2"]


@pytest.mark.parametrize(
    "said",
    [
        *("no pathology seen", "No pathology seen.", "B", "(B) no pathology seen", "**No pathology seen**"),
        *("Answer: no pathology seen", "The answer is B: no pathology seen", "There is no pathology seen."),
    ],
)
def test_no_pathology_seen_is_an_answer(tmp_path: Path, said: str) -> None:
    """Neither a refusal nor an abstention, whether it is right or wrong."""
    right, wrong = loaded(tmp_path, scan_row(1, "multiple_choice", "B"), scan_row(2, "multiple_choice", "C"))
    assert [BENCHMARK.score(item, Answer(said)).outcome for item in (right, wrong)] == ["correct", "wrong"]


def test_slices_cross_content_and_type(tmp_path: Path) -> None:
    rows = [
        scan_row(number * 2 + place, question_type, answer)
        for number, (question_type, answer) in enumerate(TYPES.items())
        for place in (0, 1)
    ]
    items = loaded(tmp_path, *rows)
    results = [
        Result("run", item, "", Answer("no pathology seen"), BENCHMARK.score(item, Answer("no pathology seen")))
        for item in items
    ]
    measured = metrics.measures(
        results, BENCHMARK.metrics, BENCHMARK.dimensions, benchmark=BENCHMARK.name, signature={}
    )
    crossed = {
        measure.slice["content_type+question_type"]: measure.value
        for measure in measured
        if measure.name == "accuracy" and "content_type+question_type" in measure.slice
    }
    assert crossed == {"abnormality+multiple_choice": 1, "pathology+multiple_choice": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (scan_row(1, "closed", "maybe"), "record 1, column 'answer': the answer to a closed question is yes or no"),
        (scan_row(1, "open", " "), "record 1, column 'answer': blank"),
        (
            scan_row(1, "essay", "x"),
            r"record 1, column 'question_type': no question type \[cell\]; known: multiple_choice, closed, open",
        ),
        (
            scan_row(1, "multiple_choice", "E"),
            r"record 1, column 'answer': answer \[cell\] is none of its options A, B, C, D",
        ),
        (scan_row(1, "multiple_choice", "A", choices=None), "column 'choices': 0 options"),
        (scan_row(1, "closed", "no", image=None), "image"),
        (scan_row(1, "closed", "no", metadata=None), "record 1: Expected `object`, got `null`"),
        (scan_row(1, "closed", "no") | {"answer": None}, "record 1: Expected `str`, got `null`"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, row)


def test_the_shards_to_train_on_are_not_read(tmp_path: Path) -> None:
    write_parquet(tmp_path / "radimagenet-vqa/instruct/train-00000-of-00002.parquet", [{"conversations": "x"}])
    assert origins.files_of(BENCHMARK, tmp_path) == ()
