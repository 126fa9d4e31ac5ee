"""Write what other files take from the rows of options and arguments: `python tools/options.py`.

That is the tables in docs/running.md, the page of commands, and in action.yml the inputs that are options, and the
names of the gate's. With --compare, write nothing and fail if a file differs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from medvqa.cli import dispatch
from medvqa.cli.arguments import COMMON, RUN_OPTIONS, Argument, Command
from medvqa.session.options import OPTIONS, SECTIONS, SELECT, Option

ROOT = Path(__file__).parents[1]
PAGE, ACTION, COMMANDS = ROOT / "docs" / "running.md", ROOT / "action.yml", ROOT / "docs" / "commands.md"
BAR = "\\|"
INPUTS = {
    "model": ("", ". Only the phantom has a default, phantom-vlm"),
    "benchmark": ("phantom", ""),
    "baseline": ("", ". If it is empty, baseline-model runs first"),
    "margin": ("2", ""),
    "inconclusive": ("fail", ""),
}
"""Inputs of the action that are options: the default there, and what is to be added."""
HEAD = """\
# Commands

`medvqa COMMAND --help` prints these tables. They are made from the command line: type `python tools/options.py`.

All commands take:

"""


def tables() -> str:
    """Return a table of options for each section, in Markdown."""
    parts = []
    for title, rows in SECTIONS.items():
        shown = [*rows, *([SELECT] if title == SELECT.section else [])]
        lines = [f"### {title}", "", "| Option | Meaning |", "|---|---|", *map(_line, shown)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(["", *parts, ""])


def _line(row: Option, help: str = "") -> str:
    name = f"--{row.name}{f'={row.metavar}' if row.metavar else ''}"
    if isinstance(row, Argument):
        name = f"{row.short}, {name}" if row.short else row.metavar if row.least is not None else name
    own = "`medvqa run` only: " if row is SELECT else ""
    words = re.sub(
        r"(--[a-z][a-z-]*(?:=[^\s,;)]*[^\s,;:)])?|\b[a-z0-9]+://[A-Z/]*|`[^`]+`)", _code, own + (help or row.help)
    )
    link = f"; see [{re.split(r'[.#]', row.page)[0]}]({row.page})" if row.page else ""
    cells = (f"`{name}`", f"{words}{link}")
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _code(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("`") else f"`{match[0]}`"


def commands() -> str:
    """Return the page of commands."""
    parts = [HEAD + "\n".join(["| Argument | Meaning |", "|---|---|", *map(_line, COMMON)])]
    for group, names in dispatch.COMMANDS.items():
        parts.append(f"## {group.capitalize()}")
        parts += ["\n".join(_command(name)) for name in names]
    return "\n\n".join(parts) + "\n"


def _command(name: str) -> Iterator[str]:
    command: Command[Any] = import_module(f"medvqa.cli.{dispatch.MODULES[name]}").COMMAND
    yield f"### `{command.usage(name)}`\n"
    yield command.about
    rows = list(map(_line, command.rows()))
    if command.options.keys() == RUN_OPTIONS.keys():
        yield "\nIt takes [all options of runs](running.md#options)."
    else:
        rows += [_line(OPTIONS[option], help) for option, help in command.options.items()]
    if rows:
        yield "\n".join(["\n| Argument | Meaning |", "|---|---|", *rows])


def inputs() -> str:
    """Return the inputs of the action that are options, in YAML."""
    lines = []
    for name, (default, more) in INPUTS.items():
        # What an action cannot repeat, or has another default for, follows in brackets or after a semicolon.
        about = re.sub(r" \((?:repeatable|default)[^)]*\)|; pytest .*|, the default(?=\))", "", OPTIONS[name].help)
        text = json.dumps(f"{about[0].upper()}{about[1:]}{more}.", ensure_ascii=False)
        lines += [f"  {name}:", f"    description: {text}", f"    default: {json.dumps(default)}"]
    return "\n".join([*lines, ""])


def gate_words() -> str:
    """Return the patterns of the gate's options for the action's script."""
    names = [f"--{row.name}" for row in SECTIONS["Gate"]]
    return "".join(
        f"            {pattern}) {action};;\n"
        for pattern, action in ((" | ".join(names), "skip=yes "), (" | ".join(f"{name}=*" for name in names), ""))
    )


PARTS = ((PAGE, "the tables", tables), (ACTION, "the inputs", inputs), (ACTION, "the gate's options", gate_words))
"""The parts of files: what their first and last lines call them, and the function that writes what is between."""


def written() -> Mapping[Path, str]:
    """Return the files with their parts."""
    texts = {path: path.read_text("utf-8") for path, *_ in PARTS}
    for path, name, write in PARTS:
        first, last = f"{name}: type python tools/options.py", f"end of {name}"
        lines = texts[path].splitlines(keepends=True)
        begin, end = (next(place for place, line in enumerate(lines) if mark in line) for mark in (first, last))
        texts[path] = "".join([*lines[: begin + 1], write(), *lines[end:]])
    return {**texts, COMMANDS: commands()}


def main() -> int:
    """Write the files, or compare them."""
    stale = [path for path, text in written().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        if "--compare" in sys.argv:
            print(f"stale: {path.relative_to(ROOT)}: type python tools/options.py")
        else:
            path.write_text(written()[path], "utf-8")
    return int(bool(stale) and "--compare" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
