"""Each kind of verdict through processes: what pytest and `medvqa gate` say, and the files that a CI reads."""

import errno
import json
import os
import re
import shutil
import sys
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks, files
from medvqa.benchmarks import mediconfusion
from medvqa.cli import main
from medvqa.commands import redrawing, verdicts
from support import junit_schema, processes
from support.pages import Page

pytestmark = pytest.mark.usefixtures("outside")

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference data are not beside the repository")

CONFTEST = '''
from medvqa import metrics, scoring
from medvqa.items import Benchmark, Item
from medvqa.protocols.prompts import Template

ASK = Template("ward/mc", "{question}\\n{options}", "{letter}. {text}\\n")
OPTIONS = {"A": "liver", "B": "spleen", "C": "kidney", "D": "heart"}


def ward(data):
    """160 questions at three sites; 40 of the 60 at site "joint" are about one patient."""
    for n in range(160):
        site = "joint" if n < 60 else "apart" if n < 120 else "small" if n < 128 else "rest"
        patient = "one" if n < 40 else str(n)
        yield Item(f"q{n:03}", "ward", "single_choice", f"Question {n}?", OPTIONS, ("A",), (), {"site": (site,)},
                   cluster_id=patient)


def pytest_medvqa_benchmarks():
    return [Benchmark(name="ward", items=ward, prompt=ASK.prompt, score=scoring.score_single_choice,
                      metrics=(metrics.accuracy, *metrics.rates), dimensions=("site",))]
'''
TEST = """
import pytest

@pytest.mark.vqa("{name}")
def test_it(item, evaluate):
    evaluate(item)
"""
WRONG = [n for n in range(160) if n % 3 == 0]
"""What the baseline gets wrong, about a third at each site."""
JOINT = range(60)
QUIET = ("-p", "no:randomly", "-p", "no:benchmark", "-q")


def answers(path: Path, wrong: Collection[int]) -> str:
    """A file of recorded answers; what --model takes."""
    lines = (
        json.dumps({"benchmark": "ward", "id": f"q{n:03}", "response": "B" if n in wrong else "A"}) for n in range(160)
    )
    path.write_text("\n".join(lines))
    return f"--model=replay:{path}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the baseline's run is kept from test to test."""
    return tmp_path_factory.mktemp("baseline")


