"""The gate at the end of a session: exit codes, refusals before anything is asked, and what is written."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.cli import main
from medvqa.items import Item
from medvqa.records import run_folder
from support.pages import Page
from support.strangers import CONFTEST, TEST

pytestmark = pytest.mark.usefixtures("outside")

NAME = "phantom-gmai-mmbench"
ITEMS = benchmarks.load(next(each for each in phantom.BENCHMARKS if each.name == NAME), Path())
SINGLE = [item.id for item in ITEMS if item.kind == "single_choice"]
"""What `accuracy` is over: 103 questions."""
SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2")]
SPREAD_SLOWLY = [SPREAD[0], pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]


def response(item: Item, *, right: bool) -> str:
    if right:
        return ",".join(item.answers)
    return next(letter for letter in item.options if letter not in item.answers)


def answers(path: Path, wrong: Collection[str] = ()) -> str:
    """A file of recorded answers, all right but these; what --model takes."""
    lines = (
        json.dumps({"benchmark": NAME, "id": item.id, "response": response(item, right=item.id not in wrong)})
        for item in ITEMS
    )
    path.write_text("\n".join(lines))
    return f"--model=replay:{path}"


MISSED = SINGLE[::4]
"""What the baseline gets wrong: a quarter."""
WORSE = MISSED + SINGLE[1::4]
"""26 more: worse by a quarter."""
OTHERWISE = MISSED[4:] + SINGLE[1:25:4]
"""Six that were right are wrong, four that were wrong are right."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the baseline's run is kept from test to test."""
    return tmp_path_factory.mktemp("baseline")


@pytest.fixture
def repo(pytester: pytest.Pytester, kept: Path) -> pytest.Pytester:
    """A repository of a user, with a baseline."""
    pytester.makepyfile(test_drawn=TEST.replace("slake", "phantom"))
    pytester.makefile(".ini", pytest="[pytest]\n")
    model = answers(pytester.path / "main.jsonl", MISSED)
    if not (kept / "main").exists():
        assert run(pytester, model, "--run=main").ret == 0
        shutil.copytree(pytester.path / "reports/main", kept / "main")
    else:
        shutil.copytree(kept / "main", pytester.path / "reports/main")
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    return way("-p", "no:randomly", "-p", "no:benchmark", f"--benchmark={NAME}", *arguments)


def gate(pytester: pytest.Pytester, name: str) -> Any:
    return json.loads((pytester.path / "reports" / name / "metrics.json").read_text())["gate"]


