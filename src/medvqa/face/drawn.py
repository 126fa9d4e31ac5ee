"""Draw tables and notes as HTML, for a notebook's cell."""

from __future__ import annotations

import html
from collections.abc import Iterable

from medvqa import printing
from medvqa.report.comparison import Section
from medvqa.report.tables import TextTable


def text(content: str) -> str:
    """Escape a text for HTML; control characters and line breaks are replaced."""
    return html.escape(printing.line(" ".join(content.split())))


def grid(table: TextTable) -> str:
    """Draw a table without its title."""
    return (
        f"<table><thead>{_row('th', table.columns, table)}</thead>"
        f"<tbody>{''.join(_row('td', row, table) for row in table.rows)}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[str], table: TextTable) -> str:
    shown = (
        f'<{tag} style="text-align: {"right" if i in table.right else "left"}">{text(cell)}</{tag}>'
        for i, cell in enumerate(cells)
    )
    return f"<tr>{''.join(shown)}</tr>"


def paragraph(content: str, *, strong: bool = False) -> str:
    """Draw one line of text."""
    return f"<p><strong>{text(content)}</strong></p>" if strong else f"<p>{text(content)}</p>"


def listed(lines: Iterable[str]) -> str:
    """Draw lines as a list; return "" if there are none."""
    entries = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{entries}</ul>" if entries else ""


def sections(compared: Iterable[Section]) -> str:
    """Draw the sections of a comparison."""
    blocks = []
    for section in compared:
        blocks += [paragraph(section.title, strong=True), listed(section.notes)]
        for table in section.tables:
            blocks += [paragraph(table.title), grid(table)]
    return "\n".join(filter(None, blocks))
