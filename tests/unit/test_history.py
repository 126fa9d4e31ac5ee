"""`medvqa history`: runs in the order of time, as rows, tables and a page."""

import base64
import json
import re
import zlib
from pathlib import Path

import pytest

from medvqa.cli import main
from support import pages

PAIRS = ("--benchmark=phantom-mediconfusion",)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline, a part of it, a run that passes its gate and one that fails; the names are not in order of time."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CI_JOB_URL", "https://ci.example.org/jobs/1")
        assert main(["run", "--model=random", *PAIRS, "--run=z"]) == 0
        assert main(["run", "--model=random", *PAIRS, "--run=y", "--baseline=reports/z"]) == 0
        assert main(["run", "--model=echo:A", *PAIRS, "--run=x", "--baseline=reports/z"]) == 10
        assert main(["run", "--model=random", *PAIRS, "--run=part", "--limit=10"]) == 0
    for second, name in enumerate(("z", "y", "x", "part")):
        file = folder / "reports" / name / "run.json"
        record = json.loads(file.read_text())
        file.write_text(json.dumps(record | {"started": f"2026-01-0{second + 1}T00:00:00+00:00"}))
    return folder


def typed(runs: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.chdir(runs)
    return main(["history", *words])


def test_rows_are_in_the_order_of_time_with_intervals_and_decisions(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [f"reports/{name}" for name in ("part", "x", "y", "z")]
    assert typed(runs, monkeypatch, *names, f"--json={tmp_path / 'history.jsonl'}") == 0
    rows = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    sets = [row for row in rows if row["name"] == "set_accuracy"]
    assert [(row["run"], row["gate"], row["part"]) for row in sets] == [
        ("z", "", ""),
        ("y", "PASS", ""),
        ("x", "FAIL", ""),
        ("part", "", "10 of 72, by --limit=10"),
    ]
    stored = json.loads((runs / "reports/z/metrics.json").read_text())["measures"]
    (own,) = [each for each in stored if each["name"] == "set_accuracy" and not each["slice"]]
    assert {name: sets[0][name] for name in ("value", "low", "high", "n")} == {
        name: own[name] for name in ("value", "low", "high", "n")
    }
    assert sets[1]["baselines"] == ["z"]
    assert {row["ci"] for row in rows} == {"https://ci.example.org/jobs/1"}
    assert all(row["hardware"] for row in rows)


def test_one_benchmark_of_several_and_what_cannot_be_compared_is_said(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("reports/part", "reports/z")
    assert typed(runs, monkeypatch, *names, PAIRS[0]) == 0
    printed = capsys.readouterr().out
    assert printed.count("! Runs of different settings or parts") == printed.count("phantom-mediconfusion mc ") == 3
    assert typed(runs, monkeypatch, *names, "--benchmark=phantom-gmai-mmbench") == 0
    assert "phantom-mediconfusion" not in capsys.readouterr().out


def test_a_page_has_a_plot_of_each_measure_and_parts_apart(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "history.html"
    names = [f"reports/{name}" for name in ("part", "x", "y", "z")]
    assert typed(runs, monkeypatch, *names, "-o", str(page)) == 0
    drawn = pages.Page(page.read_text("utf-8"))
    pages.check_frame(drawn)
    deflated = re.search(r'id="block-head">([^<]+)<', page.read_text("utf-8"))
    assert deflated is not None
    head = json.loads(zlib.decompress(base64.b64decode(deflated[1])))
    assert (head["kind"], head["runs"]) == ("history", [])
    plots = [block for section in head["sections"] for block in section["blocks"] if block["block"] == "plot"]
    assert [plot["up"] for plot in plots] == ["set accuracy %", "individual accuracy %", "confusion %"]
    apart = {series["title"]: [point["x"] for point in series["points"]] for series in plots[0]["series"]}
    assert apart == {"whole benchmark": [1, 2, 3], "10 of 72, by --limit=10": [4]}
    assert all(point["low"] <= point["y"] <= point["high"] for point in plots[0]["series"][0]["points"])


def test_what_is_no_run_is_left_out_and_said(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "reports/broken").mkdir(exist_ok=True)
    (runs / "reports/broken/run.json").write_text("{")
    (runs / "reports/\x1b[31mred.html").write_text("")
    monkeypatch.chdir(runs)
    assert typed(runs, monkeypatch, *map(str, sorted(Path("reports").iterdir()))) == 0
    printed = capsys.readouterr().out
    assert "reports/broken" in printed.partition("! left out: ")[2]
    assert "red.html is no run folder" in printed
    assert "\x1b" not in printed
    assert typed(runs, monkeypatch, "reports/broken") == 4
    assert "no run can be read; type medvqa history reports/*: " in capsys.readouterr().err


def test_other_settings_and_models_are_told_in_the_terminal(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text('file = "own.csv"\n')
    for run, question, model in (("a", "Which?", "echo:A"), ("b", "Which side?", "echo:B")):
        Path("own.csv").write_text(f"id,question,A,B,answer\n1,{question},left,right,A\n")
        assert main(["run", "--benchmark=own.toml", f"--model={model}", f"--run={run}"]) == 0
    capsys.readouterr()
    assert main(["history", "reports/a", "reports/b"]) == 0
    _, heading, first, second, note = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["run", "began", "model"]
    assert heading.split()[-1] == "settings"
    assert [(row.split()[2], row.split()[-1]) for row in (first, second)] == [("echo:A", "1"), ("echo:B", "2")]
    assert note.endswith("their numbers are not to be compared. Settings differ in: data.")
