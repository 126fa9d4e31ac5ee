"""Made-up data sets in the form of the hub: Parquet files with an image, a question and an answer."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import PIL.Image


def png(grey: int) -> bytes:
    """A picture of one grey level."""
    buffer = io.BytesIO()
    PIL.Image.new("L", (4, 3), grey).save(buffer, "PNG")
    return buffer.getvalue()


def question(grey: int | None, text: str, answer: str | None) -> dict[str, Any]:
    """A row; without a grey level its image is missing."""
    return {
        "image": None if grey is None else {"bytes": png(grey), "path": None},
        "question": text,
        "answer": answer,
    }


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path
