"""`medvqa record`: what it writes and says, of public and private runs, alone and beside others."""

import json
import re
from pathlib import Path

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import pytest_medvqa_benchmarks as shipped
from medvqa.cli import main
from medvqa.readings import reading_file
from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy

PAIRS = "--benchmark=phantom-mediconfusion"
DECLARED = 'file = "ward.csv"\noptions = ["A", "B"]\n\n[slices]\nmodality = "modality"\n'
PLANTED = ("DOE-JANE", "MUSTERMANN", "PETER-PAN")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, another one with a gate against it, and one of a part."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "--model=random", PAIRS, "--run=first"]) == 0
        assert main(["run", "--model=echo:A", PAIRS, "--run=second", "--baseline=reports/first"]) == 10
        assert main(["run", "--model=random", PAIRS, "--run=part", "--limit=10"]) == 0
    return folder


@pytest.fixture
def typed(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Typed":
    monkeypatch.chdir(runs)
    return Typed(capsys)


class Typed:
    """Types a command and returns its exit code and what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main(["record", *words])
        said = self._capsys.readouterr()
        return code, said.out + said.err


def summary(folder: Path) -> str:
    return read(folder / "summary.md")


def read(file: Path) -> str:
    return re.sub(r"\\(.)", r"\1", file.read_text())


def test_the_form_is_written_once_and_then_read(typed: Typed, tmp_path: Path) -> None:
    form, file = tmp_path / "form.toml", tmp_path / "record.md"
    code, said = typed("reports/first", f"--form={form}", "-o", str(file))
    assert (code, f"{form}: an empty form with 23 fields; fill it in" in said) == (0, True)
    assert "23 of 23 fields of the form are not stated." in file.read_text()
    form.write_text(form.read_text().replace('operator = ""', 'operator = "Radiology"'))
    code, said = typed("reports/first", f"--form={form}", "-o", str(file))
    assert (code, said) == (0, f"! 22 of 23 fields of the form are not stated.\nrecord: {file}\n")
    assert "| Radiology |" in file.read_text()
    assert 'operator = "Radiology"' in form.read_text()
    form.write_text("operater = 1")
    code, said = typed("reports/first", f"--form={form}")
    assert (code, "Did you mean 'operator'?" in said) == (4, True)


def test_the_record_is_the_same_again_and_stands_in_the_run_folder(typed: Typed, runs: Path) -> None:
    assert typed("reports/first")[0] == 0
    file = runs / "reports/first/record.html"
    first = file.read_bytes()
    assert typed(str(runs / "reports/first"))[0] == 0
    assert file.read_bytes() == first
    assert str(runs).encode() not in first
    digest = json.loads((runs / "reports/first/metrics.json").read_text())["results"]["digest"]
    assert digest.encode() in first
    file.unlink()


def test_another_ending_is_refused(typed: Typed) -> None:
    code, said = typed("reports/first", "-o", "record.pdf")
    assert (code, "-o=record.pdf: name a file that ends in .html or .md" in said) == (4, True)


def test_rules_that_were_stored_before_the_first_answer_and_the_verdict(typed: Typed, tmp_path: Path) -> None:
    assert typed("reports/second", "-o", str(tmp_path / "a.md"))[0] == 0
    shown = read(tmp_path / "a.md")
    digest = re.search(r"\| Digest of the rules \| (\w+) \|", shown)
    assert digest is not None
    assert f"Rules of the gate, digest {digest[1]}" in shown
    assert shown.split("\n\n")[1].startswith("- Gate: FAIL against first")
    assert "are not the ones that were stored" not in shown
    assert "No gate was stored before the first answer" not in shown


def test_other_runs_are_compared_with_the_first(typed: Typed, tmp_path: Path) -> None:
    assert typed("reports/second", "reports/first", "-o", str(tmp_path / "a.md"))[0] == 0
    shown = read(tmp_path / "a.md")
    comparison = shown[shown.index("## Comparison") : shown.index("## Errors")]
    assert "second against first. phantom-mediconfusion, mc: 72 items in both runs. difference in points" in comparison
    assert "| set_accuracy | 22.22 | 0.00 | -22.22 |" in comparison


def test_a_part_and_an_unfinished_run_say_so(typed: Typed, runs: Path, tmp_path: Path) -> None:
    assert typed("reports/part", "-o", str(tmp_path / "a.md"))[0] == 0
    assert "selected 10 of 72, by --limit=10." in read(tmp_path / "a.md").split("## ")[1]
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("run.json", "results.jsonl", "selected.jsonl", "metrics.json"):
        (killed / name).write_bytes((runs / "reports/first" / name).read_bytes())
    lines = (killed / "results.jsonl").read_text().splitlines(keepends=True)
    (killed / "results.jsonl").write_text("".join(lines[:-5]))
    code, said = typed(str(killed), "-o", str(tmp_path / "b.md"))
    assert code == 1
    first = read(tmp_path / "b.md").split("\n\n")[1].splitlines()
    assert first[0] == "- unfinished: 67 of 72 questions have a result"
    assert said.startswith("! unfinished: 67 of 72 questions have a result\n")


def test_a_run_of_people_alone_and_beside_a_model(typed: Typed, runs: Path, tmp_path: Path) -> None:
    items = benchmarks.load(next(one for one in shipped() if one.name == "phantom-mediconfusion"), None)[:6]
    study = ReaderStudy(name="pilot", plan="ab" * 32, readers=("R1", "R2"), assigned={"R1": 6, "R2": 4}, margin=5)
    readings = [
        ReaderAnswer(code, items[0].benchmark, item.id, response=item.answers[0])
        for code, some in (("R1", items), ("R2", items[:4]))
        for item in some
    ]
    (runs / "pilot.jsonl").write_bytes(reading_file.encode(study, readings))
    assert main(["run", "--model=human:pilot.jsonl", PAIRS, "--run=ward"]) == 0
    tables = re.findall(r"^\| phantom-mediconfusion \| (?:R\d|mean of|panel).+$", summary(runs / "reports/ward"), re.M)
    assert len(tables) == 5
    for named in (("reports/ward",), ("reports/first", "reports/ward")):
        assert typed(*named, "-o", str(tmp_path / "a.md"))[0] == 0
        shown = read(tmp_path / "a.md")
        assert [row for row in tables if row not in shown] == []
        plan = shown[shown.index("ward: plan and codes") : shown.index("ward: Readers")]
        assert f"| assigned.R2 | 4 |\n| margin | 5.0 |\n| plan | {'ab' * 32} |" in plan
        assert "People's answers are not in this record" not in shown
        assert ("as they were sent" in shown, "People or a recording" in shown) == ((len(named) == 2), len(named) == 1)


def test_a_private_run_names_nobody(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = ["ct"] * 9 + ["mr"] * 11
    rows = [
        f"DOE-JANE-{n},Is it the spleen of PETER-PAN {n}?,liver,spleen,{'AB'[n % 2]},MUSTERMANN {n // 2},{kinds[n]}"
        for n in range(20)
    ]
    Path("ward.csv").write_text("\n".join(["id,question,A,B,answer,patient,modality", *rows]) + "\n")
    Path("ward.toml").write_text(DECLARED)
    assert main(["run", "--model=echo:A", "--benchmark=ward.toml", "--run=ward"]) == 0
    assert main(["run", "--model=random", "--benchmark=ward.toml", "--run=other"]) == 0
    for name in ("a.md", "a.html"):
        assert typed("reports/ward", "reports/other", "-o", name)[0] == 0
        shown = read(Path(name))
        assert not [word for word in (*PLANTED, str(tmp_path)) if word in shown]
        assert "Texts sent about data that are not declared public are not shown" in shown
        assert "ward by modality" in shown
