"""A table is imported, and the commands that the import prints are typed."""

import json
import random
import shlex
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from medvqa.cli import main
from medvqa.tables import sheets

HEADER = (
    "Nr",
    "Bild",
    "Frage",
    "Antwort A",
    "Antwort B",
    "Antwort C",
    "Lösung",
    "Modalität",
    "Patientennummer",
    "Name",
)
ORGANS = ("Leber", "Milz", "Niere")


def rows() -> list[list[str]]:
    draw = random.Random(0)
    return [
        [
            *(str(i), f"ct/{i}.png", "Welches Organ ist hier zu sehen?", *draw.sample(ORGANS, 3), draw.choice("ABC")),
            *(draw.choice(("CT", "MRT")), f"PAT-{i % 20}", f"Petermann, Ute{i}"),
        ]
        for i in range(40)
    ]


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bilder" / "ct").mkdir(parents=True)
    for number in range(40):
        PIL.Image.effect_noise((16, 16), 50 + number).save(tmp_path / "bilder" / "ct" / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, ending: str) -> Path:
    path = folder / f"fragen.{ending}"
    if ending == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist([dict(zip(HEADER, row, strict=True)) for row in rows()]), path)
    elif ending == "jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in rows()))
    else:
        sheets.write(path, HEADER, rows())
    return path


def measures(folder: Path) -> Any:
    (run,) = (path for path in (folder / "reports").iterdir() if not path.name.startswith("."))
    return [
        (m["name"], m["slice"], m["value"], m["n"], m["groups"])
        for m in json.loads((run / "metrics.json").read_text())["measures"]
    ]


@pytest.mark.parametrize("ending", ["csv", pytest.param("xlsx"), "jsonl", "parquet"])
def test_an_imported_table_is_asked(clinic: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    path = written(clinic, ending)
    assert main(["import", path.name, "--images=bilder", "--to=klinik.toml", "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    typed = shlex.split(lines[lines.index("wrote klinik.toml. Next:") + 1])
    assert typed[:2] == ["medvqa", "run"]
    assert main(typed[1:]) == 0
    found = measures(clinic)
    (accuracy,) = ((n, groups) for name, piece, _, n, groups in found if (name, piece) == ("accuracy", {}))
    assert accuracy == (40, 20)
    assert {piece["modalität"] for _, piece, *_ in found if "modalität" in piece} == {"ct", "mrt"}
    files = [file for file in clinic.rglob("*") if file.is_file() and file != path]
    assert [file.name for file in files if b"Petermann" in file.read_bytes()] == []


def test_the_plan_of_a_gate_can_be_typed(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", written(clinic, "csv").name, "--images=bilder", "--yes"]) == 0
    typed = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert typed[:3] == ["medvqa", "gate", "--plan"]
    assert main(typed[1:]) == 0
    assert "fragen" in capsys.readouterr().out
