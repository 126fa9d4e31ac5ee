"""Draw tables and notes as HTML: for a notebook's cell, and as a page without scripts, which prints to PDF."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from importlib import resources

from medvqa import printing
from medvqa.figures import Table
from medvqa.report.comparison import Section


def text(content: str) -> str:
    """Escape a text for HTML; control characters and line breaks are replaced."""
    return html.escape(printing.line(" ".join(content.split())))


def grid(table: Table, align: str = 'style="text-align: {}"') -> str:
    """Draw a table without its title. `align`: the attribute of a cell; a page's policy allows no style in it."""
    sides = [align.format("right" if column.right else "left") for column in table.columns]
    return (
        f"<table><thead>{_row('th', table.headings, sides)}</thead>"
        f"<tbody>{''.join(_row('td', row, sides) for row in table.texts)}</tbody></table>"
    )


def _row(tag: str, cells: Iterable[str], sides: Iterable[str]) -> str:
    shown = (f"<{tag} {side}>{text(cell)}</{tag}>" for side, cell in zip(sides, cells, strict=True))
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


def page(shown: Sequence[Section]) -> str:
    """Return a page that asks for nothing: no script, image or font. The first section has the title of the page."""
    style = resources.files(__package__).joinpath("drawn.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    lines = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{text(shown[0].title)}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n</head>\n<body>',
    ]
    for place, section in enumerate(shown):
        level = "h2" if place else "h1"
        lines += [f"<{level}>{text(section.title)}</{level}>", listed(section.notes)]
        for table in section.tables:
            lines += [f"<h3>{text(table.title)}</h3>", grid(table, 'align="{}"')]
    return "\n".join([*filter(None, lines), "</body>\n</html>\n"])
