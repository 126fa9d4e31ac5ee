"""The command line: a report from a folder, the lexical tree, and one line for what is wrong."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medvqa import records
from medvqa.cli import main
from medvqa.items import Answer, Item, Result, Score
from strangers import CONFTEST


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a conftest that brings a benchmark, and a run of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    recorder = records.Recorder(tmp_path / "reports" / "first")
    for n in range(20):
        item = Item(
            f"q{n:02}", "slake", "single_choice", "Which?", {"A": "a", "B": "b"}, ("A",), (), {"modality": ("ct",)}
        )
        score = Score(1.0, "correct", ("A",)) if n < 15 else Score(0.0, "wrong", ("B",))
        recorder.append(records.encode(Result("first", item, "", Answer("A"), score)))
    recorder.close()
    records.write_json(tmp_path / "reports" / "first" / "run.json", {"name": "first"})
    return tmp_path


def test_report_redraws_a_folder(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "reports/first", "--plugin=conftest.py"]) == 0
    assert "75.00" in capsys.readouterr().out
    measures = json.loads((stranger / "reports/first/metrics.json").read_text())["measures"]
    assert next(m["value"] for m in measures if m["name"] == "accuracy") == 0.75


def test_a_report_is_the_same_when_it_is_drawn_again(stranger: Path) -> None:
    main(["report", "reports/first", "--plugin=conftest.py"])
    files = [stranger / "reports/first" / name for name in ("metrics.json", "summary.md", "junit.xml")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    main(["report", "reports/first", "--plugin=conftest.py"])
    assert [file.read_bytes() for file in files] == before


def test_lexicon_prints_counts_and_what_selects_a_branch(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "--benchmark=slake", "--plugin=conftest.py", "--dimension=modality"]) == 0
    printed = capsys.readouterr().out
    assert "slake: 24 items" in printed
    assert "lexicon(modality='fundus_photography')" in printed
    assert "organ" not in printed


def test_lexicon_shows_the_phantom_when_no_data_are_there(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-gmai-mmbench" in printed
    assert "lexicon(granularity='box_level')" in printed


def test_a_dimension_is_shown_for_the_benchmarks_that_have_it(
    stranger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lexicon", "--dimension=granularity", "--benchmark=phantom"]) == 0
    printed = capsys.readouterr().out
    assert "phantom-gmai-mmbench: 143 items" in printed
    assert "phantom-mediconfusion" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "reports/nosuch"], "no run folder: run.json cannot be read"),
        (["report", "reports/first"], "benchmark 'slake', which is not known here"),
        (["report", "reports/first", "--plugin=nosuch.py"], "--plugin=nosuch.py: no such Python file"),
        (["lexicon", "--benchmark=nosuch"], "no benchmark 'nosuch'; known: "),
        (["lexicon", "--dimension=nosuch"], "no dimension 'nosuch'; there are: ability, attribute"),
        (["lexicon", "--benchmark=mediconfusion"], "was asked for but is not there"),
    ],
)
def test_what_is_wrong_is_one_line(
    stranger: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("medvqa: ")
    assert message in line


def test_the_installed_command_runs_and_bears_a_closed_pipe(stranger: Path) -> None:
    command = shutil.which("medvqa", path=str(Path(sys.executable).parent))
    assert command is not None
    done = subprocess.run(
        f"{command} lexicon --benchmark=phantom | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("phantom-")
    assert done.stderr == ""
