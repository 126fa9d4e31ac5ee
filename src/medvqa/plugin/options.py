"""The options of a run as options of pytest.

Each is registered as `--medvqa-NAME`. The short `--NAME` is added after the conftest files have been read and
is left to any plugin or conftest that has an option of that name already.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from medvqa.items import UsageError
from medvqa.session.options import OPTIONS, Options


def _dest(name: str) -> str:
    return "medvqa_" + name.replace("-", "_")


def register(parser: pytest.Parser) -> None:
    """Add the long options."""
    group = parser.getgroup("medvqa", "medical visual question answering")
    for name, how in OPTIONS.items():
        # argparse formats a help text with %, which is plain text in the table.
        group.addoption(f"--medvqa-{name}", dest=_dest(name), **{**how, "help": how["help"].replace("%", "%%")})


def register_aliases(parser: pytest.Parser) -> frozenset[str]:
    """Add the short options that nobody else has; return those, as they are typed."""
    # Adding one twice is no error in every pytest version, so what is taken is looked up, in attributes that all have.
    taken = {
        name for group in (parser._anonymous, *parser._groups) for option in group.options for name in option.names()
    }
    group = parser.getgroup("medvqa")
    free = [name for name in OPTIONS if f"--{name}" not in taken]
    for name in free:
        group.addoption(f"--{name}", dest=_dest(name), **{**OPTIONS[name], "help": f"same as --medvqa-{name}"})
    return frozenset(f"--{name}" for name in free)


def detached(words: Sequence[str], cwd: Path) -> list[tuple[str, str]]:
    """The options whose values follow as words of their own, and these values, if they are paths that exist.

    Pytest reads the command line before it knows options of plugins and conftest.py files: it takes such a value for a
    path of tests, from which it derives the root, and whose conftest.py it runs.
    """
    valued = {name for name, how in OPTIONS.items() if "action" not in how or how["action"] == "append"}
    names = {f"--{name}" for name in valued} | {f"--medvqa-{name}" for name in valued}
    found = []
    for option, value in pairwise(words):
        if option == "--":
            break
        path = value.partition("::")[0]
        if option in names and path and not path.startswith("-") and os.path.exists(os.path.join(cwd, path)):
            found.append((option, value))
    return found


def keep_outside(paths: list[str], values: Iterable[str], cwd: Path) -> None:
    """Drop values of options from the paths of tests if they lie outside of a folder, so that no code there is run."""
    here = os.path.realpath(cwd)
    for value in values:
        there = os.path.realpath(os.path.join(cwd, value.partition("::")[0]))
        if value in paths and os.path.commonpath([here, there]) != here:
            paths.remove(value)


def detached_error(option: str, value: str) -> UsageError:
    """The error for a value that must follow its option after an equals sign."""
    return UsageError(
        f"{option} {value}: pytest takes what follows a space for a path of tests, as it is there; write "
        f"{option}={shlex.quote(value)}"
    )


def read(config: pytest.Config) -> Options:
    """The options as typed, with defaults filled in; nothing is checked yet."""
    return Options.of({name: config.getoption(_dest(name)) for name in OPTIONS}, Path(config.invocation_params.dir))
