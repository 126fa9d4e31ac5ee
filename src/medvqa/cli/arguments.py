"""The arguments of commands: a field of a class is a row, from which argparse, the help and the documentation are made.

A command is a subclass of `Arguments`, whose docstring describes it, and a function of one. It takes options of runs by
their names: their rows are those of `session.options`.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Generic, TypeAlias, TypeVar, dataclass_transform

from medvqa.session.options import SECTIONS, SELECT, Kind, Option, Options, names_of

Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # argparse has no public name
"""The subparsers of the command line."""
Returned: TypeAlias = str | tuple[str, int]
"""The text to print, or the text and the exit code."""
_ROWS = {
    row.name: row
    for title, rows in SECTIONS.items()
    for row in (*rows, *((SELECT,) if title == SELECT.section else ()))
}
RUN_OPTIONS: Mapping[str, str] = dict.fromkeys(_ROWS, "")
"""All options of runs, for `Command`."""
DATA: Mapping[str, str] = {"data": "folder of the data sets (default: MEDVQA_DATA)"}
"""The option --data, for `Command`."""
_KINDS: Mapping[str, Kind] = {
    "str": "text",
    "Path": "path",
    "int": "whole number",
    "float": "number",
    "bool": "flag",
}
"""What a value is, by the annotation of its field."""
_WIDEST = 100


def help_width() -> int:
    """Return the most characters of a line of a description."""
    return min(_WIDEST, get_terminal_size().columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Option):
    """A row of a command.

    `short`: another name, such as -o. `least`: the fewest values of a positional argument; None for an option.
    `choices`: its only values, if not empty. The section is the title of a group in the help.
    """

    short: str = ""
    least: int | None = None
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The argument in the usage of its command; "" for an option that may be left out."""
        if self.least is None:
            return f"--{self.name}={self.metavar}" if self.required else ""
        more = f"{self.metavar} ..." if self.several else self.metavar
        return more if self.least else f"[{more}]"

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Add the argument to a parser."""
        made = self.arguments()
        if self.kind == "count":
            made["type"] = number_or_all
        made["default"] = [] if self.several else False if self.kind == "flag" else self.default
        if self.choices:
            made["choices"] = self.choices
        if self.least is None:
            names = [self.short, f"--{self.name}"] if self.short else [f"--{self.name}"]
            parser.add_argument(*names, dest=self.field, required=self.required, **made)
            return
        made.pop("action", None)
        if self.several or not self.least:
            made["nargs"] = "?" if not self.several else "+" if self.least else "*"
        parser.add_argument(self.field, **made)


def number_or_all(text: str) -> int | None:
    """Return a number from 0 on, or None for "all" (ArgumentTypeError)."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"a whole number or 'all' is expected, not '{text}'")
    return int(text)


def option(help: str, metavar: str = "", **row: Any) -> Any:
    """Make the field of an option: help, metavar ("" for a flag), and fields of `Argument`.

    Its name is that of the field with - for _. Its kind is that of the annotation; a list can be repeated.
    """
    return field(metadata={"row": {"help": help, "metavar": metavar, **row}})


def positional(help: str, metavar: str, *, least: int = 1, **row: Any) -> Any:
    """Make the field of a positional argument: a list has several values, at least `least`."""
    return option(help, metavar, least=least, **row)


def run_folder() -> Any:
    """Make the field of the one run of a command."""
    return positional("a run folder, such as reports/RUN", "RUN")


def run_folders(more: str = "", *, least: int = 1) -> Any:
    """Make the field of the runs of a command."""
    return positional(f"run folders, such as reports/RUN{more}", "RUN", least=least)


def output(help: str, metavar: str = "FILE", **row: Any) -> Any:
    """Make the field of -o."""
    return option(help, metavar, short="-o", **row)


def written_as(form: str, what: str = "the output") -> Any:
    """Make the field of a file that a command writes besides, such as --json."""
    return option(f"also write {what} to this file, as {form}", "FILE")


