"""Made-up questions of MMMU Health in the released format: a Parquet file for each subject."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import PIL.Image

from medvqa.benchmarks.mmmu import IMAGES, SPLITS, SUBJECTS

SECRET = "because aspirin is the answer"
ROW: Mapping[str, Any] = {
    "id": "validation_Pharmacy_1",
    "question": "Which drug does <image 1> show?",
    "options": "['aspirin', \"Crohn's drug\", '<image 2>']",
    "explanation": SECRET,
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


def png(grey: int) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (4, 3), (grey, grey, grey)).save(buffer, "PNG")
    return buffer.getvalue()


def row(**changes: Any) -> dict[str, Any]:
    """A row; images are given by their grey value."""
    values = {**ROW, **changes}
    images = {
        name: {"bytes": png(grey), "path": None} if (grey := values.get(name)) is not None else None for name in IMAGES
    }
    return {**values, **images}


def write(data: Path, rows: Mapping[str, Iterable[dict[str, Any]]], split: str = "val") -> Path:
    """DATA/mmmu-health with the rows by subject; subjects without rows have one of their own."""
    import pyarrow
    from pyarrow import parquet

    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    for subject in SUBJECTS:
        listed = list(rows.get(subject, [row(id=f"{SPLITS[split]}_{subject}_1")]))
        fields = [(name, image if name in IMAGES else pyarrow.string()) for name in listed[0]]
        folder = data / "mmmu-health" / subject
        folder.mkdir(parents=True, exist_ok=True)
        table = pyarrow.Table.from_pylist(listed, pyarrow.schema(fields))
        parquet.write_table(table, folder / f"{SPLITS[split]}-00000-of-00001.parquet")
    return data
