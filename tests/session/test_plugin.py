"""The plugin as a stranger's repository sees it: a real pytest in a folder of its own."""

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from medvqa import plugin
from medvqa.cli import main
from medvqa.fetching import manifest
from support.sessions import SPREAD, SPREAD_SLOWLY, folder, keys, outcomes, run, text, written
from support.strangers import CONFTEST, TEST, asked_by

pytestmark = pytest.mark.usefixtures("outside")


@pytest.fixture
def slake(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_slake=TEST)
    return pytester


def test_nothing_of_fetched_data_is_run(pytester: pytest.Pytester) -> None:
    """An archive may hold tests, a conftest.py, or a test.txt, which pytest takes for a doctest."""
    assert plugin.FETCHED == manifest.NAME
    pytester.makepyfile(test_own="def test_own(): pass")
    for path in ("data/Slake", "data/Slake/imgs"):
        place = pytester.path / path
        place.mkdir(parents=True)
        for name in ("conftest.py", "test_theirs.py"):
            (place / name).write_text("raise SystemExit('run')")
        (place / "test.txt").write_text(">>> raise SystemExit('run')\n")
    (pytester.path / "data/Slake" / manifest.NAME).write_text("")
    (pytester.path / manifest.NAME).write_text("")
    pytester.runpytest().assert_outcomes(passed=1)


# --- a run ------------------------------------------------------------------------------------------------


@pytest.mark.cold
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
        "selected.jsonl",
        "results.jsonl",
        "prompts.jsonl",
        "answers",
        "metrics.json",
        "measures.csv",
        "summary.md",
        "junit.xml",
        "index.html",
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
    # pytest-xdist ends as interrupted.
    assert result.ret == (pytest.ExitCode.INTERRUPTED if spread else pytest.ExitCode.USAGE_ERROR)
    line = next(line for line in text(result).splitlines() if "no weights here" in line)
    assert re.search(r"model 'unmakable:x', load\(\): \S*conftest\.py:\d+: RuntimeError: no weights here", line)
    assert "Traceback" not in text(result)


