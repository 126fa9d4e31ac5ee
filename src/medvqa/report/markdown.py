"""summary.md: what fits on a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from medvqa import printing
from medvqa.report import gate
from medvqa.report.build import Report
from medvqa.report.notes import notes_of, usage_of
from medvqa.report.tables import TextTable, by_dimension, headline, outcomes

ROWS = 40
"""Rules that the summary's table holds: with more, it leaves out guards that pass and slices that are not gated."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~])")

_LIVE = (
    # GitHub looks for these in the text that Markdown leaves, so that a backslash or an entity does not stop it.
    (re.compile("@"), "\uff20"),
    (re.compile(r"#(?=\d)"), "\uff03"),
    (re.compile(r"\bGH-(?=\d)", re.IGNORECASE), "GH\u2011"),
    (re.compile("://"), "[:]//"),
    (re.compile(r"\bwww\.", re.IGNORECASE), "www[.]"),
)
"""What becomes a link or calls somebody without any markup, and what stands for it."""


def escape(text: str) -> str:
    """Text that shows as it is: no markup, no link, no mention, no HTML, no control character, no line break."""
    plain = printing.line(" ".join(text.split()))
    for live, dead in _LIVE:
        plain = live.sub(dead, plain)
    return _SPECIAL.sub(r"\\\1", html.escape(plain, quote=False))


def render(report: Report) -> str:
    """The summary of a run."""
    run = report.run
    blocks = [
        f"# {escape(report.title)}",
        *(f"**{escape(line)}**" for line in report.covered.lines),
        f"Model {escape(str(run.get('model', {}).get('name', 'unknown')))}, "
        f"technique {', '.join(report.techniques)}, extraction {escape(str(run.get('extraction', 'sound')))}.",
        grid(headline(report)),
        *_verdict(report),
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


def _verdict(report: Report) -> list[str]:
    """The gate: the verdict, its rules, what moved most, and the first units that flipped."""
    if report.gate is None:
        return []
    found = report.gate.verdict
    blocks = [f"## Gate: {escape(gate.headline(report.gate))}"]
    if found.blockers:
        blocks.append("\n".join(f"- {escape(line)}" for line in found.blockers))
    told = gate.listed(found)
    if told:
        blocks.append("\n".join(f"- **{entry.outcome}** {escape(gate.rule(entry))}" for entry in told))
        blocks.append(grid(gate.table(found, every=len(found.entries) <= ROWS)))
    lines = gate.quiet(found)
    for name, moved in (("Largest losses", found.worst), ("Largest gains", found.best)):
        if moved:
            lines.append(f"{name} by slice, in points, exploratory: {gate.moved(moved)}.")
    lines += gate.remarks(report.gate)
    if lines:
        blocks.append("\n".join(f"- {escape(line)}" for line in lines))
    if found.flips:
        first = [f"- {'gained' if each.better else 'lost'}: {escape(gate.flip(each))}" for each in found.flips]
        blocks += [f"Flipped: {gate.flips(found)}. The first of each:", "\n".join(first)]
    blocks.append(f"Every question and answer: [index.html](index.html) of run {escape(report.folder.name)}.")
    return blocks


def grid(table: TextTable) -> str:
    """A table without its title."""
    rule = ["---:" if i in table.right else "---" for i in range(len(table.columns))]
    return "\n".join([_row(map(escape, table.columns)), _row(rule), *(_row(map(escape, row)) for row in table.rows)])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
