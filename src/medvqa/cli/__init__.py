"""`medvqa`: what is done with data and run folders outside of a test session; a file for each command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from medvqa import __version__
from medvqa.cli import baseline, cache, compare, gate, lexicon, merge, models, report
from medvqa.items import MedVQAError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 4 with one line on standard error when something that was asked for is not there.

    1 when what was written lacks results.
    """
    options = _parser().parse_args(arguments)
    try:
        made = options.command(options)
    except MedVQAError as error:
        print(f"medvqa: {error}", file=sys.stderr)
        return 4
    output, code = made if isinstance(made, tuple) else (made, 0)
    try:
        print(output, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="medvqa", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pytest-medvqa {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with medvqa hooks, for instance your conftest.py (repeatable)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (report, compare, gate, baseline, merge, lexicon, models, cache):
        command.add(commands, common)
    return parser
