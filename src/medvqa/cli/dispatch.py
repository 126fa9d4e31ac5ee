"""Parse the command line, and run the one command that is typed."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from textwrap import fill
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from medvqa import __version__, printing, usercode
from medvqa.cli import interrupting
from medvqa.cli.arguments import COMMON, RUN_OPTIONS, Commands, Returned, help_width
from medvqa.cli.common import say
from medvqa.decode import did_you_mean, nearest, shown
from medvqa.items import MedVQAError, UsageError, check_system

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: success. 1: results are missing, or a check failed. 2: interrupted. 4: an option or the data cannot be used. A
    line on standard error says why.
    """
    if arguments is None:
        sys.excepthook = _excepthook
        _replace_closed_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal without UTF-8 gets ? for a dash; an exception would leave it without a line.
            sys.stdout.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    usercode.take_tracebacks()
    options = _parser(words).parse_args(words)
    options.words = words
    try:
        interrupting.raise_again()
        with printing.printable_warnings():
            check_system()
            returned = _call(options)
    except MedVQAError as error:
        say(f"medvqa: {error}")
        return 4
    except KeyboardInterrupt as error:
        say(f"medvqa: {str(error) or 'interrupted'}")
        return 2
    finally:
        if options.traceback and (text := usercode.take_tracebacks()):
            say(text)
    output, code = returned if isinstance(returned, tuple) else (returned, 0)
    try:
        print(printing.lines(output), flush=True)
    except BrokenPipeError:
        # The reader (`| head`) closed the pipe: write nothing at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(f"medvqa: standard output cannot be written: {error.strerror}")
        return int(code) or 1
    return int(code)


