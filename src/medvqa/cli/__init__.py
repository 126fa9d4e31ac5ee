"""`medvqa`: commands that run benchmarks and work with data and run folders; a file for each command.

A command that ships is a module with a `COMMAND` (`arguments.Command`); it is imported when its name is typed. Its
function takes the typed arguments and returns a text to print, or the text and an exit code.

Installed packages add commands by entry points of the group `medvqa.commands`, named as the command: a function
`add(commands, common)`, or its module. It calls `commands.add_parser(NAME, parents=[common], help=...)` and
`set_defaults(command=function)`; that function gets what argparse parsed.
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
    from medvqa.cli import interrupting

    if arguments is None:
        interrupting.end_at_once()
    from medvqa.cli import dispatch

    return dispatch.main(arguments)
