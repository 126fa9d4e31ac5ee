"""Draw tables and notes as HTML, for a notebook's cell."""

from __future__ import annotations

import html
from collections.abc import Iterable

from medvqa import printing
from medvqa.figures import Table
from medvqa.report.comparison import Section


def text(content: str) -> str:
    """Escape a text for HTML; control characters and line breaks are replaced."""
    return html.escape(printing.line(" ".join(content.split())))


def grid(table: Table) -> str:
    """Draw a table without its title."""
    return (
        f"<table><thead>{_row('th', table.headings, table)}</thead>"
        f"<tbody>{''.join(_row('td', row, table) for row in table.texts)}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[str], table: Table) -> str:
    shown = (
        f'<{tag} style="text-align: {"right" if column.right else "left"}">{text(cell)}</{tag}>'
        for column, cell in zip(table.columns, cells, strict=True)
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
