"""`medvqa`: what is done with data and run folders outside of a test session; a file for each command."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from medvqa import __version__, printing
from medvqa.cli import agreement, baseline, cache, compare, gate, lexicon, merge, models, report, rescore, run
from medvqa.cli.common import say
from medvqa.items import MedVQAError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 4 with one line on standard error when something that was asked for is not there.

    1 when what was written lacks results, or a check failed.
    """
    if arguments is None:
        sys.excepthook = _excepthook
    options = _parser().parse_args(arguments)
    options.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with printing.printable_warnings():
            made = options.command(options)
    except MedVQAError as error:
        say(f"medvqa: {error}")
        return 4
    output, code = made if isinstance(made, tuple) else (made, 0)
    try:
        print(printing.lines(output), flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(code)


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an error that nobody expected, as Python does; its message may come from anywhere."""
    print(printing.lines("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser whose messages, which repeat what was typed, are printable."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(printing.lines(message), file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="medvqa", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pytest-medvqa {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with benchmarks, backends, metrics or hooks, beside the conftest.py files of the project "
        "(repeatable)",
    )
    common.add_argument("--noconftest", action="store_true", help="do not read conftest.py files")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (run, report, rescore, compare, gate, baseline, merge, agreement, lexicon, models, cache):
        command.add(commands, common)
    return parser
