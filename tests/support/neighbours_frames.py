"""Samples of MedXpertQA-MM, MedFrameQA, RadImageNet-VQA and ReXVQA."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.neighbours import (
    CANARY,
    PATIENT,
    Case,
    Neighbour,
    cell,
    write_image,
    write_json,
    write_lines,
    write_parquet,
)

BONES = {"A": "Ulna", "B": "Radius", "C": "Tibia", "D": "Fibula", "E": "Femur"}


def exam_row(number: int, label: str, images: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of MedXpertQA's MM/test.jsonl; the options stand in the question, too."""
    shown = " ".join(f"({letter}) {text}" for letter, text in BONES.items())
    return {
        "id": f"MM-{number}",
        "question": f"Which bone of patient {number} is broken?\nAnswer Choices: {shown}",
        "options": BONES,
        "label": label,
        "images": [f"MM-{number}-{'abcdef'[n]}.jpeg" for n in range(images)],
        "medical_task": "Diagnosis",
        "body_system": "Other / NA",
        "question_type": "Reasoning" if number % 2 else "Understanding",
        "explanation": CANARY,
        **changes,
    }


def as_in_the_owners_code(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of medxpertqa_mm_input.jsonl."""
    return {
        **row,
        "options": [{"letter": letter, "content": text} for letter, text in row["options"].items()],
        "label": [row["label"]],
        "images": [{"image_path": name} for name in row["images"]],
    }


def write_exam(data: Path) -> None:
    rows = [exam_row(0, "B"), exam_row(1, "E", images=6), exam_row(2, "A")]
    write_lines(data / "medxpertqa-mm/MM/test.jsonl", rows)
    for row in rows:
        for name in row["images"]:
            write_image(data / "medxpertqa-mm/images" / name)


EXAM = Neighbour(
    name="medxpertqa-mm",
    write=write_exam,
    ids=("MM-0", "MM-1", "MM-2"),
    cases=(
        Case("MM-0", "B", "correct", 1, "correct"),
        Case("MM-0", "Therefore, among A through E, the answer is B.", "correct", 1, "correct"),
        Case("MM-0", "The fracture is of the radius: (B).", "correct", 1, "correct"),
        Case("MM-0", "C", "wrong", 0, "wrong"),
        # The owners take the article for an option.
        Case("MM-2", "A tumour may be the cause.", "unparsed", 0, "correct"),
        Case("MM-0", "", "unparsed", 0, "unparsed"),
        Case("MM-0", "I'm sorry, but I cannot assist with medical images.", "refused", 0, "unparsed"),
    ),
    answers={"MM-0": "B", "MM-1": "the answer is E", "MM-2": "B"},
    measures={"accuracy": (2, 3)},
    texts={
        "MM-0": (
            "Q: Which bone of patient 0 is broken?\n"
            "Answer Choices: (A) Ulna (B) Radius (C) Tibia (D) Fibula (E) Femur\n"
            "A: Let's think step by step.",
        )
    },
)


def frame_row(number: int, answer: str, images: int = 2, **changes: Any) -> dict[str, Any]:
    """A row of MedFrameQA's Parquet file."""
    return {
        "question_id": f"q{number}",
        "system": "central nervous system",
        "organ": "brain",
        "keyword": CANARY,
        "modality": "MRI",
        "video_id": f"v{number // 2}",
        "question": f"Which change do the {images} frames show?",
        "options": ["growth", "shrinkage", "none", "it's shifted"],
        "correct_answer": answer,
        "reasoning_chain": f"{CANARY}: it grows.",
        "image_url": [f"https://example.org/{CANARY}"],
        **{f"image_{place}": cell(number * 5 + place) if place <= images else None for place in range(1, 6)},
        **changes,
    }


def write_frames(data: Path) -> None:
    rows = [frame_row(0, "A"), frame_row(1, "B", images=5), frame_row(2, "D", images=3)]
    write_parquet(data / "medframeqa/data/test-00000-of-00001.parquet", rows)


FRAMES = Neighbour(
    name="medframeqa",
    write=write_frames,
    ids=("q0", "q1", "q2"),
    cases=(
        Case("q0", "It becomes larger.\nAnswer: A", "correct", 1, "correct"),
        Case("q0", "Answer: B", "wrong", 0, "wrong"),
        Case("q0", r"The final answer is $\boxed{A}$", "correct", 1, "correct"),
        # The owners find the letter C in "Certainly".
        Case("q0", "Answer: Certainly growth.", "correct", 1, "wrong"),
        Case("q0", "", "unparsed", 0, "unparsed"),
        Case("q0", "A", "correct", 1, "unparsed"),
    ),
    answers={"q0": "Answer: A", "q1": "Answer: C", "q2": "I'm sorry, I can't help with that."},
    measures={"accuracy": (1, 3), "refused_rate": (1, 3)},
    texts={
        "q0": (
            "Question:Which change do the 2 frames show? \n\nOptions:\n"
            "['A. growth', 'B. shrinkage', 'C. none', \"D. it's shifted\"]\n",
        )
    },
)


def scan_row(number: int, question_type: str, answer: str, grey: int = 100, **changes: Any) -> dict[str, Any]:
    """A row of RadImageNet-VQA's config `benchmark`."""
    return {
        "image": cell(grey),
        "question": f"Which finding is shown on slice {number}?",
        "choices": ["fracture", "no pathology seen", "cyst", "mass"] if question_type == "multiple_choice" else None,
        "answer": answer,
        "question_type": question_type,
        "metadata": {
            "content_type": "pathology" if number % 2 else "abnormality",
            "correct_text": CANARY,
            "is_abnormal": True,
            "location": CANARY,
            "modality": "CT",
            "pathology": CANARY,
            "question_id": number,
        },
        **changes,
    }


def write_scans(data: Path) -> None:
    rows = [
        scan_row(1, "multiple_choice", "B"),
        scan_row(2, "closed", "no"),
        scan_row(3, "open", "no pathology seen", grey=7),
        scan_row(4, "closed", "yes", grey=7),
    ]
    write_parquet(data / "radimagenet-vqa/benchmark/test-00000-of-00001.parquet", rows)


SCANS = Neighbour(
    name="radimagenet-vqa",
    write=write_scans,
    ids=("1", "2", "3", "4"),
    cases=(
        # `no pathology seen` is an answer: neither a refusal nor an abstention.
        Case("1", "no pathology seen", "correct", 1),
        Case("1", "No pathology seen.", "correct", 1),
        Case("1", "B. no pathology seen", "correct", 1),
        Case("1", "The answer is no pathology seen.", "correct", 1),
        Case("1", "cyst", "wrong", 0),
        Case("2", "No.", "correct", 1),
        Case("2", "yes", "wrong", 0),
        Case("2", "abnormal", "unparsed", 0),
        Case("4", "Yes, a mass.", "correct", 1),
        Case("3", "no pathology seen", "unscored", None),
    ),
    answers={"1": "no pathology seen", "2": "Yes", "3": "no pathology seen", "4": "yes"},
    measures={
        "accuracy": (1, 1),
        "closed_accuracy": (1, 2),
        "open_exact": (1, 1),
        "open_recall": (1, 1),
        "open_f1": (1, 1),
    },
    texts={
        "1": ("A. fracture\nB. no pathology seen\nC. cyst\nD. mass\n",),
        "2": ("Answer with yes or no only.",),
        "3": ("Answer briefly.",),
    },
)


def study_row(number: int, answer: str, images: int = 1, **changes: Any) -> dict[str, Any]:
    """A value of ReXVQA's JSON object."""
    return {
        "question": f" Where is opacity {number}?",
        "options": ["A. Left", "B. Right", "C. Both", "D. None"],
        "correct_answer": answer,
        "correct_answer_explanation": CANARY,
        "task_name": "location",
        "category": "Lung",
        "subcategory": CANARY,
        "class": CANARY,
        "study_id": f"s{number}",
        "StudyInstanceUid": f"1.2.{number}",
        "PatientID": f"{PATIENT}{number // 2}",
        "PatientAge": "050Y",
        "PatientSex": "F",
        "StudyDate": "20200101",
        "Indication": CANARY,
        "Findings": f"{CANARY} in the right lung",
        "Impression": CANARY,
        "ImagePath": [f"../deid_png/{PATIENT}{number // 2}/a{number}/{n}.png" for n in range(images)],
        "ImageModality": ["CR"] * images,
        "ImageViewPosition": ["PA"] * images,
        **changes,
    }


def write_studies(data: Path) -> None:
    rows = {"q0": study_row(0, "B"), "q1": study_row(1, "A", images=2), "q2": study_row(2, "D")}
    write_json(data / "rexvqa/metadata/test_vqa_data.json", rows)
    for row in rows.values():
        for path in row["ImagePath"]:
            write_image(data / "rexvqa" / path.removeprefix("../"))


STUDIES = Neighbour(
    name="rexvqa-test",
    write=write_studies,
    ids=("q0", "q1", "q2"),
    cases=(
        Case("q0", "B", "correct", 1, "correct"),
        Case("q0", "right", "correct", 1, "unparsed"),
        # The owners take the first A, B, C or D of a response, even within a word.
        Case("q0", "Answer: B", "correct", 1, "wrong"),
        Case("q0", "Based on the image, the answer is C.", "wrong", 0, "correct"),
        Case("q0", "", "unparsed", 0, "unparsed"),
    ),
    answers={"q0": "B", "q1": "A", "q2": "A"},
    measures={"accuracy": (2, 3)},
    texts={"q0": ("Question: Where is opacity 0?\n\nOptions:\nA. Left\nB. Right\nC. Both\nD. None\n\nAnswer:",)},
)

NEIGHBOURS = (EXAM, FRAMES, SCANS, STUDIES)
