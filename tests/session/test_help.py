"""What pytest and `medvqa` print about themselves, in a folder that has nothing to do with this project."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medvqa import cli
from medvqa.plugin import options
from medvqa.session.options import OLD_NAMES, OPTIONS
from support import processes

COMMANDS = (
    "run",
    "report",
    "rescore",
    "compare",
    "table",
    "fetch",
    "gate",
    "audit",
    "baseline",
    "merge",
    "combine",
    "agreement",
    "classify",
    "lexicon",
    "split",
    "models",
)


def printed(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own says that knows no variables of the outer session."""
    alone = ("PYTEST_", "MEDVQA_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(alone)}
    command = [sys.executable, "-m", module, *arguments]
    return processes.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_pytest_explains_each_option(tmp_path: Path) -> None:
    shown = printed(tmp_path, "pytest", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    for name in OPTIONS:
        assert f"--medvqa-{name}" in shown.stdout
    assert "the 5 % of error are divided" in " ".join(shown.stdout.split())
    assert "%%" not in shown.stdout


def test_the_help_of_each_option_is_formatted() -> None:
    parser = pytest.Parser(_ispytest=True)
    options.register(parser)
    options.register_aliases(parser)
    registered = {name for option in parser.getgroup("medvqa").options for name in option.names()}
    assert registered == {f"--{prefix}{name}" for prefix in ("medvqa-", "") for name in (*OPTIONS, *OLD_NAMES)}
    for option in parser.getgroup("medvqa").options:
        plain = argparse.ArgumentParser(prog="pytest")
        plain.add_argument(option.names()[0], dest=option.dest, help=option.attrs()["help"])
        assert option.dest.upper() in plain.format_help()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--co", "-q"), ("--version",), ("--fixtures",), ("--markers",)])
def test_pytest_without_our_tests_says_nothing_of_us(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    shown = printed(tmp_path, "pytest", *arguments)
    assert shown.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "Traceback" not in shown.stdout + shown.stderr
    assert list(tmp_path.glob("reports*")) == []


@pytest.mark.parametrize("option", ["--fixtures", "--fixtures-per-test"])
def test_fixtures_of_vqa_tests_are_told_without_a_model(pytester: pytest.Pytester, option: str) -> None:
    """A model that is not there matters only to a session that asks it."""
    pytester.makepyfile("import pytest\n@pytest.mark.vqa\ndef test_all(item, evaluate):\n    evaluate(item)\n")
    for model in ("random", "hf:/nowhere/weights"):
        shown = pytester.runpytest_inprocess(option, f"--model={model}", "-q", "-p", "no:randomly")
        assert shown.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        assert "evaluate" in shown.stdout.str()
        assert "nothing was asked" not in shown.stdout.str()
    assert not (pytester.path / "reports").exists()


def test_fixtures_and_marks_are_told_in_sentences(tmp_path: Path) -> None:
    shown = printed(tmp_path, "pytest", "--fixtures", "-p", "no:cacheprovider").stdout
    ours = shown[shown.index("fixtures defined from medvqa.plugin") :]
    told = re.findall(r"^(\w+) \[session scope\] -- \S+medvqa/plugin/__init__.py:\d+\n    (.+)$", ours, re.MULTILINE)
    assert dict(told) == {
        "medvqa_model": "The model that --model names. Each process that runs tests has one.",
        "model": "The same as `medvqa_model`, unless the repository has a fixture of this name.",
        "evaluate": "A function: ask the model about an item, score and record the answer, return the Result.",
    }
    marks = printed(tmp_path, "pytest", "--markers").stdout
    said = "@pytest.mark.vqa(name): run the test once for each item of the benchmark or group of that name;"
    assert said in marks
    assert (
        "@pytest.mark.lexicon(**tags): the tags of an item, set by the plugin; select by them with "
        "-m \"lexicon(modality='ct')\"."
    ) in marks


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: medvqa {command}")
    assert re.search(r"\n\n[A-Z][^\n]*(?:\n[^\n]+)*\.\n\n", shown), "its first paragraph says what it does"
    assert "%%" not in shown


def test_the_command_line_names_each_command(tmp_path: Path) -> None:
    shown = printed(tmp_path, "medvqa.cli", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    listed = re.search(r"\{([\w,]+)\}|COMMAND", shown.stdout)
    assert listed is not None
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\b", shown.stdout, re.MULTILINE), command
