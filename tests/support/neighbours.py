"""Tiny samples of the neighbours' data sets in their released formats, and cases scored by hand.

Each author has a module `support.neighbours_NAME` with a tuple `NEIGHBOURS`; `tests/session/test_neighbours.py` runs
the same tests for all of them. Values are made up. A column that holds the answer holds `CANARY`.
"""

from __future__ import annotations

import importlib
import io
import json
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import PIL.Image

import support
from medvqa.items import Outcome

CANARY = "zebracanary"
"""Planted in Findings, Impression, Caption, reasoning_chain, explanation and the like: it must reach no output."""

PATIENT = "MUSTERMANN"
"""Planted as the patient, and in paths of images, of data that are not public: it must reach no file of a run."""

NAMES = (
    *("vqa-rad", "slake-en-test", "slake-zh-test", "path-vqa-test"),
    *("pmc-vqa-test-clean", "pmc-vqa-test-2", "omnimedvqa", "mmmu-health-val"),
    *("medxpertqa-mm", "medframeqa", "radimagenet-vqa", "rexvqa-test"),
)
"""The benchmarks of the ten neighbours."""


@dataclass(frozen=True)
class Case:
    """An answer to the question `item`, and its score by the benchmark's own rule, computed by hand.

    `value` is None for `unscored`. `official` is the outcome by the owners' rule, None if it is not tested here.
    """

    item: str
    answer: str
    outcome: Outcome
    value: float | None
    official: Outcome | None = None


@dataclass(frozen=True)
class Neighbour:
    """A benchmark's sample.

    `write` writes its files into a data folder. `ids` are the ids of its questions, sorted. `cases` are scored one by
    one. `answers` holds an answer to every question, and `measures` the value of each measure of a run with these
    answers, by name, as (numerator, denominator). `texts` are parts of each prompt's text, by id.
    """

    name: str
    write: Callable[[Path], None]
    ids: Sequence[str]
    cases: Sequence[Case] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    measures: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)


def found() -> list[Neighbour]:
    """Return the samples of all modules `support.neighbours_NAME`."""
    names = sorted(m.name for m in pkgutil.iter_modules(support.__path__) if m.name.startswith("neighbours_"))
    return [each for name in names for each in importlib.import_module(f"support.{name}").NEIGHBOURS]


def png(grey: int = 100, size: tuple[int, int] = (4, 3)) -> bytes:
    """Return a grey picture; another `grey` gives other bytes."""
    buffer = io.BytesIO()
    PIL.Image.new("L", size, grey).save(buffer, "PNG")
    return buffer.getvalue()


def cell(grey: int = 100) -> dict[str, Any]:
    """Return a cell of a Parquet file that holds a picture, as the hub writes it."""
    return {"bytes": png(grey), "path": None}


def write_image(path: Path, grey: int = 100) -> None:
    """Write a picture, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(grey))


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON lines, and the folders above the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a Parquet file, and the folders above it."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
