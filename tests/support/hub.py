"""Made-up data sets in the form of the hub: Parquet files with an image, a question and an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.neighbours import cell, write_parquet


def question(grey: int | None, text: str, answer: str | None) -> dict[str, Any]:
    """A row; without a grey level its image is missing."""
    return {
        "image": None if grey is None else cell(grey),
        "question": text,
        "answer": answer,
    }


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a Parquet file."""
    write_parquet(path, rows)
    return path