def seed(what: str) -> Any:
    """Make the field of --seed."""
    return option(f"draw another {what} (default: 0)", "N")


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of all commands. Each subclass becomes a dataclass, too.

    `words`: the command line. `raw`: the options of runs that the command takes, as argparse gives them.
    """

    def __init_subclass__(cls) -> None:
        """Make a dataclass of the arguments of a command."""
        dataclass(frozen=True, kw_only=True)(cls)

    plugin: list[Path] = option(  # noqa: RUF009 - a field, not a default
        "a Python file with benchmarks, backends, metrics or hooks, beside the conftest.py files of the project "
        "(repeatable)",
        "FILE",
    )
    noconftest: bool = option("do not read conftest.py files")
    traceback: bool = option("show the traceback of errors in code that is not pytest-medvqa's own")
    words: Sequence[str]
    raw: Mapping[str, Any]

    def options(self) -> Options:
        """Return the options of runs (UsageError)."""
        options = Options.of(self.raw, Path.cwd())
        options.check()
        return options

    def first_given(self, *names: str) -> str | None:
        """Return the first of these fields or options of runs that was typed, as an option; None without one."""
        values = {**vars(self), **self.raw}
        left_out = {name for name, value in values.items() if value is None or value is False or value == []}
        return next((f"--{name.replace('_', '-')}" for name in names if name not in left_out), None)


def rows_of(arguments: type[Arguments]) -> Iterator[Argument]:
    """Yield the rows of a command, those of all commands first."""
    for one in fields(arguments):
        if "row" not in one.metadata:
            continue
        kind = str(one.type).removesuffix(" | None")
        several, kind = kind.startswith("list["), kind.removeprefix("list[").removesuffix("]")
        names = {"name": one.name.replace("_", "-"), "field": one.name, "section": ""}
        row = {**names, "kind": _KINDS[kind], "several": several, **one.metadata["row"]}
        yield Argument(**row)


COMMON = tuple(rows_of(Arguments))
"""The rows of all commands."""
Typed = TypeVar("Typed", bound=Arguments)


@dataclass(frozen=True)
class Command(Generic[Typed]):
    """A command: its arguments, the function that runs it, and the options of runs that it takes.

    `options`: their names, each with the help text that it has here, "" for that of runs. `examples` end the help.
    """

    arguments: type[Typed]
    run: Callable[[Typed], Returned]
    options: Mapping[str, str] = field(default_factory=dict)
    examples: str = ""

    def rows(self) -> list[Argument]:
        """Return the rows that are the command's own."""
        return list(rows_of(self.arguments))[len(COMMON) :]

    def add_to(self, commands: Commands, name: str) -> None:
        """Add the parser of the command."""
        width = help_width()
        parser = commands.add_parser(
            name,
            usage=self.usage(name),
            description="\n\n".join(textwrap.fill(each, width) for each in self.about.split("\n\n")),
            epilog=self.examples or None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        groups: dict[str, argparse._ActionsContainer] = {"": parser}

        def group(title: str) -> argparse._ActionsContainer:
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            return groups[title]

        for row in self.rows():
            row.add_to(group(row.section))
        for run_option, help in self.options.items():
            shared = _ROWS[run_option]
            place = group(shared.section if self.options.keys() == RUN_OPTIONS.keys() else "")
            dashed = (f"--{each}" for each in names_of(run_option))
            place.add_argument(*dashed, dest=run_option, **shared.arguments(help))
        for row in COMMON:
            row.add_to(group("options of all commands"))
        parser.set_defaults(command=self.call)

    def usage(self, name: str) -> str:
        """Return the line that is typed."""
        return " ".join([f"medvqa {name} [OPTIONS]", *(row.usage for row in self.rows() if row.usage)])

    @property
    def about(self) -> str:
        """The docstring of the arguments, a line for each paragraph."""
        paragraphs = inspect.cleandoc(self.arguments.__doc__ or "").split("\n\n")
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    def call(self, parsed: argparse.Namespace) -> Returned:
        """Run the command with what argparse parsed (UsageError also for a number out of range)."""
        values = vars(parsed)
        rows = [*COMMON, *self.rows()]
        for row in rows:
            value = values[row.field]
            for number in value if row.several else [value]:
                if row.kind in ("whole number", "number") and number is not None:
                    row.check(number)
        return self.run(
            self.arguments(
                words=parsed.words,
                raw={name: values[name] for name in self.options},
                **{row.field: values[row.field] for row in rows},
            )
        )