def text(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


BASELINE = "--baseline=reports/main"


# --- exit codes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_run_that_did_not_change_passes(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    done = run(repo, "--model=replay:main.jsonl", BASELINE, "--run=new", *spread)
    assert done.ret == 0, text(done)
    assert gate(repo, "new")["outcome"] == "PASS"
    assert "gate: PASS against main" in text(done)
    assert "no change: every response is the same as the baseline's" in text(done)


@pytest.mark.parametrize("spread", SPREAD)
def test_a_worse_run_fails(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    done = run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE, "--margin=5", "--run=new", *spread)
    assert done.ret == 10, text(done)
    found = gate(repo, "new")
    assert found["outcome"] == "FAIL"
    (entry,) = found["entries"]
    assert entry["measure"] == "accuracy"
    assert entry["lost"] == 26
    assert entry["beyond"] is True
    assert "gate: FAIL against main, flip_icc 0.1 (exit code 10)" in text(done)
    assert "FAIL: phantom-gmai-mmbench: accuracy against main, margin 5: a loss of " in text(done)
    assert "is shown, all of it more than the margin of 5" in text(done)
    assert "attempt 1 in this folder against main; planned: 1 (--looks)." in text(done)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_run_that_cannot_be_told_apart_is_inconclusive(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    model = answers(repo.path / "new.jsonl", OTHERWISE)
    done = run(repo, model, BASELINE, "--run=new", *spread)
    assert done.ret == 11, text(done)
    assert gate(repo, "new")["outcome"] == "INCONCLUSIVE"
    assert "INCONCLUSIVE: phantom-gmai-mmbench: accuracy against main, margin 2" in text(done)
    assert "a loss of 2 points or more is not ruled out. With no true change, " in text(done)
    assert "questions would rule it out in 80 % of runs; there are 103" in text(done)


@pytest.mark.slow
def test_the_verdict_is_the_same_serially_and_spread(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", OTHERWISE)
    for name, spread in (("serial", ()), ("spread", ("-n2",))):
        run(repo, model, BASELINE, f"--run={name}", "--gate-slices=department,modality", *spread)
    assert gate(repo, "serial") == gate(repo, "spread")
    assert len(gate(repo, "serial")["entries"]) > 5


def test_an_error_comes_before_the_verdict(repo: pytest.Pytester) -> None:
    path = repo.path / "new.jsonl"
    model = answers(path, WORSE)
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    done = run(repo, model, BASELINE, "--run=new")
    assert done.ret == 1
    found = gate(repo, "new")
    assert found["outcome"] is None
    assert found["blockers"][0].startswith(f"{NAME}/{ITEMS[0].id}: ")
    assert "gate: no verdict against main (exit code 1)" in text(done)
    suite = ET.parse(repo.path / "reports/new/gate.xml").getroot().find("testsuite[@name='gate']")
    assert suite is not None
    assert suite.find("testcase/error") is not None


def test_a_failing_test_of_another_kind_comes_before_the_verdict(repo: pytest.Pytester) -> None:
    repo.makepyfile(test_other="def test_other():\n    assert False")
    assert run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE).ret == 1


# --- stopping early -----------------------------------------------------------------------------------------


MUCH_WORSE = WORSE + SINGLE[2::4]
"""Worse by half."""
STOPPING = (BASELINE, "--margin=5", "--stop=early", "--run=new")


def answered(repo: pytest.Pytester) -> int:
    return len((repo.path / "reports/new/results.jsonl").read_text().splitlines())


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_run_that_is_surely_worse_is_stopped_and_goes_on_without_the_option(
    repo: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    model = answers(repo.path / "new.jsonl", MUCH_WORSE)
    done = run(repo, model, *STOPPING, *spread)
    assert done.ret == 10, text(done)
    there = answered(repo)
    assert there < len(ITEMS)
    found = gate(repo, "new")
    (entry,) = found["entries"]
    assert (found["outcome"], entry["kind"], entry["planned"]) == ("FAIL", "early", len(SINGLE))
    assert entry["units"] <= there
    assert "gate: FAIL (stopped early) against main (exit code 10)" in text(done)
    assert f"is shown after {entry['units']} of 103 questions, in an order drawn before: e-value " in text(done)
    go_on = next(line for line in done.outlines if line.startswith("to go on: pytest"))
    assert "--run=new" in go_on
    assert "--stop" not in go_on
    done = run(repo, model, *(word for word in STOPPING if word != "--stop=early"), *spread)
    assert done.ret == 10, text(done)
    assert answered(repo) == len(ITEMS)
    assert gate(repo, "new")["entries"][0]["kind"] == "baseline"
    reused = re.search(r"Answers: (\d+) stored ones reused", text(done))
    assert reused is not None
    assert int(reused[1]) >= there, "answers that were asked ahead of the stop are kept too"
    took = "it takes the place of FAIL (stopped early)"
    assert took not in text(done), "a FAIL took its place"


def test_a_stopped_run_says_so_everywhere_and_stops_at_the_same_place_again(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    model = answers(repo.path / "new.jsonl", MUCH_WORSE)
    assert main(["run", f"--benchmark={NAME}", model, *STOPPING]) == 10
    first, folder = capsys.readouterr().out, repo.path / "reports/new"
    assert "! stopped: --stop=early: the run is surely worse than its baseline" in first
    assert "to go on: medvqa run" in first
    assert "--stop" not in first[first.index("to go on: ") :]
    entry, there = gate(repo, "new")["entries"][0], answered(repo)
    summary, page = (folder / "summary.md").read_text(), Page((folder / "index.html").read_text())
    for told in (summary, page.told):
        plain = told.replace("\\", "")
        assert "FAIL (stopped early) against main" in plain
        assert f"after {entry['units']} of 103 questions" in plain
        assert "a stop exaggerates it" in plain
    (case,) = ET.parse(folder / "gate.xml").getroot().iter("testcase")
    assert case.get("name") == f"{NAME}: accuracy against main, margin 5, stopped early"
    assert [child.tag for child in case] == ["failure"]
    assert main(["gate", "reports/new", "--required"]) == 10
    assert main(["gate", "reports/new"]) == 4
    assert "has a FAIL (stopped early) against main" in capsys.readouterr().err
    assert main(["run", f"--benchmark={NAME}", model, *STOPPING]) == 10
    assert gate(repo, "new")["entries"] == [entry]
    assert answered(repo) == there


def test_a_run_that_is_not_surely_worse_is_asked_whole(repo: pytest.Pytester) -> None:
    done = run(repo, answers(repo.path / "new.jsonl", OTHERWISE), *STOPPING)
    assert done.ret == 11, text(done)
    assert answered(repo) == len(ITEMS)
    assert [entry["kind"] for entry in gate(repo, "new")["entries"]] == ["baseline"]


def test_a_stop_is_refused_if_earlier_sessions_selected_other_questions(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fresh chance of a false stop with each larger --limit would add up over the sessions."""
    model = answers(repo.path / "new.jsonl", OTHERWISE)
    typed = ["run", f"--benchmark={NAME}", model, *STOPPING]
    assert main([*typed, "--limit=40"]) in (10, 11)
    there = answered(repo)
    capsys.readouterr()
    for other in ("--limit=60", "--limit=20"):
        assert main([*typed, other]) == 4
        told = " ".join(capsys.readouterr().err.split())
        assert f"earlier sessions of this run selected 40 questions, this one {other[-2:]}, by other options" in told
        assert "select the same questions again, name another run by --run=NAME, or leave --stop out" in told
    assert answered(repo) == there
    assert main([*typed, "--limit=40"]) in (10, 11)
    assert main([*(word for word in typed if word != "--stop=early"), "--limit=60"]) in (0, 10, 11)


# --- refusals -----------------------------------------------------------------------------------------------


REFUSALS = [
    (["--baseline=reports/mian"], "--baseline=reports/mian: no such run folder or baseline file; runs in "),
    (["--baseline=main.jsonl"], "main.jsonl is no run folder"),
    (
        [BASELINE, "--extraction=official"],
        "extraction is multiple_response: sound; single_choice: official",
    ),
    ([BASELINE, "--technique=gd"], "the technique is gd in this run and mc in main"),
    ([BASELINE, "--benchmark=phantom-mediconfusion"], "'phantom-mediconfusion' is in no baseline (main)"),
    ([BASELINE, "--margin=0"], "--margin = 0: points, more than 0 and at most 100"),
    ([BASELINE, "--gate-slices=organ"], "--gate-slices=organ: no such dimension; there are: "),
    ([BASELINE, "--looks=0"], "--looks=0: how often the gate is asked, at least 1"),
    ([BASELINE, "--inconclusive=no"], "--inconclusive=no: pass or fail"),
    (["--stop=early"], "--stop=early: worse than what? Name a run folder or a baseline file: --baseline=RUN"),
    ([BASELINE, "--stop=late"], "--stop=late: early, or leave --stop out to ask every question"),
    ([BASELINE, "--stop=early", "--shard=1/2"], "--stop=early: a shard (--shard=1/2) has no verdict of its own"),
    (["--stop=early", "--gate=off"], "--gate=off: the run has no gate, and --stop are rules of one"),
    (["--margin=2"], "--margin: worse than what? Name a run folder or a baseline file: --baseline=RUN"),
]


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_what_cannot_be_gated_is_refused_before_anything_is_asked(
    repo: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    for typed, complaint in REFUSALS:
        done = run(repo, "--model=random", "--run=new", *typed, *spread)
        assert done.ret == pytest.ExitCode.USAGE_ERROR, typed
        assert complaint in text(done)
        assert not (repo.path / "reports/new").exists()


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_another_version_of_the_data_is_refused(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    about = json.loads((repo.path / "reports/main/run.json").read_text())
    about["benchmarks"][NAME]["signature"]["data"] = "0" * 12
    (repo.path / "reports/main/run.json").write_text(json.dumps(about))
    done = run(repo, "--model=random", BASELINE, "--run=new", *spread)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "the data set is" in text(done)
    assert "000000000000 in main" in text(done)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_baseline_of_fewer_questions_is_refused(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    run(repo, "--model=random", "--run=part", "--limit=20")
    for selected, number in ((), len(ITEMS)), (("--limit=60",), 60):
        done = run(repo, "--model=random", "--baseline=reports/part", "--run=new", *selected, *spread)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        assert f"baseline part has no result for {number - 20} of {number} questions of {NAME}" in text(done)
        assert not (repo.path / "reports/new/run.json").exists()
        assert spread or not (repo.path / "reports/new").exists()


# --- selections ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
@pytest.mark.parametrize("selected", [("--limit=40",), ("-k", "fundus_photography")])
def test_a_selection_is_compared_with_the_same_questions_of_the_baseline(
    repo: pytest.Pytester, selected: tuple[str, ...], spread: tuple[str, ...]
) -> None:
    done = run(repo, "--model=replay:main.jsonl", BASELINE, "--run=new", *selected, *spread)
    assert done.ret == 11, text(done)
    assert "questions count here: " in text(done)
    suite = ET.parse(repo.path / "reports/new/gate.xml").getroot().find("testsuite[@name='gate']")
    assert suite is not None
    assert [child.tag for case in suite for child in case] == ["system-out", "failure"]
    done = run(repo, "--model=replay:main.jsonl", BASELINE, "--run=new", "--require=shared", *selected, *spread)
    assert done.ret == 0, text(done)
    assert re.search(r"gate: PASS against main on \d+ of 103 questions of main \(phantom-gmai-mmbench\)", text(done))
    assert gate(repo, "new")["entries"][0]["unchanged"] is True


# --- rules of the repository --------------------------------------------------------------------------------

FLOOR = f"""
[[tool.medvqa.gate.floor]]
benchmark = "{NAME}"
measure = "accuracy"
at_least = 0.9
"""


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_rules_of_the_repository_need_no_option(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    (repo.path / "pyproject.toml").write_text(FLOOR)
    done = run(repo, "--model=replay:main.jsonl", "--run=new", *spread)
    assert done.ret == 10, text(done)
    assert f"FAIL: {NAME}: accuracy >= 0.9: 74.8 % (" in text(done)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_bad_rule_of_the_repository_is_a_usage_error(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    (repo.path / "pyproject.toml").write_text("[tool.medvqa.gate]\nmargn = 2\n")
    done = run(repo, "--model=random", "--run=new", *spread)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "pyproject.toml: [tool.medvqa.gate]: no key 'margn'; there are: baseline, margin" in text(done)


def test_a_bad_rule_is_told_where_nothing_was_typed(repo: pytest.Pytester) -> None:
    pytest.importorskip("torch", reason="the default model needs the extra hf")
    (repo.path / "pyproject.toml").write_text(FLOOR.replace("accuracy", "acuracy"))
    done = repo.runpytest_inprocess("-p", "no:randomly", "-p", "no:benchmark")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"[[tool.medvqa.gate.floor]]: benchmark '{NAME}' has no measure 'acuracy'; it has: " in text(done)
    assert {path.name for path in (repo.path / "reports").iterdir()} <= {"main", ".gitignore"}


def test_a_baseline_of_the_file_lies_beside_it(repo: pytest.Pytester) -> None:
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/main"\n')
    assert run(repo, "--model=replay:main.jsonl", "--run=new").ret == 0
    stored = json.loads((repo.path / "reports/new/run.json").read_text())["gate"]
    assert [each["path"] for each in stored["baselines"]] == ["reports/main"]
    assert str(repo.path) not in (repo.path / "reports/new/gate.json").read_text()


WATCH = """
import json
from pathlib import Path
from medvqa import Answer, Backend

class Watch(Backend):
    name = title = "watch"
    sends_to = None
    def generate(self, prompts):
        stored = json.loads((Path(self.argument) / "run.json").read_text())["gate"]["digest"]
        return [Answer("A " + stored) for _ in prompts]

def pytest_medvqa_backends():
    return [Watch]
"""


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_the_rules_are_stored_before_the_first_answer(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    repo.makeconftest(WATCH)
    run(repo, f"--model=watch:{repo.path / 'reports/new'}", BASELINE, "--run=new", "--limit=10", *spread)
    stored = json.loads((repo.path / "reports/new/run.json").read_text())["gate"]
    assert {r.answer.text for r in run_folder.read(repo.path / "reports/new").results if r.answer} == {
        "A " + stored["digest"]
    }
    assert stored["rules"]["margin"] == 2
    assert [each["name"] for each in stored["baselines"]] == ["main"]


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_where_nothing_is_selected_no_folder_is_left(repo: pytest.Pytester, spread: tuple[str, ...]) -> None:
    done = run(repo, "--model=random", BASELINE, "--run=new", "-k", "nothing_at_all", *spread)
    assert done.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not (repo.path / "reports/new").exists()


def test_rules_that_were_changed_show(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", OTHERWISE)
    assert run(repo, model, BASELINE, "--run=new").ret == 11
    again = run(repo, model, BASELINE, "--margin=25", "--run=new")
    assert again.ret == 0
    changed = "the rules were changed after the first answer: margin was 2.0 and is 25.0"
    assert changed in text(again)
    assert changed in gate(repo, "new")["notes"]
    assert changed in (repo.path / "reports/new/summary.md").read_text()
    run(repo, model, "--run=late")
    late = run(repo, model, BASELINE, "--margin=25", "--run=late")
    assert "the rules were not stored before the first answer" in text(late)
    assert "attempt 2 in this folder against main; planned: 1 (--looks): each further one" in text(late)


# --- a gate that is required ------------------------------------------------------------------------------------


def test_a_required_gate_says_where_rules_were_looked_for(repo: pytest.Pytester) -> None:
    path = repo.path / "pyproject.toml"
    other = FLOOR.replace(NAME, "phantom-mediconfusion").replace("accuracy", "set_accuracy")
    for rules, complaint in (
        (None, f"--gate=required: there are no rules. {path} is not there, and no --baseline was typed"),
        ("[tool.medvqa.gate]\nmargin = 3\n", f"{path} has no baseline and no floor in [tool.medvqa.gate]"),
        (other, "--gate=required: rules read from pyproject.toml, and no rule is about the benchmarks of this run"),
    ):
        if rules is not None:
            path.write_text(rules)
        done = run(repo, "--model=random", "--gate=required", "--run=new")
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        assert complaint in text(done)
        assert not (repo.path / "reports/new").exists()
    done = run(repo, "--model=random", "--gate=yes")
    assert "--gate=yes: required, or nothing" in text(done)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_run_without_the_gate_has_no_verdict_and_is_no_attempt(
    repo: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/main"\n')
    worse = answers(repo.path / "new.jsonl", WORSE)
    done = run(repo, worse, "--gate=off", "--run=tried", *spread)
    assert done.ret == 0, text(done)
    line = "gate: none; --gate=off was typed: no rule was applied, and the run counts as no attempt"
    assert line in text(done)
    assert gate(repo, "tried") is None
    assert "gate" not in json.loads((repo.path / "reports/tried/run.json").read_text())
    gated = run(repo, worse, "--run=gated", *spread)
    assert gated.ret == 10
    assert "attempt 1 in this folder against main" in text(gated)
    refused = run(repo, worse, "--gate=off", BASELINE, "--margin=3")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "--gate=off: the run has no gate, and --baseline, --margin are rules of one; leave one out" in text(refused)


def test_a_required_gate_with_rules_is_a_gate(repo: pytest.Pytester) -> None:
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/main"\n')
    done = run(repo, "--model=replay:main.jsonl", "--gate=required", "--margin=3", "--run=new")
    assert done.ret == 0, text(done)
    said = "rules read from pyproject.toml, and typed over them: --margin."
    assert said in text(done)
    assert said in (repo.path / "reports/new/summary.md").read_text()
    assert said.removesuffix(".") == gate(repo, "new")["read_from"]


def test_rules_that_gate_nothing_are_named(repo: pytest.Pytester) -> None:
    path = repo.path / "pyproject.toml"
    other = FLOOR.replace(NAME, "phantom-mediconfusion").replace("accuracy", "set_accuracy")
    for rules, told in (
        ("[tool.medvqa.gate]\n", f"[tool.medvqa.gate] of {path} names no baseline and no floor, and no --baseline was"),
        (other, f"the floors of {path} are about phantom-mediconfusion, and --benchmark names others"),
    ):
        path.write_text(rules)
        done = run(repo, "--model=replay:main.jsonl", "--limit=5")
        assert done.ret == 0, text(done)
        assert f"gate: none; {told}" in text(done)


def test_rules_above_the_root_folder_are_named_where_nothing_is_gated(repo: pytest.Pytester) -> None:
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/main"\n')
    inner = repo.mkdir("inner")
    (inner / "pytest.ini").write_text("[pytest]\n")
    typed = ("--model=replay:main.jsonl", "--rootdir=inner", "-c", "inner/pytest.ini", "--limit=5")
    done = run(repo, *typed)
    assert done.ret == 0, text(done)
    said = f"the rules of {repo.path / 'pyproject.toml'} are not read, since pytest's root folder is {inner}"
    assert f"gate: none; {said}" in text(done)
    done = run(repo, *typed, "--gate=required")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert said in text(done)


# --- what is written ----------------------------------------------------------------------------------------


def test_the_reports_tell_the_verdict(repo: pytest.Pytester) -> None:
    run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE, "--run=new", "--gate-slices=department")
    folder = repo.path / "reports/new"
    summary = (folder / "summary.md").read_text()
    assert "## Gate: FAIL against main, flip_icc 0.1 (exit code 10)" in summary.replace("\\", "")
    assert "- **FAIL** phantom-gmai-mmbench: accuracy against main, margin 2: a loss of " in summary
    assert "Largest losses by slice, in points, exploratory: " in summary
    assert "Flipped: 26 lost, 0 gained. The first of each:" in summary
    assert f"- lost: {NAME}/{SINGLE[1]}: " in summary.replace("\\", "")
    assert "Not gated: " in summary
    assert "are needed" in summary
    assert "Every question and answer: [index.html](index.html) of run new." in summary
    root = ET.parse(folder / "gate.xml").getroot()
    suite = root.find("testsuite[@name='gate']")
    assert suite is not None
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases[f"{NAME}: accuracy against main, margin 2"] == ["failure"]
    assert ["skipped"] in cases.values(), "slices that are too small"
    suites = root.findall("testsuite")
    for count in ("tests", "failures", "errors"):
        assert sum(int(each.get(count, 0)) for each in suites) == int(root.get(count, 0))
    assert int(suite.get("tests", 0)) == len(suite)
    assert "against main" in Page((folder / "index.html").read_text()).told


def test_an_inconclusive_verdict_may_pass(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", OTHERWISE)
    for typed, tag, code in (((), "failure", 11), (("--inconclusive=pass",), "skipped", 0)):
        assert run(repo, model, BASELINE, "--run=new", *typed).ret == code
        assert gate(repo, "new")["outcome"] == "INCONCLUSIVE"
        suite = ET.parse(repo.path / "reports/new/gate.xml").getroot().find("testsuite[@name='gate']")
        assert suite is not None
        assert [child.tag for case in suite for child in case] == [tag]


def test_a_report_is_the_same_without_the_baseline(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE, "--run=new")
    folder = repo.path / "reports/new"
    before = {name: (folder / name).read_bytes() for name in ("metrics.json", "summary.md", "junit.xml", "gate.xml")}
    (repo.path / "reports/main").rename(repo.path / "gone")
    assert main(["report", str(folder)]) == 0
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_verdict_on_other_results_is_left_out(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE, "--run=new")
    folder = repo.path / "reports/new"
    lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[1:]))
    assert main(["report", str(folder)]) == 1
    assert "the stored gate verdict is about other results and is not shown" in capsys.readouterr().out
    assert gate(repo, "new") is None


# --- judges, samples, shares, techniques --------------------------------------------------------------------

OPEN = "phantom-medlesionvqa"
WARM = """
import json
from pathlib import Path
from medvqa import Answer, Backend

RIGHT = json.loads((Path(__file__).parent / "right.json").read_text())

class Warm(Backend):
    name = title = "warm"
    sends_to = None
    def fingerprint(self): return "warm"
    def generate(self, prompts):
        return [Answer("none" if p.sample % 2 and int(p.item) % 5 == 0 else RIGHT[p.item]) for p in prompts]

def pytest_medvqa_backends():
    return [Warm]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository that asks all of the phantom, without a baseline."""
    pytester.makepyfile(test_drawn=TEST.replace("slake", "phantom"))
    pytester.makefile(".ini", pytest="[pytest]\n")
    return pytester


def ask(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    return way("-p", "no:randomly", "-p", "no:benchmark", *arguments)


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_judged_run_is_gated_against_a_run_of_the_same_judge(suite: pytest.Pytester, spread: tuple[str, ...]) -> None:
    one, other = ("--judge=echo:<result>1.0</result>", "--judge=echo:<result>0.5</result>")
    common = ("--model=echo:A", f"--benchmark={OPEN}", *spread)
    assert ask(suite, *common, one, "--run=jb").ret == 0
    done = ask(suite, *common, one, "--baseline=reports/jb", "--run=same")
    assert done.ret == 0, text(done)
    found = gate(suite, "same")
    assert found["outcome"] == "PASS"
    assert "a judge scored answers, and no human labels say how reliably" in found["notes"][0]
    # The whole of `--run=same` is decided again where it goes on.
    assert ask(suite, *common, one, "--baseline=reports/jb", "--run=same").ret == 0
    done = ask(suite, *common, other, "--baseline=reports/jb", "--run=other")
    assert done.ret == pytest.ExitCode.USAGE_ERROR, text(done)
    assert "no verdict can be given against baseline jb: " in text(done)
    done = ask(suite, *common, "--baseline=reports/jb", "--run=none")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "the judge is not recorded in this run" in text(done)
    assert {path.name for path in (suite.path / "reports").iterdir()} <= {"jb", "same", ".gitignore"}


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_samples_are_gated_against_one_answer_and_the_other_way_round(
    suite: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    suite.makeconftest(WARM)
    (suite.path / "right.json").write_text(json.dumps({item.id: ",".join(item.answers) for item in ITEMS}))
    common = ("--model=warm:0", f"--benchmark={NAME}", "--limit=60", "--margin=60", *spread)
    assert ask(suite, *common[:3], "--run=one", *spread).ret == 0
    done = ask(suite, *common, "--repeat=3", "--baseline=reports/one", "--run=three")
    assert done.ret == 0, text(done)
    several = gate(suite, "three")
    assert "samples of each question: 3 in three and 1 in one; their means are compared" in several["notes"]
    assert not any("were not selected" in note for note in several["notes"])
    done = ask(suite, *common, "--baseline=reports/three", "--run=again")
    assert done.ret == 0, text(done)
    (entry,) = gate(suite, "again")["entries"]
    assert entry["units"] == several["entries"][0]["units"]
    assert entry["difference"] == pytest.approx(-several["entries"][0]["difference"])
    assert ask(suite, *common, "--repeat=2", "--baseline=reports/three", "--run=two").ret == 0
    assert any("samples of each question: 2 in two and 3 in three" in each for each in gate(suite, "two")["notes"])


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_shares_are_gated_once_they_are_merged(
    repo: pytest.Pytester, spread: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/main"\nmargin = 5\n')
    model = answers(repo.path / "new.jsonl", WORSE)
    for number in (1, 2):
        done = run(repo, model, f"--shard={number}/2", f"--run=s{number}", *spread)
        assert done.ret == 0, text(done)
        assert "gate: no verdict on one shard; run medvqa merge on all shards, then medvqa gate" in text(done)
        assert gate(repo, f"s{number}") is None
        assert json.loads((repo.path / f"reports/s{number}/run.json").read_text())["gate"]["rules"]["margin"] == 5
    assert main(["merge", "reports/s1", "reports/s2", "-o", "reports/all"]) == 0
    assert main(["gate", "reports/all"]) == 10
    assert "attempt 1 in this folder against main" in capsys.readouterr().out
    assert gate(repo, "all")["notes"] == []


TECHNIQUE = f'[tool.medvqa.gate]\nbaseline = "reports/base"\nbenchmarks = {{{NAME} = {{technique = "gd"}}}}\n'


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_technique_that_not_all_benchmarks_have_is_gated(suite: pytest.Pytester, spread: tuple[str, ...]) -> None:
    common = ("--model=random", "--technique=gd", "--benchmark=phantom", *spread)
    assert ask(suite, *common, "--run=base").ret == 0
    done = ask(suite, *common, "--baseline=reports/base", "--run=new")
    assert done.ret == 0, text(done)
    found = gate(suite, "new")
    assert {entry["benchmark"] for entry in found["entries"]} == {NAME, "phantom-mediconfusion"}


def test_one_of_several_techniques_is_gated(suite: pytest.Pytester) -> None:
    common = ("--model=random", f"--benchmark={NAME}", "--limit=40")
    both = (*common, "--technique=mc", "--technique=gd")
    assert ask(suite, *common, "--run=base").ret == 0
    (suite.path / "pyproject.toml").write_text(TECHNIQUE)
    done = ask(suite, *both, "--run=new")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert f"baseline base has no answers to {NAME} by technique 'gd'; it has: mc" in text(done)
    (suite.path / "pyproject.toml").unlink()
    shutil.rmtree(suite.path / "reports/base")
    assert ask(suite, *both, "--run=base").ret == 0
    (suite.path / "pyproject.toml").write_text(TECHNIQUE)
    done = ask(suite, *both, "--run=new")
    assert done.ret == 0, text(done)
    assert [entry["technique"] for entry in gate(suite, "new")["entries"]] == ["gd"]


# --- a part of what was found -------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_tests_that_ask_a_part_of_the_benchmarks_are_gated(suite: pytest.Pytester, spread: tuple[str, ...]) -> None:
    suite.makepyfile(test_drawn=TEST.replace('vqa("slake")', f'vqa("{NAME}")'))
    model = answers(suite.path / "main.jsonl", MISSED)
    assert ask(suite, model, "--run=main", *spread).ret == 0
    done = ask(suite, model, BASELINE, "--run=new", *spread)
    assert done.ret == 0, text(done)
    assert [entry["benchmark"] for entry in gate(suite, "new")["entries"]] == [NAME]
    assert "not gated, as none of its questions was asked: phantom-mediconfusion" in gate(suite, "new")["notes"]


def test_a_measure_of_which_nothing_was_asked_is_not_forgotten(repo: pytest.Pytester) -> None:
    selected = "lexicon(kind='multiple_response')"
    done = run(repo, "--model=replay:main.jsonl", BASELINE, "--run=new", "-m", selected)
    assert done.ret == 11, text(done)
    lost, entry = gate(repo, "new")["entries"]
    assert lost["kind"] == "units"
    assert entry["why"] == "none of its questions was asked"


@pytest.mark.slow
def test_a_narrower_session_decides_on_the_whole_run(suite: pytest.Pytester) -> None:
    common = ("--baseline=reports/main", "--margin=40", "--run=new")
    assert ask(suite, "--model=majority", "--run=main").ret == 0
    whole = ask(suite, "--model=echo:none", *common)
    assert whole.ret == 10, text(whole)
    before = gate(suite, "new")
    narrow = ask(suite, "--model=echo:none", *common, f"--benchmark={OPEN}")
    assert narrow.ret == 10, text(narrow)
    assert gate(suite, "new")["entries"] == before["entries"]


def test_a_run_that_is_asked_anew_is_another_attempt_and_another_run(repo: pytest.Pytester) -> None:
    for number in (1, 2):
        done = run(repo, "--model=replay:main.jsonl", BASELINE, f"--run=fr{number}", "--fresh")
        assert f"attempt {number} in this folder against main" in text(done)
    done = run(repo, "--model=replay:main.jsonl", BASELINE, "--run=fr1", "--fresh")
    assert done.ret == 4
    assert "run 'fr1' has results, and the first answer to a question counts" in text(done)


# --- medvqa gate --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_runs_that_exist_are_gated_with_the_same_exit_codes(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, wrong, code in (("same", MISSED, 0), ("worse", WORSE, 10), ("otherwise", OTHERWISE, 11)):
        assert run(repo, answers(repo.path / f"{name}.jsonl", wrong), f"--run={name}").ret == 0
        assert main(["gate", f"reports/{name}", BASELINE]) == code
        *copied, note = gate(repo, name)["notes"]
        assert note.startswith("the rules were not stored before the first answer: decided when the answers were known")
        assert [line.partition(" (digest")[0] for line in copied] == [
            "this run has the answers of baseline main" for _ in range(name == "same")
        ]
    capsys.readouterr()
    for command in ("report", "rescore"):
        assert main([command, "reports/worse"]) == 0
        assert "gate: FAIL against main, flip_icc 0.1\n" in capsys.readouterr().out, "the exit code is not the gate's"
    assert main(["gate", "reports/otherwise", BASELINE, "--inconclusive=pass"]) == 0
    assert "gate: INCONCLUSIVE against main, flip_icc 0.1\n" in capsys.readouterr().out


def test_a_gate_is_decided_again_by_the_rules_that_were_stored(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    run(repo, answers(repo.path / "new.jsonl", WORSE), BASELINE, "--margin=3", "--run=new")
    before = gate(repo, "new")
    (repo.path / "reports/new/gate.json").unlink()
    assert main(["gate", "reports/new"]) == 10
    assert gate(repo, "new") == before


def test_a_baseline_file_gives_the_verdict_of_its_run(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    run(repo, answers(repo.path / "new.jsonl", OTHERWISE), BASELINE, "--run=new")
    found = gate(repo, "new")
    for typed in ([], ["--no-responses"]):
        assert main(["baseline", "reports/main", "-o", "main.medvqa", *typed]) == 0
        assert main(["gate", "reports/new", "--baseline=main.medvqa"]) == 11
        again = gate(repo, "new")
        assert again["entries"] == found["entries"]
        assert again["flips"] == found["flips"]
    run(repo, "--model=replay:main.jsonl", "--run=same")
    assert main(["gate", "reports/same", "--baseline=main.medvqa"]) == 0, "unchanged, by digests"
    assert gate(repo, "same")["entries"][0]["unchanged"] is True


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["reports/main"], "there is nothing to decide. Name a run folder or a baseline file by --baseline=RUN"),
        (["reports/none", BASELINE], "is no run folder"),
        (["reports/main", BASELINE, "--rules=none.toml"], "--rules=none.toml: no such file"),
        (
            ["reports/main", "--rules=empty.toml"],
            "--rules=empty.toml has no baseline and no floor, and there is nothing",
        ),
    ],
)
def test_what_cannot_be_decided(
    repo: pytest.Pytester, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / "empty.toml").write_text("[tool.medvqa.gate]\n")
    assert main(["gate", *arguments]) == 4
    assert complaint in capsys.readouterr().err


def test_what_the_baseline_lacks_is_refused(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    run(repo, "--model=random", "--run=part", "--limit=20")
    assert main(["gate", "reports/main", "--baseline=reports/part"]) == 4
    assert "baseline part has no result for " in capsys.readouterr().err


def test_hostile_answers_stay_text(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_slake=TEST)
    evil = "<script>alert(1)</script> | [x](javascript:1) \\x1b[31m"
    pytester.makeconftest(CONFTEST)
    way = ("-p", "no:randomly", "-p", "no:benchmark", "--benchmark=slake")
    pytester.runpytest_inprocess(*way, "--model=stubborn:A", "--run=main")
    done = pytester.runpytest_inprocess(*way, f"--model=stubborn:{evil}", "--baseline=reports/main", "--run=new")
    assert done.ret == 10, text(done)
    summary = (pytester.path / "reports/new/summary.md").read_text()
    assert "<script>" not in summary
    assert "\x1b" not in text(done)
