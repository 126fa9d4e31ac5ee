"""Comparisons as tables, Markdown, JSON and CSV, and the command that prints them."""

import csv
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medvqa import comparing, metrics
from medvqa.cli import main
from medvqa.comparing import Side
from medvqa.items import Answer, Benchmark, Item, Prompt, Result, Score
from medvqa.records import run_folder
from medvqa.records.run_folder import Recorder
from medvqa.report import comparison
from support.runs import record
from support.strangers import CONFTEST

ORGANS = ("liver", "heart")
HOSTILE = "=HYPERLINK(1) | a | <b>x</b>\n\x1b[31m # heading \u202e"


def said(n: int, text: str, response: str = "") -> Result:
    tags = {"modality": (("ct", "mri", "oct")[n % 3],), "organ": (ORGANS[n % 2],)}
    item = Item(f"q{n:02}", "slake", "single_choice", f"Question {n}?", {"A": "a", "B": "b"}, ("A",), (), tags)
    score = Score(1.0, "correct", ("A",)) if text == "A" else Score(0.0, "wrong", (text,))
    return Result("run", item, "", Answer(response or text), score)


SLAKE = Benchmark(
    name="slake",
    items=lambda data: [],
    prompt=lambda item, technique: Prompt(item.question),
    score=lambda item, answer: Score(0.0, "wrong"),
    metrics=(metrics.accuracy, metrics.macro_accuracy("organ"), *metrics.rates),
    headline=("accuracy", "macro_accuracy"),
    dimensions=("organ", "modality"),
    public=True,
)


def run(name: str, letters: str, **about: Any) -> Side:
    return Side(name, record(about), tuple(said(n, letter) for n, letter in enumerate(letters)))


def compared(new: str, old: str, **options: Any) -> comparing.Paired:
    return comparing.compare(run("new", new), run("old", old), {"slake": SLAKE}, **options)


def study(found: comparison.Paired, refusals: Sequence[str] = (), notes: Sequence[str] = ()) -> comparing.Study:
    versus = comparing.Versus(found, tuple(refusals), tuple(notes))
    sides = found.baseline, found.new
    return comparing.Study(sides, sides, (0, 1), (versus,), ())


def rows(table: comparison.Table) -> list[dict[str, str]]:
    return [dict(zip(table.headings, row, strict=True)) for row in table.texts]


# Tables


def test_the_headline_has_both_values_bounds_and_what_stands_behind_them() -> None:
    found = compared("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA")
    accuracy, macro = rows(comparison.headline(found.tables))
    whole = next(each for each in found.tables if each.metric == "accuracy" and not each.slice).comparison
    assert accuracy == {
        "measure": "accuracy",
        "baseline": "58.33",
        "new": "62.50",
        "difference": "+4.17",
        "95 % interval": f"{100 * (whole.low or 0):+.2f} to {100 * (whole.high or 0):+.2f}",
        "better": "3",
        "worse": "2",
        "n": "24 items",
        "groups": "24",
        "adjusted p": "1.000",
        "flipped groups": "5",
        "detectable": f"{100 * (whole.detectable or 0):.2f}",
        "McNemar p": "1.000",
    }
    assert (macro["measure"], macro["McNemar p"]) == ("macro_accuracy", "–")


def test_without_a_flip_nothing_is_said_to_be_detectable() -> None:
    assert {row["detectable"] for row in rows(comparison.headline(compared("AB" * 10, "AB" * 10).tables))} == {"–"}


def test_few_units_are_counts_without_bounds() -> None:
    (row, _) = rows(comparison.headline(compared("AAAAAB", "AABBBB").tables))
    assert (row["baseline"], row["new"], row["difference"], row["95 % interval"]) == ("2/6", "5/6", "", "")


