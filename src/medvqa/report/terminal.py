"""The report as text for a terminal."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from medvqa.report import gate
from medvqa.report.build import Report, answers_of, notes_of, usage_of
from medvqa.report.tables import Table, headline, outcomes


def printable(text: str) -> str:
    """Text without control characters: what a model answered must not steer a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


WIDE = 110
"""Columns from which the tables are shown whole."""


def draw(table: Table, *, colour: bool = False) -> str:
    """A table as lines that are not wrapped."""
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, column in enumerate(table.columns):
        drawn.add_column(Text(printable(column)), justify="right" if i in table.right else "left", no_wrap=True)
    for row in table.rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(file=io.StringIO(), width=1000, force_terminal=colour, no_color=True)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def summary(report: Report, *, width: int, colour: bool = False) -> str:
    """The headline measures, how items ended, what a reader must know beside it, and where the rest lies."""
    if width >= WIDE:
        shown = (headline(report), outcomes(report))
    else:
        shown = (
            headline(report, ["random"]),
            outcomes(report, ["unparsed", "refused", "abstained", "unscored", "errors"]),
        )
    blocks = [draw(table, colour=colour) for table in shown]
    notes = [f"! {printable(note)}" for note in notes_of(report)]
    usage = [line for line in (answers_of(report), usage_of(report)) if line]
    return "\n".join([*blocks, *notes, *usage, *verdict(report), f"run folder: {report.folder}"])


def verdict(report: Report) -> list[str]:
    """The gate's verdict and why, in a few lines; none where nothing was gated."""
    if report.gate is None:
        return []
    found = report.gate.verdict
    lines = [f"gate: {gate.headline(report.gate)}"]
    lines += [f"  blocked: {line}" for line in found.blockers]
    lines += [f"  {entry.outcome}: {gate.rule(entry)}" for entry in gate.listed(found)]
    lines += [f"  {line}" for line in gate.quiet(found)]
    lines += [f"  {line}" for line in gate.remarks(report.gate)]
    return [printable(line) for line in lines]
