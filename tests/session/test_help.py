"""What pytest and `medvqa` print about themselves, in a folder that has nothing to do with this project."""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medvqa import cli
from medvqa.cli import dispatch
from medvqa.plugin import options
from medvqa.session.options import OLD_NAMES, OPTIONS, SECTIONS
from support import processes
from tools import options as options_page

ROOT = Path(__file__).parents[2]
COMMANDS = (
    "run",
    "options",
    "report",
    "rescore",
    "compare",
    "table",
    "export",
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


def test_pytest_shows_the_options_that_most_people_need(tmp_path: Path) -> None:
    """Each by one name, in sections; the others are named by `medvqa options`."""
    shown = printed(tmp_path, "pytest", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    names = {name for name in OPTIONS if re.search(rf"^  --{name}\b(?!-)", shown.stdout, re.MULTILINE)}
    assert names == {name for name, row in OPTIONS.items() if row.common}
    assert len(names) == 20
    assert "--medvqa-" not in shown.stdout
    assert "%%" not in shown.stdout
    assert re.findall(r"^medvqa: (.+):$", shown.stdout, re.MULTILINE) == list(SECTIONS)
    about = shown.stdout[: shown.stdout.index("medvqa: Model and judge:")].rsplit("\n\n", 2)[1]
    assert about.startswith("medvqa asks a model questions about medical images")
    assert "`medvqa options` explains all." in about


def test_pytest_shows_the_long_name_of_an_option_that_another_plugin_has(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--model', help='a model of clay')\n"
    )
    shown = " ".join(printed(tmp_path, "pytest", "--help").stdout.split())
    assert "--model=MODEL a model of clay" in shown
    assert "--medvqa-model=MODEL the model to ask" in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--modle=x", "--model"), ("--bench-mark=x", "--benchmark"), ("--medvqa-limt=3", "--medvqa-limit")],
)
def test_pytest_suggests_an_option(tmp_path: Path, typed: str, meant: str) -> None:
    shown = printed(tmp_path, "pytest", typed)
    assert shown.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"medvqa: no option {typed.partition('=')[0]}. Did you mean {meant}?" in shown.stderr


def test_options_explains_each_option(tmp_path: Path) -> None:
    shown = printed(tmp_path, "medvqa.cli", "options")
    assert (shown.returncode, shown.stderr) == (0, "")
    for name in (*OPTIONS, "select"):
        assert re.search(rf"^  --{name}\b(?!-)", shown.stdout, re.MULTILINE), name
    assert "the 5 % of error are divided" in " ".join(shown.stdout.split())
    assert [line for line in shown.stdout.splitlines() if line and line[0] != " "] == list(SECTIONS)


def test_options_explains_those_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["options", "repeat", "limit"]) == 0
    assert re.findall(r"^  --(\S+)", capsys.readouterr().out, re.MULTILINE) == ["limit=N", "samples=N"]
    assert cli.main(["options", "limt"]) == 4
    assert capsys.readouterr().err.endswith("no option 'limt'. Did you mean 'limit'?\n")


def test_the_documentation_and_the_action_have_the_options_of_the_table() -> None:
    for path, text in options_page.written().items():
        assert text == path.read_text("utf-8"), "type python tools/options.py"
    assert [name for _, name, _ in options_page.PARTS] == ["the tables", "the inputs", "the gate's options"]
    assert all(f"end of {name}" in path.read_text("utf-8") for path, name, _ in options_page.PARTS)


def test_inputs_of_the_action_are_options_with_their_defaults() -> None:
    yaml = pytest.importorskip("yaml")
    inputs = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]
    for name in inputs.keys() & OPTIONS.keys() - {"benchmark", "run"}:
        default = inputs[name]["default"]
        assert not default or {f"default: {default}", f"{default}, the default"} & {
            *re.split("[()]", OPTIONS[name].help)
        }


def test_the_help_of_each_option_is_formatted() -> None:
    parser = pytest.Parser(_ispytest=True)
    options.register(parser)
    options.register_aliases(parser)
    registered = [option for title in SECTIONS for option in parser.getgroup(f"medvqa {title}").options]
    names = {name for option in registered for name in option.names()}
    assert names == {f"--{prefix}{name}" for prefix in ("medvqa-", "") for name in (*OPTIONS, *OLD_NAMES)}
    for option in registered:
        plain = argparse.ArgumentParser(prog="pytest")
        plain.add_argument(option.names()[0], dest=option.dest, help=option.attrs()["help"])
        assert (option.dest.upper() in plain.format_help()) == (option.attrs()["help"] != argparse.SUPPRESS)


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
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\b", shown.stdout, re.MULTILINE), command
    assert re.findall(r"^(\w+):$", shown.stdout, re.MULTILINE) == [*dispatch.COMMANDS, "options"]


@pytest.mark.parametrize("command", ["", *dispatch.MODULES])
def test_help_fits_a_terminal_of_80_columns(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([*filter(None, [command]), "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_misspelt_command_or_option_is_met_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["raport"], ". Did you mean 'report'?"),
        (["run", "--modle=x"], "unrecognized arguments: --modle=x. Did you mean '--model'?"),
        (["run", "phantom"], "unrecognized arguments: phantom. Did you mean '--benchmark=phantom'?"),
        (["--model=a b", "--limit=3"], "a command comes first, such as: medvqa run '--model=a b' --limit=3"),
        ([], "no command was typed; `medvqa --help` lists them"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 4
        assert said in capsys.readouterr().err


def test_the_version_is_told_first(tmp_path: Path) -> None:
    """No room is imported for it."""
    code = "import sys; from medvqa.cli import main; main(['--version']); print(*sorted(sys.modules))"
    shown = processes.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    version, modules = shown.stdout.splitlines()
    assert re.fullmatch(r"pytest-medvqa \d+\.\d+\.\d+", version)
    assert [name for name in modules.split() if name.startswith("medvqa")] == ["medvqa", "medvqa.cli"]
