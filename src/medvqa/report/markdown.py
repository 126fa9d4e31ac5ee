"""summary.md: what fits on a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from medvqa.report.build import Report, notes_of, usage_of
from medvqa.report.tables import Table, by_dimension, headline, outcomes

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~])")


def escape(text: str) -> str:
    """Text that shows as it is: no markup, no link, no HTML, no line break."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


def render(report: Report) -> str:
    """The summary of a run."""
    run = report.run
    blocks = [
        f"# {escape(report.title)}",
        f"Model {escape(str(run.get('model', {}).get('name', 'unknown')))}, "
        f"technique {', '.join(report.techniques)}, extraction {run.get('extraction', 'sound')}.",
        grid(headline(report)),
        grid(outcomes(report)),
    ]
    if usage := usage_of(report):
        blocks.append(escape(usage))
    if notes := notes_of(report):
        blocks.append("\n".join(f"- {escape(note)}" for note in notes))
    for part in report.parts:
        for dimension in part.benchmark.dimensions:
            table = by_dimension(part, dimension)
            if table.rows:
                blocks += [f"## {escape(table.title)}", grid(table)]
    return "\n\n".join(blocks) + "\n"


def grid(table: Table) -> str:
    """A table without its title."""
    rule = ["---:" if i in table.right else "---" for i in range(len(table.columns))]
    return "\n".join([_row(map(escape, table.columns)), _row(rule), *(_row(map(escape, row)) for row in table.rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
