"""Samples of PMC-VQA, OmniMedVQA and MMMU Health."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from medvqa.benchmarks.mmmu import IMAGES, SPLITS, SUBJECTS
from support.neighbours import CANARY, Case, Neighbour, cell, write_image, write_json

# --- PMC-VQA ----------------------------------------------------------------------------------------------------------

CHOICES = {"Choice A": " A:Mass", "Choice B": " B:Cyst", "Choice C": " C:Stone", "Choice D": " D:Clip"}
CLEAN_ROW = {
    "Figure_path": "PMC1_F1.jpg",
    "Question": "What does the arrow show?",
    "Answer": "Cyst",
    **CHOICES,
    "Answer_label": "B",
}
SECOND_ROW = {
    "index": "0",
    "Figure_path": "PMC1_Fig4_41.jpg",
    "Caption": f"A cyst ({CANARY}), not a mass",
    "Question": "What is it?",
    **CHOICES,
    "Answer": "B",
    "split": "test",
}


def write_figures(data: Path, *rows: Mapping[str, str], file: str = "test_clean.csv") -> Path:
    """DATA/pmc-vqa/FILE with the rows, without images."""
    path = data / "pmc-vqa" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return data


def write_clean(data: Path) -> None:
    rows = [CLEAN_ROW, CLEAN_ROW | {"Answer": " C:Stone", "Answer_label": "C"}]
    write_figures(data, *rows)
    write_image(data / "pmc-vqa/images/PMC1_F1.jpg")


def write_second(data: Path) -> None:
    write_figures(data, SECOND_ROW, file="test_2.csv")
    write_image(data / "pmc-vqa/figures/PMC1_Fig4_41.jpg")


CLEAN = Neighbour(
    name="pmc-vqa-test-clean",
    write=write_clean,
    ids=("PMC1_F1-1", "PMC1_F1-2"),
    cases=(
        Case("PMC1_F1-1", "B", "correct", 1, "correct"),
        Case("PMC1_F1-1", "Cyst", "correct", 1, "correct"),
        # The owners take the most similar option, whatever the answer says.
        Case("PMC1_F1-1", "It is not a cyst", "unparsed", 0, "correct"),
        Case("PMC1_F1-2", "The answer is C", "correct", 1, "wrong"),
        Case("PMC1_F1-1", "", "unparsed", 0, "unparsed"),
    ),
    answers={"PMC1_F1-1": "B", "PMC1_F1-2": ""},
    measures={"accuracy": (1, 2), "unparsed_rate": (1, 2)},
    texts={"PMC1_F1-1": ("Question: What does the arrow show?Choices: A:Mass B:Cyst C:Stone D:ClipThe Answer is:",)},
)
SECOND = Neighbour(
    name="pmc-vqa-test-2",
    write=write_second,
    ids=("PMC1_Fig4_41-1",),
    cases=(Case("PMC1_Fig4_41-1", "(B)", "correct", 1, "correct"), Case("PMC1_Fig4_41-1", "A", "wrong", 0, "wrong")),
    answers={"PMC1_Fig4_41-1": "B. Cyst"},
    measures={"accuracy": (1, 1)},
)

# --- OmniMedVQA -------------------------------------------------------------------------------------------------------

OMNI_ROW: Mapping[str, Any] = {
    "dataset": "X",
    "question_id": "X_0001",
    "question_type": "Modality Recognition",
    "question": "Which modality is this?",
    "gt_answer": "CT",
    "image_path": "Images/X/1.png",
    "option_A": "MRI",
    "option_B": "CT",
    "modality_type": "CT(Computed Tomography)",
}


def write_omni(data: Path) -> None:
    rows = [OMNI_ROW, {**OMNI_ROW, "question_id": "X_0002", "option_C": "X-ray", "gt_answer": "X-ray"}]
    write_json(data / "omnimedvqa/QA_information/Open-access/X.json", rows)
    write_image(data / "omnimedvqa/Images/X/1.png")


OMNI = Neighbour(
    name="omnimedvqa",
    write=write_omni,
    ids=("X_0001", "X_0002"),
    cases=(
        Case("X_0001", "CT", "correct", 1, "correct"),
        # The owners ask for texts, and find nothing similar to a letter here.
        Case("X_0001", "B", "correct", 1, "unparsed"),
        Case("X_0001", "", "unparsed", 0, "unparsed"),
        Case("X_0002", "CTA", "unparsed", 0, "wrong"),
    ),
    answers={"X_0001": "B", "X_0002": "A"},
    measures={"accuracy": (1, 2)},
    texts={"X_0002": ("Options: \nA. MRI\nB. CT\nC. X-ray\nAnswer with the option's letter",)},
)

# --- MMMU Health ------------------------------------------------------------------------------------------------------

EXAM_ROW: Mapping[str, Any] = {
    "id": "validation_Pharmacy_1",
    "question": "Which drug does <image 1> show?",
    "options": "['aspirin', \"Crohn's drug\", '<image 2>']",
    "explanation": f"It is aspirin ({CANARY}).",
    "image_1": 10,
    "image_2": 20,
    "img_type": "['Diagrams', 'Photographs']",
    "answer": "A",
    "topic_difficulty": "Easy",
    "question_type": "multiple-choice",
    "subfield": "Pharmacology",
}
OPEN: Mapping[str, Any] = {
    "question": "How many mg, by <image 1>?",
    "options": "[]",
    "question_type": "open",
    "answer": "['0.5', 'half']",
    "image_2": None,
}


def exam_row(**changes: Any) -> dict[str, Any]:
    """A row of MMMU; images are given by their grey value."""
    values = {**EXAM_ROW, **changes}
    return {**values, **{name: None if values.get(name) is None else cell(values[name]) for name in IMAGES}}


def write_exam(data: Path, rows: Mapping[str, Iterable[dict[str, Any]]], split: str = "val") -> Path:
    """DATA/mmmu-health with the rows by subject; a subject without rows has one."""
    import pyarrow
    from pyarrow import parquet

    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    for subject in SUBJECTS:
        listed = list(rows.get(subject, [exam_row(id=f"{SPLITS[split]}_{subject}_1")]))
        fields = [(name, image if name in IMAGES else pyarrow.string()) for name in listed[0]]
        folder = data / "mmmu-health" / subject
        folder.mkdir(parents=True, exist_ok=True)
        table = pyarrow.Table.from_pylist(listed, pyarrow.schema(fields))
        parquet.write_table(table, folder / f"{SPLITS[split]}-00000-of-00001.parquet")
    return data


def write_val(data: Path) -> None:
    pharmacy = [exam_row(), exam_row(id="validation_Pharmacy_2", **OPEN)]
    write_exam(data, {"Pharmacy": pharmacy})


OTHERS = tuple(f"validation_{subject}_1" for subject in SUBJECTS if subject != "Pharmacy")
EXAM = Neighbour(
    name="mmmu-health-val",
    write=write_val,
    ids=tuple(sorted((*OTHERS, "validation_Pharmacy_1", "validation_Pharmacy_2"))),
    cases=(
        Case("validation_Pharmacy_1", "(A)", "correct", 1, "correct"),
        Case("validation_Pharmacy_1", "(A) or (B)", "unparsed", 0, "wrong"),
        # Here the owners draw an option.
        Case("validation_Pharmacy_1", "", "unparsed", 0, "unparsed"),
        Case("validation_Pharmacy_2", "0.50 mg", "correct", 1, "correct"),
        Case("validation_Pharmacy_2", "not half", "wrong", 0, "correct"),
    ),
    answers={**dict.fromkeys(OTHERS, "A"), "validation_Pharmacy_1": "B", "validation_Pharmacy_2": "half"},
    measures={"mean_score": (5, 6), "accuracy": (4, 5), "open_score": (1, 1)},
    texts={
        "validation_Pharmacy_1": ("Which drug does <image 1> show?\n(A) aspirin\n(B) Crohn's drug\n(C) <image 2>\n",)
    },
)

NEIGHBOURS = (CLEAN, SECOND, OMNI, EXAM)
