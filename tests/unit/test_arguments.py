"""Every argument of every command is a row: it is typed here, explained, and typed by a test of its command."""

import argparse
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from medvqa import cli
from medvqa.cli import dispatch
from medvqa.cli.arguments import RUN_OPTIONS, Argument, Arguments, Command
from medvqa.items import UsageError
from medvqa.session.options import OPTIONS, SELECT

TESTS = Path(__file__).parents[1]
COMMANDS: dict[str, Command[Any]] = {
    name: import_module(f"medvqa.cli.{module}").COMMAND for name, module in dispatch.MODULES.items()
}
OWN = [pytest.param(name, row, id=f"{name}-{row.name}") for name, command in COMMANDS.items() for row in command.rows()]
SAMPLES = {"text": "x", "path": "~/x", "count": "7", "whole number": "7", "number": "0.5"}
READ = {
    **{"text": "x", "path": Path.home() / "x", "count": 7, "whole number": 7, "number": 0.5, "flag": True},
}


def parsed(command: Command[Any], *typed: str) -> Arguments:
    """What the function of a command gets."""
    got: list[Arguments] = []

    def keep(arguments: Arguments) -> str:
        got.append(arguments)
        return ""

    parser = argparse.ArgumentParser()
    replace(command, run=keep).add_to(parser.add_subparsers(), "x")
    options = parser.parse_args(["x", *typed])
    options.words = typed
    options.command(options)
    return got[0]


def words(command: Command[Any], typed: Argument | None = None, name: str = "") -> list[str]:
    """One argument, by its name, and those without which the command is not run."""
    made = list[str]()
    for row in command.rows():
        if row == typed or (row.least if row.least is not None else row.required):
            named = [] if row.least is not None else [name or f"--{row.name}" if row == typed else f"--{row.name}"]
            made += named if row.kind == "flag" else [*named, sample(row)]
    return made


def sample(row: Argument) -> str:
    return row.choices[0] if row.choices else SAMPLES[row.kind]


@pytest.mark.parametrize(("name", "row"), OWN)
def test_an_argument_reaches_its_command(name: str, row: Argument) -> None:
    read = row.choices[0] if row.choices else READ[row.kind]
    for option in filter(None, [f"--{row.name}", row.short]):
        got = getattr(parsed(COMMANDS[name], *words(COMMANDS[name], row, option)), row.field)
        assert got == ([read] if row.several else read)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_runs_reach_a_command_as_in_a_run(name: str) -> None:
    command = COMMANDS[name]
    for option in command.options:
        row = {**OPTIONS, SELECT.name: SELECT}[option]
        value = SAMPLES.get(row.kind, "")
        got = parsed(command, *([f"--{option}={value}"] if value else [f"--{option}"]), *words(command))
        read = {**READ, "count": "7"}[row.kind]
        assert got.raw == {**dict.fromkeys(command.options), option: [read] if row.several else read}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_argument_that_is_left_out_has_its_default(name: str) -> None:
    command = COMMANDS[name]
    got = parsed(command, *words(command))
    for row in command.rows():
        if not (row.least or row.required):
            nothing: object = [] if row.several else False if row.kind == "flag" else row.default
            assert getattr(got, row.field) == nothing
    assert set(got.raw.values()) <= {None}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_argument_is_explained(name: str) -> None:
    """In a sentence that begins small and has no full stop, as in every help."""
    for row in COMMANDS[name].rows():
        assert re.match(r"[a-z-]|[A-Z]+\b", row.help), row.name
        assert not row.help.endswith("."), row.name
        assert bool(row.metavar) == (row.kind != "flag"), row.name
    assert COMMANDS[name].about[0].isupper()


def test_each_argument_is_typed_by_a_test_of_its_command() -> None:
    """Beside the command's name, in one file."""
    texts = [path.read_text("utf-8") for path in TESTS.rglob("*.py") if path != Path(__file__)]
    docs = [path.read_text("utf-8") for path in (TESTS.parent / "docs").glob("*.md")]
    missing = []
    for name, command in COMMANDS.items():
        typed = [text for text in texts if re.search(rf"[\"']{name}[\"']|medvqa {name}\b", text)]
        typed += [line for text in docs for line in text.splitlines() if line.startswith(f"$ medvqa {name} ")]
        names = [row for row in command.rows() if row.least is None]
        for row in names:
            ways = "|".join([re.escape(f"--{row.name}"), *([re.escape(row.short)] if row.short else [])])
            if not any(re.search(rf"(?<![\w-])(?:{ways})(?![\w-])", text) for text in typed):
                missing.append(f"{name} --{row.name}")
        missing += [
            f"{name} --{option}"
            for option in command.options
            if command.options != RUN_OPTIONS and not any(f"--{option}" in text for text in typed)
        ]
    assert missing == []


def test_a_number_out_of_range_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["view", "--port=65536"]) == 4
    assert capsys.readouterr().err == (
        "medvqa: --port=65536: a whole number of at most 65,535 is expected; leave --port out for a free one\n"
    )
    with pytest.raises(UsageError, match="--near=-1: a whole number from 0 on is expected"):
        parsed(COMMANDS["leaks"], "--against=x", "--near=-1")


def test_a_zero_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["paper", "mediconfusion", "reports/none", "--max-errors=0"]) == 4
    assert "--max-errors: runs are recorded and nothing is asked" in capsys.readouterr().err
    assert cli.main(["gate", "--plan", "--inconclusive=fail"]) == 4
    assert "--inconclusive belongs to a verdict, and --plan gives none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "a", "--slices=few"], "argument --slices: a whole number or 'all' is expected, not 'few'"),
        (["split", "--benchmark=x", "--whole=most"], "invalid choice: 'most' (choose from 'pairs', 'groups')"),
        (["merge", "a"], "usage: medvqa merge [OPTIONS] RUN ... --output=NAME"),
        (["merge", "--output=a"], "the following arguments are required: RUN"),
        (["gate", "--margins=2"], "unrecognized arguments: --margins=2. Did you mean '--margin'?"),
    ],
)
def test_words_that_cannot_be_parsed_are_met_with_what_to_type(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 4
    assert said in capsys.readouterr().err
