"""Sessions with closed and open questions: selection, examples of the other language, and counts of other kits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medvqa.cli import main
from medvqa.records.run_folder import read
from support.neighbours import kept, rows, write
from support.sessions import another, folder, run, text, written

TEST = """
import pytest

@pytest.mark.vqa("slake")
def test_slake(item, evaluate):
    evaluate(item)
"""


@pytest.fixture
def data(pytester: pytest.Pytester) -> Path:
    """A data folder with SLAKE, and a test of it."""
    pytester.makeini("[pytest]")
    pytester.makepyfile(test_drawn=TEST)
    folder = pytester.path / "data"
    _, _, opened, chinese, *_ = rows("slake")
    train = [
        chinese | {"answer": "包含"},
        chinese | {"answer": "包含", "img_id": 4, "qid": 41},
        opened | {"img_id": 5, "qid": 50},
        opened | {"img_id": 6, "qid": 60, "answer": "Heart"},
    ]
    train = [row | {"qid": 100 + row["qid"], "img_name": f"xmlab{row['img_id']}/source.jpg"} for row in train]
    pictures = {f"slake/imgs/xmlab{number}/source.jpg": number for number in range(1, 7)}
    write(folder, {**kept("slake")["files"], "slake/train.json": train}, pictures)
    return folder


def measures(run_folder: Path, benchmark: str) -> dict[str, Any]:
    return {
        measure["name"]: measure
        for measure in written(run_folder)["measures"]
        if measure["benchmark"] == benchmark and not measure["slice"]
    }


def test_a_part_is_selected_by_the_slugs_of_tags(pytester: pytest.Pytester, data: Path) -> None:
    arguments = (f"--data={data}", "--benchmark=slake-en-test", "--model=echo:left kidney")
    result = run(pytester, "-k", "abdomen and open and mri", *arguments)
    assert result.ret == 0, text(result)
    stored = read(folder(pytester)).results
    assert [result.item.id for result in stored] == ["30"]
    assert [result.score.outcome for result in stored] == ["unscored"], "no judge, and no rule says right or wrong"
    measured = measures(folder(pytester), "slake-en-test")
    assert (measured["open_recall"]["value"], measured["open_exact"]["value"]) == (1.0, 1.0)
    assert "open_judged" not in text(result)
    assert "closed_accuracy" not in measured


def test_closed_questions_may_have_examples_of_the_other_language_but_none_of_their_image(
    pytester: pytest.Pytester, data: Path
) -> None:
    arguments = (f"--data={data}", "--benchmark=slake-en-test", "--model=echo:yes", "--shots=1")
    result = run(pytester, "-k", "closed", "--shot-pool=slake-zh-train", *arguments)
    assert result.ret == 0, text(result)
    result = run(pytester, "-k", "closed", "--shots=2", "--shot-pool=slake-zh-train", *arguments[:-1])
    assert result.ret == 4
    assert "fewer solved examples" in text(result), "the example of xmlab1 is none for the question about xmlab1"


def test_stored_answers_are_counted_like_another_kit(
    pytester: pytest.Pytester, data: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytester.path)
    result = run(pytester, f"--data={data}", "--benchmark=slake-en-test", "--model=echo:abnormal", "--run=plain")
    assert result.ret == 0, text(result)
    reports = pytester.path / "reports/plain"
    before = json.dumps(measures(reports, "slake-en-test"), sort_keys=True)
    assert main(["report", str(reports), "--metric-like=llava-med,medevalkit", f"--data={data}"]) == 0
    printed = capfd.readouterr().out
    counted = measures(reports, "slake-en-test")
    assert counted["llava_med_closed_accuracy"]["value"] is None, "wrong answers have left the denominator"
    assert counted["closed_accuracy"]["value"] == 0
    assert counted["llava_med_open_accuracy"]["value"] == 1.0, "it shares no word: the first training answer stands"
    assert "|candidates:2@" in counted["llava_med_open_accuracy"]["signature"]
    assert "|like:medevalkit 9b12e3b34232|" in counted["medevalkit_printed_f1"]["signature"]
    assert "count as llava-med" in printed
    assert "No gate reads them" in " ".join(printed.split())
    kept = {name: measure for name, measure in counted.items() if "_med_" not in name and "medevalkit" not in name}
    assert json.dumps(kept, sort_keys=True) == before, "our own numbers stay"
    (data / "slake/train.json").write_text("[{")
    assert main(["report", str(reports), "--metric-like=llava-med", f"--data={data}"]) == 0
    assert "llava-med with training answers" in (printed := capfd.readouterr().out)
    assert "slake/train.json" in printed
    assert "llava_med_open_recall" in measures(reports, "slake-en-test")
    assert main(["report", str(reports)]) == 0
    assert json.dumps(measures(reports, "slake-en-test"), sort_keys=True) == before, "the run knows no kit"
    assert main(["compare", str(reports), str(reports)]) == 0
    assert "open_exact" in (printed := capfd.readouterr().out)
    assert "open_judged" not in printed, "neither run has a judge"


def test_a_run_keeps_its_kits_and_no_gate_takes_them(
    pytester: pytest.Pytester, data: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytester.path)
    given = ("run", f"--data={data}", "--benchmark=slake-zh-test", "--model=echo:包含", "--noconftest")
    assert main([*given, "--metric-like=medevalkit", "--run=first"]) == 0
    reports = pytester.path / "reports/first"
    assert json.loads((reports / "run.json").read_text())["metric_like"] == ["medevalkit"]
    assert measures(reports, "slake-zh-test")["medevalkit_closed_accuracy"]["value"] == 0.0
    assert main(["report", str(reports)]) == 0
    assert "medevalkit_closed_accuracy" in measures(reports, "slake-zh-test")
    (pytester.path / "pyproject.toml").write_text(
        '[tool.medvqa.gate.benchmarks.slake-zh-test]\nmeasure = "medevalkit_closed_accuracy"\n'
    )
    capfd.readouterr()
    assert main(["gate", str(reports), f"--baseline={another(reports, 'other')}"]) == 4
    assert "has no measure 'medevalkit_closed_accuracy'" in " ".join(capfd.readouterr().err.split())
    for typed, message in (("bleu", "no such kit"), ("llava-med", "not for slake-zh-test")):
        assert main([*given, f"--metric-like={typed}"]) == 4
        assert message in " ".join(capfd.readouterr().err.split())
        assert main(["report", str(reports), f"--metric-like={typed}"]) == 4
        assert message in " ".join(capfd.readouterr().err.split())


def test_a_baseline_without_responses_has_no_measures_of_words(
    pytester: pytest.Pytester, data: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytester.path)
    given = ("run", f"--data={data}", "--benchmark=slake-en-test", "--noconftest")
    assert main([*given, "--model=echo:left kidney", "--run=first"]) == 0
    assert main(["baseline", "reports/first", "-o", "first.gz", "--no-responses"]) == 0
    capfd.readouterr()
    assert main(["compare", "first.gz", "reports/first"]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    assert "closed_accuracy" in printed
    for name in ("open_recall", "open_f1", "open_exact"):
        assert f"{name} is not compared: baseline first.gz holds no responses" in printed, "not 0 of a digest"
    gated = '[tool.medvqa.gate.benchmarks.slake-en-test]\nmeasure = "open_recall"\n'
    (pytester.path / "pyproject.toml").write_text(gated)
    another(pytester.path / "reports/first", "second")
    assert main(["gate", "reports/second", "--baseline=first.gz"]) == 4
    assert "'open_recall' needs the responses" in " ".join("".join(capfd.readouterr()).split())
    assert main(["baseline", "reports/first", "-o", "whole.gz"]) == 0
    assert main(["gate", "reports/second", "--baseline=whole.gz", "--margin=60"]) in (0, 11)
    assert "open_recall" in "".join(capfd.readouterr()).partition("gate:")[2]
