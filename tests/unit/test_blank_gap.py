"""The gap between a run and the run without its images: recorded, shown, refused."""

import json
import re
from pathlib import Path

import pytest

from medvqa import comparing, report
from medvqa.cli import main
from medvqa.comparing import blank
from medvqa.items import UsageError
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from medvqa.report import tables
from medvqa.report.bundle.scorecard import scorecard_section
from medvqa.report.bundle.verdict import verdict_section
from support import pages


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return pages.ablated(tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def made(runs: tuple[Path, Path]) -> report.Report:
    shown, without = runs
    assert main(["report", str(shown), f"--blank={without}"]) == 0
    return report.build(shown, pages.PHANTOM)


def test_the_gap_is_the_paired_difference_at_95_percent(runs: tuple[Path, Path], made: report.Report) -> None:
    stored = json.loads((runs[0] / "metrics.json").read_text())["blank"]
    assert (stored["name"], stored["image"], stored["level"]) == ("blank", "blank", 0.95)
    paired = comparing.compare(comparing.load(runs[0]), comparing.load(runs[1]), pages.PHANTOM)
    wanted = {
        (row.benchmark, row.technique, row.metric): (row.shown.difference, row.shown.low, row.shown.high)
        for row in paired.tables
        if row.headline and not row.slice
    }
    gaps = {
        (gap["benchmark"], gap["technique"], gap["name"]): (gap["value"], gap["low"], gap["high"])
        for gap in stored["gaps"]
    }
    assert gaps == wanted
    assert len(gaps) == 8
    values = {
        (m["benchmark"], m["technique"], m["name"]): m["value"]
        for m in json.loads((runs[0] / "metrics.json").read_text())["measures"]
        if not m["slice"]
    }
    for gap in stored["gaps"]:
        assert gap["shown"] == pytest.approx(values[gap["benchmark"], gap["technique"], gap["name"]])
        assert gap["value"] == pytest.approx(gap["shown"] - gap["blank"])


def test_summary_terminal_and_scorecard_show_the_gap(runs: tuple[Path, Path], made: report.Report) -> None:
    table = tables.image_gain(made)
    assert table.title == "Gain of the image, against run blank (image: blank)"
    assert table.texts[0] == [
        *("phantom-gmai-mmbench", "accuracy", "80.58", "58.25", "+22.33", "+8.78 to +35.13", "103 items"),
    ]
    summary = (runs[0] / "summary.md").read_text()
    assert "Gain of the image, against run blank" in summary
    assert r"\+22.33" in summary
    _, gain = scorecard_section(made).blocks
    shown = [(cell.shown, cell.interval) for cell in gain.rows[0].cells[2:]]
    assert shown == [("58.25", ""), ("+22.33", "+8.78 to +35.13")]
    sentence = verdict_section(made, "").blocks[0].sentences[1]
    assert sentence.state == "open", "58 % lies above chance, and the image is not shown to help"
    assert "".join(word.text for word in sentence.words).endswith("the image is not shown to help.")


def test_a_redrawn_run_keeps_its_gap_until_its_results_change(runs: tuple[Path, Path], tmp_path: Path) -> None:
    shown, without = pages.ablated(tmp_path)
    assert main(["report", str(shown), f"--blank={without}"]) == 0
    assert main(["report", str(shown)]) == 0
    assert "blank" in json.loads((shown / "metrics.json").read_text())
    changed = report.build(shown, pages.PHANTOM).parts[0].results[0]
    recorder = Recorder(shown)
    recorder.append(run_folder.encode(pages.marked([changed], right=changed.score.outcome != "correct")[0]))
    recorder.close()
    made = report.write(report.build(shown, pages.PHANTOM))
    assert "blank" not in json.loads((shown / "metrics.json").read_text())
    assert any("gap to a run without the images is about other results" in note for note in report.notes_of(made))
    assert f"medvqa report {shown} --blank=RUN" in report.notes_of(made)[-1]


@pytest.mark.parametrize(
    ("run", "without", "why"),
    [
        ("shown", "shown", "no setting differs. Ask the same questions with --ablate=blank"),
        ("blank", "shown", "blank is itself a run without its images"),
        (
            "shown",
            "other",
            "other is not shown without its images:\n  phantom-gmai-mmbench: the data set is 0 in shown",
        ),
    ],
)
def test_a_run_that_is_no_blank_run_is_refused(runs: tuple[Path, Path], run: str, without: str, why: str) -> None:
    folder = runs[0].parent
    if not (folder / "other").exists():
        pages.write(folder / "other", pages.guesses())
    sides = [comparing.load(folder / name) for name in (run, without)]
    with pytest.raises(UsageError, match=re.escape(why)):
        blank.against(*sides, pages.PHANTOM)


def test_a_blank_run_belongs_to_one_run(
    runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown, without = map(str, runs)
    assert main(["report", shown, without, f"--blank={without}"]) == 4
    assert f"--blank={without} belongs to one run, and 2 are named: name one RUN" in capsys.readouterr().err


def test_a_part_of_the_questions_is_said(tmp_path: Path) -> None:
    shown, without = pages.ablated(tmp_path)
    lines = (without / "results.jsonl").read_text().splitlines(keepends=True)
    (without / "results.jsonl").write_text("".join(line for i, line in enumerate(lines) if i % 2))
    found = blank.against(comparing.load(shown), comparing.load(without), pages.PHANTOM)
    blank.write(shown, found)
    made = report.build(shown, pages.PHANTOM)
    text = "".join(word.text for word in verdict_section(made, "").blocks[0].sentences[0].words)
    assert f"on the {found.gaps[0].scored} of 143 questions that both runs have scored" in text


@pytest.mark.parametrize("content", [b"[]", b'{"name": 1}', b"\xff", b'{"name":"x","image":"","of":"","gaps":[{}]}'])
def test_a_damaged_file_is_named_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / blank.FILE).write_bytes(content)
    with pytest.raises(UsageError, match=r"blank\.json cannot be read: .*Delete it, or write it anew: medvqa report"):
        blank.read(tmp_path)


@pytest.mark.parametrize("change", [{"blank": 1e300}, {"low": -1.5}, {"n": -3}, {"asked": 10**18}, {"unit": "<b>"}])
def test_numbers_that_no_gap_has_are_refused(runs: tuple[Path, Path], tmp_path: Path, change: dict) -> None:
    found = blank.against(comparing.load(runs[0]), comparing.load(runs[1]), pages.PHANTOM)
    blank.write(tmp_path, found)
    assert blank.read(tmp_path) == found
    stored = json.loads((tmp_path / blank.FILE).read_text())
    stored["gaps"][0] |= change
    (tmp_path / blank.FILE).write_text(json.dumps(stored))
    with pytest.raises(UsageError, match=r"blank\.json cannot be read: "):
        blank.read(tmp_path)
