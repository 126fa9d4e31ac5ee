"""Tags of one's own and splits in sessions: they select, are reported, and do not change which answers are stored."""

from pathlib import Path

import pytest

import medvqa
from medvqa.cli import main
from medvqa.records import run_folder, run_record
from support import sessions

TEST = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_phantom(item, evaluate):
    evaluate(item)
"""
MODEL = """
import medvqa


class Counted(medvqa.Backend):
    name = title = "counted"
    sends_to = None

    def fingerprint(self):
        return "counted 1"

    def generate(self, prompts):
        with open("asked", "a") as file:
            file.write("".join(f"{prompt.item}\\n" for prompt in prompts))
        return [medvqa.Answer("A") for _ in prompts]
"""
PATTERNS = "id,failure_pattern\n1,vascular conditions\n2/1,medical devices\n"


@pytest.mark.parametrize("spread", sessions.SPREAD_SLOWLY)
def test_tags_are_reported_and_select(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    pytester.makepyfile(test_questions=TEST)
    (pytester.path / "patterns.csv").write_text(PATTERNS)
    (pytester.path / "reports").mkdir()
    common = ("--model=majority", "--benchmark=phantom-mediconfusion", "--tags=patterns.csv", *spread)
    result = sessions.run(pytester, *common, "-m", "lexicon(failure_pattern='vascular conditions')")
    assert result.ret == 0
    run = sessions.folder(pytester)
    assert [key.item for key in sessions.keys(run)] == ["1/1", "1/2"]
    about = run_record.read_run(run)
    assert about.as_json()["tags"]["dimensions"] == ["failure_pattern"]
    assert "by failure\\_pattern" in (run / "summary.md").read_text()
    slices = [measure["slice"] for measure in sessions.written(run)["measures"]]
    assert {"failure_pattern": "vascular_conditions"} in slices


def test_tags_change_neither_the_data_nor_the_stored_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    Path("conftest.py").write_text(MODEL)
    Path("patterns.csv").write_text(PATTERNS)
    command = ["run", "--model=counted:", "--benchmark=phantom-mediconfusion"]
    assert main([*command, "--run=plain"]) == 0
    asked = len(Path("asked").read_text().splitlines())
    assert main([*command, "--tags=patterns.csv", "--run=tagged", "--answers=plain"]) == 0
    assert len(Path("asked").read_text().splitlines()) == asked == 72
    plain, tagged = (run_record.read_run(Path("reports", name)).as_json() for name in ("plain", "tagged"))
    assert plain["benchmarks"] == tagged["benchmarks"]
    assert "tags" not in plain
    capsys.readouterr()
    assert main([*command, "--run=tagged"]) == 4
    assert "cannot go on: its questions had other tags of your own (--tags)" in capsys.readouterr().err
    assert main([*command, "--tags=patterns.csv", "--run=tagged"]) == 0
    assert main(["compare", "reports/plain", "reports/tagged"]) == 0
    Path("patterns.csv").write_text("id,part\n99,a\n")
    assert main([*command, "--tags=patterns.csv", "--run=other"]) == 4
    assert "patterns.csv row 2: no question or pair of phantom-mediconfusion has the id '99'" in capsys.readouterr().err


def test_a_split_is_asked_by_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEDVQA_DATA", raising=False)
    assert main(["split", "--benchmark=phantom-mediconfusion", "--train=16", "--whole=pairs"]) == 0
    command = ["run", "--model=majority", "--benchmark=phantom-mediconfusion", "--tags=split.csv"]
    for part, pairs in (("train", 16), ("test", 20)):
        assert main([*command, f"--select=lexicon(split='{part}')", f"--run={part}"]) == 0
        measures = sessions.written(Path("reports", part))["measures"]
        (whole,) = [each for each in measures if each["name"] == "set_accuracy" and not each["slice"]]
        assert whole["n"] == pairs
    capsys.readouterr()


def test_a_variant_of_mediconfusion_runs_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one line of docs/data.md, with the phantom's pairs as the easy variant."""
    import shutil

    monkeypatch.chdir(tmp_path)
    phantom = Path(__file__).parents[2] / "fixtures" / "phantom" / "mediconfusion"
    shutil.copytree(phantom, tmp_path / "data" / "mediconfusion-easy")
    Path("conftest.py").write_text(
        'from medvqa.benchmarks import mediconfusion\n\neasy = mediconfusion.variant("mediconfusion-easy")\n'
    )
    assert main(["run", "--model=majority", "--data=data", "--benchmark=mediconfusion-easy", "--run=easy"]) == 0
    printed = capsys.readouterr().out
    assert "mediconfusion-easy" in printed
    assert len(run_folder.read(Path("reports/easy")).results) == 72
    assert main(["run", "--model=majority", "--data=.", "--benchmark=mediconfusion-easy", "--run=other"]) == 4
    assert "Try --data=data, where mediconfusion-easy is found" in capsys.readouterr().err


def test_tags_of_one_s_own_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("patterns.csv").write_text(PATTERNS)
    run = medvqa.evaluate("majority", "phantom-mediconfusion", tags="patterns.csv", limit=8, progress=False)
    assert run_record.read_run(run.folder).as_json()["tags"]["dimensions"] == ["failure_pattern"]
