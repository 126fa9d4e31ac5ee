"""`medvqa`: commands that run benchmarks and work with data and run folders; a file for each command.

A command is a module with `add(commands, common)`, which calls `commands.add_parser(NAME, parents=[common])` and
`set_defaults(command=function)`; it is imported when its name is typed. The function takes the parsed arguments and
returns a text to print, or the text and an exit code. Installed packages add commands by entry points of the group
`medvqa.commands`, named as the command; these give `help=...` to `add_parser`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from medvqa import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (`dispatch.main`)."""
    if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        # Nothing else is imported for it.
        print(f"pytest-medvqa {__version__}")
        return 0
    from medvqa.cli import dispatch

    return dispatch.main(arguments)
