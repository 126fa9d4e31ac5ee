"""Sections with tables as one HTML file without scripts, which prints to PDF. `comparison.as_markdown` has Markdown."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

from medvqa.figures import hypertext as grid
from medvqa.printing import hypertext as escape
from medvqa.report.comparison import Section

_STYLE = """\
@page { size: A4; margin: 16mm 14mm }
html { color-scheme: light; background: #fff; color: #111; font: 11pt/1.4 system-ui, sans-serif }
body { max-width: 60rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; border-bottom: 1px solid #999 } h3 { font-size: 1rem }
h2, h3, h2 + ul { break-after: avoid } h1 + ul { border: 1px solid #111; padding: .5rem 2rem }
table { border-collapse: collapse; width: 100%; font-size: .8rem } table:has(th:nth-child(10)) { font-size: .62rem }
thead { display: table-header-group } th { background: #eee } tr { break-inside: avoid }
th, td { border: 1px solid #bbb; padding: .15rem .35rem; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere } .right { text-align: right } td.right { overflow-wrap: normal }
@media print { html { font-size: 9pt } body { padding: 0 } h2.apart { break-before: page } }
"""


def as_html(sections: Sequence[Section]) -> str:
    """Return a page that asks for nothing: no script, image or font. The first section has the title of the page.

    A section of several tables begins on a sheet of its own.
    """
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = escape(sections[0].title)
    lines = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{_STYLE}</style>\n</head>\n<body>',
    ]
    for place, section in enumerate(sections):
        opened = '<h2 class="apart">' if len(section.tables) > 1 else "<h2>"
        lines.append(f"{opened}{escape(section.title)}</h2>" if place else f"<h1>{title}</h1>")
        if section.notes:
            lines += ["<ul>", *(f"<li>{escape(note)}</li>" for note in section.notes), "</ul>"]
        for table in section.tables:
            lines += [f"<h3>{escape(table.title)}</h3>", grid(table)]
    return "\n".join([*lines, "</body>\n</html>\n"])
