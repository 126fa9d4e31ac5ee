"""Runs of `human:FILE`: readers who read a part of the questions are the samples of those that they read."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medvqa import benchmarks
from medvqa.benchmarks import pytest_medvqa_benchmarks as shipped
from medvqa.cli import main
from medvqa.items import DataWarning, Item
from medvqa.metrics.by_reader import by_reader
from medvqa.readings import reading_file
from medvqa.readings.reading_file import ReaderAnswer, ReaderStudy
from medvqa.records import coverage, run_folder, run_record
from medvqa.statistics import readers as statistics
from medvqa.tables import sheets
from support.pages import Page
from support.sessions import SPREAD_SLOWLY, run, text

PAIRS = "phantom-mediconfusion"
TEST = f"""
import pytest

@pytest.mark.vqa("{PAIRS}")
def test_pairs(item, evaluate):
    evaluate(item)
"""
ITEMS = benchmarks.load(next(one for one in shipped() if one.name == PAIRS), None)


def right(item: Item) -> str:
    return item.answers[0]


def wrong(item: Item) -> str:
    return next(letter for letter in item.options if letter not in item.answers)


def table(path: Path, readings: Iterable[tuple[Item, str, str]]) -> Path:
    """Write readings (item, code of a reader, response)."""
    sheets.write(path, ["id", "reader", "response"], [[item.id, reader, said] for item, reader, said in readings])
    return path


def two_readers() -> list[tuple[Item, str, str]]:
    """R1 reads the first ten questions and is right; R2 the first four, right in two of them."""
    second = [(item, "R2", right(item) if place < 2 else wrong(item)) for place, item in enumerate(ITEMS[:4])]
    return [*((item, "R1", right(item)) for item in ITEMS[:10]), *second]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def says(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def measures(folder: Path) -> dict[str, dict[str, Any]]:
    content = json.loads((folder / "metrics.json").read_text())
    return {measure["name"]: measure for measure in content["measures"] if not measure["slice"]}


def test_readers_of_a_part_are_no_errors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(here / "readers.csv", two_readers())
    code, said = says(capsys, "run", "--model=human:readers.csv", f"--benchmark={PAIRS}", "--run=h")
    assert code == 0, said
    folder = here / "reports" / "h"
    record, stored = run_record.read_run(folder), run_folder.read(folder)
    assert record.readers is not None
    assert (record.readers.codes, record.repeat, record.protocol.readers) == (("R1", "R2"), 2, True)
    assert [(r.item.id, r.sample) for r in stored.results if r.sample == 2] == [(item.id, 2) for item in ITEMS[:4]]
    assert len(stored.results) == 14
    assert record.selected.line(PAIRS, "mc") == "10 of 72, by --model=human:readers.csv"
    assert "selected 10 of 72, by --model=human:readers.csv" in said
    assert coverage.coverage(folder).complete
    # Eight questions are right, and the readers of two disagree: their mean counts.
    assert measures(folder)["individual_accuracy"]["value"] == pytest.approx((8 + 2 * 0.5) / 10)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_pytest_asks_the_same_questions(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    pytester.makepyfile(test_pairs=TEST)
    table(pytester.path / "readers.csv", two_readers())
    result = run(pytester, "--model=human:readers.csv", "--run=h", *spread)
    assert result.ret == 0, text(result)
    assert "12 correct, 2 wrong" in text(result)
    folder = pytester.path / "reports" / "h"
    assert coverage.coverage(folder).complete
    assert measures(folder)["individual_accuracy"]["value"] == pytest.approx(0.9)
    again = run(pytester, "--model=human:readers.csv", "--run=h", *spread)
    assert again.ret == 0, text(again)
    assert run_record.read_run(folder).last_session.asked == 0


def test_the_panel_majority_counts_as_many_votes_as_there_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    third = [(item, "R3", wrong(item)) for item in ITEMS[:3]]
    table(here / "readers.csv", [*two_readers(), *third])
    command = ("run", "--model=human:readers.csv", f"--benchmark={PAIRS}", "--combine=vote", "--run=h")
    code, said = says(capsys, *command)
    assert code == 0, said
    # Right: questions 1, 2 and 5 to 10. Question 3 has two votes against one, 4 a tie, which is invalid.
    found = measures(here / "reports" / "h")
    assert found["individual_accuracy"]["value"] == pytest.approx(8 / 10)
    assert found["invalid_rate"]["count"] == 1


def test_shards_of_readers_are_merged_and_runs_not_combined(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(here / "r.csv", two_readers())
    command = ("run", "--model=human:r.csv", f"--benchmark={PAIRS}")
    for number in (1, 2):
        assert main([*command, f"--shard={number}/2", f"--run=s{number}"]) == 0
    assert main([*command, "--run=whole"]) == 0
    code, said = says(capsys, "merge", "reports/s1", "reports/s2", "-o", "merged")
    assert code == 0, said
    one, other = (run_record.read_run(here / "reports" / name) for name in ("whole", "merged"))
    assert (one.readers, one.selected.line(PAIRS, "mc")) == (other.readers, other.selected.line(PAIRS, "mc"))
    assert measures(here / "reports" / "whole") == measures(here / "reports" / "merged")
    code, said = says(capsys, "combine", "reports/whole")
    assert (code, "vote" in said) == (0, True)
    code, said = says(capsys, "combine", "reports/whole", "reports/merged")
    assert (code, "the samples of whole are its readers" in said) == (4, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--samples=3",), "the 2 readers of 'human:readers.csv' are its samples; leave it out"),
        (("--rotate=2",), "--rotate: people answered the questions as they are"),
        (("--perturb=typos",), "--perturb: people answered the questions as they are"),
        (("--reasoning=cot",), "--reasoning: people answered"),
        (("--ablate=blank",), "--ablate=blank"),
        (("--technique=gd",), "gd"),
        (("--set", "reader=who"), "--set reader=who: "),
        (("--set", "answer=who"), "answer"),
        (("--benchmark=phantom-gmai-mmbench",), "none of phantom-gmai-mmbench"),
    ],
)
def test_what_people_were_not_asked_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    table(here / "readers.csv", two_readers())
    named = () if words[0].startswith("--benchmark") else (f"--benchmark={PAIRS}",)
    code, printed = says(capsys, "run", "--model=human:readers.csv", *named, *words, "--run=h")
    assert code not in (0, 1), printed
    assert said in printed
    assert "Traceback" not in printed
    assert not (here / "reports" / "h" / "results.jsonl").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("id,reader,response\n1/1,R1,A\n1/1,R1,B\n", "row 3: reader 'R1' has another answer"),
        ("id,reader\n1/1,R1\n", "missing column response"),
        ("id,reader,response\nnobody,R1,A\n", "one is of nobody"),
        (
            '{"readings": 1, "task": "review"}\n{"reader": "E", "benchmark": "", "item": "1", "decision": "accept"}\n',
            "revise",
        ),
    ],
)
def test_a_wrong_file_gets_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], content: str | None, said: str
) -> None:
    if content is not None:
        (here / "readers.csv").write_text(content)
    code, printed = says(capsys, "run", "--model=human:readers.csv", f"--benchmark={PAIRS}", "--run=h")
    assert code not in (0, 1)
    assert said in printed
    assert "Traceback" not in printed
    assert len(printed.strip().splitlines()) == 1


def test_unknown_ids_are_counted(here: Path) -> None:
    rows = [[f"x{number}", "R1", "A"] for number in range(7)]
    sheets.write(here / "r.csv", ["id", "reader", "response"], [[ITEMS[0].id, "R1", "A"], *rows])
    with pytest.warns(DataWarning, match=r"7 readings of questions not in .*: x0, x1, x2, x3, x4 and 2 more"):
        assert main(["run", "--model=human:r.csv", f"--benchmark={PAIRS}", "--run=h"]) == 0


def test_what_a_reader_said_besides_is_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = ReaderStudy(name="pilot", plan="ab" * 32, readers=("R1", "R2"), assigned={"R1": 2, "R2": 2}, margin=5)
    first, second = ITEMS[:2]
    lines = [
        ReaderAnswer("R1", PAIRS, first.id, cannot_tell=True, confidence=2, seconds=31.5, comment="blurred"),
        ReaderAnswer("R1", PAIRS, second.id, response=right(second), arm="without"),
        ReaderAnswer("R2", PAIRS, second.id, comment="not answered yet"),
    ]
    (here / "pilot.jsonl").write_bytes(reading_file.encode(study, lines))
    code, said = says(capsys, "run", "--model=human:pilot.jsonl", f"--benchmark={PAIRS}", "--run=h")
    assert code == 0, said
    folder = here / "reports" / "h"
    record, (one, other) = run_record.read_run(folder), run_folder.read(folder).results
    assert (one.score.outcome, one.score.value) == ("abstained", 0.0)
    assert one.answer is not None
    assert one.answer.noted is not None
    assert (one.answer.seconds, one.answer.noted.confidence, one.answer.noted.comment) == (31.5, 2, "blurred")
    assert other.answer is not None
    assert other.answer.noted is not None
    assert (other.score.outcome, other.answer.noted.arm) == ("correct", "without")
    readers = record.readers
    assert readers is not None
    assert (readers.codes, readers.planned, readers.margin) == (("R1",), ("R1", "R2"), 5)
    assert (readers.assigned, readers.plan) == ({"R1": 2, "R2": 2}, "ab" * 32)


def test_people_score_open_questions_and_no_judge_is_needed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "own.toml").write_text('name = "own"\nfile = "open.csv"\npublic = true\n')
    sheets.write(
        here / "open.csv", ["id", "question", "answer"], [[str(n), f"Which sign is {n}?", "halo"] for n in "123"]
    )
    scores = [["1", "R1", "1"], ["2", "R1", "0.5"], ["3", "R1", "0"], ["1", "R2", "0"]]
    sheets.write(here / "r.csv", ["id", "reader", "score"], scores)
    command = ("run", "--model=human:r.csv", "--benchmark=own.toml", "--run=h")
    code, said = says(capsys, *command)
    assert code == 0, said
    results = run_folder.read(here / "reports" / "h").results
    found = {(r.item.id, r.sample): (r.score.outcome, r.score.value, r.score.why) for r in results}
    assert found == {
        ("1", 1): ("correct", 1.0, "given by people"),
        ("2", 1): ("partial", 0.5, "given by people"),
        ("3", 1): ("wrong", 0.0, "given by people"),
        ("1", 2): ("wrong", 0.0, "given by people"),
    }
    assert all(result.judgement is None for result in results)
    # A judge is asked about none of them, and scoring again changes none.
    code, said = says(capsys, *command[:-1], "--judge=echo:1", "--run=judged")
    assert code == 0, said
    assert {r.score.why for r in run_folder.read(here / "reports" / "judged").results} == {"given by people"}
    code, said = says(capsys, "rescore", here / "reports" / "h")
    assert code == 0, said
    assert {r.score.why for r in run_folder.read(here / "reports" / "h").results} == {"given by people"}


def study(margin: float | None = 20, **more: Any) -> ReaderStudy:
    """A plan of four readers, of whom three have read by now, 36 questions each."""
    planned = ("R1", "R2", "R3", "R4")
    return ReaderStudy(**({"plan": "ab" * 32, "readers": planned, "margin": margin} | more))


def crossed(readers: int, questions: int = 36, wrong_in: int = 5) -> list[ReaderAnswer]:
    return [
        ReaderAnswer(
            f"R{number}", PAIRS, item.id, response=(wrong if (place + number) % wrong_in == 0 else right)(item)
        )
        for number in range(1, readers + 1)
        for place, item in enumerate(ITEMS[:questions])
    ]


def ask(here: Path, readings: list[ReaderAnswer], plan: ReaderStudy, model: str = "phantom-vlm") -> None:
    (here / "r.jsonl").write_bytes(reading_file.encode(plan, readings))
    assert main(["run", "--model=human:r.jsonl", f"--benchmark={PAIRS}", "--run=people"]) == 0
    assert main(["run", f"--model={model}", f"--benchmark={PAIRS}", "--run=model"]) in (0, 1)


COMPARE = ("compare", "reports/people", "reports/model")


def test_a_model_stands_against_readers_and_not_beside_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(here, crossed(3), study())
    code, said = says(capsys, *COMPARE, "--json=c.json")
    assert code == 0, said
    found = json.loads((here / "c.json").read_text())
    assert found["comparisons"] == []
    (against,) = found["readers"]
    (part,) = against["parts"]
    assert (against["model"], against["people"], part["questions"]) == ("model", "people", 36)
    by_item = {result.item.id: result.score.value for result in run_folder.read(here / "reports" / "model").results}
    scored = by_reader(run_folder.read(here / "reports" / "people").results)
    model = np.array([by_item[result.item.id] for result in scored.firsts])
    expected = statistics.against_model(model, scored.scores, scored.groups)
    assert part["difference"]["value"] == pytest.approx(expected.value)
    assert (part["difference"]["low"], part["difference"]["df"]) == pytest.approx((expected.low, expected.df))
    assert part["difference"]["method"] == "Obuchowski-Rockette"
    assert part["alone"]["method"] == "these readers alone"
    # Three of four planned readers have read: no verdict, though there is a margin.
    assert part["verdict"] is None
    assert "3 of 4 planned readers" in said
    assert said.count("Model against readers") == 1
    assert "baseline" not in said
    code, said = says(capsys, *COMPARE[:1], *COMPARE[:0:-1], "--markdown=c.md")
    assert code == 0, said
    assert "Obuchowski-Rockette" in (here / "c.md").read_text()


def test_people_are_no_baseline_of_a_gate_and_have_no_part_in_bold(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(here, crossed(3), study())
    code, said = says(capsys, "gate", "reports/model", "--baseline=reports/people", "--margin=90")
    assert code == 4
    assert "a gate compares models; compare a model with people by `medvqa compare`" in said
    code, said = says(capsys, "table", "reports/people", "reports/model", "--layout=slices", "--format=markdown")
    assert code == 0, said
    assert "**" not in said


@pytest.mark.parametrize(
    ("margin", "readers", "model", "assigned", "expected"),
    [
        (40, 4, "phantom-vlm", {}, "non-inferior"),
        (1, 4, "echo:none of these", {}, "inferior"),
        (0.001, 4, "phantom-vlm", {}, "undecided"),
        (None, 4, "phantom-vlm", {}, None),
        (40, 3, "phantom-vlm", {}, "3 of 4 planned readers"),
        (40, 4, "phantom-vlm", {"R2": 40}, "R2: 36 of 40 assigned readings"),
    ],
)
def test_a_verdict_needs_the_whole_assignment(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    margin: float | None,
    readers: int,
    model: str,
    assigned: dict[str, int],
    expected: str | None,
) -> None:
    ask(here, crossed(readers, wrong_in=6), study(margin, assigned=assigned), model)
    code, said = says(capsys, *COMPARE, "--json=c.json")
    assert code == 0, said
    (part,) = json.loads((here / "c.json").read_text())["readers"][0]["parts"]
    if expected in ("non-inferior", "inferior", "undecided", None):
        assert (part["verdict"], part["why"]) == (expected, [])
    else:
        assert (part["verdict"], part["why"]) == (None, [expected])
        assert f"no verdict: {expected}" in said


def test_five_readers_stand_for_others(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(here, crossed(5), ReaderStudy())
    code, said = says(capsys, *COMPARE)
    assert code == 0, said
    assert "these readers alone" not in said


def test_the_page_of_a_comparison_has_the_section(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(here, crossed(4), study())
    assert main(["run", "--model=echo:A", f"--benchmark={PAIRS}", "--run=other", "--technique=mc"]) == 0
    for runs in (("people", "model"), ("model", "people", "other")):
        code, said = says(capsys, "report", *(f"reports/{name}" for name in runs), "-o", "c.html")
        assert code == 0, said
        head = Page((here / "c.html").read_text()).block("head")
        sections = {section["title"]: section for section in head["sections"]}
        assert "Model against readers" in sections
        assert "Obuchowski-Rockette" in json.dumps(sections["Model against readers"])
        assert not any(section["id"].startswith("pair") for section in head["sections"])


def test_physicians_in_the_form_of_medlesionvqa(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table 11: 15 primary and 15 senior physicians, two of each question in random order, by ability."""
    name = "phantom-medlesionvqa"
    items = benchmarks.load(next(one for one in shipped() if one.name == name), None)
    draw = random.Random(3)
    rows, expected = list[list[str]](), dict[str, list[float]]()
    for item in items:
        for group, share in (("primary", 0.5), ("senior", 0.9)):
            code, is_right = f"{group}/{draw.randint(1, 15):02}", draw.random() < share
            judged = item.kind in ("short_answer", "fill_in_the_blank")
            said = ["", "1" if is_right else "0"] if judged else [",".join(item.answers) if is_right else "Z", ""]
            rows.append([item.id, code, *said])
            expected.setdefault(group, []).append(is_right)
    sheets.write(here / "physicians.csv", ["id", "reader", "response", "score"], rows)
    code, said = says(capsys, "run", "--model=human:physicians.csv", f"--benchmark={name}", "--run=physicians")
    assert code == 0, said
    assert "mean of primary" in said
    code, said = says(capsys, "table", "reports/physicians", "--layout=medlesionvqa:11", "--csv=t.csv")
    assert code == 0, said
    with (here / "t.csv").open(newline="") as file:
        table = {(row["run"], row["column"]): row for row in csv.DictReader(file)}
    assert list(dict.fromkeys(run for run, _ in table)) == [
        *("physicians", "physicians: primary", "physicians: senior")
    ]
    abilities = ("Lesion", "Loc.", "Attr.", "Rela.", "Diag.", "Sugg.")
    assert list(dict.fromkeys(column for _, column in table)) == ["AVG val", *abilities]
    for group, scores in expected.items():
        row = table[f"physicians: {group}", "AVG val"]
        assert float(row["value"]) == pytest.approx(sum(scores) / len(scores))
        own = [one for one, item in zip(scores, items, strict=True) if "disease_diagnosis" in item.tags["ability"]]
        assert float(table[f"physicians: {group}", "Diag."]["value"]) == pytest.approx(sum(own) / len(own))
    code, said = says(capsys, "table", "reports/physicians", "--layout=medlesionvqa")
    for column in ("micro", "macro", "Lesion", "Loc.", "Attr.", "Rela.", "Reas.", "Diag.", "Sugg."):
        assert column in said


def test_the_panel_of_a_run_is_no_rival_of_its_mean(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(here, crossed(3), study())
    assert main(["run", "--model=human:r.jsonl", f"--benchmark={PAIRS}", "--combine=vote", "--run=panel"]) == 0
    code, said = says(capsys, "compare", "reports/panel", "reports/model")
    assert code == 0, said
    assert "panel: compared by the mean of its readers, not by the panel's majority" in said
    assert "3 of 4 planned readers" in (here / "reports" / "panel" / "summary.md").read_text()