def test_slices_are_labelled_exploratory_and_those_with_the_smallest_p_come_first() -> None:
    draw = random.Random(2)
    found = compared("".join(draw.choice("AB") for _ in range(90)), "".join(draw.choice("AAB") for _ in range(90)))

    def table(limit: int | None) -> comparison.Table:
        shown = comparison.Shown(0, limit, ("accuracy",))
        (_, _, by_modality) = comparison.sections(found, {"slake": SLAKE}, shown=shown)[1].tables
        return by_modality

    every, first = table(None), table(1)
    assert every.title == "accuracy by modality (exploratory, p by Holm over all its slices)"
    ps = [float(row["adjusted p"]) for row in rows(every)]
    assert ps == sorted(ps)
    assert len(ps) == 3
    assert first.rows == every.rows[:1]
    assert first.title == "accuracy by modality (exploratory, p by Holm over all its slices, 1 of 3 shown)"


def test_flips_are_shown_both_ways_with_both_responses() -> None:
    found = compared("ABBBAA", "AAAABB")
    table = comparison.flipped(found.flips, "accuracy", 2)
    assert table.title == "accuracy flipped: 3 worse, 2 better (4 shown)"
    assert table.rows == (
        ("worse", "q01", "correct: A", "wrong: B"),
        ("worse", "q02", "correct: A", "wrong: B"),
        ("better", "q04", "wrong: B", "correct: A"),
        ("better", "q05", "wrong: B", "correct: A"),
    )


def test_a_long_response_is_cut_and_hostile_text_is_harmless() -> None:
    new = Side("new", record(), (said(0, "B", HOSTILE), said(1, "A"), said(2, "B", "because " * 100)))
    found = comparing.compare(new, run("old", "AAA"), {"slake": SLAKE})
    sections = comparison.sections(found, {"slake": SLAKE})
    text, markdown = comparison.text(sections), comparison.as_markdown(sections)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "because b…" not in text
    assert "because because" in text
    assert "…" in text
    assert "<b>" not in markdown
    assert "\n# heading" not in markdown
    assert all(line.count("|") - line.count("\\|") in (0, 5, 11, 12, 13, 14) for line in markdown.splitlines())


def test_what_forbids_a_verdict_is_said_first() -> None:
    new, old = run("new", "AB?A", missing=[]), run("old", "ABABBBBBB")
    gone = Result("run", new.results[0].item, "", None, Score(None, "error"))
    new = Side("new", record(), (gone, *new.results[1:]))
    found = comparing.compare(new, old, {"slake": SLAKE})
    head, part = comparison.sections(found, {"slake": SLAKE}, refusals=["slake: the prompt is 1 in new and 2 in old"])
    assert (head.title, head.notes) == (
        "new against old",
        ("not comparable: slake: the prompt is 1 in new and 2 in old",),
    )
    assert part.title == "slake, mc: 3 of 9 items scored in both runs"
    assert part.notes == (
        "no verdict can be given: 5 items only in old: q04, q05, q06, q07, q08",
        "no verdict can be given: 1 item without an answer in new: q00",
    )


def test_of_data_that_are_not_declared_public_no_question_is_named() -> None:
    """What is printed stands in logs of a CI; --json has the rest."""
    found = comparing.compare(run("new", "ABAAX"), run("old", "ABBBBBB"), {"slake": SLAKE})
    own = {"slake": replace(SLAKE, public=False)}
    sections = comparison.sections(found, own)
    assert sections[1].notes == (
        "no verdict can be given: 2 items only in old (--json=FILE names them)",
        "2 units flipped, of data that are not declared public (--json=FILE names them)",
    )
    assert not re.search(r"q0\d", comparison.text(sections) + comparison.as_markdown(sections))
    assert "q02" in json.dumps(comparison.as_json(study(found))["comparisons"][0]["flips"])
    (_, part) = comparison.sections(found, own, shown=comparison.Shown(0))
    assert part.notes[1:] == ()
    (_, part) = comparison.sections(found, own, shown=comparison.Shown(0, names=True))
    assert part.notes == ("no verdict can be given: 2 items only in old: q05, q06",)


