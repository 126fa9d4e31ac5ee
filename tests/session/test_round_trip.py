"""The phantom as a hospital has its cases, a spreadsheet with PNG, DICOM and NIfTI files, gives the same measures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medvqa
from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.cli import main
from medvqa.items import Answer, Prompt
from support.exported import WORD, export

pytest.importorskip("pydicom")
pytest.importorskip("nibabel")

SHARED = ("accuracy", "exact_match", "precision_mcls", "recall_mcls", "set_accuracy", "confusion", "unparsed_rate")
"""Measures that a benchmark and a table may both have."""


class Seer(medvqa.Backend):
    """Answers by the pixels alone: the same picture gives the same answer."""

    title = "seer"
    sends_to = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer]:
        return [Answer(self._seen(prompt)) for prompt in prompts]

    def _seen(self, prompt: Prompt) -> str:
        pixels = b"".join(np.asarray(image.pil()).tobytes() for image in prompt.images)
        seed = hashlib.sha256(pixels).digest()
        if prompt.kind == "judgment":
            return ("yes", "no")[seed[0] % 2]
        letters = list(prompt.options)
        if prompt.kind != "multiple_response":
            return letters[seed[0] % len(letters)] if letters else "a nevus"
        return ", ".join(letter for letter, bit in zip(letters, seed, strict=False) if bit % 2) or letters[0]


def measured(run: Path, benchmark: str, slices: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """The measures of a run by name and slice, without their signatures."""
    written = json.loads((run / "metrics.json").read_text())["measures"]
    return {
        (entry["name"], json.dumps(entry["slice"])): {
            part: entry[part] for part in ("value", "low", "high", "n", "count", "units", "groups", "references")
        }
        for entry in written
        if entry["benchmark"] == benchmark and entry["name"] in SHARED and set(entry["slice"]) <= {*slices, "kind"}
    }


@pytest.mark.parametrize(
    ("name", "slices", "formats", "count"),
    [
        pytest.param("phantom-mediconfusion", ("category",), {".png", ".dcm", ".gz"}, 16, id="pairs"),
        pytest.param(
            "phantom-gmai-mmbench", ("task", "modality"), {".png", ".dcm", ".gz"}, 143, marks=pytest.mark.slow
        ),
        pytest.param("phantom-medlesionvqa", ("ability",), {".png", ".dcm"}, 92, marks=pytest.mark.slow),
    ],
)
def test_an_exported_benchmark_gives_the_same_measures(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    slices: tuple[str, ...],
    formats: set[str],
    count: int,
) -> None:
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.chdir(tmp_path)
    (shipped,) = (each for each in phantom.BENCHMARKS if each.name == name)
    # The phantom's own rule scores open answers, and a table leaves them to a judge.
    items = [item for item in benchmarks.load(shipped, Path()) if item.options or item.kind == "judgment"][:count]
    original = replace(shipped, name="original", origin=None, items=lambda data: items)
    export(items, tmp_path, slices=slices)
    typed = [f"--set=slice={dimension}" for dimension in slices]
    imported = main(["import", "questions.xlsx", "--images=scans", "--to=klinik.toml", "--yes", *typed])
    report = "".join(capsys.readouterr())
    assert (imported, WORD in report) == (0, False), report
    assert {path.suffix for path in (tmp_path / "scans").iterdir()} == formats
    own = medvqa.evaluate(Seer(), original, folder=tmp_path, run="own")
    table = medvqa.evaluate(Seer(), "klinik.toml", folder=tmp_path, run="table")
    wanted, theirs = measured(own.folder, "original", slices), measured(table.folder, "klinik", slices)
    assert wanted
    assert {key: theirs[key] for key in wanted} == wanted
    held = [path for path in table.folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]
    assert held == []