@pytest.fixture
def repo(pytester: pytest.Pytester, kept: Path) -> pytest.Pytester:
    """A repository of a user, with a baseline in reports/main."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_ward=TEST.format(name="ward"))
    pytester.makefile(".ini", pytest="[pytest]\n")
    if not (kept / "main").exists():
        model = answers(pytester.path / "main.jsonl", WRONG)
        assert pytester.runpytest_inprocess(*QUIET, model, "--run=main").ret == 0
        shutil.copytree(pytester.path / "reports/main", kept / "main")
    else:
        shutil.copytree(kept / "main", pytester.path / "reports/main")
    return pytester


def like_main(repo: pytest.Pytester, name: str, wrong: Collection[int]) -> Path:
    """A run folder as a session would have left it, in which other questions are wrong."""
    folder = repo.path / "reports" / name
    shutil.copytree(repo.path / "reports/main", folder)
    lines = []
    for line in (folder / "results.jsonl").read_text().splitlines():
        result = json.loads(line)
        right = int(result["item"]["id"][1:]) not in wrong
        result["run"] = name
        result["answer"]["text"] = letter = "A" if right else "B"
        result["score"] |= {"value": float(right), "outcome": "correct" if right else "wrong", "extracted": [letter]}
        lines.append(json.dumps(result))
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
    about = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**about, "name": name}))
    return folder


def verdict(folder: Path) -> Any:
    return json.loads((folder / "gate.json").read_text())["verdict"]


def entries(folder: Path) -> dict[str, Any]:
    """What became of each rule, by slice; "" is the rule on everything."""
    return {entry["slice"].get("site", ""): entry for entry in verdict(folder)["entries"]}


def cases(path: Path) -> dict[str, list[tuple[str, str]]]:
    """What ended each case of a JUnit file, with its sentence."""
    return {
        case.get("name", ""): [(child.tag, child.get("message", "")) for child in case if child.tag != "system-out"]
        for case in ET.parse(path).getroot().iter("testcase")
    }


GATE = ("--plugin=conftest.py", "--baseline=reports/main")


# --- a run and its baseline ---------------------------------------------------------------------------------


def written_file(repo: pytest.Pytester, folder: Path) -> str:
    assert main(["baseline", str(folder), "-o", str(repo.path / "new.medvqa")]) == 0
    return "new.medvqa"


def linked(repo: pytest.Pytester, folder: Path) -> str:
    (repo.path / "reports/other").symlink_to(folder)
    return "reports/other"


def hard_linked(repo: pytest.Pytester, folder: Path) -> str:
    """As `cp -al` makes it; run.json has another name."""
    other = like_main(repo, "other", WRONG)
    (other / "results.jsonl").unlink()
    (other / "results.jsonl").hardlink_to(folder / "results.jsonl")
    return "reports/other"


def copied(repo: pytest.Pytester, folder: Path) -> str:
    shutil.copytree(folder, repo.path / "reports/other")
    return "reports/other"


ITSELF = [
    pytest.param(lambda repo, folder: "reports/new", id="same"),
    pytest.param(lambda repo, folder: "reports/../reports/./new/", id="otherwise spelled"),
    pytest.param(lambda repo, folder: str(folder), id="absolute"),
    pytest.param(linked, id="link"),
    pytest.param(hard_linked, id="hard links"),
    pytest.param(copied, id="copy"),
    pytest.param(written_file, id="baseline file"),
]


@pytest.mark.parametrize("named", ITSELF)
def test_a_run_is_no_baseline_of_itself(
    repo: pytest.Pytester, named: Callable[[pytest.Pytester, Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = like_main(repo, "new", {*WRONG, 121, 122})
    baseline = named(repo, folder)
    capsys.readouterr()
    assert main(["gate", "reports/new", "--plugin=conftest.py", f"--baseline={baseline}"]) == 4
    said = capsys.readouterr().err
    assert f"--baseline={baseline}: this is the run that is gated, reports/new, or a copy of it" in said
    assert "Name a run of another model or version by --baseline=RUN, or gate another run" in said
    assert not (folder / "gate.json").exists()


def test_another_run_of_the_same_name_is_a_baseline(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """As in CI, where each run is called alike and the baseline is that of the main branch."""
    shutil.copytree(repo.path / "reports/main", repo.path / "before/main")
    about = json.loads((repo.path / "before/main/run.json").read_text())
    about["sessions"][0]["session"] = "another1"
    (repo.path / "before/main/run.json").write_text(json.dumps(about))
    written_file(repo, repo.path / "before/main")
    for baseline in ("before/main", "new.medvqa"):
        assert main(["gate", "reports/main", "--plugin=conftest.py", f"--baseline={baseline}"]) == 0
    told = verdict(repo.path / "reports/main")["notes"]
    assert any(note.startswith("this run has the answers of baseline main (digest ") for note in told)


def test_a_session_is_not_gated_against_its_own_run(repo: pytest.Pytester) -> None:
    """Not even by a model that is always wrong, which got PASS by `baseline = "reports/mine"` and --run=mine."""
    assert repo.runpytest_inprocess(*QUIET, answers(repo.path / "mine.jsonl", WRONG), "--run=mine").ret == 0
    (repo.path / "pyproject.toml").write_text('[tool.medvqa.gate]\nbaseline = "reports/mine"\n')
    before = (repo.path / "reports/mine/results.jsonl").read_bytes()
    done = repo.runpytest_inprocess(*QUIET, answers(repo.path / "mine.jsonl", range(160)), "--run=mine")
    assert done.ret == 4
    done.stderr.fnmatch_lines("*: this is the run that is gated, *reports/mine, or a copy of it*")
    assert (repo.path / "reports/mine/results.jsonl").read_bytes() == before
    assert not (repo.path / "reports/mine/gate.json").exists()


def test_a_changed_copy_and_equal_answers_are_told(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    folder = like_main(repo, "new", {*WRONG, 121, 122})
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == 0
    session = json.loads((folder / "run.json").read_text())["sessions"][0]["session"]
    told = f"this run is a copy of baseline main, perhaps changed since: session {session} asked both"
    assert told in verdict(folder)["notes"]
    about = json.loads((folder / "run.json").read_text())
    about["sessions"][0]["session"] = "another1"
    (folder / "run.json").write_text(json.dumps(about))
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == 0
    assert not any("cop" in note for note in verdict(folder)["notes"])
    same = (repo.path / "reports/main/results.jsonl").read_text()
    (folder / "results.jsonl").write_text(same.replace('"run":"main"', '"run":"new"'))
    assert main(["gate", "reports/new", *GATE]) == 0
    of = verdict(folder)["of"]
    told = f"this run has the answers of baseline main (digest {of}): the model is unchanged, or the run is a copy"
    assert told in verdict(folder)["notes"]
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_run_that_was_merged_into_the_baseline_gets_no_verdict(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        model = answers(repo.path / "new.jsonl", WRONG)
        assert repo.runpytest_inprocess(*QUIET, model, f"--shard={number}/2", f"--run=s{number}").ret == 0
    assert main(["merge", "reports/s1", "reports/s2", "-o", "reports/all", "--plugin=conftest.py"]) == 0
    assert main(["gate", "reports/s1", "--plugin=conftest.py", "--baseline=reports/all", "--require=shared"]) == 1
    assert (
        "run s1 is a part of baseline all: name one merged without it" in verdict(repo.path / "reports/s1")["blockers"]
    )


# --- a FAIL stands ------------------------------------------------------------------------------------------

WORSE = {*WRONG, *range(121, 139)}


def test_a_fail_is_not_replaced_by_easier_rules(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    folder = like_main(repo, "new", WORSE)
    easier = like_main(repo, "poor", WORSE)
    assert main(["gate", "reports/new", *GATE]) == 10
    before = (folder / "gate.json").read_bytes()
    rules = json.loads(before)["verdict"]["rules"]
    capsys.readouterr()
    other = ("--plugin=conftest.py", f"--baseline={easier.relative_to(repo.path)}")
    assert main(["gate", "reports/new", *other]) == 4
    said = capsys.readouterr().err
    assert (
        f"reports/new has a FAIL against main (rules {rules}), and by these rules the same results would get " in said
    )
    assert "PASS against poor" in said
    assert "add --replace to replace it all the same" in said
    assert (folder / "gate.json").read_bytes() == before
    # INCONCLUSIVE would be a stair to PASS, and may have exit code 0 itself.
    assert main(["gate", "reports/new", *GATE, "--gate-slices=site", "--looks=9999999", "--inconclusive=pass"]) == 4
    assert main(["report", "reports/new", "--plugin=conftest.py"]) == 0
    assert (folder / "gate.json").read_bytes() == before
    assert main(["gate", "reports/new", *other, "--replace"]) == 0
    told = f"it takes the place of FAIL against main (rules {rules}) on the same results of this run"
    assert told in " ".join(capsys.readouterr().out.split())
    assert told in (folder / "summary.md").read_text().replace("\\", "")
    assert main(["gate", "reports/new", *other]) == 0
    assert json.loads((folder / "gate.json").read_text())["replaced"] == [told], "it is never forgotten"


def test_a_fail_is_about_the_results_it_was_computed_from(repo: pytest.Pytester) -> None:
    folder = like_main(repo, "new", WORSE)
    assert main(["gate", "reports/new", *GATE]) == 10
    better = (like_main(repo, "better", WRONG) / "results.jsonl").read_text()
    (folder / "results.jsonl").write_text(better.replace('"run": "better"', '"run": "new"'))
    assert main(["gate", "reports/new", *GATE]) == 0
    (told,) = json.loads((folder / "gate.json").read_text())["replaced"]
    assert told.startswith("it takes the place of FAIL against main (rules ")
    assert told.endswith(" on earlier results of this run")
    (folder / "gate.json").write_text("{}")
    assert main(["gate", "reports/new", *GATE]) == 0, "a damaged file is decided anew"


def test_a_session_with_easier_rules_leaves_a_fail_as_it_is(repo: pytest.Pytester) -> None:
    like_main(repo, "poor", WORSE)
    model = answers(repo.path / "new.jsonl", WORSE)
    assert repo.runpytest_inprocess(*QUIET, model, "--baseline=reports/main", "--run=new").ret == 10
    done = repo.runpytest_inprocess(*QUIET, model, "--baseline=reports/poor", "--run=new")
    assert done.ret == 10
    said = " ".join(done.stdout.str().split())
    assert "gate: FAIL against main" in said
    assert "decided again on the same results: PASS against poor" in said
    assert "A FAIL stands until the results change, or medvqa gate " in said
    assert main(["gate", "reports/new", "--plugin=conftest.py", "--required"]) == 10


# --- a verdict and the reports ------------------------------------------------------------------------------


def test_a_verdict_is_put_into_reports_and_draws_none(repo: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first verdict and the one that follows leave the bytes that `medvqa report` would."""
    folder, drawn = like_main(repo, "new", {*WRONG, 121}), ["metrics.json", "summary.md", "gate.xml", "index.html"]
    report = ["report", "reports/new", "--plugin=conftest.py"]
    assert main(report) == 0
    for typed in ("--margin=60", "--margin=50", "--gate-slices=site"):
        with monkeypatch.context() as patch:
            patch.setattr(verdicts, "redrawn", None)
            assert main(["gate", "reports/new", *GATE, typed, "--margin=60"]) == 0
        put = {name: (folder / name).read_bytes() for name in drawn}
        assert main(report) == 0
        assert {name: (folder / name).read_bytes() for name in drawn} == put
    assert json.loads(put["metrics.json"])["gate"] == verdict(folder)