def test_unchanged_runs_say_so() -> None:
    head, part = comparison.sections(compared("AB", "AB"), {"slake": SLAKE})
    assert head.notes == ("unchanged: the responses are identical on every question",)
    assert part.notes == ()


# Files


def test_json_holds_everything(tmp_path: Path) -> None:
    found = compared("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA", bootstrap=True)
    sides = [run("a", "AB" * 6), run("b", "AA" * 6), run("c", "BB" * 6)]
    rankings = comparing.study(sides, {"slake": SLAKE}).rankings
    written_study = replace(study(found, ["why"], ["so"]), rankings=rankings)
    run_folder.write_json(tmp_path / "x.json", comparison.as_json(written_study))
    written = json.loads((tmp_path / "x.json").read_text())
    (one,) = written["comparisons"]
    assert (written["schema"], one["new"], one["baseline"], one["refusals"], one["notes"]) == (
        1,
        "new",
        "old",
        ["why"],
        ["so"],
    )
    assert len(one["measures"]) == len(found.tables)
    whole = next(m for m in one["measures"] if m["name"] == "accuracy" and not m["slice"])
    assert (whole["difference"], whole["gained"], whole["lost"]) == (pytest.approx(1 / 24), 3, 2)
    assert whole["bootstrap"][0] < whole["difference"] < whole["bootstrap"][1]
    assert [flip["unit"] for flip in one["flips"]] == ["q12", "q13", "q14", "q22", "q23"]
    assert one["flips"][0]["new"][0] | {"value": None} == {
        "item": "q12",
        "sample": 0,
        "outcome": "correct",
        "value": None,
        "extracted": ["A"],
        "response": "A",
    }
    assert [run["name"] for run in written["rankings"][0]["runs"]] == ["b", "a", "c"]


def test_csv_has_a_row_for_each_measure_and_slice() -> None:
    found = compared("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA")
    read = list(csv.DictReader(io.StringIO(comparison.as_csv([found]))))
    assert len(read) == len(found.tables)
    first = read[0]
    assert (first["new_run"], first["measure"], first["dimension"], first["bootstrap_low"]) == (
        "new",
        "accuracy",
        "",
        "",
    )
    assert float(first["difference"]) == pytest.approx(1 / 24)
    assert {row["value"] for row in read if row["dimension"] == "organ"} == set(ORGANS)


# The command

PAGE = Path(__file__).parents[2] / "docs/comparing.md"


