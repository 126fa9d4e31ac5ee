"""`--benchmark=klinik.toml` at every door: pytest, its workers, commands and Python; patients stay in the table."""

import json
import re
from pathlib import Path

import PIL.Image
import pytest

import medvqa
from medvqa.cli import main

DECLARED = """
file = "fragen.csv"
images = "bilder"
language = "de"
licence = "internal"
crossings = ["modality+age"]
[slices]
modality = "Modalität"
age = { column = "Alter", cuts = [18, 65] }
"""
TABLE = """Nr;Frage;Antwort A;Antwort B;Antwort;Bild;Modalität;Alter;Patient;Fall
f1;Welche Farbe?;rot;blau;A;rot.png;CT;17;MUSTERMANN;4711
f2;Welche Farbe?;rot;blau;B;blau.png;MRT;70,5;MUSTERMANN;4712
f3;Was ist ein CT?;;;Computertomographie;;CT;40;MEIER;4713
f4;Was ist ein MRT?;;;Magnetresonanztomographie;;;;MEIER;4714
"""
TEST = """
import pytest

@pytest.mark.vqa
def test_fragen(item, evaluate):
    evaluate(item)
"""


@pytest.fixture
def clinic(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose benchmark lies in a folder of its own."""
    data = pytester.path / "daten"
    (data / "bilder").mkdir(parents=True)
    (data / "klinik.toml").write_text(DECLARED, encoding="utf-8")
    (data / "fragen.csv").write_text(TABLE, encoding="utf-8")
    for name, colour in (("rot", (255, 0, 0)), ("blau", (0, 0, 255))):
        PIL.Image.new("RGB", (4, 4), colour).save(data / "bilder" / f"{name}.png")
    pytester.makepyfile(test_fragen=TEST)
    pytester.makeini("[pytest]\n")
    monkeypatch.chdir(pytester.path)
    return pytester.path


def values(run: Path) -> dict[tuple[str, str], float]:
    made = json.loads((run / "metrics.json").read_text())["measures"]
    return {(each["name"], "".join(each["slice"].values())): each["value"] for each in made}


def command(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """The output of a command of medvqa, which ends with this code."""
    ended = main(words)
    output = "".join(capsys.readouterr())
    assert ended == code, output
    return output


def test_pytest_and_commands_take_the_file(
    clinic: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = ("--model=random", "--benchmark=daten/klinik.toml")
    done = pytester.runpytest_inprocess(*typed, "--run=tested", "-q")
    assert "2 unscored" in done.stdout.str()
    capsys.readouterr()
    shown = command(capsys, "run", *typed, "--run=run")
    assert "klinik: 3 slices were fixed before the run: modality (2 values), age (3 values), modality+age" in shown
    reports = clinic / "reports"
    assert values(reports / "tested") == values(reports / "run")
    assert ("accuracy", "ct+under_18") in values(reports / "run")
    about = json.loads((reports / "run" / "run.json").read_text())["benchmarks"]["klinik"]
    declared = about["declared"]
    assert (declared["file"], declared["language"], list(declared["slices"])) == (
        "daten/klinik.toml",
        "de",
        ["modality", "age", "modality+age"],
    )
    assert len(declared["sha256"]) == len(declared["table_sha256"]) == 64

    with_python = medvqa.evaluate("random", Path("daten/klinik.toml"), run="python", progress=False)
    assert with_python.folder.name == "python"
    assert values(reports / "python") == values(reports / "run")

    assert "modality" in command(capsys, "lexicon", "--benchmark=daten/klinik.toml")
    split = command(capsys, "split", "--benchmark=daten/klinik.toml", "--train=1")
    assert "medvqa run --benchmark=daten/klinik.toml --tags=split.csv" in split
    command(capsys, "gate", "--plan", "--benchmark=daten/klinik.toml")

    # The file gives the page its images.
    command(capsys, "report", str(reports / "run"), "--images=folder", "--benchmark=daten/klinik.toml")
    assert len(list((reports / "run" / "images").iterdir())) == 2

    # Reports and scores need neither the file nor the table.
    for name in ("klinik.toml", "fragen.csv"):
        (clinic / "daten" / name).unlink()
    elsewhere = clinic / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = values(reports / "run")
    one, other = str(reports / "run"), str(reports / "tested")
    command(capsys, "report", one, other)
    command(capsys, "rescore", one)
    assert values(reports / "run") == before
    compared = command(capsys, "compare", one, other, "--slices=10")
    assert "by modality (fixed before the runs, p by Holm" in compared
    command(capsys, "table", one, other)
    command(capsys, "combine", one, other, "--combine=mean")
    command(capsys, "merge", one, other, "-o", "merged", code=0)
    command(capsys, "baseline", one, "-o", "whole.gz", "--no-responses")
    command(capsys, "compare", "whole.gz", other)
    assert medvqa.load(one).finished
    assert medvqa.compare(one, other).notes == ("unchanged: the responses are identical on every question",)
    refused = command(capsys, "run", "--model=random", "--benchmark=../daten/klinik.toml", code=4)
    assert "../daten/klinik.toml: no such file" in refused

    # No name of a patient or case, in any file that was written.
    written = [path for folder in (reports, elsewhere) for path in folder.rglob("*") if path.is_file()]
    assert written
    for path in written:
        content = path.read_bytes()
        # Four digits alone: a digest may hold them by chance.
        assert not re.search(rb"MUSTERMANN|MEIER|\b471[13]\b", content), path
    results = [json.loads(line) for line in (reports / "run" / "results.jsonl").read_text().splitlines()]
    groups = {line["item"]["id"]: line["item"]["cluster_id"] for line in results}
    assert groups["f1"] == groups["f2"] != groups["f3"] == groups["f4"]


def test_a_run_goes_on_only_with_the_slices_that_were_fixed(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ("run", "--model=random", "--benchmark=daten/klinik.toml", "--run=run")
    command(capsys, *typed, "--limit=2")
    file = clinic / "daten" / "klinik.toml"
    file.write_text(DECLARED.replace('crossings = ["modality+age"]', ""), encoding="utf-8")
    refused = command(capsys, *typed, code=4)
    assert (
        "the slices that were fixed before the run were modality, age, modality+age, and are modality, age" in refused
    )
    # A session that names another benchmark draws the report of both.
    command(capsys, "run", "--model=random", "--benchmark=phantom-mediconfusion", "--limit=2", "--run=run")
    assert ("accuracy", "ct") in values(clinic / "reports" / "run")


def test_a_file_may_be_the_pool_of_solved_examples(clinic: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = clinic / "daten"
    (data / "train.toml").write_text(DECLARED.replace("fragen", "train"), encoding="utf-8")
    rows = ["f9;Welche Farbe?;gelb;blau;A;;CT;17;SCHMIDT;1", "f8;Was ist US?;;;Ultraschall;;CT;17;SCHULZ;2"]
    (data / "train.csv").write_text("\n".join([TABLE.splitlines()[0], *rows]) + "\n", encoding="utf-8")
    typed = ("run", "--model=random", "--benchmark=daten/klinik.toml", "--shots=1", "--shot-pool=daten/train.toml")
    command(capsys, *typed, "--run=shots")
    about = json.loads((clinic / "reports" / "shots" / "run.json").read_text())
    assert about["protocol"]["pool"] == "train"


@pytest.mark.slow
def test_workers_read_the_file_too(clinic: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clinic / "daten")
    tests = str(clinic / "test_fragen.py")
    typed = (tests, "--model=random", "--benchmark=klinik.toml", "-q")
    pytester.runpytest_inprocess(*typed, "--run=alone")
    several = pytester.runpytest_subprocess(*typed, "--run=several", "-n", "2")
    assert several.ret == 0, several.stdout.str()
    assert values(clinic / "reports" / "alone") == values(clinic / "reports" / "several")
