"""Samples of VQA-RAD (the hub's form), SLAKE and PathVQA."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from support.neighbours import CANARY, Case, Neighbour, cell, write_image, write_json, write_parquet

Pair = tuple[int, str, str]


def write_pairs(data: Path, group: str, pairs: Sequence[Pair]) -> None:
    """Write questions about grey pictures in the hub's form: one file of two for each half."""
    rows = [{"image": cell(grey), "question": question, "answer": answer} for grey, question, answer in pairs]
    for part, half in enumerate((rows[:2], rows[2:])):
        write_parquet(data / f"{group}/data/test-0000{part}-of-00002-a{part}.parquet", half)


RAD: Sequence[Pair] = (
    (1, "is there an effusion?", "no"),
    (1, "which side is affected?", "left lung"),
    (2, "is the heart enlarged?", "yes"),
)
VQA_RAD = Neighbour(
    name="vqa-rad",
    write=partial(write_pairs, group="vqa-rad", pairs=RAD),
    ids=("1", "2", "3"),
    cases=(
        Case("1", "No.", "correct", 1),
        Case("1", "abnormal", "unparsed", 0),
        Case("1", "Yes", "wrong", 0),
        Case("2", "left lung", "unscored", None),
        Case("3", "I cannot answer that.", "refused", 0),
    ),
    answers={"1": "abnormal", "2": "The left side", "3": "Yes, it is."},
    measures={"closed_accuracy": (1, 2), "open_recall": (1 / 2, 1), "open_f1": (2 / 4, 1), "open_exact": (0, 1)},
    texts={
        "1": ("is there an effusion?\nPlease output 'yes' or 'no'(no extra output).",),
        "2": ("which side is affected?\nPlease answer the question concisely.",),
    },
)

PATH: Sequence[Pair] = (
    (1, "is there necrosis?", "yes"),
    (2, "what is present?", "fatty change of the liver"),
    (2, "where is it?", "liver"),
)
PATH_VQA = Neighbour(
    name="path-vqa-test",
    write=partial(write_pairs, group="path-vqa", pairs=PATH),
    ids=("1", "2", "3"),
    cases=(Case("1", "**Yes**", "correct", 1), Case("1", "no", "wrong", 0), Case("3", "liver", "unscored", None)),
    answers={"1": "no", "2": "fatty fatty liver", "3": "Liver."},
    # Four tokens of the reference, without the article: fatty, change, of, liver.
    measures={
        "closed_accuracy": (0, 1),
        "open_recall": (2 / 4 + 1, 2),
        "open_f1": (2 * 2 / (3 + 4) + 1, 2),
        "open_exact": (1, 2),
    },
    texts={"2": ("what is present?\nPlease answer the question concisely.",)},
)


def slake_row(number: int, language: str, question: str, answer: str, closed: bool = True) -> dict[str, Any]:
    """A row of SLAKE; the triple may hold the answer."""
    return {
        "img_id": number,
        "img_name": f"xmlab{number}/source.jpg",
        "question": question,
        "answer": answer,
        "q_lang": language,
        "location": "Abdomen",
        "modality": "MRI",
        "answer_type": "CLOSED" if closed else "OPEN",
        "base_type": "kvqa",
        "content_type": "Organ",
        "triple": [CANARY, "_", "_"],
        "qid": 10 * number + (language == "zh"),
    }


SLAKE_ROWS = [
    slake_row(1, "en", "Does the picture contain liver?", "Yes"),
    slake_row(2, "en", "Is the lesion on the left or right?", "Left"),
    slake_row(3, "en", "Which organ is it?", "Left Kidney", closed=False),
    slake_row(1, "zh", "图中包含肝脏吗?", "不包含"),
    slake_row(2, "zh", "病变在左边还是右边?", "左边"),
    slake_row(3, "zh", "这是哪个器官?", "左肾", closed=False),
]


def write_slake(data: Path) -> None:
    write_json(data / "slake/test.json", SLAKE_ROWS)
    for number in (1, 2, 3):
        write_image(data / f"slake/imgs/xmlab{number}/source.jpg", number)


ENGLISH = Neighbour(
    name="slake-en-test",
    write=write_slake,
    ids=("10", "20", "30"),
    cases=(
        Case("10", "yes", "correct", 1),
        Case("20", "the left.", "correct", 1),
        Case("20", "left kidney", "wrong", 0),
        Case("30", "kidney", "unscored", None),
    ),
    answers={"10": "No", "20": "LEFT", "30": "kidney"},
    measures={"closed_accuracy": (1, 2), "open_recall": (1 / 2, 1), "open_f1": (2 / 3, 1)},
    texts={"20": ("Is the lesion on the left or right?\nAnswer the question using a single word or phrase.",)},
)
CHINESE = Neighbour(
    name="slake-zh-test",
    write=write_slake,
    ids=("11", "21", "31"),
    cases=(
        Case("11", "不包含", "correct", 1),
        Case("11", "包含", "wrong", 0),
        Case("11", "不是", "correct", 1),
        Case("11", "没有", "unparsed", 0),
        Case("21", "左边。", "correct", 1),
        Case("21", "右边", "wrong", 0),
    ),
    answers={"11": "不包含。", "21": "右边", "31": "肾"},
    measures={"closed_accuracy": (1, 2), "open_recall": (1 / 2, 1), "open_f1": (2 / 3, 1), "open_exact": (0, 1)},
    texts={"11": ("图中包含肝脏吗?\n请用一个单词或者短语回答该问题。",), "31": ("这是哪个器官?\n请简要回答该问题。",)},
)

NEIGHBOURS = (VQA_RAD, PATH_VQA, ENGLISH, CHINESE)
