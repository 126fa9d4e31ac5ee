"""Each option through each of its doors: pytest, `medvqa run`, the file of a sweep, and `medvqa.evaluate`."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

import medvqa
from medvqa.cli.arguments import RUN_OPTIONS
from medvqa.cli.run import COMMAND
from medvqa.commands import sweeping
from medvqa.items import UsageError
from medvqa.plugin import options as plugin_options
from medvqa.session import door
from medvqa.session.options import OLD_NAMES, OPTIONS, Option, Options, names_of
from medvqa.session.project import Project

VALUES = {"text": "a", "count": 2, "flag": True, "whole number": 3, "number": 1.5}
OWN_VALUES = {"judge-prompt": "score:judge.txt", "shard": "1/2"}
TYPED = [(name, row) for row in OPTIONS.values() for name in names_of(row.name)]


def value(row: Option) -> Any:
    return OWN_VALUES.get(row.name, VALUES[row.kind])


def word(name: str, row: Option) -> str:
    return f"--{name}" if row.kind == "flag" else f"--{name}={value(row)}"


def by_pytest(name: str, row: Option, pytester: pytest.Pytester) -> Options:
    return plugin_options.read(pytester.parseconfig(word(f"medvqa-{name}", row), "-p", "no:benchmark"))


def by_command(name: str, row: Option, folder: Path) -> Options:
    parser = argparse.ArgumentParser()
    COMMAND.add_to(parser.add_subparsers(), "run")
    typed = vars(parser.parse_args(["run", word(name, row)]))
    return Options.of({option: typed[option] for option in RUN_OPTIONS}, folder)


def by_sweep(name: str, row: Option, folder: Path) -> Options:
    grid = "[grid]\nselect = ['bone', 'chest']\n"
    (folder / "sweep.toml").write_text(f"[options]\n{name} = {json.dumps(value(row))}\n{grid}")
    options = dict(sweeping.read(folder / "sweep.toml").cells[0].options)
    options.pop("select")
    return Options.of(options, folder)


def by_python(name: str, row: Option, monkeypatch: pytest.MonkeyPatch) -> Options:
    seen: list[Options] = []

    def conduct(project: Project, *rest: object, **named: object) -> None:
        seen.append(project.options)
        raise UsageError("seen")

    monkeypatch.setattr(door, "conduct", conduct)
    with pytest.raises(UsageError, match="seen"):
        medvqa.evaluate(**{name.replace("-", "_"): value(row)})
    return seen[0]


@pytest.mark.parametrize(("name", "row"), TYPED, ids=[name for name, _ in TYPED])
def test_an_option_means_the_same_through_each_door(
    name: str, row: Option, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = pytester.path
    (here / "judge.txt").write_text("{question} {reference} {answer}")
    read = getattr(by_command(name, row, here), row.field)
    assert read != getattr(Options.of({}, here), row.field)
    assert getattr(by_pytest(name, row, pytester), row.field) == read
    assert getattr(by_python(name, row, monkeypatch), row.field) == read
    if row.name in sweeping.OWN:
        with pytest.raises(UsageError, match=sweeping.OWN[row.name].partition(":")[0]):
            by_sweep(name, row, here)
    else:
        assert getattr(by_sweep(name, row, here), row.field) == read


def test_an_old_name_is_that_of_its_option() -> None:
    assert all(OLD_NAMES[name] in OPTIONS for name in OLD_NAMES)
