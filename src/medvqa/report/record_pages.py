"""An evaluation record as Markdown, and as one HTML file without scripts that prints to PDF."""

from __future__ import annotations

import base64
import hashlib

from medvqa import figures, printing
from medvqa.figures import Table
from medvqa.report.evaluation_record import Block, EvaluationRecord

_STYLE = """\
@page { size: A4; margin: 16mm 14mm }
html { color-scheme: light; background: #fff; color: #111; font: 11pt/1.4 system-ui, sans-serif }
body { max-width: 60rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; border-bottom: 1px solid #999 } h3 { font-size: 1rem }
h2, h3 { break-after: avoid }
table { border-collapse: collapse; width: 100%; font-size: .8rem; margin: .5rem 0 1rem }
thead { display: table-header-group }
tr { break-inside: avoid }
th, td { border: 1px solid #bbb; padding: .15rem .35rem; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere }
th { background: #eee } .right { text-align: right } td.right { overflow-wrap: normal }
.wide table { font-size: .62rem }
.first { border: 1px solid #111; padding: .25rem .75rem }
@media print { html { font-size: 9pt } body { padding: 0 } section.apart { break-before: page } }
"""
APART = ("results", "items")
"""Sections that begin on a page of their own."""
WIDE = 9
"""Columns of a table, above which its letters are smaller."""


def as_markdown(record: EvaluationRecord) -> str:
    """Return the record in Markdown; no text of it is markup."""
    blocks = [f"# {printing.markdown(record.title)}", *(f"**{printing.markdown(line)}**" for line in record.first)]
    for section in record.sections:
        blocks += [f"## {printing.markdown(section.title)}", *map(_in_markdown, section.blocks)]
    return "\n\n".join(blocks) + "\n"


def _in_markdown(block: Block) -> str:
    if isinstance(block, Table):
        heading = [f"### {printing.markdown(block.title)}"] if block.title else []
        return "\n\n".join([*heading, figures.markdown(block), *map(printing.markdown, block.notes)])
    if isinstance(block, tuple):
        return "\n".join(f"- {printing.markdown(line)}" for line in block)
    return printing.markdown(block)


def as_html(record: EvaluationRecord) -> str:
    """Return the record as one file that asks for nothing: no script, no image, no font."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = printing.hypertext(record.title)
    body = [f"<h1>{title}</h1>", '<div class="first">', *map(_paragraph, record.first), "</div>"]
    for section in record.sections:
        apart = ' class="apart"' if section.key in APART else ""
        blocks = [*map(_in_html, section.blocks)]
        body += [f"<section{apart}>", f"<h2>{printing.hypertext(section.title)}</h2>", *blocks, "</section>"]
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    )
    return "\n".join([head, *body, "</body>", "</html>"]) + "\n"


def _paragraph(text: str) -> str:
    return f"<p>{printing.hypertext(text)}</p>"


def _in_html(block: Block) -> str:
    if isinstance(block, Table):
        heading = [f"<h3>{printing.hypertext(block.title)}</h3>"] if block.title else []
        table = f'<div class="{"wide" if len(block.columns) > WIDE else "table"}">\n{figures.hypertext(block)}\n</div>'
        return "\n".join([*heading, table, *map(_paragraph, block.notes)])
    if isinstance(block, tuple):
        return "\n".join(["<ul>", *(f"<li>{printing.hypertext(line)}</li>" for line in block), "</ul>"])
    return _paragraph(block)
