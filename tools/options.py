"""Write the tables of options in docs/running.md from the one table of options: `python tools/options.py`.

With --compare, write nothing and fail if the page differs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from medvqa.session.options import SECTIONS, SELECT, Option

PAGE = Path(__file__).parents[1] / "docs" / "running.md"
BAR = "\\|"
BEGIN, END = "<!-- from `session/options.py`: type python tools/options.py -->\n", "<!-- end of the tables -->\n"


def tables() -> str:
    """Return a table for each section, in Markdown."""
    parts = []
    for title, rows in SECTIONS.items():
        shown = [*rows, *([SELECT] if title == SELECT.section else [])]
        lines = [f"### {title}", "", "| Option | Meaning |", "|---|---|", *map(_line, shown)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(row: Option) -> str:
    name = f"--{row.name}{f'={row.metavar}' if row.metavar else ''}"
    own = "`medvqa run` only: " if row is SELECT else ""
    words = re.sub(r"(--[a-z][a-z-]*(?:=[^\s,;)]*[^\s,;:)])?|\b[a-z0-9]+://[A-Z/]*|`[^`]+`)", _code, own + row.help)
    link = f"; see [{re.split(r'[.#]', row.page)[0]}]({row.page})" if row.page else ""
    cells = (f"`{name}`", f"{words}{link}")
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def _code(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("`") else f"`{match[0]}`"


def page() -> str:
    """Return the page with the tables."""
    text = PAGE.read_text("utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:start]}\n{tables()}\n{text[end:]}"


def main() -> int:
    """Write the page, or compare it."""
    if "--compare" not in sys.argv:
        PAGE.write_text(page(), "utf-8")
        return 0
    stale = PAGE.read_text("utf-8") != page()
    if stale:
        print("stale: docs/running.md: type python tools/options.py")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
