"""Register the options of a run as options of pytest.

Each is registered as `--medvqa-NAME`. The short `--NAME` is added after the conftest files have been read,
unless a plugin or conftest has an option of that name.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from medvqa import printing
from medvqa.items import UsageError
from medvqa.session.options import OLD_NAMES, OPTIONS, SECTIONS, Option, Options, names_of

VALUE = "..."
"""Stands for the value of an option in a message."""
DECISIVE = frozenset({"model", "baseline", "gate"})
"""Options without which a number or an exit code is another model's, or says nothing about the gate."""


def _dest(name: str) -> str:
    return "medvqa_" + name.replace("-", "_")


def register(parser: pytest.Parser) -> None:
    """Add the long options. `pytest --help` shows those that most people need, in their sections."""
    for row in OPTIONS.values():
        long = (f"--medvqa-{known}" for known in names_of(row.name))
        _group(parser, row).addoption(*long, dest=_dest(row.name), **_arguments(row))


_ABOUT = """\
medvqa asks a model questions about medical images, a test for each question,
scores its answers, and writes the run folder reports/RUN. These are the options
that most people need; `medvqa options` explains all.

"""
"""Begins the part of `pytest --help`, before the first section."""


def _group(parser: pytest.Parser, row: Option) -> pytest.OptionGroup:
    first = _ABOUT if row.section == next(iter(SECTIONS)) else ""
    return parser.getgroup(f"medvqa {row.section}", f"{first}medvqa: {row.section}")


def _arguments(row: Option) -> dict[str, Any]:
    """Return the arguments of `addoption`; rare options have no help there."""
    arguments = row.arguments()
    return arguments if row.common else {**arguments, "help": argparse.SUPPRESS}


@dataclass(frozen=True, slots=True)
class Short:
    """The short options, as they are typed: `own`, those that another plugin or a conftest.py has (`taken`).

    `typed`: those of `taken` that are on the command line, in PYTEST_ADDOPTS or in the `addopts` of an ini file.
    """

    own: frozenset[str] = frozenset()
    taken: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()


def register_aliases(parser: pytest.Parser, words: Sequence[str] = ()) -> Short:
    """Add the short options that no other plugin has. `words`: the command line, with pytest's addopts.

    `pytest --help` shows an option by its short name, or else by the long one.
    """
    # Not every pytest version refuses a second option of one name; these attributes exist in all of them.
    there = [option for group in (parser._anonymous, *parser._groups) for option in group.options]
    taken = {name for option in there for name in option.names()}
    long = {option.dest: option for option in there if option.dest.startswith(_dest(""))}
    free = {name: known for name in OPTIONS if (known := [f"--{n}" for n in names_of(name) if f"--{n}" not in taken])}
    for name, short in free.items():
        _group(parser, OPTIONS[name]).addoption(*short, dest=_dest(name), **_arguments(OPTIONS[name]))
        long[_dest(name)].attrs()["help"] = argparse.SUPPRESS
    own = frozenset(short for names in free.values() for short in names)
    others = tuple(f"--{known}" for name in OPTIONS for known in names_of(name) if f"--{known}" in taken)
    options = words[: words.index("--")] if "--" in words else words
    given = {word.partition("=")[0] for word in options}
    _suggest(parser, given, taken | own)
    return Short(own, others, tuple(name for name in others if name in given))


def _suggest(parser: pytest.Parser, given: Iterable[str], known: Collection[str]) -> None:
    """Let pytest's own message about an unknown option name the nearest of medvqa's."""
    for name in given:
        if name.startswith("--") and name not in known:
            from medvqa.decode import nearest

            ours = [
                f"{dashes}{own}" for option in OPTIONS for own in names_of(option) for dashes in ("--", "--medvqa-")
            ]
            if (meant := nearest(name, ours, 0.7)) is not None:
                parser.extra_info["medvqa"] = f"no option {name}. Did you mean {meant}?"


def notice(short: Short) -> list[str]:
    """Return the line that says which short options are not medvqa's here."""
    if not short.taken:
        return []
    belong = "belongs" if len(short.taken) == 1 else "belong"
    longs = ", ".join(map(_long, short.taken))
    return [f"medvqa: {', '.join(short.taken)} {belong} to another plugin or conftest.py here; for medvqa type {longs}"]


def refusal(short: Short, config: pytest.Config) -> str | None:
    """Return why questions must not be asked: a typed option was another plugin's, and medvqa did not get it.

    Options that decide the model or the verdict must be typed by their long names then. Others may be meant for the
    other plugin if any option of medvqa's was typed.
    """
    names = {name: OLD_NAMES.get(name[2:], name[2:]) for name in short.typed}
    unread = [name for name, option in names.items() if config.getoption(_dest(option)) is None]
    wrong = [name for name in unread if names[name] in DECISIVE] or ([] if read(config).typed else unread)
    if not wrong:
        return None
    longs = " ".join(_long(name) for name in wrong)
    other = "" if DECISIVE.issuperset(names[name] for name in wrong) else f", or --medvqa-model={VALUE} if it was meant"
    return (
        f"{' and '.join(wrong)}: another plugin or conftest.py has an option of this name here and took it; medvqa did "
        f"not get it. Type {longs}{other}"
    )


def _long(short: str) -> str:
    """Return the long option of a short one, as it is typed."""
    option = OLD_NAMES.get(short[2:], short[2:])
    return f"--medvqa-{option}" + ("" if OPTIONS[option].kind == "flag" else f"={VALUE}")


def detached(words: Sequence[str], cwd: Path) -> list[tuple[str, str]]:
    """Return options and their values that follow after a space, if the value is an existing path.

    Pytest first reads the command line without the options of plugins and conftest.py files. It takes such a value for
    a path of tests: it derives the root from it, and runs its conftest.py.
    """
    valued = [known for name, row in OPTIONS.items() if row.kind != "flag" for known in names_of(name)]
    names = {f"--{name}" for name in valued} | {f"--medvqa-{name}" for name in valued}
    detached_values = []
    for option, value in pairwise(words):
        if option == "--":
            break
        path = value.partition("::")[0]
        if option in names and path and not path.startswith("-") and os.path.exists(os.path.join(cwd, path)):
            detached_values.append((option, value))
    return detached_values


def keep_outside(paths: list[str], values: Iterable[str], cwd: Path) -> None:
    """Drop values of options from the paths of tests if they are outside of `cwd`, so that no code there is run."""
    folder = os.path.realpath(cwd)
    for value in values:
        path = os.path.realpath(os.path.join(cwd, value.partition("::")[0]))
        if value in paths and os.path.commonpath([folder, path]) != folder:
            paths.remove(value)


def detached_error(option: str, value: str) -> UsageError:
    """Return the error for a value that needs an equals sign between its option and it."""
    return UsageError(
        f"{option} {value}: pytest takes what follows a space for a path of tests, as it is there; write "
        f"{option}={shlex.quote(value)}"
    )


def read(config: pytest.Config) -> Options:
    """Return the options as typed, with defaults filled in; nothing is checked yet."""
    parsed = {name: config.getoption(_dest(name)) for name in OPTIONS}
    workerinput: dict[str, str | None] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        parsed["shard"] = workerinput["medvqa_shard"]
    try:
        return Options.of(parsed, Path(config.invocation_params.dir))
    except UsageError as error:
        # Without the traceback, which may show what was typed.
        problem = printing.lines(str(error))
    raise pytest.UsageError(problem)
