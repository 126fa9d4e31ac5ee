"""The plugin as a stranger's repository sees it: a real pytest in a folder of its own."""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from strangers import CONFTEST, TEST

SPREAD = [pytest.param((), id="serial"), pytest.param(("-n2",), id="n2")]
SPREAD_SLOWLY = [SPREAD[0], pytest.param(("-n2",), id="n2", marks=pytest.mark.slow)]
"""For tests of many cases, of which one or two are spread elsewhere in the fast tier too."""


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the outer session set must not steer the inner ones."""
    for name in ("MEDVQA_DATA", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def slake(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Workers need processes of their own; without them a session within this one is much faster."""
    way = pytester.runpytest_subprocess if "-n2" in arguments else pytester.runpytest_inprocess
    return way("-p", "no:randomly", "-p", "no:benchmark", *arguments)


def folder(pytester: pytest.Pytester) -> Path:
    (found,) = (pytester.path / "reports").iterdir()
    return found


def written(run_folder: Path) -> dict[str, Any]:
    return json.loads((run_folder / "metrics.json").read_text())


def outcomes(run_folder: Path) -> Counter[str]:
    lines = (run_folder / "results.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["score"]["outcome"] for line in lines)


def text(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()


# --- a run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
def test_a_wrong_answer_is_data_and_not_a_broken_build(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=stubborn:A", "--run=first", *spread)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*8 correct*16 wrong*" if not spread else "*correct*wrong*"])
    result.stdout.fnmatch_lines(["*slake*accuracy*33.33*", "run folder: *reports/first"])
    assert "Traceback" not in text(result)
    assert "short test summary" not in text(result)
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}
    measures = {m["name"]: m for m in written(folder(slake))["measures"] if m["slice"] == {}}
    assert measures["accuracy"]["value"] == pytest.approx(8 / 24)
    assert measures["accuracy"]["n"] == 24
    assert measures["accuracy"]["references"]["random"] == pytest.approx(1 / 3)
    assert {p.name for p in folder(slake).iterdir()} == {
        "run.json",
        "results.jsonl",
        "metrics.json",
        "summary.md",
        "junit.xml",
    }


def test_measures_are_the_same_serially_spread_and_in_any_order(slake: pytest.Pytester) -> None:
    run(slake, "--model=moody", "--run=serial")
    run(slake, "--model=moody", "--run=spread", "-n2")
    slake.runpytest_subprocess("--model=moody", "--run=mixed", "-p", "randomly")
    serial, spread, mixed = (
        (slake.path / "reports" / name / "metrics.json").read_text() for name in ("serial", "spread", "mixed")
    )
    measures = [json.dumps(json.loads(each)["measures"]) for each in (serial, spread, mixed)]
    assert measures[0] == measures[1] == measures[2]
    assert len(json.loads(measures[0])) > 20