def test_a_verbose_run_names_each_outcome(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=stubborn:B", "-v")
    result.stdout.fnmatch_lines(["test_slake.py::test_slake?q00? WRONG*", "test_slake.py::test_slake?q01? CORRECT*"])


def test_progress_is_told_in_tenths_where_there_is_no_terminal(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=stubborn:A")
    shown = [line for line in result.outlines if re.search(r"^  \d+/24 items  \d+ %  ", line)]
    assert len(shown) == 10
    assert "24/24 items  100 %" in shown[-1]
    assert "correct 8  wrong 16" in shown[-1]


def test_progress_counts_questions_that_a_test_makes_among_all_tests(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import medvqa
        import pytest

        @pytest.mark.parametrize("number", range(20))
        def test_own(number, evaluate):
            evaluate(medvqa.Item(f"own{number}", "slake", "single_choice", "Is it?", {"A": "yes", "B": "no"}, ("A",)))
        """
    )
    result = run(slake, "--model=stubborn:A")
    shown = [int(each) for each in re.findall(r"^  \d+/20 items  (\d+) %", result.stdout.str(), re.MULTILINE)]
    assert shown == list(range(10, 101, 10))


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


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
def test_shards_are_the_run_without_them(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    selected = ("--model=stubborn:A", "--limit=14", "-m", "not lexicon(modality='ct')")
    run(slake, *selected, "--run=whole", *spread)
    whole = keys(slake.path / "reports" / "whole")
    assert len(whole) == 14
    shards = []
    for number in (1, 2, 3):
        result = run(slake, *selected, f"--shard={number}/3", f"--run=part{number}", *spread)
        assert result.ret == 0
        shards.append(keys(slake.path / "reports" / f"part{number}"))
        if not spread:
            result.stdout.fnmatch_lines([f"collected 24 items / {24 - len(shards[-1])} deselected*"])
        about = json.loads((slake.path / "reports" / f"part{number}" / "run.json").read_text())
        assert about["options"]["shard"] == f"{number}/3"
    assert sorted(map(len, shards)) == [4, 5, 5]
    assert sorted(key for shard in shards for key in shard) == sorted(whole)


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
    result.stdout.fnmatch_lines([f"*{24 - done.total()} items of this run have no result: slake/q*and * more*"])


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
        # Jenkins' schema, which our own file keeps to, allows no properties in a test case.
        output = case.findtext("system-out") if path.name == "junit.xml" else None
        told = json.loads(output) if output else {p.get("name"): p.get("value") for p in case.iter("property")}
        assert told["outcome"] == "correct"
        assert told["extracted"] == "A"
        assert told["tag.modality"] == "ct"


def test_run_json_says_what_was_run(slake: pytest.Pytester) -> None:
    run(slake, "--model=stubborn:A", "--run=first", "-n2")
    about = json.loads((slake.path / "reports" / "first" / "run.json").read_text())
    assert about["name"] == "first"
    assert about["model"]["name"] == "stubborn"
    config = {"name": "stubborn:A", "backend": "stubborn", "argument": "A", "options": {}}
    assert about["config"] == {**config, "max_tokens": {}, "own_max_tokens": None}
    assert about["techniques"] == ["mc"]
    assert re.fullmatch("[0-9a-f]{64}", about["benchmarks"]["slake"]["data_sha256"])
    assert about["benchmarks"]["slake"]["prompts"]["mc"].startswith("slake/mc@")
    assert about["started"] <= about["finished"]
    assert about["versions"]["pytest"] == pytest.__version__


def test_a_run_is_not_overwritten_by_another(slake: pytest.Pytester) -> None:
    run(slake, "--model=stubborn:A", "--run=first")
    before = (slake.path / "reports" / "first" / "results.jsonl").read_bytes()
    result = run(slake, "--model=stubborn:B", "--run=first")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "run 'first' cannot go on: the model's argument was 'A' and is 'B'. Name another with" in text(result)
    assert (slake.path / "reports" / "first" / "results.jsonl").read_bytes() == before


# --- misuse -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--model=nosuch",),
            r"no model 'nosuch'; there are: always-a, .*, random, .*\. A backend takes an argument: ",
        ),
        (("--model=nosuch:x",), r"no backend 'nosuch'"),
        (("--model=blind:x",), r"technique 'mc' needs a model that can generate; 'blind:x' has: option_logprobs"),
        (("--benchmark=nosuch",), r"no benchmark 'nosuch'; known: .*gmai-mmbench.*phantom.*slake"),
        (("--benchmark=mediconfusion",), r"benchmark 'mediconfusion' was asked for but is not there, and no --data"),
        (("--technique=gd",), r"technique 'gd' needs a model that can option_logprobs; 'stubborn:A' has: generate"),
        (("--technique=mc,sc",), r"no technique 'sc'; there are: mc, gd, ps, ff\."),
        (("--technique=mc", "--technique=ff"), r"technique 'ff' needs a judge, .*: add --judge=MODEL"),
        (("--model=blind:x", "--technique=gd"), r"benchmark 'slake' has no technique 'gd'; it has: mc$"),
        (("--ablate=nosuch",), r"no ablation 'nosuch'; there are: text-only, blank, shuffle"),
        (("--extraction=nosuch",), r"no extraction 'nosuch'; there are: sound, official"),
        (("--extraction=official",), r"--extraction=official: no published rule reads answers to slake; leave it out"),
        (("--data=nosuch",), r"--data=.*nosuch: no such folder"),
        (("--limit=0",), r"--limit=0: a whole number from 1 on is expected"),
        (("--shard=0/8",), r"--shard=0/8: shards are numbered from 1 to their count, 1/8 to 8/8"),
        (("--shard=9/8",), r"--shard=9/8: shards are numbered"),
        (("--shard=auto",), r"--shard=auto: no task of an array is known here: none of these variables is set: "),
        (("--shard=x",), r"--shard=x: a share is written NUMBER/COUNT, for instance --shard=2/8"),
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


@pytest.mark.parametrize(
    "typed",
    [
        ("--data", "{data}"),
        ("--medvqa-data", "{data}"),
        ("--data", "{data}", "-n2"),
        ("--benchmark=phantom", "--answers", "{data}/test_foreign.py"),
        ("--model", "random"),
        ("--run", "test_slake.py"),
    ],
)
def test_a_path_that_follows_a_space_is_refused_before_code_there_is_run(
    slake: pytest.Pytester, tmp_path: Path, typed: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text("print('foreign')")
    (tmp_path / "test_foreign.py").write_text("def test_foreign(): pass")
    slake.mkdir("random")
    result = run(slake, *(word.format(data=tmp_path) for word in typed))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    option = next(word for word, value in pairwise(typed) if not value.startswith("-") and "=" not in word)
    value = typed[typed.index(option) + 1].format(data=tmp_path)
    (line,) = [line for line in result.errlines if line]
    assert line.startswith(f"ERROR: {option} {value}: pytest takes what follows a space for a path of tests")
    assert line.endswith(f"write {option}={value}")
    assert "foreign" not in result.stdout.str()


def test_a_path_after_a_space_in_the_environment_is_refused(
    slake: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--data {tmp_path}")
    result = run(slake)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"write --data={tmp_path}" in text(result)


def test_a_value_after_a_space_that_is_no_path_is_a_value(slake: pytest.Pytester) -> None:
    assert run(slake, "--model", "stubborn:A", "--run", "spaced", "-k", "ct").ret == 0
    assert (slake.path / "reports/spaced").is_dir()


@pytest.mark.parametrize("inside", [True, False])
def test_the_option_of_a_stranger_takes_a_path_after_a_space(
    pytester: pytest.Pytester, tmp_path: Path, inside: bool
) -> None:
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--data')")
    pytester.makepyfile(test_own="def test_own(pytestconfig): assert pytestconfig.getoption('--data')")
    folder = pytester.mkdir("inner") if inside else tmp_path
    run(pytester, "--data", str(folder), str(pytester.path / "test_own.py")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("typed", "option"),
    [("--model=", "model"), ("--data=", "data"), ("--benchmark=slake,", "benchmark"), ("--benchmark=", "benchmark")],
)
def test_a_value_that_is_empty_is_refused(slake: pytest.Pytester, typed: str, option: str) -> None:
    """As a variable of the shell leaves it that is not set; it would silently run something else."""
    result = run(slake, typed)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --{option}: a value is empty; write --{option}=" in text(result)


@pytest.mark.parametrize("spread", SPREAD)
def test_a_folder_without_tests_says_what_to_type(pytester: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(pytester, "--benchmark=phantom", ".", *spread)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "! no test here asks a model" in result.outlines
    said = "to run the tests that ship: pytest --pyargs medvqa.suite.benchmark_tests *--benchmark=phantom*"
    result.stdout.fnmatch_lines([said])
    assert " . " not in next(line for line in result.outlines if line.startswith("to run"))


def test_tests_of_other_benchmarks_are_named(slake: pytest.Pytester) -> None:
    result = run(slake, "--model=echo:A", "--benchmark=phantom-mediconfusion")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "! the tests here ask about slake, and none about phantom-mediconfusion" in result.outlines
    both = run(slake, "--model=echo:A", "--benchmark=phantom-mediconfusion,slake")
    assert both.ret == 0
    assert "! no test here asks about phantom-mediconfusion" in both.outlines
    assert "test here asks" not in text(run(slake, "--model=echo:A", "--benchmark=slake", "--run=again", "--lf"))
    assert "here ask" not in text(run(slake, "--model=echo:A", "-k", "nosuchthing"))


def test_a_benchmark_of_ones_own_without_a_test_is_told(slake: pytest.Pytester) -> None:
    (slake.path / "test_slake.py").unlink()
    slake.makepyfile(test_own="def test_own(): pass")
    result = run(slake, "--model=echo:A")
    assert result.ret == 0
    assert '    @pytest.mark.vqa("slake")' in result.outlines
    assert "here asks" not in text(run(slake)), "nothing was typed"
    write_what_is_proposed(slake, result)
    assert run(slake, "--model=echo:A", "--run=first").ret == 0
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}


def write_what_is_proposed(pytester: pytest.Pytester, result: pytest.RunResult) -> None:
    """Write the test that the end of a session shows into the file that it names."""
    lines = text(result).splitlines()
    said = next(line for line in lines if line.startswith("to ask about "))
    name = said.partition("write this into ")[2].partition(",")[0]
    shown = itertools.takewhile(lambda line: not line or line.startswith("    "), lines[lines.index(said) + 1 :])
    (pytester.path / name).write_text("\n".join(line.removeprefix("    ") for line in shown))


def test_a_table_without_a_test_is_led_to_a_run(pytester: pytest.Pytester) -> None:
    (pytester.path / "cases.csv").write_text("id,question,A,B,answer\n1,Is it?,yes,no,A\n2,Is it not?,yes,no,B\n")
    (pytester.path / "klinik-2.toml").write_text('file = "cases.csv"\n')
    typed = ("--benchmark=klinik-2.toml", "--model=echo:A", "--run=first")
    result = run(pytester, *typed)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    write_what_is_proposed(pytester, result)
    assert run(pytester, *typed).ret == 0
    assert outcomes(folder(pytester)) == {"correct": 1, "wrong": 1}
    assert run(pytester, "--model=echo:A", "--collect-only").ret == 0, "without the file, other tests are collected"


@pytest.mark.parametrize("spread", SPREAD)
def test_a_mark_that_names_no_benchmark_is_a_collection_error(slake: pytest.Pytester, spread: tuple[str, ...]) -> None:
    slake.makepyfile(test_slake=TEST.replace('"slake"', '"slaek"'))
    result = run(slake, "--model=echo:A", *spread)
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED), "xdist's and pytest's own"
    assert "no benchmark 'slaek'. Did you mean 'slake'?" in text(result)
    assert "If a file declares it, type --benchmark=FILE.toml" in text(result)
    assert "INTERNALERROR" not in text(result)


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("expression", ["lexicon(modalty='ct')", "vqa and not lexicon(organ='a(b=', modalty = 'x')"])
def test_a_dimension_in_a_mark_that_no_item_has_is_named(
    slake: pytest.Pytester, expression: str, spread: tuple[str, ...]
) -> None:
    result = run(slake, "--model=echo:A", "-m", expression, *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = "no item has the dimension 'modalty'; there are: benchmark, kind, modality, organ. Did you mean 'modality'?"
    assert f"-m: {line}" in text(result)
    assert not list(slake.path.glob("reports/*/results.jsonl"))


def test_marks_of_a_repository_without_questions_are_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.lexicon(page=1)\ndef test_it(): pass\n")
    assert run(pytester, "-m", "lexicon(page=1)").ret == 0


def test_a_technique_that_a_benchmark_lacks_is_named(slake: pytest.Pytester) -> None:
    slake.makeconftest(asked_by(CONFTEST, '"gd",'))
    result = run(slake, "--model=stubborn:A")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "benchmark 'slake' has no technique 'mc'; it has: gd" in text(result)


# --- several techniques -----------------------------------------------------------------------------------

ALL = asked_by(CONFTEST, '"mc", "gd", "ps"').replace(
    '"slake", "single_choice"', '"slake", "judgment" if n % 4 == 3 else "single_choice"'
)
"""Slake with techniques that six of its 24 questions, judgments, are not asked by."""


@pytest.fixture
def techniques(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(ALL)
    pytester.makepyfile(test_slake=TEST)
    return pytester


def cases(run_folder: Path) -> Counter[str]:
    lines = (run_folder / "results.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["technique"] for line in lines)


@pytest.mark.parametrize("spread", SPREAD)
def test_a_case_is_an_item_and_a_technique(techniques: pytest.Pytester, spread: tuple[str, ...]) -> None:
    result = run(techniques, "--model=random", "--technique=mc", "--technique=gd,ps", "--technique=mc", *spread)
    assert result.ret == 0
    assert cases(folder(techniques)) == {"mc": 24, "gd": 18, "ps": 18}
    about = json.loads((folder(techniques) / "run.json").read_text())
    assert about["techniques"] == ["mc", "gd", "ps"]
    assert about["left_out"] == {"slake": {"gd": {"judgment": 6}, "ps": {"judgment": 6}}}
    assert written(folder(techniques))["missing"] == []
    result.stdout.fnmatch_lines(
        [
            "*slake*mc*accuracy*",
            "*slake*gd*accuracy*",
            "*slake*ps*accuracy*",
            "! slake: 6 items left out: technique 'gd' is not defined for judgment here.",
        ]
    )


def test_cases_are_called_by_the_technique_where_there_are_several(techniques: pytest.Pytester) -> None:
    both = run(techniques, "--model=random", "--technique=gd,ps", "--collect-only", "-q")
    asked = [line.partition("[")[2] for line in both.outlines if "[" in line]
    assert asked[:2] == ["q00-gd]", "q01-gd]"]
    assert sorted(asked)[:4] == ["q00-gd]", "q00-ps]", "q01-gd]", "q01-ps]"]
    one = run(techniques, "--model=random", "--technique=ps", "--collect-only", "-q")
    assert one.outlines[:2] == ["test_slake.py::test_slake[q00]", "test_slake.py::test_slake[q01]"]
    assert "q03" not in text(one)


def test_what_a_technique_is_not_defined_for_is_told_before_anything_is_asked(techniques: pytest.Pytester) -> None:
    result = run(techniques, "--model=random", "--technique=ps", "-k", "fundus or oct")
    result.stdout.fnmatch_lines(
        ["collected 24 items / 18 deselected / 6 selected", "slake: 6 items left out: technique 'ps' is not defined*"]
    )


def test_a_limit_counts_items_and_not_cases(techniques: pytest.Pytester) -> None:
    run(techniques, "--model=random", "--technique=gd,ps", "--limit=8")
    lines = map(json.loads, (folder(techniques) / "results.jsonl").read_text().splitlines())
    asked = Counter(line["item"]["id"] for line in lines)
    assert 7 <= len(asked) <= 8, "pairs stay whole"
    assert set(asked.values()) == {2}


def test_what_is_missing_is_named_with_its_technique(techniques: pytest.Pytester) -> None:
    run(techniques, "--model=random", "--technique=gd,ps", "-x")
    missing = written(folder(techniques))["missing"]
    assert len(missing) == 36 - outcomes(folder(techniques)).total()
    assert {"slake/q22-gd", "slake/q22-ps"} <= set(missing)
    main(["report", str(folder(techniques)), f"--plugin={techniques.path / 'conftest.py'}"])
    assert written(folder(techniques))["missing"] == missing


def test_what_an_interrupted_run_lacks_is_named_as_everywhere(slake: pytest.Pytester) -> None:
    stops = "    if item.id == 'q20':\n        raise KeyboardInterrupt\n    evaluate"
    slake.makepyfile(test_slake=TEST.replace("    evaluate", stops))
    run(slake, "--model=stubborn:A", "-n2")
    missing = written(folder(slake))["missing"]
    assert missing
    assert all(name.startswith("slake/q") for name in missing)


def test_an_interrupt_while_options_are_checked_is_one_line(pytester: pytest.Pytester) -> None:
    """Terminal reporters print nothing before the session's start."""
    pytester.makeconftest(
        "from medvqa.plugin import process_state\n\n\ndef interrupted(config):\n    raise KeyboardInterrupt\n\n\n"
        "process_state.check_spread = interrupted\n"
    )
    pytester.makepyfile(test_toy=PHANTOM)
    result = pytester.runpytest_subprocess("--model=random")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert result.outlines == ["interrupted before anything was asked"]


def test_a_default_model_that_cannot_be_had_is_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medvqa.backends.hf.checkpoint.find_spec", lambda name: None)
    pytester.makepyfile(test_toy=PHANTOM)
    result = run(pytester)
    assert "needs torch and transformers: pip install 'pytest-medvqa[hf]'; or choose another model" in text(result)
    assert "Traceback" not in text(result)
    assert not (pytester.path / "reports").exists()
    assert run(pytester, "--collect-only", "--benchmark=phantom-mediconfusion", "--technique=mc").ret == 0


def test_a_config_says_how_its_model_is_asked_where_nobody_else_does(techniques: pytest.Pytester) -> None:
    (techniques.path / "models").mkdir()
    (techniques.path / "models" / "shy.toml").write_text('backend = "random"\ntechniques = ["ps", "gd"]\n')
    run(techniques, "--model=shy", "--run=default")
    run(techniques, "--model=shy", "--run=typed", "--technique=mc")
    reports = techniques.path / "reports"
    assert cases(reports / "default") == {"ps": 18, "gd": 18}
    assert json.loads((reports / "default" / "run.json").read_text())["techniques"] == ["ps", "gd"]
    assert cases(reports / "typed") == {"mc": 24}
    (techniques.path / "models" / "odd.toml").write_text('backend = "random"\ntechniques = ["sc"]\n')
    result = run(techniques, "--model=odd")
    assert "no technique 'sc' (from the config of 'odd'); there are: mc, gd, ps" in text(result)
    techniques.makeconftest(CONFTEST)
    result = run(techniques, "--model=shy", "--benchmark=slake")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "benchmark 'slake' has no technique 'ps, gd'; it has: mc. Name one of them: --technique=mc" in text(result)


def test_a_test_with_a_technique_parameter_of_its_own_is_asked_as_ever(slake: pytest.Pytester) -> None:
    own = '@pytest.mark.parametrize("technique", ["ultrasound"])\n@pytest'
    slake.makepyfile(test_slake=TEST.replace("@pytest", own).replace("evaluate)", "evaluate, technique)", 1))
    assert run(slake, "--model=stubborn:A").ret == 0
    assert cases(folder(slake)) == {"mc": 24}


def test_a_test_that_does_not_evaluate_has_no_technique(techniques: pytest.Pytester) -> None:
    own = '\n\n@pytest.mark.vqa("slake")\ndef test_question(item):\n    assert item.question\n'
    techniques.makepyfile(test_slake=TEST + own)
    result = run(techniques, "--model=random", "--technique=gd,ps")
    assert "24 passed" in text(result)
    assert outcomes(folder(techniques)).total() == 36


def test_an_ablation_says_so_beside_every_number(techniques: pytest.Pytester) -> None:
    result = run(techniques, "--model=random", "--technique=mc,gd", "--ablate=text-only", "--run=first")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["slake (no images)*gd*accuracy*"])
    reports = techniques.path / "reports"
    measures = written(reports / "first")["measures"]
    assert all("ablation:text-only|" in measure["signature"] for measure in measures)
    assert json.loads((reports / "first" / "run.json").read_text())["ablation"] == "text-only"


def test_recorded_answers_are_scored_by_their_technique_and_cannot_be_ablated(techniques: pytest.Pytester) -> None:
    run(techniques, "--model=random", "--technique=mc,gd", "--run=first")
    recorded = f"--model=replay:{techniques.path / 'reports' / 'first' / 'results.jsonl'}"
    run(techniques, recorded, "--technique=gd", "--run=again")
    first, again = (
        [
            (m["name"], m["slice"], m["value"])
            for m in written(techniques.path / "reports" / name)["measures"]
            if m["technique"] == "gd"
        ]
        for name in ("first", "again")
    )
    assert first == again
    result = run(techniques, recorded, "--ablate=blank")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert re.search(
        r"--ablate=blank: the answers of 'replay:.*' were given to the questions and images as they are", text(result)
    )


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
@metrics.ratio()
def typo(results):
    return 7.0, 1.0

def pytest_medvqa_metrics():
    return [typo]
"""


def test_a_metric_that_fails_costs_no_answer(slake: pytest.Pytester) -> None:
    slake.makeconftest(CONFTEST + BAD_METRIC)
    result = run(slake, "--model=stubborn:A")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["slake *accuracy *33.33*", "slake *typo *failed", "! slake: metric 'typo' gave (7.0, 1.0)*"]
    )
    assert "INTERNALERROR" not in text(result)
    assert outcomes(folder(slake)).total() == 24


# --- beside others ----------------------------------------------------------------------------------------


@pytest.mark.cold
def test_in_a_repository_without_items_the_plugin_is_invisible(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            heavy = {"pandas", "numpy", "PIL", "torch", "scipy", "rich", "msgspec"} & set(sys.modules)
            assert not heavy
            assert "medvqa.session.plan" not in sys.modules
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


THEIRS = """
def pytest_addoption(parser):
    parser.addoption("--model", default="theirs")
    parser.addoption("--tags", default="")
"""
PHANTOM = """
import pytest

@pytest.mark.vqa("phantom-mediconfusion")
def test_phantom(medvqa_item, evaluate):
    evaluate(medvqa_item)
"""
FOREIGN = "medvqa: --model, --tags belong to another plugin or conftest.py here; for medvqa type --medvqa-model=..., "


def test_a_conftest_with_a_model_option_of_its_own_keeps_it(slake: pytest.Pytester) -> None:
    slake.makeconftest(CONFTEST + THEIRS)
    slake.makepyfile(test_theirs="def test_it(pytestconfig):\n    assert pytestconfig.getoption('--model') == 'mine'")
    result = run(slake, "--model=mine", "--medvqa-model=stubborn:A", "--run=first")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"{FOREIGN}--medvqa-tags=..."])
    about = json.loads((slake.path / "reports" / "first" / "run.json").read_text())
    assert about["config"]["name"] == "stubborn:A"


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize(
    ("typed", "environment", "files"),
    [
        (("--model=does-not-exist",), "", {}),
        (("--model", "does-not-exist"), "", {}),
        (("--model=does-not-exist", "--benchmark=phantom-mediconfusion", "--limit=4"), "", {}),
        ((), "--model=does-not-exist", {}),
        ((), "", {"pytest.ini": "[pytest]\naddopts = --model=does-not-exist\n"}),
        (("-c", "ci.ini"), "", {"ci.ini": "[pytest]\naddopts = --model does-not-exist\n"}),
    ],
    ids=["equals", "space", "beside", "environment", "ini", "other ini"],
)
def test_a_model_that_another_plugin_took_is_refused(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    environment: str,
    files: dict[str, str],
    spread: tuple[str, ...],
) -> None:
    pytester.makeconftest(THEIRS)
    pytester.makepyfile(test_toy=PHANTOM)
    for name, content in files.items():
        (pytester.path / name).write_text(content)
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p no:rerunfailures {environment}")
    result = run(pytester, *typed, *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text(result)
    line = "--model: another plugin or conftest.py has an option of this name here and took it; medvqa did not get it. "
    assert f"{line}Type --medvqa-model=..." in text(result)
    assert not list(pytester.path.glob("reports/*/results.jsonl"))


def test_another_option_that_another_plugin_took_is_refused_if_nothing_of_medvqas_was_typed(
    slake: pytest.Pytester,
) -> None:
    slake.makeconftest(CONFTEST + THEIRS)
    assert run(slake, "--medvqa-model=stubborn:A", "--tags=smoke").ret == 0
    result = run(slake, "--tags=smoke")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Type --medvqa-tags=..., or --medvqa-model=... if it was meant" in text(result)


@pytest.mark.parametrize("arguments", [("--model=ours",), ("--model=ours", "--co"), ("--model=ours", "-m", "not vqa")])
def test_what_another_plugin_took_is_nobodys_business_if_nothing_is_asked(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makeconftest(THEIRS)
    pytester.makepyfile("def test_it(pytestconfig):\n    assert pytestconfig.getoption('--model') == 'ours'")
    if len(arguments) > 1:
        pytester.makepyfile(test_toy=PHANTOM)
    result = run(pytester, *arguments)
    assert result.ret == 0
    assert "another plugin" not in text(result)


# --- which model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [(), ("--benchmark=slake",)], ids=["plain", "typed"])
@pytest.mark.parametrize("spread", SPREAD)
def test_data_of_ones_own_are_not_asked_of_the_toy(
    slake: pytest.Pytester, typed: tuple[str, ...], spread: tuple[str, ...]
) -> None:
    result = run(slake, *typed, *spread)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text(result)
    line = (
        "no model was named, and phantom-vlm is the default for the phantom alone; this run asks slake. Type --model="
    )
    assert line in text(result)
    assert not list(slake.path.glob("reports/*/results.jsonl"))


@pytest.mark.parametrize("arguments", [("--co",), ("-m", "not vqa"), ("test_other.py",), ("--benchmark=slake", "--co")])
def test_what_asks_nothing_needs_no_model(slake: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    slake.makepyfile(test_other="def test_other():\n    pass")
    result = run(slake, *arguments)
    assert result.ret == 0, text(result)
    assert "no model was named" not in text(result)


# --- beside fixtures of the repository's own ----------------------------------------------------------------


@pytest.mark.parametrize("spread", SPREAD_SLOWLY)
@pytest.mark.parametrize(
    "fixture",
    [
        "@pytest.fixture\ndef {}():\n    return 'theirs'",
        "@pytest.fixture(params=['a', 'b'])\ndef {}(request):\n    return request.param",
        "@pytest.fixture(scope='session', autouse=True)\ndef {}():\n    return 'theirs'",
    ],
    ids=["plain", "parametrized", "autouse"],
)
@pytest.mark.parametrize("name", ["model", "item"])
def test_a_fixture_of_the_repository_does_not_matter_to_the_suite(
    slake: pytest.Pytester, name: str, fixture: str, spread: tuple[str, ...]
) -> None:
    slake.makeconftest(f"{CONFTEST}\nimport pytest\n\n{fixture.format(name)}\n")
    slake.makepyfile(
        test_slake=TEST.replace("item", "medvqa_item"),
        test_theirs=f"def test_it({name}):\n    assert {name} in ('theirs', 'a', 'b')",
    )
    result = run(slake, "--model=stubborn:A", "--run=first", *spread)
    assert result.ret == 0, text(result)
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}


@pytest.mark.parametrize(("how", "code"), [("", 0), ("params=[1, 2]", 2), ("scope='session', autouse=True", 2)])
def test_a_test_that_takes_item_where_the_repository_has_one_says_what_to_write(
    slake: pytest.Pytester, how: str, code: int
) -> None:
    slake.makeconftest(f"{CONFTEST}\nimport pytest\n\n@pytest.fixture({how})\ndef item():\n    return 'theirs'\n")
    result = run(slake, "--model=stubborn:A")
    assert result.ret == code, text(result)
    line = "the repository has a fixture called 'item'; take medvqa_item in place of item: def test_slake(medvqa_item, "
    assert (line in text(result)) == bool(code)


def test_a_test_and_its_fixtures_may_take_the_item_by_both_names(slake: pytest.Pytester) -> None:
    slake.makepyfile(
        test_slake="""
        import pytest

        @pytest.fixture
        def question(item):
            return item.question

        @pytest.mark.vqa("slake")
        def test_slake(medvqa_item, question, evaluate, model, medvqa_model):
            assert medvqa_item.question == question
            assert model is medvqa_model
            evaluate(medvqa_item)
        """
    )
    assert run(slake, "--model=stubborn:A").ret == 0
    assert outcomes(folder(slake)) == {"correct": 8, "wrong": 16}


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
    slake: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    arguments: tuple[str, ...],
    spread: tuple[str, ...],
) -> None:
    pytest.importorskip(module)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    result = slake.runpytest_subprocess("--model=stubborn:A", *arguments, *spread)
    assert result.ret == 0, text(result)
    measures = {m["name"]: m for m in written(folder(slake))["measures"] if m["slice"] == {}}
    assert measures["accuracy"]["count"] == 8
    assert measures["accuracy"]["n"] == 24


@pytest.mark.cold
def test_pytest_rewrites_no_module_of_the_package(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no assertions, and pytest would parse every module for them where no bytecode is written."""
    pytester.makepyfile("""
        import sys

        def test_loaders():
            loaders = {name: type(module.__spec__.loader).__name__ for name, module in sys.modules.items()
                       if name.startswith("medvqa.") and module.__spec__ is not None}
            first = ("medvqa.plugin", "medvqa.plugin.finding")
            assert {loaders.pop(name) for name in first} == {"AssertionRewritingHook"}
            assert loaders and set(loaders.values()) == {"SourceFileLoader"}
    """)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.runpytest_subprocess("-p", "medvqa.plugin").assert_outcomes(passed=1)


WATCHER = """
import json, os, pathlib, pytest

SEEN = {"tests": [], "set up": [], "finished": []}

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    assert item.location == (os.path.basename(item.path), *item.reportinfo()[1:])
    SEEN["tests"].append([item.name, sorted(item.funcargs), item._request.fixturenames])
    return (yield)

@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    SEEN["set up"].append(fixturedef.argname)

def pytest_fixture_post_finalizer(fixturedef):
    if fixturedef.cached_result is not None:
        SEEN["finished"].append(fixturedef.argname)

def pytest_unconfigure():
    pathlib.Path("seen.json").write_text(json.dumps(SEEN))
"""


WATCHED = """
@pytest.fixture
def mine(evaluate, medvqa_model, request):
    assert request.getfixturevalue("evaluate") is evaluate
    return evaluate

class TestInside:
    @pytest.mark.vqa("slake")
    def test_own(self, medvqa_item, mine):
        mine(medvqa_item)
"""


def test_other_plugins_see_of_each_case_what_they_see_of_the_first(pytester: pytest.Pytester) -> None:
    """The plugin gives cases the values of its fixtures, and the place of their function in the source."""
    pytester.makeconftest(CONFTEST + WATCHER)
    pytester.makepyfile(test_slake=TEST + WATCHED)
    result = run(pytester, "--model=stubborn:A", "-k", "q00 or q01 or q02")
    assert result.ret == 0, text(result)
    seen = json.loads((pytester.path / "seen.json").read_text())
    names = [f"{test}[q0{n}]" for test in ("test_slake", "test_own") for n in range(3)]
    assert [name for name, *_ in seen["tests"]] == names
    first, _, _, last, *_ = by_function = [rest for _, *rest in seen["tests"]]
    assert by_function == [first] * 3 + [last] * 3
    assert first[0] == ["_medvqa_asked", "evaluate", "item", "medvqa_model"]
    assert last[0] == ["_medvqa_asked", "evaluate", "medvqa_item", "medvqa_model", "mine", "request"]
    assert seen["set up"].count("mine") == 3
    for name in ("evaluate", "medvqa_model"):
        assert seen["set up"].count(name) == seen["finished"].count(name) == 1
    assert len(keys(folder(pytester))) == 3


OVERRIDDEN = """
import pytest

@pytest.fixture
def evaluate(evaluate):
    def wrapped(item):
        return evaluate(item)
    return wrapped
"""


def test_a_folder_may_wrap_evaluate_for_its_tests_alone(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    for name in ("before", "wrapped", "yonder"):
        asked = f"    assert (evaluate.__name__ == 'wrapped') is {name == 'wrapped'}\n    evaluate(item)"
        path = pytester.mkdir(name) / f"test_{name}.py"
        path.write_text(TEST.replace("    evaluate(item)", asked))
    (pytester.path / "wrapped" / "conftest.py").write_text(OVERRIDDEN)
    result = run(pytester, "--model=stubborn:A", "-k", "q00 or q03")
    assert result.ret == 0, text(result)
    result.stdout.fnmatch_lines(["*6 correct*"])


@pytest.mark.parametrize(
    "drawn", ['OPTIONS, ("ABC"[os.urandom(1)[0] % 3],)', '{"A": os.urandom(8).hex()}, ("A",)'], ids=["keys", "options"]
)
def test_items_that_each_process_draws_anew_end_the_session(slake: pytest.Pytester, drawn: str) -> None:
    given = 'OPTIONS, ("ABC"[n % 3],)'
    assert given in CONFTEST
    slake.makeconftest("import os\n" + CONFTEST.replace(given, drawn))
    result = run(slake, "--model=stubborn:A", "-n2")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "benchmark slake: its items differ between processes: their digest is " in text(result)
    assert "INTERNALERROR" not in text(result)
    results = folder(slake) / "results.jsonl"
    assert not results.is_file() or not results.read_bytes()


def test_items_that_are_drawn_anew_by_one_process_are_its_own(slake: pytest.Pytester) -> None:
    slake.makeconftest("import os\n" + CONFTEST.replace('f"Question {n}?"', "os.urandom(8).hex()"))
    assert run(slake, "--model=stubborn:A").ret == 0


@pytest.mark.parametrize("typed", [("--model=stubborn:A",), ()], ids=["typed", "plain"])
def test_items_that_cannot_be_read_are_told_in_one_line(slake: pytest.Pytester, typed: tuple[str, ...]) -> None:
    first = "    for n in range(24):\n"
    assert first in CONFTEST
    made = CONFTEST.strip().replace(first, f"{first}        if n == 9:\n            raise RuntimeError('mid\\nway')\n")
    slake.makeconftest(made)
    line = made[: made.index("raise R")].count("\n") + 1
    result = run(slake, *typed)
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    shown = text(result)
    assert f"benchmark 'slake', items: conftest.py:{line}: RuntimeError: mid way; expected: items yields" in shown
    assert "INTERNALERROR" not in shown
    assert "Traceback" not in shown