def test_a_verdict_names_lines_that_are_not_read(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    folder = like_main(repo, "new", {*WRONG, 121})
    with (folder / "results.jsonl").open("a") as results:
        results.write('{"run": "torn')
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == 0
    assert "! not read: reports/new/results.jsonl line " in capsys.readouterr().out


CHANGES: dict[str, Callable[[Path], object]] = {
    "results": lambda folder: (folder / "results.jsonl").write_bytes(
        (folder / "results.jsonl").read_bytes().replace(b'"wrong"', b'"refused"')
    ),
    "run": lambda folder: (folder / "run.json").write_text(
        json.dumps({**json.loads((folder / "run.json").read_text()), "note": "changed"})
    ),
    "no metrics": lambda folder: (folder / "metrics.json").unlink(),
    "no junit": lambda folder: (folder / "junit.xml").unlink(),
    "no measures": lambda folder: (folder / "measures.csv").unlink(),
    "no page": lambda folder: (folder / "index.html").unlink(),
    "page of another version": lambda folder: (folder / "index.html").write_text("<title>earlier</title>"),
    "summary by hand": lambda folder: (folder / "summary.md").write_text("# mine"),
    "lost verdict": lambda folder: (folder / "gate.json").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_reports_of_something_else_are_drawn_again(
    repo: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, drawn = like_main(repo, "new", {*WRONG, 121}), list[Path]()
    assert main(["report", "reports/new", "--plugin=conftest.py"]) == 0
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == 0
    CHANGES[change](folder)
    monkeypatch.setattr(verdicts, "redrawn", lambda run, *others: drawn.append(run) or redrawing.redrawn(run, *others))
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == (change == "results")
    assert drawn == [Path("reports/new")]
    assert json.loads((folder / "metrics.json").read_text())["gate"] == verdict(folder)


# --- the verdict of the last session ------------------------------------------------------------------------

DYING = """
import os
from medvqa import Answer, Backend

class Dying(Backend):
    \"""Ends the process with exit code 0 at a question whose number is at least that of its argument.\"""
    name = title = "dying"
    sends_to = None
    def fingerprint(self): return "dying"
    def load(self):
        if "DIE_LOADING" in os.environ:
            os._exit(0)
    def generate(self, prompts):
        if "DIE" in os.environ and int(prompts[0].item[1:]) >= 40:
            os._exit(0)
        return [Answer("A" if int(p.item[1:]) % 3 else "B") for p in prompts]

def pytest_medvqa_backends():
    return [Dying]
"""


def test_a_model_that_ends_the_process_leaves_no_verdict(
    repo: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pytest then ends with 0, which only the step behind it can tell from a PASS."""
    repo.makeconftest(CONFTEST + DYING)
    command = (*QUIET, "--model=dying:", "--baseline=reports/main", "--run=new")
    required = ["gate", "reports/new", "--plugin=conftest.py", "--required"]
    monkeypatch.setenv("DIE", "1")
    assert repo.runpytest_subprocess(*command).ret == 0
    assert main(required) == 1
    assert "gate: no verdict: reports/new has none. A session that dies, or is not gated, leaves none" in (
        capsys.readouterr().out
    )
    monkeypatch.delenv("DIE")
    assert repo.runpytest_subprocess(*command).ret == 0
    assert main(required) == 0
    assert "gate: PASS against main" in capsys.readouterr().out
    monkeypatch.setenv("DIE_LOADING", "1")
    assert repo.runpytest_subprocess(*command).ret == 0
    assert main(required) == 1
    assert "began after the verdict, and left none: repeat the run's command" in capsys.readouterr().out
    assert main(["gate", "reports/new", *GATE]) == 0, "the results have not changed"
    assert main(required) == 1, "but the session that was asked for left nothing"
    monkeypatch.delenv("DIE_LOADING")
    assert repo.runpytest_subprocess(*command).ret == 0
    assert main(required) == 0


def test_a_verdict_that_is_required_is_of_these_results_and_of_the_last_session(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = like_main(repo, "new", WRONG)
    required = ["gate", "reports/new", "--plugin=conftest.py", "--required"]
    assert main(required) == 1
    assert main(["gate", "reports/new", *GATE]) == 0
    assert main(required) == 0
    for typed, name in (("--margin=3", "margin"), ("--replace", "replace"), ("--baseline=x", "baseline")):
        assert main([*required, typed]) == 4
        assert f"decides none: leave out --{name}" in capsys.readouterr().err
    about, results = json.loads((folder / "run.json").read_text()), (folder / "results.jsonl").read_bytes()
    for changed, why in (
        (
            {"sessions": [*about["sessions"], {"session": "later"}]},
            "and the last one is later: medvqa gate decides anew",
        ),
        ({"finished": None}, "the run's last session did not end: repeat the run's command"),
    ):
        changed = {name: value for name, value in {**about, **changed}.items() if value is not None}
        (folder / "run.json").write_text(json.dumps(changed))
        assert main(required) == 1
        assert why in capsys.readouterr().out
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "results.jsonl").write_bytes(results.replace(b'"wrong"', b'"refused"'))
    assert main(required) == 1
    assert "the verdict is on other results (" in capsys.readouterr().out
    (folder / "results.jsonl").write_bytes(results)
    assert main(required) == 0
    like_main(repo, "worse", WORSE)
    assert main(["gate", "reports/worse", *GATE]) == 10
    assert main(["gate", "reports/worse", "--plugin=conftest.py", "--required"]) == 10


def test_a_shard_is_refused_where_a_gate_is_required(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", WRONG)
    done = repo.runpytest_inprocess(*QUIET, model, "--baseline=reports/main", "--shard=1/2", "--gate=required")
    assert done.ret == 4
    done.stderr.fnmatch_lines(
        "*--gate=required: a shard alone (--shard=1/2) gets no verdict. Leave out --gate=required*"
    )


def test_collecting_says_that_it_gives_no_verdict(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", WRONG)
    done = repo.runpytest_inprocess(*QUIET, model, "--baseline=reports/main", "--gate=required", "--collect-only")
    assert done.ret == 0
    done.stdout.fnmatch_lines("gate: no verdict: tests were collected, and nothing was asked")


def test_a_session_without_the_gate_says_that_the_verdict_is_earlier(repo: pytest.Pytester) -> None:
    model = answers(repo.path / "new.jsonl", WRONG)
    assert repo.runpytest_inprocess(*QUIET, model, "--run=new", "--baseline=reports/main").ret == 0
    done = repo.runpytest_inprocess(*QUIET, model, "--run=new", "--gate=off")
    done.stdout.fnmatch_lines("gate: the verdict above is of an earlier session; --gate=off was typed: no rule was*")


@pytest.mark.parametrize("other", ["--plan", "--selftest"])
def test_a_required_verdict_is_no_plan_and_no_test(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", other, "--required"]) == 4
    assert f"--required reads the verdict of a run, and {other} gives none" in capsys.readouterr().err


# --- what is not measured -----------------------------------------------------------------------------------

RIGHT = """
import medvqa

@medvqa.metric
def right(result):
    return True if result.score.value else None
"""


def test_a_measure_that_leaves_out_wrong_answers_loses_them(repo: pytest.Pytester) -> None:
    repo.makeconftest(RIGHT + CONFTEST.replace("(metrics.accuracy,", "(metrics.accuracy, right,"))
    (repo.path / "pyproject.toml").write_text(
        '[tool.medvqa.gate.benchmarks.ward]\nmeasure = "right"\n'
        '[[tool.medvqa.gate.floor]]\nbenchmark = "ward"\nmeasure = "right"\nat_least = 0.8\n'
    )
    model = answers(repo.path / "new.jsonl", range(0, 160, 2))
    assert repo.runpytest_inprocess(*QUIET, model, "--run=floor").ret == 11
    (lost,) = [entry for entry in verdict(repo.path / "reports/floor")["entries"] if entry["kind"] == "units"]
    assert lost["why"] == "80 of 160 questions count here: 80 left out by the measure"
    assert repo.runpytest_inprocess(*QUIET, model, "--run=new", "--baseline=reports/main").ret == 11


def test_answers_without_a_key_pass_no_gate(repo: pytest.Pytester) -> None:
    repo.makeconftest(CONFTEST.replace('("A",)', "()"))
    model = answers(repo.path / "new.jsonl", ())
    assert repo.runpytest_inprocess(*QUIET, "--model=random", "--run=base").ret == 0
    done = repo.runpytest_inprocess(*QUIET, model, "--run=new", "--baseline=reports/base", "--inconclusive=pass")
    assert done.ret == 11


def test_a_score_that_became_lenient_gives_no_verdict(repo: pytest.Pytester) -> None:
    """The model is worse by 12 points, and its benchmark's own `score` counts its new mistakes as right."""
    lenient = """
def forgiving(item, answer, technique=""):
    score = scoring.score_single_choice(item, answer)
    return score if score.value else replace(score, value=1.0, outcome="correct")

"""
    code = CONFTEST.replace("def pytest_medvqa", lenient + "def pytest_medvqa")
    repo.makeconftest(
        "from dataclasses import replace\n" + code.replace("score=scoring.score_single_choice", "score=forgiving")
    )
    model = answers(repo.path / "new.jsonl", {*WRONG, *range(0, 160, 8)})
    done = repo.runpytest_inprocess(*QUIET, model, "--run=new", "--baseline=reports/main", "--gate=required")
    assert done.ret == 1
    why = "ward: the scoring changed: responses with another score than the same response has in main: 54."
    assert verdict(repo.path / "reports/new")["blockers"] == [f"{why} Score both runs anew with `medvqa rescore`"]


# --- what cannot be written ---------------------------------------------------------------------------------


FULL = """
import resource, signal, sys
from medvqa.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.exit(main(sys.argv[1:]))
"""
"""No file can grow, as on a full disk."""


def test_a_verdict_is_printed_on_a_full_disk(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    folder = like_main(repo, "new", {*WRONG, 121, 122})
    assert main(["gate", "reports/new", *GATE, "--margin=60"]) == 0
    earlier = json.loads((folder / "gate.json").read_text())["verdict"]["rules"]
    done = processes.run(
        [sys.executable, "-c", FULL, "gate", "reports/new", *GATE, "--margin=59"], capture_output=True, text=True
    )
    assert done.returncode == 1, "a PASS that is not stored is none"
    assert done.stderr == ""
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("gate: PASS against main")
    assert last == (
        "! reports/new cannot be written (File too large): this verdict is not stored; the earlier one, PASS against "
        f"main (rules {earlier}), was removed"
    )
    for name in ("gate.json", "gate.xml", "summary.md", "metrics.json"):
        assert not (folder / name).exists()


def test_a_verdict_is_printed_where_nothing_can_be_written_or_removed(
    repo: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = like_main(repo, "new", WORSE)
    assert main(["gate", "reports/new", *GATE, "--margin=50"]) == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    capsys.readouterr()

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("replace", "move"):
        monkeypatch.setattr(files, name, refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert main(["gate", "reports/new", *GATE]) == 10
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("! reports/new cannot be written (Read-only file system): this verdict is not stored; ")
    assert "reports/new/gate.json still holds an earlier one, PASS against main (rules " in last
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


# --- a test of the rules themselves -------------------------------------------------------------------------

RULES = """
[tool.medvqa.gate]
baseline = "reports/main"
margin = 10
slices = ["site"]
[[tool.medvqa.gate.floor]]
benchmark = "ward"
measure = "unparsed_rate"
at_most = 0.1
"""


def test_the_rules_fail_worse_copies_of_the_baseline(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    (repo.path / "pyproject.toml").write_text(RULES)
    before = sorted((repo.path / "reports").rglob("*"))
    assert main(["gate", "--selftest", "--plugin=conftest.py"]) == 0
    printed = capsys.readouterr().out
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in printed.splitlines()}
    cells = [cell.strip() for cell in rows["ward: accuracy against main, margin 10"] if cell]
    assert cells == ["10 points", "5", "0", "0", "0", "10 points", "FAIL"]
    assert rows["ward: unparsed_rate <= 0.1"][-1].strip() == "FAIL"
    assert "FAILs if all answers of the slice are wrong: site apart, site rest" in printed
    assert "cannot FAIL: ward: accuracy in site joint against main: 2.1 degrees of freedom; 4 are needed" in printed
    assert "cannot FAIL: ward: accuracy in site small against main: 8 questions in 8 groups; 30 in 10" in printed
    assert sorted((repo.path / "reports").rglob("*")) == before, "nothing is written"
    assert main(["gate", "--selftest", "--plugin=conftest.py"]) == 0
    assert capsys.readouterr().out == printed, "seeds are fixed"


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["--margin=99"], "cannot FAIL: ward: accuracy against main, margin 99: "),
        (
            ["--margin=1", "--inconclusive=pass"],
            "lets pass what it should stop: ward: accuracy against main, margin 1: exit code 0 on 5 of 5",
        ),
    ],
)
def test_rules_that_stop_nothing_are_named(
    repo: pytest.Pytester, typed: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "--selftest", *GATE, *typed]) == 1
    assert complaint in capsys.readouterr().out


def test_a_guard_of_a_dimension_without_a_large_slice_does_nothing(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.makeconftest(
        CONFTEST.replace(
            '"joint" if n < 60 else "apart" if n < 120 else "small" if n < 128 else "rest"', "str(n // 20)"
        )
    )
    model = answers(repo.path / "eight.jsonl", WRONG)
    assert repo.runpytest_inprocess(*QUIET, model, "--run=eight").ret == 0
    capsys.readouterr()
    assert main(["gate", "--selftest", "--plugin=conftest.py", "--baseline=reports/eight", "--gate-slices=site"]) == 1
    assert "no slice of site can FAIL: the guard does nothing" in capsys.readouterr().out


def test_floors_without_a_baseline_are_tested_on_a_run(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["gate", "--selftest", "--plugin=conftest.py"]
    assert main(command) == 4
    assert (
        "--selftest: there are no rules. Name a run folder or a baseline file by --baseline=RUN"
        in capsys.readouterr().err
    )
    (repo.path / "pyproject.toml").write_text("[[" + RULES.partition("[[")[2])
    assert main(command) == 4
    assert "floors without a baseline need questions: medvqa gate reports/RUN --selftest" in capsys.readouterr().err
    assert main([*command, "reports/main"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ward: unparsed_rate <= 0.1")]
    assert row.endswith(" FAIL")
    assert main([*command, "reports/main", "--baseline=reports/main"]) == 4
    assert "--selftest answers the questions of the baseline: leave out reports/main" in capsys.readouterr().err


# --- guards that cannot fail --------------------------------------------------------------------------------


def test_a_guard_that_cannot_fail_is_not_gated(repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """At site "joint" two thirds of the questions are about one patient: no p-value is possible there."""
    folder = like_main(repo, "fallen", {*WRONG, *JOINT})
    capsys.readouterr()
    assert main(["gate", str(folder), *GATE, "--margin=60", "--gate-slices=site"]) == 0
    printed = capsys.readouterr().out
    joint = entries(folder)["joint"]
    assert (joint["value"], joint["outcome"]) == (0, "NOT GATED")
    assert joint["why"] == "2.1 degrees of freedom; 4 are needed"
    for text in (printed, (folder / "summary.md").read_text(), Page((folder / "index.html").read_text()).told):
        assert "2.1 degrees of freedom; 4 are needed" in " ".join(text.replace("\\", "").split())
    case = cases(folder / "gate.xml")["ward: accuracy in site joint against main"]
    assert case == [("skipped", "2.1 degrees of freedom; 4 are needed")]


def test_what_is_not_gated_takes_no_share_of_the_error(repo: pytest.Pytester) -> None:
    """Two guards are left at the level of one half: `apart` and `rest`; `joint` and `small` have no share."""
    folder = like_main(repo, "worse", {*WRONG, 61, 64, 67, 70, 73, 76})
    main(["gate", str(folder), *GATE, "--margin=60", "--gate-slices=site"])
    found = entries(folder)
    assert [name for name, entry in found.items() if entry["outcome"] == "NOT GATED"] == ["joint", "small"]
    assert found["apart"]["adjusted"] == pytest.approx(4 * found["apart"]["p"])


def test_not_shown_to_be_worse_says_what_would_have_been_shown(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = like_main(repo, "slightly", sorted({*WRONG, 61, 62, 64} - {63}))
    main(["gate", str(folder), *GATE, "--margin=60", "--gate-slices=site"])
    printed = capsys.readouterr().out
    apart = entries(folder)["apart"]
    assert apart["outcome"] == "PASS"
    assert 0.05 < apart["detectable"] < 0.3
    points = f"{100 * apart['detectable']:.1f}"
    assert apart["why"].startswith("not shown to be worse")
    assert apart["why"].endswith(f"a true loss of {points} points would have been shown in 80 % of runs")
    assert f"site apart {points}" in " ".join(printed.split())
    assert f"site apart {points}" in (folder / "summary.md").read_text()
    assert apart["why"] in Page((folder / "index.html").read_text()).told
    system_out = (
        ET.parse(folder / "gate.xml")
        .getroot()
        .findtext(".//testcase[@name='ward: accuracy in site apart against main']/system-out")
    )
    assert system_out == f"PASS: {apart['why']}"


# --- MediConfusion ------------------------------------------------------------------------------------------


def published(pytester: pytest.Pytester, file: str, name: str, *arguments: str) -> pytest.RunResult:
    model = f"--model=replay:{REFERENCE / 'mediconfusion' / file}"
    common = ("--benchmark=mediconfusion", f"--data={REFERENCE}", "--extraction=official")
    return pytester.runpytest_inprocess(*QUIET, model, *common, f"--run={name}", *arguments)


@pytest.mark.slow
@needs_reference
def test_a_published_model_passes_against_its_own_other_run(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """GPT-4o: 30 and 34 of 176 pairs. A model that does not look at the images has none; guessing has 25 %."""
    pytester.makepyfile(test_pairs=TEST.format(name="mediconfusion"))
    pytester.makefile(".ini", pytest="[pytest]\n")
    assert published(pytester, "gpt4o_mc_predictions.json", "main").ret == 0
    same = published(pytester, "gpt4o_mc_predictions.json", "same", "--baseline=reports/main")
    assert same.ret == 0
    gate = ("--baseline=reports/main", "--margin=7", "--gate-slices=category")
    other = published(pytester, "gpt4o_mc_predictions_run1.json", "other", *gate)
    assert other.ret == 0, other.stdout.str()
    folder = pytester.path / "reports/other"
    before = {name: (folder / name).read_bytes() for name in ("gate.json", "gate.xml", "junit.xml", "summary.md")}
    whole = verdict(folder)["entries"][0]
    assert (whole["measure"], whole["outcome"], whole["gained"], whole["lost"]) == ("set_accuracy", "PASS", 8, 4)
    assert whole["why"].endswith(
        "a loss of 7 points or more is ruled out, up to a correlation of 0.37 of the flips of a group"
    )
    assert "chance" not in whole["why"]
    assert "image_blind" in (folder / "metrics.json").read_text()
    capsys.readouterr()
    assert main(["gate", str(folder)]) == 0
    assert f"PASS: {whole['rule']}: {whole['why']}" in " ".join(capsys.readouterr().out.split())
    assert {name: (folder / name).read_bytes() for name in before} == before
    back = published(pytester, "gpt4o_mc_predictions.json", "back", "--baseline=reports/other")
    assert back.ret == 11
    assert "pairs would rule it out in 80 % of runs; there are 176" in " ".join(back.stdout.str().split())


@needs_reference
def test_a_plan_knows_groups_slices_and_chance(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of MediConfusion's nine categories most cannot be guarded: their pairs share images, and so patients."""
    monkeypatch.chdir(tmp_path)
    arguments = ["gate", "--plan", "--benchmark=mediconfusion", f"--data={REFERENCE}", "--gate-slices=category"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        items = benchmarks.load(mediconfusion.BENCHMARKS[0], REFERENCE)
    groups = len({item.cluster_id for item in items})
    (whole,) = (line.split() for line in printed.splitlines() if line.startswith("mediconfusion  "))
    assert whole[1:3] == ["176", str(groups)]
    assert "above chance: 0.0 %" in printed
    rows = {line.split("  ")[0]: line for line in printed.splitlines() if line.startswith("category ")}
    assert len(rows) == 9
    assert "not gated: 7 pairs" in rows["category nuclear_medicine"]
    assert "degrees of freedom; 4 are needed" in rows["category vascular"]
    assert rows["category spinal"].endswith(" points")


# --- sentences and files ------------------------------------------------------------------------------------

VERDICTS = [
    pytest.param(WRONG, "--margin=5", 0, "PASS", "no change: every response is the same as the baseline's", id="same"),
    pytest.param(
        {*WRONG, 121, 122, 124, 125} - {120, 123, 126},
        "--margin=10",
        0,
        "PASS",
        "neither a loss nor a gain is shown (-6.1 to +4.6 points); a loss of 10 points or more is ruled out, up to a "
        "correlation of 0.32 of the flips of a group",
        id="within",
    ),
    pytest.param(
        {*WRONG, *range(121, 139)},
        "--margin=2",
        10,
        "FAIL",
        "a loss of 3.4 to 14.5 points is shown, all of it more than the margin of 2",
        id="beyond",
    ),
    pytest.param(
        {*WRONG, *range(121, 131)},
        "--margin=3",
        10,
        "FAIL",
        "a loss of 0.6 to 10.3 points is shown; 3 or more is not ruled out",
        id="shown",
    ),
]


@pytest.mark.parametrize(("wrong", "margin", "code", "outcome", "sentence"), VERDICTS)
def test_a_verdict_says_loss_bound_and_margin(
    repo: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    wrong: Collection[int],
    margin: str,
    code: int,
    outcome: str,
    sentence: str,
) -> None:
    folder = like_main(repo, "new", wrong)
    assert main(["gate", str(folder), *GATE, margin]) == code
    points = margin.partition("=")[2]
    whole = entries(folder)[""]
    assert (whole["outcome"], whole["why"]) == (outcome, sentence)
    said = f"{outcome}: ward: accuracy against main, margin {points}: {sentence}"
    assert said in " ".join(capsys.readouterr().out.split())


def test_an_open_verdict_says_how_many_questions_would_decide_it_and_no_margin(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = like_main(repo, "open", sorted({*WRONG, *range(121, 128)} - {60, 63, 66, 69, 72}))
    assert main(["gate", str(folder), *GATE]) == 11
    printed = " ".join(capsys.readouterr().out.split())
    whole = entries(folder)[""]
    assert "a loss of 2 points or more is not ruled out. With no true change, " in printed
    ends = re.search(
        r"change, ([\d,]+) to ([\d,]+) questions would rule it out in 80 % of runs; there are 160", printed
    )
    assert ends is not None
    least, most = (int(end.replace(",", "")) for end in ends.groups())
    assert least < whole["needed"] < most
    assert "could pass a margin" not in printed
    assert "passable" not in (folder / "gate.json").read_text()


def test_a_ci_reads_the_verdict_apart_from_wrong_answers(repo: pytest.Pytester) -> None:
    """An identical model: every rule passes, though a third of the answers is wrong."""
    model = answers(repo.path / "same.jsonl", WRONG)
    done = repo.runpytest_inprocess(*QUIET, model, "--baseline=reports/main", "--run=same", "--margin=5")
    assert done.ret == 0
    folder = repo.path / "reports/same"
    suites = {name: ET.parse(folder / name).getroot() for name in ("gate.xml", "junit.xml")}
    assert [suite.attrib["name"] for suite in suites["gate.xml"]] == ["gate"]
    assert (suites["gate.xml"].get("tests"), suites["gate.xml"].get("failures")) == ("1", "0")
    assert [suite.attrib["name"] for suite in suites["junit.xml"]] == ["ward"]
    assert suites["junit.xml"].get("failures") == str(len(WRONG))
    for root in suites.values():
        assert junit_schema.faults(root) == []
    before = {name: (folder / name).read_bytes() for name in suites}
    (folder / "gate.xml").unlink()
    assert main(["gate", str(folder), "--plugin=conftest.py"]) == 0
    assert {name: (folder / name).read_bytes() for name in suites} == before
    (folder / "gate.json").unlink()
    assert main(["report", str(folder), "--plugin=conftest.py"]) == 0
    assert not (folder / "gate.xml").exists(), "no file tells a verdict that is gone"


def test_a_verdict_of_an_earlier_version_is_still_read(
    repo: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fields that were added later have defaults, those that were dropped are passed over, sentences stay."""
    folder = like_main(repo, "old", WRONG)
    assert main(["gate", str(folder), *GATE]) == 0
    stored = json.loads((folder / "gate.json").read_text())
    old = {"rule", "kind", "benchmark", "measure", "technique", "outcome", "why", "slice", "baseline", "value", "units"}
    for entry in stored["verdict"]["entries"]:
        for name in set(entry) - old:
            del entry[name]
        entry |= {"outcome": "INCONCLUSIVE", "why": "the loss may exceed 2.00 points", "needed": 2297, "passable": 0.07}
    stored["verdict"]["outcome"] = "INCONCLUSIVE"
    (folder / "gate.json").write_text(json.dumps(stored))
    capsys.readouterr()
    assert main(["report", str(folder), "--plugin=conftest.py"]) == 0
    assert "INCONCLUSIVE: ward: accuracy against main, margin 2: the loss may exceed 2.00 points" in (
        " ".join(capsys.readouterr().out.split())
    )


def test_a_benchmark_that_is_not_known_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "reports/run"
    shutil.copytree(Path(__file__).parents[2] / "reports/example", run)
    for name in ("run.json", "results.jsonl", "selected.jsonl"):
        (run / name).write_text((run / name).read_text().replace("phantom-mediconfusion", "ward"))
    shutil.copytree(run, tmp_path / "reports/main")
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "name": "new"}))
    assert main(["gate", str(run), f"--baseline={tmp_path / 'reports/main'}"]) == 4
    assert "benchmark 'ward', which is not known here" in capsys.readouterr().err