@pytest.mark.slow
def test_the_page_shows_what_its_command_prints(tmp_path: Path) -> None:
    console, printed = re.findall(r"```(?:console|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    shutil.copytree(PAGE.parents[1] / "benchmark_tests", tmp_path / "benchmark_tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = benchmark_tests\n")
    *sessions, compare = (line.removeprefix("$ ") for line in console.splitlines())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MEDVQA_"))}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    for command in sessions:
        subprocess.run(command.split(), cwd=tmp_path, env=environment, check=True, capture_output=True)
    done = subprocess.run(compare.split(), cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith(printed)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a conftest that brings the benchmark, and three runs of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, letters in {"old": "AB" * 12, "new": "A" * 12 + "B" * 12, "third": "B" * 24}.items():
        stored(tmp_path / "reports" / name, run(name, letters), about())
    return tmp_path


def about(**signature: str) -> dict[str, Any]:
    return {"benchmarks": {"slake": {"signature": {"data": "1f2e", "extraction": "sound"} | signature, "prompts": {}}}}


def stored(folder: Path, side: Side, told: dict[str, Any]) -> None:
    recorder = Recorder(folder)
    for result in side.results:
        recorder.append(run_folder.encode(result))
    recorder.close()
    run_folder.write_json(folder / "run.json", {"finished": "2026-01-02", **told})


PLUGIN = "--plugin=conftest.py"


def test_the_others_are_compared_with_the_first(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "reports/old", "reports/new", "reports/third", PLUGIN, "--slices=1", "--flips=all"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("Ranking") < printed.index("new against old") < printed.index("third against old")
    assert "slake, mc: 24 items in all 3 runs" in printed
    assert re.search("p by Holm over all [0-9]+ tests of headline measures and pairs of runs", printed)
    assert "accuracy by modality (exploratory, p by Holm over all its slices and all pairs of runs, 1 of 3" in printed
    assert "6 worse, 6 better\n" in printed
    assert main(["compare", "reports/old", "reports/new", PLUGIN]) == 0
    assert "Ranking" not in capsys.readouterr().out


def test_baselines_are_named(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--baseline=reports/old", "--baseline=reports/third"]
    assert main(["compare", "reports/new", *named, PLUGIN, "--flips=0", "--slices=0"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if " against " in line] == ["new against old", "new against third"]
    assert "flipped:" not in printed


def test_a_run_alone_needs_a_baseline(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "reports/new", PLUGIN]) == 4
    assert capsys.readouterr().err == (
        "medvqa: reports/new is to be compared with what? Name two runs, of which the first is the baseline, or one "
        "and --baseline=RUN\n"
    )


def test_runs_that_differ_are_a_usage_error_that_names_the_difference(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(repository / "reports/other", run("other", "AB" * 12), about(data="9a8b", extraction="official"))
    command = ["compare", "reports/old", "reports/other", PLUGIN]
    assert main(command) == 4
    assert capsys.readouterr().err == (
        "medvqa: these runs are not comparable:\n"
        "  slake: the data set is 9a8b in other and 1f2e in old\n"
        "  slake: the extraction is official in other and sound in old\n"
        "--anyway compares them nevertheless, --benchmark=NAME one benchmark alone\n"
    )
    assert main([*command, "--anyway"]) == 0
    assert "! not comparable: slake: the data set is 9a8b in other and 1f2e in old" in capsys.readouterr().out


def test_every_output_names_the_one_setting_that_differs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(repository / "reports/blank", run("blank", "B" * 20 + "AAAA"), about(ablation="blank"))
    files = ["--json=x.json", "--csv=x.csv", "--markdown=x.md"]
    line, effect = "the image: shown in old, blank in blank", "the gain of the image"
    assert main(["compare", "reports/blank", "reports/old", PLUGIN, "--slices=10", *files]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"old against blank ({line})\n")
    assert f"{effect}; difference in points, new minus baseline" in printed
    assert "measure   baseline: blank  new: shown  difference" in printed
    assert f"accuracy by modality ({effect}; exploratory" in printed
    written = (repository / "x.md").read_text()
    assert written.startswith(f"# old against blank \\({line}\\)\n")
    assert "| baseline: blank | new: shown |" in written
    (told,) = json.loads((repository / "x.json").read_text())["comparisons"]
    assert told["differs"] == {
        "setting": "ablate",
        "name": "the image",
        "new": "shown",
        "baseline": "blank",
        "effect": effect,
        "reverse": False,
    }
    (row, *_) = csv.DictReader(io.StringIO((repository / "x.csv").read_text()))
    assert (row["differs"], row["new_setting"], row["baseline_setting"], row["effect"]) == (
        "ablate",
        "shown",
        "blank",
        effect,
    )
    stored(repository / "reports/taught", run("taught", "B" * 20 + "AAAA"), about(shots="3"))
    runs = [f"reports/{name}" for name in ("old", "blank", "taught", "new")]
    assert main(["compare", *runs, PLUGIN, "--json=x.json"]) == 0
    printed = capsys.readouterr().out
    assert "blank against old (the image: blank in blank, shown in old)" in printed
    assert "the gain of the image, with the sign reversed; difference in points" in printed
    assert "new against old\n" in printed
    assert "rank  run     differs in" in printed
    (ranking, *_) = json.loads((repository / "x.json").read_text())["rankings"]
    assert {each["name"]: each.get("differs") for each in ranking["runs"]} == {
        "old": None,
        "new": None,
        "taught": "3 shots",
    }


def test_slices_are_shown_on_request(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["compare", "reports/old", "reports/new", PLUGIN]

    def printed(*options: str) -> str:
        assert main([*typed, *options]) == 0
        return capsys.readouterr().out

    assert printed().endswith("\n\nnot shown: slices by modality, kind, organ; add --slices=10\n")
    assert "accuracy by modality" not in printed()
    for options in (["--slices=10"], ["--measure=accuracy"], ["--measure=accuracy", "--slices=all"]):
        assert "accuracy by modality" in printed(*options)
        assert "not shown" not in printed(*options)


def test_measures_with_the_same_flips_share_a_table() -> None:
    found = compared("AB", "BA")
    both = [*found.flips, *(replace(flip, metric="recall") for flip in found.flips)]
    several = replace(found, flips=(*both, replace(found.flips[0], metric="precision")))
    tables = comparison.sections(several, {"slake": replace(SLAKE, public=True)})[1].tables
    assert [table.title for table in tables if "flipped" in table.title] == [
        "accuracy, recall flipped: 1 worse, 1 better",
        "precision flipped: 0 worse, 1 better",
    ]


def test_a_narrow_terminal_leaves_out_columns_and_says_so() -> None:
    sections = comparison.sections(compared("AAAAAB", "AABBBB"), {"slake": SLAKE}, shown=comparison.Shown(0, 0))
    text = comparison.text(sections, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "adjusted p" in text
    assert text.endswith("detectable, McNemar p; --csv=FILE has all columns")
    assert "left out" not in comparison.text(sections, 200)
    assert "left out" not in comparison.text(sections)


def test_a_narrow_terminal_cuts_responses_of_flips() -> None:
    new = Side("new", record(), (said(0, "B", "because " * 40), said(1, "A")))
    found = comparing.compare(new, run("old", "AA"), {"slake": SLAKE})
    text = comparison.text(comparison.sections(found, {"slake": replace(SLAKE, public=True)}), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert re.search("worse  q00   correct: A  wrong: because because because because becaus.*…", text)


def test_a_terminal_shows_marks_of_markdown_and_html_as_they_were_typed() -> None:
    said_so = "<b>*x*_y_</b> | [a](b) & #1 `c`"
    new = Side("new", record(), (said(0, "B", said_so), said(1, "A")))
    found = comparing.compare(new, run("old_*run*", "AA"), {"slake": SLAKE})
    text = comparison.text(comparison.sections(found, {"slake": replace(SLAKE, public=True)}))
    assert said_so in text
    assert text.startswith("new against old_*run*\n")


def test_runs_that_differ_in_two_settings_are_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(repository / "reports/two", run("two", "AB" * 12), about(ablation="blank", shots="3"))
    assert main(["compare", "reports/old", "reports/two", PLUGIN]) == 4
    assert capsys.readouterr().err == (
        "medvqa: these runs are not comparable:\n"
        "  2 settings differ, so no effect can be told: the image: blank in two, shown in old; the shots: 3 shots in "
        "two, 0 shots in old\n"
        "--anyway compares them nevertheless, --benchmark=NAME one benchmark alone\n"
    )


def test_a_hostile_value_of_a_setting_is_harmless(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(repository / "reports/other", run("other", "AB" * 12), about(shots="3", pool=HOSTILE))
    assert main(["compare", "reports/old", "reports/other", PLUGIN, "--markdown=x.md", "--csv=x.csv"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    written = (repository / "x.md").read_text()
    assert "\x1b" not in written
    assert "<b>" not in written
    assert "\n# heading" not in written


def test_files_are_written(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--json=x.json", "--csv=x.csv", "--markdown=x.md", "--latex=x.tex"]
    assert main(["compare", "reports/old", "reports/new", PLUGIN, "--bootstrap", *files]) == 0
    latex = (repository / "x.tex").read_text()
    assert latex.startswith("% slake, mc: ")
    assert r"accuracy & 50.00 & 50.00 & +0.00 & $-$" in latex
    assert "bootstrap" in capsys.readouterr().out
    assert json.loads((repository / "x.json").read_text())["comparisons"][0]["new"] == "new"
    assert (repository / "x.csv").read_text().startswith("new_run,baseline_run,benchmark")
    assert (repository / "x.md").read_text().startswith("# new against old\n\n## slake, mc")
    assert main(["compare", "reports/old", "reports/new", PLUGIN, "--json=nowhere/x.json"]) == 4
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--benchmark=vqa-rad", "--benchmark=vqa-rad: no run has it; there are: slake"),
        ("--measure=bleu", "--measure=bleu: no such measure; there are: accuracy"),
    ],
)
def test_what_is_not_there_is_named(
    option: str, message: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "reports/old", "reports/new", PLUGIN, option]) == 4
    assert message in capsys.readouterr().err


def test_runs_of_one_name_are_told_apart_by_their_paths(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(repository / "elsewhere/old", run("old", "A" * 24), about())
    assert main(["compare", "reports/old", "elsewhere/old", PLUGIN]) == 0
    assert capsys.readouterr().out.startswith("elsewhere/old against reports/old\n")


def test_runs_without_a_common_technique_cannot_be_compared(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(repository / "reports/empty", Side("empty", record(), ()), about())
    assert main(["compare", "reports/empty", "reports/old", PLUGIN]) == 4
    assert "old and empty share no question" in capsys.readouterr().err


# What one run alone has scored, and units (issue 11, points 7 and 11)


def test_a_comparison_says_on_how_many_of_the_questions_it_stands() -> None:
    new = run("new", "A" * 60)
    lost = tuple(
        replace(result, answer=None, score=Score(None, "error")) if n >= 40 else result
        for n, result in enumerate(new.results)
    )
    found = comparing.compare(replace(new, results=lost), run("old", "A" * 60), {"slake": SLAKE})
    title = comparison.sections(found, {"slake": SLAKE})[1].title
    assert title == "slake, mc: 40 of 60 items scored in both runs"


def test_numbers_of_units_say_what_they_count() -> None:
    accuracy, macro = rows(comparison.headline(compared("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA").tables))
    assert accuracy["n"] == macro["n"] == "24 items"
    assert "adjusted p" in accuracy


def in_groups(side: Side, group: Callable[[int], int] = lambda n: n % 2) -> Side:
    items = [replace(result.item, cluster_id=str(group(n))) for n, result in enumerate(side.results)]
    return replace(side, results=tuple(replace(r, item=item) for r, item in zip(side.results, items, strict=True)))


def test_a_missing_interval_is_explained() -> None:
    texts = "AB" * 20
    sides = [in_groups(side) for side in (run("new", texts), run("old", texts[::-1]))]
    found = comparing.compare(*sides, {"slake": SLAKE})
    accuracy, *_ = rows(comparison.headline(found.tables))
    assert accuracy["95 % interval"] == "no interval: 2 independent groups"


def test_a_missing_interval_of_unequal_groups_is_explained_by_degrees_of_freedom() -> None:
    """Twelve groups, of which one holds three quarters of the questions."""
    texts = "AB" * 22
    sides = [in_groups(side, lambda n: max(0, n - 32)) for side in (run("new", texts), run("old", texts[::-1]))]
    found = comparing.compare(*sides, {"slake": SLAKE})
    accuracy, *_ = rows(comparison.headline(found.tables))
    assert (accuracy["groups"], accuracy["95 % interval"]) == ("12", "no interval: 1.6 degrees of freedom")


# Shown to be alike


def verdicts(new: str, old: str, points: float) -> list[str]:
    found = compared(new, old, equivalent=points)
    return [row[f"within {points:g} points"] for row in rows(comparison.headline(found.tables))]


def test_each_measure_is_alike_different_both_or_open() -> None:
    """One of 24 flips; a third of 300 flip one way; 30 of 1,500 do; 3 and 2 of 24 flip."""
    assert verdicts("A" * 300, "A" * 299 + "B", 5) == ["alike", "alike"]
    assert verdicts("A" * 300, "A" * 200 + "B" * 100, 5) == ["different", "different"]
    assert verdicts("A" * 1500, "A" * 1470 + "B" * 30, 5) == ["differs, by less than 5 points"] * 2
    assert verdicts("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA", 5) == ["open", "open"]
    assert verdicts("AAAAAB", "AABBBB", 90) == ["open", "open"], "counts, no percentages"


def test_two_runs_with_the_same_answers_are_alike_only_with_enough_units() -> None:
    """No flip among n independent units leaves up to about 2.7 / n: within 2 points from some 140 units on."""
    assert verdicts("A" * 120, "A" * 120, 2) == ["open", "open"]
    assert verdicts("A" * 160, "A" * 160, 2) == ["alike", "alike"]


def test_the_90_percent_interval_stands_beside_that_of_95() -> None:
    found = compared("A" * 15 + "B" * 9, "A" * 12 + "B" * 10 + "AA", equivalent=2)
    (accuracy, _) = rows(comparison.headline(found.tables))
    test = next(each for each in found.tables if each.metric == "accuracy" and not each.slice).equivalence
    assert test is not None
    assert accuracy["90 % interval"] == f"{100 * (test.low or 0):+.2f} to {100 * (test.high or 0):+.2f}"
    assert accuracy["90 % interval"] != accuracy["95 % interval"]
    head = comparison.sections(found, {"slake": SLAKE})[0]
    assert head.notes[-1] == (
        "alike: the difference is shown to lie between -2 and +2 points, as its 90 % interval does (two tests of 5 %, "
        "each pair of runs by itself)"
    )
    assert "90 % interval" not in rows(comparison.headline(compared("AB" * 12, "AA" * 12).tables))[0]


def test_a_measure_that_is_no_percentage_is_named_and_not_tested() -> None:
    @metrics.metric
    def length(result: Result) -> float:
        return float(len(result.answer.text)) if result.answer else 0.0

    own = replace(SLAKE, metrics=(metrics.accuracy, length), headline=("accuracy", "length"))
    sides = run("new", "AB" * 30), run("old", "AA" * 30)
    found = comparing.compare(*sides, {"slake": own}, equivalent=2)
    _, part = comparison.sections(found, {"slake": own})
    assert part.notes == ("not tested to be alike, as a margin in points needs percentages: length",)
    assert [row["within 2 points"] for row in rows(comparison.headline(found.tables))] == ["different", ""]


def test_files_have_the_test_and_its_verdict(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--json=x.json", "--csv=x.csv", "--markdown=x.md", "--latex=x.tex"]
    assert main(["compare", "reports/old", "reports/new", PLUGIN, "--equivalent=60", *files]) == 0
    assert "within 60 points" in capsys.readouterr().out
    measures = json.loads((repository / "x.json").read_text())["comparisons"][0]["measures"]
    test = next(each for each in measures if each["name"] == "accuracy" and not each["slice"])["equivalence"]
    assert (test["margin"], test["verdict"]) == (0.6, "alike")
    assert -0.6 < test["low_90"] < test["high_90"] < 0.6
    first, *others = csv.DictReader(io.StringIO((repository / "x.csv").read_text()))
    assert (first["measure"], first["value"], first["verdict"]) == ("accuracy", "", "alike")
    assert float(first["low_90"]) == pytest.approx(test["low_90"])
    assert {row["verdict"] for row in others if row["value"]} == {""}
    assert "within 60 points" in (repository / "x.md").read_text()
    assert "within 60 points" in (repository / "x.tex").read_text()
    for points in ("0", "100"):
        assert main(["compare", "reports/old", "reports/new", PLUGIN, f"--equivalent={points}"]) == 4
        assert f"equivalent={points}: the difference that does not matter, in points" in capsys.readouterr().err


def test_a_page_of_runs_takes_the_margin_and_one_of_one_run_does_not(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "reports/old", PLUGIN, "--equivalent=2"]) == 4
    assert "--equivalent compares several runs: name a second RUN" in capsys.readouterr().err
    assert main(["report", "reports/old", "reports/new", PLUGIN, "--equivalent=60", "-o", "page.html"]) == 0
    assert (repository / "page.html").is_file()


def test_a_plan_says_the_design_effect_and_the_flips_that_tell_it(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = about()
    asked["benchmarks"]["slake"]["prompts"] = {"mc": "plain"}
    for name, letters in {"one": "A" * 60, "two": "AAABBB" * 5 + "A" * 30}.items():
        results = [
            replace(each, item=replace(each.item, cluster_id=f"c{n // 3}"))
            for n, each in enumerate(run(name, letters).results)
        ]
        stored(repository / "reports" / name, replace(run(name, letters), results=tuple(results)), asked)
    assert main(["gate", "--plan", "reports/one", "reports/two", PLUGIN, "--margin=10"]) == 0
    printed = capsys.readouterr().out
    assert (
        "slake of one: design effect 3, at most 3, from the flips between one and two: 15 of 60 questions " in printed
    )
    assert "(--discordance=25.0), correlation 1.00 in 20 groups, 95 % interval 1.00 to 1.00" in printed
    assert "the first figure is at the upper end of its interval, the second at its estimate" in printed
    assert main(["gate", "--plan", "reports/one", "reports/one", PLUGIN, "--margin=10"]) == 4
    assert "or with two runs of much the same model" in capsys.readouterr().err
    assert main(["gate", "--plan", "reports/one", "reports/two", PLUGIN, "--units=300"]) == 4
    told = " ".join(capsys.readouterr().err.split())
    assert "the flips between one and two tell of these benchmarks: slake; what is planned is about none of" in told


def test_a_ranking_names_other_runs_by_their_ranks() -> None:
    """A rank stands for all of its runs; of a rank with several, some are named."""
    places = {"a": 1, "b": 2, "c": 2, "d": 4, "e": 5, "f": 6, "g": 7}
    rows = [comparison.Ranked(name, comparison.Figure(0.5), rank) for name, rank in places.items()]
    ranking = comparison.Ranking("x", "mc", "accuracy", "higher", 9, 9, 9, tuple(rows), ())

    def seen(better: str, open: str = "") -> list[str]:
        row = replace(rows[0], better_than=tuple(better), open=tuple(open))
        return list(comparison.others(ranking, row).values())

    assert seen("defg", "bc") == ["4 to 7", "none", "2"]
    assert seen("dfg", "c") == ["4, 6 to 7", "none", "c"]
    assert seen("bd", "cefg") == ["4, b", "none", "5 to 7, c"]
    assert seen("") == ["none"] * 3
    own = comparison.others(replace(ranking, equivalent=0.02), replace(rows[1], alike=("c",)))
    assert own == {"better than": "none", "worse than": "none", "alike": "c", "open": "none"}


def test_a_ranking_says_what_it_shows_and_what_is_open() -> None:
    sides = [run("a", "A" * 300), run("b", "A" * 299 + "B"), run("c", "A" * 150 + "B" * 150)]
    section, *_ = comparison.of_study(comparing.study(sides, {"slake": SLAKE}, equivalent=5), {"slake": SLAKE})
    table, _ = section.tables
    assert [tuple(row[-4:]) for row in table.texts] == [
        ("3", "none", "2", "none"),
        ("3", "none", "1", "none"),
        ("none", "1 to 2", "none", "none"),
    ]
    assert section.notes[0].startswith(
        "better than, worse than: ranks of runs from which it is shown to differ, 5 % by"
    )
    assert "each pair of runs by itself" in section.notes[0]
    section, *_ = comparison.of_study(comparing.study(sides, {"slake": SLAKE}), {"slake": SLAKE})
    assert section.tables[0].headings[-3:] == ["better than", "worse than", "open"]
    assert section.notes[0].endswith("open: no difference is shown, which does not show that runs are alike")
