"""Write the tables of options in docs/running.md, and the page of commands, from their rows: `python tools/options.py`.

With --compare, write nothing and fail if a page differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from medvqa.cli import dispatch
from medvqa.cli.arguments import COMMON, RUN_OPTIONS, Argument, Command
from medvqa.session.options import OPTIONS, SECTIONS, SELECT, Option

DOCS = Path(__file__).parents[1] / "docs"
RUNNING, COMMANDS = DOCS / "running.md", DOCS / "commands.md"
BAR = "\\|"
BEGIN, END = "<!-- from `session/options.py`: type python tools/options.py -->\n", "<!-- end of the tables -->\n"
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
    return "\n".join(parts)


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


def pages() -> dict[Path, str]:
    """Return the pages with their tables."""
    text = RUNNING.read_text("utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return {RUNNING: f"{text[:start]}\n{tables()}\n{text[end:]}", COMMANDS: commands()}


def main() -> int:
    """Write the pages, or compare them."""
    stale = [path for path, text in pages().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        if "--compare" in sys.argv:
            print(f"stale: docs/{path.name}: type python tools/options.py")
        else:
            path.write_text(pages()[path], "utf-8")
    return int("--compare" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
