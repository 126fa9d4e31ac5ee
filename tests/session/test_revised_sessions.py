"""Two reviewers and a final decision -> a new version -> a run on it; the run on the old questions is refused."""

from pathlib import Path

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import own, table_files
from medvqa.cli import main
from medvqa.commands.revising import revise
from medvqa.readings.reading_file import Opinion, ReaderStudy

TABLE = "id,question,A,B,answer,pair\n" + "".join(f"q{n},Side {n}?,left,right,A,p{n // 2}\n" for n in range(20))
TOML = 'file = "klinik.csv"\n'
VERSIONS = "version 2 (5 questions changed, 2 removed since version 1: revised/changes.csv)"


def opinions() -> list[Opinion]:
    """Both reviewers correct four questions; they differ about a fifth, and about one of a pair."""
    wrong, unclear, bad = ("q0", "q1", "q2", "q3"), "q4", "q19"
    said = []
    for reader in ("R1", "R2"):
        for number in range(20):
            item = f"q{number}"
            corrected = item in wrong or (item == unclear and reader == "R1")
            decision = "reject" if item == bad and reader == "R2" else "correct" if corrected else "accept"
            answers = ("B",) if corrected else None
            said.append(Opinion(reader, "klinik", item, decision, rating=8, answers=answers, reason="wrong side"))
    said.append(Opinion("A1", "klinik", unclear, "correct", answers=("B",), reason="as R1", final=True))
    return [*said, Opinion("A1", "klinik", bad, "reject", reason="no side is shown", final=True)]


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(words)
    return code, "".join(capsys.readouterr())


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run of each version, by the same model."""
    monkeypatch.chdir(tmp_path)
    Path("klinik.csv").write_text(TABLE)
    Path("klinik.toml").write_text(TOML)
    benchmark = own.completed(table_files.read(Path("klinik.toml")))
    study = ReaderStudy(task="review", readers=("R1", "R2"))
    assert VERSIONS.split("(")[1].partition(" since")[0] in revise(study, opinions(), benchmark, None, Path("revised"))
    for name, file in (("old", "klinik.toml"), ("new", "revised/klinik.toml")):
        code, output = typed(capsys, "run", "--model=echo:A", f"--benchmark={file}", f"--run={name}")
        assert code == 0, output
    return tmp_path


def test_a_review_changes_five_questions_and_the_old_run_is_refused(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = benchmarks.load(own.completed(table_files.read(Path("revised/klinik.toml"))), Path())
    assert [item.id for item in loaded if item.answers == ("B",)] == ["q0", "q1", "q2", "q3", "q4"]
    assert {item.id for item in loaded} == {f"q{number}" for number in range(18)}
    gated = ("run", "--model=echo:A", "--benchmark=revised/klinik.toml", "--run=gated", "--baseline=reports/old")
    for words in (
        ("compare", "reports/old", "reports/new"),
        ("compare", "reports/new", "reports/old"),
        ("merge", "reports/old", "reports/new", "-o", "reports/merged"),
        ("combine", "reports/old", "reports/new", "-o", "reports/combined"),
        ("gate", "reports/new", "--baseline=reports/old"),
        gated,
        ("run", "--model=echo:A", "--benchmark=revised/klinik.toml", "--run=old"),
    ):
        code, output = typed(capsys, *words)
        assert code == 4, (words, output)
        assert VERSIONS in output, (words, output)
        assert "version 1" in output.replace("since version 1", ""), (words, output)
    code, output = typed(capsys, "history", "reports/old", "reports/new")
    assert code == 0
    # Runs of one second are in the order of their names.
    assert f"{VERSIONS} in new" in (said := " ".join(output.split()))
    assert "version 1 in old" in said
    # On request only, and with the reason beside the numbers.
    code, output = typed(capsys, "compare", "reports/old", "reports/new", "--anyway")
    assert VERSIONS in output, output


def test_tables_and_pages_of_several_runs_say_so(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = typed(capsys, "report", "reports/old", "reports/new", "-o", "both.html")
    assert (code, f"! not comparable: klinik: the data set is {VERSIONS} in new and version 1 in old" in output) == (
        0,
        True,
    )
    assert not Path("both.html").exists()
    code, output = typed(capsys, "table", "reports/old", "reports/new", "--by=kind")
    assert f"! not comparable: klinik: the data set is {VERSIONS} in new" in output
