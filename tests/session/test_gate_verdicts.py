"""Each kind of verdict through processes: what pytest and `medvqa gate` say, and the files that a CI reads."""

import json
import re
import shutil
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from medvqa import benchmarks
from medvqa.benchmarks import mediconfusion
from medvqa.cli import main
from support import junit_schema
from support.pages import Page

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


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the outer session set must not steer the inner ones."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)


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
    assert whole["why"].endswith("a loss of 7 points or more is ruled out")
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
        "neither a loss nor a gain is shown (-4.2 to +2.7 points); a loss of 10 points or more is ruled out",
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
        "a loss of 1.2 to 9.5 points is shown; 3 or more is not ruled out",
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
    assert main(["gate", str(run), f"--baseline={run}"]) == 4
    assert "benchmark 'ward', which is not known here" in capsys.readouterr().err
