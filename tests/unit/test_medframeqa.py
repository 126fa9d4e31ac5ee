"""MedFrameQA: frames, videos as clusters, the owners' prompt, and bad rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import medframeqa
from medvqa.items import DataError, Item
from support.neighbours import cell, write_parquet
from support.neighbours_frames import frame_row

pytest.importorskip("pyarrow")
(BENCHMARK,) = medframeqa.BENCHMARKS
FILE = "medframeqa/data/test-00000-of-00001.parquet"


def loaded(data: Path, *rows: dict[str, Any]) -> tuple[Item, ...]:
    write_parquet(data / FILE, rows)
    return benchmarks.load(BENCHMARK, data)


def test_questions_about_one_video_are_a_cluster_and_all_files_are_read(tmp_path: Path) -> None:
    parts = [tmp_path / f"medframeqa/data/test-0000{part}-of-00002.parquet" for part in (0, 1)]
    write_parquet(parts[0], [frame_row(0, "A", images=5), frame_row(1, "B")])
    with pytest.raises(DataError, match="medframeqa: 1 of 2 files are there; missing: test-00001-of-00002"):
        benchmarks.load(BENCHMARK, tmp_path)
    write_parquet(parts[1], [frame_row(2, "C"), frame_row(3, "C", video_id=" ")])
    items = benchmarks.load(BENCHMARK, tmp_path)
    assert [item.cluster_id for item in items] == ["v0", "v0", "v1", None]
    assert [len(item.images) for item in items] == [5, 2, 2, 2]
    assert [item.tags["image_count"] for item in items] == [("5",), ("2",), ("2",), ("2",)]
    assert [image.pil().getpixel((0, 0))[0] for image in items[0].images] == [1, 2, 3, 4, 5]
    assert items[0].extra == {}


def test_the_prompt_is_the_owners_to_the_byte(tmp_path: Path) -> None:
    (item,) = loaded(tmp_path, frame_row(0, "A", options=['5" of growth', "it's {gone}"]))
    assert not isinstance(BENCHMARK.prompt, str)
    asked = BENCHMARK.prompt(item, "mc")
    listed = """['A. 5" of growth', "B. it's {gone}"]"""
    assert asked.text == f"Question:Which change do the 2 frames show? \n\nOptions:\n{listed}\n"
    assert asked.system.startswith("Answer the following multiple-choice question. Images are provided. The last line")
    assert asked.system.endswith('your response should be: ’Answer: A’. Think step by step before answering."\n')
    assert (asked.order, asked.max_tokens) == ("text-first", 10_000)
    direct = BENCHMARK.prompts["direct"]
    assert not isinstance(direct, str)
    assert direct(item, "mc").text == (
        "\nQuestion: Which change do the 2 frames show?\nOptions: \nA.5\" of growth\nB.it's {gone}\n"
        "Answer with the option's letter from the given choices directly."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_2": None}, "record 1: 1 images; a question has 2 to 5"),
        ({"correct_answer": "E"}, "record 1, column 'correct_answer': answer 'E' is none of its options A, B, C, D"),
        ({"correct_answer": "growth"}, "answer 'growth' is none of its options"),
        ({"options": ["one"]}, "column 'options': 1 options; a question has 2 to 25"),
        ({"options": [f"option {n}" for n in range(26)]}, "26 options; a question has 2 to 25"),
        ({"question": None}, r"record 1: Expected `str`, got `null` - at `\$.question`"),
        ({"image_1": "frame.png"}, "column 'image_1': no image"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        loaded(tmp_path, frame_row(0, "A") | changes)


def test_columns_of_the_other_copy_are_named(tmp_path: Path) -> None:
    row = frame_row(0, "A")
    row["answer"] = row.pop("correct_answer")
    with pytest.raises(DataError, match=r"medframeqa/data/.*: missing column correct_answer; found: question_id"):
        loaded(tmp_path, row)


def test_a_withheld_key_is_none(tmp_path: Path) -> None:
    items = loaded(tmp_path, frame_row(0, "A"), frame_row(1, "A") | {"correct_answer": None})
    assert [item.answers for item in items] == [("A",), ()]


def test_a_file_of_json_names_no_image_of_the_machine(tmp_path: Path) -> None:
    """An object with the fields of `medvqa.Image` is no image."""
    image = {"name": "x", "path": "/etc/passwd", "start": 0}
    row = frame_row(0, "A") | {f"image_{place}": image if place < 3 else None for place in range(1, 6)}
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([row]))
    with pytest.raises(DataError, match="column 'image_1': no image"):
        benchmarks.load(BENCHMARK, tmp_path)


def test_a_struct_without_bytes_names_no_image_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'image_1': no image"):
        loaded(tmp_path, frame_row(0, "A") | {"image_1": {"name": "x", "path": "/etc/passwd"}, "image_2": cell()})
