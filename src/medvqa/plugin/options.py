"""The options of a run as options of pytest.

Each is registered as `--medvqa-NAME`. The short `--NAME` is added after the conftest files have been read and
is left to any plugin or conftest that has an option of that name already.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from medvqa.session.options import OPTIONS, Options


def _dest(name: str) -> str:
    return "medvqa_" + name.replace("-", "_")


def register(parser: pytest.Parser) -> None:
    """Add the long options."""
    group = parser.getgroup("medvqa", "medical visual question answering")
    for name, how in OPTIONS.items():
        # argparse formats a help text with %, which is plain text in the table.
        group.addoption(f"--medvqa-{name}", dest=_dest(name), **{**how, "help": how["help"].replace("%", "%%")})


def register_aliases(parser: pytest.Parser) -> None:
    """Add the short options that nobody else has."""
    # Adding one twice is no error in every pytest version, so what is taken is looked up, in attributes that all have.
    taken = {
        name for group in (parser._anonymous, *parser._groups) for option in group.options for name in option.names()
    }
    group = parser.getgroup("medvqa")
    for name, how in OPTIONS.items():
        if f"--{name}" not in taken:
            group.addoption(f"--{name}", dest=_dest(name), **{**how, "help": f"same as --medvqa-{name}"})


def read(config: pytest.Config) -> Options:
    """The options as typed, with defaults filled in; nothing is checked yet."""
    return Options.of({name: config.getoption(_dest(name)) for name in OPTIONS}, Path(config.invocation_params.dir))
