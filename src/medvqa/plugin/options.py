"""Register the options of a run as options of pytest.

Each is registered as `--medvqa-NAME`. The short `--NAME` is added after the conftest files have been read,
unless a plugin or conftest has an option of that name.
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
    """Add the short options that no other plugin has; return them, as they are typed."""
    # Not every pytest version refuses a second option of one name; these attributes exist in all of them.
    taken = {
        name for group in (parser._anonymous, *parser._groups) for option in group.options for name in option.names()
    }
    group = parser.getgroup("medvqa")
    free = [name for name in OPTIONS if f"--{name}" not in taken]
    for name in free:
        group.addoption(f"--{name}", dest=_dest(name), **{**OPTIONS[name], "help": f"same as --medvqa-{name}"})
    return frozenset(f"--{name}" for name in free)


def detached(words: Sequence[str], cwd: Path) -> list[tuple[str, str]]:
    """Return options and their values that follow after a space, if the value is an existing path.

    Pytest first reads the command line without the options of plugins and conftest.py files. It takes such a value for
    a path of tests: it derives the root from it, and runs its conftest.py.
    """
    valued = {name for name, how in OPTIONS.items() if "action" not in how or how["action"] == "append"}
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
    return Options.of({name: config.getoption(_dest(name)) for name in OPTIONS}, Path(config.invocation_params.dir))