@pytest.mark.parametrize("spread", SPREAD)
def test_every_kind_of_outcome_is_counted_apart(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=moody", *spread)
    assert result.ret == 1, "items that ended in error are a broken run"
    assert outcomes(folder(slake)) == {
        "correct": 2,
        "wrong": 3,
        "refused": 5,
        "abstained": 5,
        "unparsed": 5,
        "error": 4,
    }
    result.stdout.fnmatch_lines(["*4 items ended in error*q04: the line was busy*"])
    assert "Traceback" not in text(result)
    assert "\x1b[31m" not in text(result), "a response must not steer the terminal"


@pytest.mark.parametrize("spread", SPREAD)
def test_what_a_model_raises_is_the_error_of_its_items(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=broken:x", *spread)
    assert result.ret == 1
    assert outcomes(folder(slake)) == {"error": 24}
    result.stdout.fnmatch_lines(["*RuntimeError: out of paper*"])
    assert "Traceback" not in text(result)


@pytest.mark.parametrize("spread", SPREAD)
def test_a_model_that_cannot_be_made_stops_the_session(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(slake, "--model=unmakable:x", *spread)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "model 'unmakable:x' could not be made: RuntimeError: no weights here" in text(result)
    assert text(result).count("Traceback") + text(result).count("in __init__") <= 4, "told once a worker, not per item"


def test_a_verbose_run_names_each_outcome(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=stubborn:B", "-v")
    result.stdout.fnmatch_lines(["test_slake.py::test_slake?q00? WRONG*", "test_slake.py::test_slake?q01? CORRECT*"])


def test_progress_is_told_in_tenths_where_there_is_no_terminal(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=stubborn:A")
    shown = [line for line in result.outlines if re.search(r"^  \d+/24 items  \d+ %  \d+/s  \d+:\d\d left", line)]
    assert len(shown) == 10
    assert "24/24 items  100 %" in shown[-1]
    assert "correct 8  wrong 16" in shown[-1]


def test_fixtures_give_the_result_to_the_test(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import pytest

        @pytest.mark.vqa("slake")
        def test_slake(item, evaluate, model):
            result = evaluate(item)
            assert result.item is item
            assert result.answer.text == "A"
            assert model.name == "stubborn"
            assert result.score.outcome == "correct", "a test of one's own"
        """
    )
    result = run(slake, "--model=stubborn:A")
    assert result.ret == 1, "an assertion of the test's own is an ordinary failure"
    result.assert_outcomes(failed=16)
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}, "and the answers are kept"


@pytest.mark.parametrize("spread", SPREAD)
def test_a_failing_test_of_another_kind_makes_the_exit_code_1(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    slake.makepyfile(test_other="def test_other():\n    assert 1 == 2")
    result = run(slake, "--model=stubborn:A", *spread)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*FAILED test_other.py::test_other*"])
    assert outcomes(folder(slake)).total() == 24


def test_marks_on_classes_and_modules_count(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import pytest

        @pytest.mark.vqa("slake")
        class TestSlake:
            def test_it(self, item, evaluate):
                evaluate(item)
        """,
        test_module="""
        import pytest
        pytestmark = pytest.mark.vqa("phantom")

        def test_it(item, evaluate):
            evaluate(item)
        """,
    )
    result = run(slake, "--model=stubborn:A", "--benchmark=slake")
    assert result.ret == 0
    assert outcomes(folder(slake)).total() == 24
    assert "skipped" not in text(result), "a benchmark that was not asked for leaves no trace"


# --- what is selected -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("-k", "fundus_photography"), 6),
        (("-k", "ct"), 12),  # by substring, as pytest does: oct too
        (("-m", "lexicon(modality='ct')"), 6),
        (("-m", "lexicon(organ='heart')"), 8),
        (("-m", "lexicon(organ='heart', modality='ct')"), 2),
        (("-m", "lexicon(organ='heart') and not lexicon(modality='ct')"), 6),
        (("--limit=8",), 8),
        (("--limit=7",), 6),  # pairs stay whole
        (("--limit=4", "-m", "lexicon(modality='ct') or lexicon(modality='mri')"), 4),
        (("--limit=1000",), 24),
    ],
)
def test_selection(slake: pytest.Pytester, arguments: tuple[str, ...], count: int, spread: tuple[str, ...]) -> None:
    assert run(slake, "--model=stubborn:A", *arguments, *spread).ret == 0
    assert outcomes(folder(slake)).total() == count


def test_lf_selects_what_failed(slake: pytest.Pytester) -> None:
    run(slake, "--model=stubborn:A", "--run=first")
    result = run(slake, "--model=stubborn:B", "--run=second", "--lf")
    assert result.ret == 0
    assert outcomes(slake.path / "reports" / "second") == {"correct": 8, "wrong": 8}


@pytest.mark.parametrize("spread", SPREAD)
def test_x_stops_at_the_first_wrong_answer_and_the_rest_is_missing(
    slake: pytest.Pytester, spread: tuple[str, ...]
) -> None:
    result = run(slake, "--model=stubborn:A", "-x", *spread)
    assert result.ret in (1, 2)
    done = outcomes(folder(slake))
    assert done["wrong"] >= 1
    assert done.total() < 24
    assert len(written(folder(slake))["missing"]) == 24 - done.total()
    result.stdout.fnmatch_lines([f"*{24 - done.total()} items of this run without a result: slake/q*and * more*"])


def test_collect_only_asks_nothing_and_leaves_no_folder(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=stubborn:A", "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_slake.py::test_slake?q00?"])
    assert not (slake.path / "reports").exists()


def test_nothing_selected_is_pytests_own_exit_code(slake: pytest.Pytester) -> None:
    assert run(slake, "--model=stubborn:A", "-k", "nosuchthing").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not (slake.path / "reports").exists()


# --- what is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
def test_junit_has_one_case_an_item_with_properties(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    run(slake, "--model=moody", "--junitxml=own.xml", *spread)
    for path, failures, errors in ((folder(slake) / "junit.xml", 18, 4), (slake.path / "own.xml", 22, 0)):
        root = ET.parse(path).getroot()
        suite = root.find("testsuite")
        assert suite is not None
        assert (int(suite.get("tests", 0)), int(suite.get("failures", 0)), int(suite.get("errors", 0))) == (
            24,
            failures,
            errors,
        )
        cases = {case.get("name", ""): case for case in suite.iter("testcase")}
        assert len(cases) == 24
        case = next(case for name, case in cases.items() if "q00" in name)
        told = {p.get("name"): p.get("value") for p in case.iter("property")}
        assert told["outcome"] == "correct"
        assert told["extracted"] == "A"
        assert told["tag.modality"] == "ct"


def test_run_json_says_what_was_run(slake: pytest.Pytester) -> None:
    run(slake, "--model=stubborn:A", "--run=first", "-n2")
    about = json.loads((slake.path / "reports" / "first" / "run.json").read_text())
    assert about["name"] == "first"
    assert about["model"]["name"] == "stubborn"
    assert about["config"] == {"name": "stubborn:A", "backend": "stubborn", "argument": "A", "options": {}}
    assert about["technique"] == "mc"
    assert re.fullmatch("[0-9a-f]{64}", about["benchmarks"]["slake"]["data_sha256"])
    assert about["benchmarks"]["slake"]["signature"]["prompt"].startswith("slake/mc@")
    assert about["started"] <= about["finished"]
    assert about["versions"]["pytest"] == pytest.__version__


def test_a_run_is_not_overwritten(slake: pytest.Pytester) -> None:
    run(slake, "--model=stubborn:A", "--run=first")
    before = (slake.path / "reports" / "first" / "results.jsonl").read_bytes()
    result = run(slake, "--model=stubborn:B", "--run=first")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "run 'first' exists" in text(result)
    assert (slake.path / "reports" / "first" / "results.jsonl").read_bytes() == before


# --- misuse -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model=nosuch",), r"no model 'nosuch'; found: always-a, .*, random, .*\. Or name a backend .*--model="),
        (("--model=nosuch:x",), r"no backend 'nosuch'"),
        (("--model=blind:x",), r"technique 'mc' needs a model that can generate; 'blind:x' has: option_logprobs"),
        (("--benchmark=nosuch",), r"no benchmark 'nosuch'; known: .*gmai-mmbench.*phantom.*slake"),
        (("--benchmark=mediconfusion",), r"benchmark 'mediconfusion' was asked for but is not there, and no --data"),
        (("--technique=gd",), r"no technique 'gd'; there are: mc"),
        (("--extraction=nosuch",), r"no extraction 'nosuch'; there are: sound, official"),
        (("--extraction=official",), r"benchmark 'slake' has no published rule"),
        (("--data=nosuch",), r"--data=.*nosuch: no such folder"),
        (("--limit=0",), r"--limit=0: a limit is at least 1"),
        (("--run=../up",), r"--run=../up: a run's name is"),
        (("--answers-from-category",), r"--answers-from-category: only gmai-mmbench-test has a key to recover"),
    ],
)
def test_misuse_is_one_clear_line_before_collection(
    slake: pytest.Pytester, arguments: tuple[str, ...], message: str, spread: tuple[str, ...]
) -> None:
    given = arguments if arguments[0].startswith("--model") else ("--model=stubborn:A", *arguments)
    result = run(slake, *given, *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert re.search(message, line), line
    assert "collected" not in text(result)
    assert not (slake.path / "reports").exists()


@pytest.mark.parametrize("spread", SPREAD)
def test_a_mark_that_names_no_benchmark_is_a_collection_error(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    slake.makepyfile(test_slake=TEST.replace('"slake"', '"slaek"'))
    result = run(slake, *spread)
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED), "xdist's and pytest's own"
    assert "no benchmark 'slaek'; known: " in text(result)
    assert "INTERNALERROR" not in text(result)


def test_a_technique_that_a_benchmark_lacks_is_named(slake: pytest.Pytester) -> None:
    slake.makeconftest(CONFTEST.replace("dimensions=", 'techniques=("gd",), dimensions='))
    result = run(slake, "--model=stubborn:A")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "benchmark 'slake' has no technique 'mc'; it has: gd" in text(result)


BAD_PROMPT = """
from medvqa.items import DataError

def unreadable(item, technique):
    if item.id == "q03":
        raise DataError("slake/q03.txt is missing")
    return ASK.prompt(item, technique)
"""


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_a_prompt_that_cannot_be_made_is_an_error_of_its_item(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    slake.makeconftest(CONFTEST.replace("prompt=ASK.prompt", "prompt=unreadable") + BAD_PROMPT)
    result = run(slake, "--model=stubborn:A", *spread)
    assert result.ret == 1
    assert outcomes(folder(slake))["error"] == 1
    assert outcomes(folder(slake)).total() == 24
    result.stdout.fnmatch_lines(["*the first: q03: slake/q03.txt is missing"])


BAD_METRIC = """
@metrics.metric()
def typo(results):
    return 7.0, 1.0

def pytest_medvqa_metrics():
    return [typo]
"""


def test_a_metric_that_fails_costs_no_answer(slake: pytest.Pytester) -> None:
    slake.makeconftest(CONFTEST + BAD_METRIC)
    result = run(slake, "--model=stubborn:A")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["! the reports could not be made: metric 'typo' gave (7.0, 1.0)*"])
    assert "INTERNALERROR" not in text(result)
    assert outcomes(folder(slake)).total() == 24


# --- beside others ----------------------------------------------------------------------------------------


def test_in_a_repository_without_items_the_plugin_is_invisible(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"pandas", "numpy", "PIL", "torch", "scipy", "rich", "msgspec", "junitparser"} & set(sys.modules)
            assert not heavy
            assert "medvqa.plugin.plan" not in sys.modules
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:html", "-p", "no:randomly")
    assert result.ret == 0
    result.assert_outcomes(passed=1)
    assert "medvqa" not in "".join(result.outlines[5:])
    assert not (pytester.path / "reports").exists()


def test_an_environment_variable_alone_validates_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDVQA_DATA", "/no/such/folder")
    pytester.makepyfile("def test_it():\n    pass")
    assert run(pytester).ret == 0


def test_a_conftest_with_a_model_option_of_its_own_keeps_it(slake: pytest.Pytester) -> None:
    conftest = 'def pytest_addoption(parser):\n    parser.addoption("--model", default="theirs")\n'
    slake.makeconftest(CONFTEST + conftest)
    slake.makepyfile(test_theirs="def test_it(pytestconfig):\n    assert pytestconfig.getoption('--model') == 'mine'")
    result = run(slake, "--model=mine", "--medvqa-model=stubborn:A", "--run=first")
    assert result.ret == 0
    about = json.loads((slake.path / "reports" / "first" / "run.json").read_text())
    assert about["config"]["name"] == "stubborn:A"


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("pytest_benchmark", ()),
        ("pytest_html", ("--html=own.html",)),
        ("pytest_timeout", ("--timeout=60",)),
        ("pytest_randomly", ()),
        ("pytest_rerunfailures", ("--reruns=1",)),
    ],
)
def test_beside_other_plugins(
    slake: pytest.Pytester, module: str, arguments: tuple[str, ...], spread: tuple[str, ...]
) -> None:
    pytest.importorskip(module)
    result = slake.runpytest_subprocess("--model=stubborn:A", *arguments, *spread)
    assert result.ret == 0, text(result)
    measures = {m["name"]: m for m in written(folder(slake))["measures"] if m["slice"] == {}}
    assert measures["accuracy"]["count"] == 8
    assert measures["accuracy"]["n"] == 24
