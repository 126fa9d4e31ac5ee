"""`medvqa export`: the questions, results and measures of a run for other programs."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.commands.exporting import DICTIONARY
from medvqa.report import fields
from medvqa.report.fields import Field
from medvqa.report.rows import Rows, dictionary

KEPT = Path(__file__).parents[1] / "kept" / "runs"
FILES = ("items", "results", "measures")


def exported(tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(KEPT / run, tmp_path / run)
    assert main(["export", run, "-o", "out"]) == 0
    return tmp_path / "out"


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_files_have_the_results_of_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = exported(tmp_path, "techniques", monkeypatch)
    written = {f"{name}.{kind}" for name in FILES for kind in ("csv", "parquet")}
    assert {file.name for file in out.iterdir()} == {*written, DICTIONARY}
    lines = [json.loads(line) for line in (KEPT / "techniques/results.jsonl").read_text().splitlines()]
    results = read(out / "results.csv")
    told = {(line["item"]["id"], line["technique"]): line for line in lines}
    assert {(row["item"], row["technique"]) for row in results} == set(told)
    assert len(results) == len(lines)
    for row in results:
        line = told[row["item"], row["technique"]]
        assert (row["outcome"], float(row["value"])) == (line["score"]["outcome"], line["score"]["value"])
        assert json.loads(row["option_logprobs"] or "null") == line["answer"]["option_logprobs"]
    items = {row["item"]: row for row in read(out / "items.csv")}
    assert items.keys() == {line["item"]["id"] for line in lines}
    first = lines[0]["item"]
    assert json.loads(items[first["id"]]["options"]) == first["options"]
    assert items[first["id"]]["images"] == "|".join(image["name"] for image in first["images"])


def test_the_dictionary_explains_each_column_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = exported(tmp_path, "techniques", monkeypatch)
    described = read(out / DICTIONARY)
    for name in FILES:
        heading = (out / f"{name}.csv").read_text().splitlines()[0].split(",")
        assert [row["column"] for row in described if row["file"] == name] == heading
    assert all(row["meaning"] and row["type"] for row in described)
    (tag,) = (row for row in described if row["file"] == "items" and row["column"] == "category")
    assert tag["meaning"] == "tags of category"


@pytest.mark.parametrize("run", ["techniques", "spread", "judged"])
def test_pandas_reads_the_declared_types_from_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    pandas = pytest.importorskip("pandas")
    out = exported(tmp_path, run, monkeypatch)
    described = read(out / DICTIONARY)
    for name in FILES:
        frame = pandas.read_parquet(out / f"{name}.parquet")
        assert {column: str(kind) for column, kind in frame.dtypes.items()} == {
            row["column"]: row["type"] for row in described if row["file"] == name
        }
        assert len(frame) == len(read(out / f"{name}.csv"))
    measures = pandas.read_parquet(out / "measures.parquet")
    assert measures.units.isna().any() or measures.selected.isna().any(), "whole numbers that may be missing"


def test_an_empty_table_has_its_types() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(io.BytesIO(Rows(fields.RESULT, []).parquet()))
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {
        name: "string" if field.kind == "object" else field.kind for name, field in fields.RESULT.items()
    }


def test_hostile_texts_are_inert_in_csv_and_whole_in_parquet() -> None:
    pandas = pytest.importorskip("pandas")
    columns = {"=HYPERLINK(1)": Field("string", "a tag"), "options": Field("object", "letter -> text")}
    long = "@" + "x" * 40_000
    rows = Rows(columns, [("=cmd|'/C calc'!A0", {"A": '\x1b[31m, "b"'}), (long, None), ("\ud800\x00", {})])
    written = rows.csv()
    assert "\x00" not in written
    heading, *cells = csv.reader(io.StringIO(written))
    assert heading[0] == "'=HYPERLINK(1)"
    assert (cells[0][0], json.loads(cells[0][1])) == ("'=cmd|'/C calc'!A0", {"A": '\x1b[31m, "b"'})
    assert len(cells[1][0]) == 32_767
    frame = pandas.read_parquet(io.BytesIO(rows.parquet()))
    assert frame.iloc[0, 0] == "=cmd|'/C calc'!A0"
    assert (frame.iloc[1, 0], frame.iloc[2, 0]) == (long, "?\x00")
    assert frame.iloc[1].isna().tolist() == [False, True]
    assert dictionary([("mine", rows)]).splitlines()[1:] == [
        "mine,'=HYPERLINK(1),string,a tag",
        'mine,options,string,"letter -> text, as JSON"',
    ]


def test_without_pyarrow_there_is_csv_and_a_line_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    out = exported(tmp_path, "techniques", monkeypatch)
    assert {file.name for file in out.iterdir()} == {*(f"{name}.csv" for name in FILES), DICTIONARY}
    assert "! Parquet files need pyarrow: pip install 'pytest-medvqa[data]'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["techniques", "-o", "techniques"], "-o techniques: a run folder; name another"),
        (["nothing", "-o", "out"], "nothing"),
    ],
)
def test_what_cannot_be_exported_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(KEPT / "techniques", tmp_path / "techniques")
    assert main(["export", *arguments]) == 4
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_files_of_the_user_are_kept_and_those_of_an_earlier_export_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = exported(tmp_path, "techniques", monkeypatch)
    (out / "errors.csv").write_text("of another run")
    (out / "notes.txt").write_text("mine")
    assert main(["export", "techniques", "-o", "out"]) == 0
    assert not (out / "errors.csv").exists(), "its numbers would stand beside those of this run"
    assert (out / "notes.txt").read_text() == "mine"
    for name in ("results.csv", DICTIONARY):
        (tmp_path / "own" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "own" / name).write_text("mine")
        assert main(["export", "techniques", "-o", "own"]) == 4
        assert "is there, and no export wrote it; name another folder" in capsys.readouterr().err
        assert {file.read_text() for file in (tmp_path / "own").iterdir()} == {"mine"}