def _replace_closed_streams() -> None:
    """Open streams that the shell closed (`>&-`): they are None in Python, and files would take their numbers."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def _call(options: argparse.Namespace) -> Returned:
    """Run the typed command (MedVQAError)."""
    if options.medvqa_package is None:
        returned: Returned = options.command(options)
        return returned
    with usercode.guarded(options.medvqa_package, _RETURNS, exits=True):
        returned = options.command(options)
        text, code = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, 0)
        if not isinstance(text, str) or not isinstance(code, int):
            raise TypeError(f"it returned {returned!r:.100}")
        return returned


_RETURNS = "a function of the parsed arguments that returns a text, or a text and an exit code"
ENTRY_POINTS = "medvqa.commands"
"""Entry points: each names a module or function that adds the command of the same name."""
COMMANDS: Mapping[str, Mapping[str, str]] = {
    "run": {
        "run": "ask a model the questions of benchmarks, and report its answers",
        "sweep": "run a grid of settings, and compare its runs",
        "paper": "print a model's row beside the published rows of a paper's main table",
        "merge": "join shards of a run, or partial runs, into one run folder",
        "combine": "combine the answers of recorded runs, such as by majority vote",
        "models": "list the models that --model may name",
        "options": "explain the options of runs",
        "help": "print a page of the documentation",
    },
    "look": {
        "report": "draw the reports of run folders again; for several runs, also a page that compares them",
        "view": "show run folders in the browser, and follow running sessions",
        "audit": "look for names of patients and files in every file of a run folder",
        "record": "write the evaluation record of a run, for a file",
        "export": "write the questions, results and measures of a run as CSV and Parquet",
    },
    "compare": {
        "compare": "list what changed between runs on the same questions",
        "table": "print one measure of several runs by the values of a dimension, such as the task",
        "history": "list runs in the order of time, with the gate's decisions",
        "explain": "count answers by other harnesses' rules; weigh a published row",
        "gate": "decide whether a run is worse than its baseline",
        "baseline": "write a run as one small file for --baseline",
    },
    "data": {
        "data": "list the benchmarks, and which are in the data folder",
        "fetch": "bring benchmarks from their owners to the data folder",
        "import": "check a spreadsheet of cases and its images, and write the file of a benchmark",
        "lexicon": "print the tags of the questions as a tree, with counts",
        "leaks": "find the questions of a benchmark that a training set has",
        "split": "divide the questions of a benchmark into a part to train on and a part to test on",
        "subset": "draw a cheap part of a benchmark that predicts the whole, and estimate the whole from it",
    },
    "people": {
        "read": "assign questions to readers or experts, write their pages, join their answers",
    },
    "judge": {
        "rescore": "score the answers of a run again, by a judge or another rule",
        "classify": "sort the wrong answers of a run by kinds of errors",
        "agreement": "compare a judge's scores with those of people or of another judge",
    },
}
"""The commands that ship, in groups, with what each does."""
MODULES = {
    **{name: name for group in COMMANDS.values() for name in group},
    **{"agreement": "agreements", "import": "imports", "options": "option_help"},
}
"""The modules of the commands."""


def _add_installed(commands: Commands) -> None:
    """Add the commands of installed packages; print one line for each that cannot be added."""
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name)
    if not entries:
        return
    from medvqa.session.registry import load_entry_point, named

    common = argparse.ArgumentParser(add_help=False)
    for row in COMMON:
        row.add_to(common)
    for entry in entries:
        try:
            if entry.name in MODULES:
                raise UsageError(f"{named(entry)}: there is a command '{entry.name}' already")
            provided = load_entry_point(entry)
            add = getattr(provided, "add", provided)
            with usercode.guarded(
                named(entry), "add(commands, common) adds one command and its function", function=add
            ):
                add(commands, common)
                parser = commands.choices.get(entry.name)
                if parser is None or not callable(parser.get_default("command")):
                    raise TypeError(f"it added no command '{entry.name}' with set_defaults(command=function)")
                parser.set_defaults(medvqa_package=named(entry))
        except UsageError as error:
            say(f"medvqa: {error}")
            if entry.name not in MODULES:
                commands.choices.pop(entry.name, None)


def _excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an unexpected error as Python does, in printable characters."""
    print(printing.lines("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser with printable messages, because they repeat typed text.

    An unknown option is an error of its command, with the command's usage.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            typed = unknown[0].partition("=")[0]
            meant = nearest(typed, self._option_string_actions, 0.7) if typed.startswith("-") else None
            if "--benchmark" in self._option_string_actions and not typed.startswith("-"):
                meant = f"--benchmark={typed}"
            suggested = f". Did you mean '{meant}'?" if meant is not None else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggested}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with 4, as for any option that cannot be used: argparse's own 2 means an interrupted run here."""
        self.print_usage(sys.stderr)
        self.exit(4, f"{self.prog}: error: {message}\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(printing.lines(message), file)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the typed command; of packages' commands unless it is one that ships."""
    width = help_width()
    groups = "\n\n".join(
        "\n".join(
            [
                f"{group}:",
                *(fill(f"  {name:<11}{does}", width, subsequent_indent=" " * 13) for name, does in names.items()),
            ]
        )
        for group, names in COMMANDS.items()
    )
    about = "Evaluate models on questions about medical images, and work with the folders of runs."
    parser = _Parser(
        prog="medvqa",
        usage="medvqa [--version] COMMAND ...",
        description=f"{fill(about, width)}\n\n`medvqa COMMAND --help` explains a command.\n\n{groups}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pytest-medvqa {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", prog="medvqa", help=argparse.SUPPRESS)
    parser.set_defaults(medvqa_package=None, traceback=False)
    typed = next(iter(words), "")
    if typed in MODULES:
        # A command must not wait for the imports of others, nor of packages.
        import_module(f"medvqa.cli.{MODULES[typed]}").COMMAND.add_to(commands, typed)
        return parser
    _add_installed(commands)
    if not typed:
        parser.error("no command was typed; `medvqa --help` lists them")
    if typed.partition("=")[0].removeprefix("--") in RUN_OPTIONS:
        parser.error(f"a command comes first, such as: {shlex.join(['medvqa', 'run', *words])}")
    if typed and not typed.startswith("-") and typed not in commands.choices:
        parser.error(f"no command {shown(typed)}{did_you_mean(typed, [*MODULES, *commands.choices])}")
    return parser
