"""Questions by the values of a dimension: beside the counts that the papers print, and in the parts of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from medvqa import printing
from medvqa.figures import DASH, Column, Table, numbers, terminal
from medvqa.items import Item
from medvqa.tags import counting, lexicon

_CASES = "cases: single-choice questions without those at contour level, which show the cases at mask level again"
_HEADINGS: Mapping[str, str] = {"modality": "modalities", "label": "labels"}


def text(items: Sequence[Item], dimension: str, benchmark: str) -> str:
    """Return the table of counts of one dimension, with notes."""
    counts = counting.count(items, dimension, benchmark)
    paper = counts.published
    published, printed = (paper.columns, paper.values) if paper is not None else ((), {})
    unknown = (None,) * len(published)
    rows = [
        (lexicon.display(dimension, value), *row, *printed.get(value, unknown)) for value, row in counts.rows.items()
    ]
    rows += [
        (lexicon.display(dimension, value), *(0 for _ in counts.columns), *row)
        for value, row in printed.items()
        if value not in counts.rows
    ]
    # A number that is unknown is a dash; the published table has no row for all.
    together = ("together", *counts.total, *("" for _ in published))
    cells = [
        [DASH if cell is None else cell for cell in row] for row in [*sorted(rows, key=lambda row: row[0]), together]
    ]
    headings = (_HEADINGS.get(column, column) for column in counts.columns)
    columns = numbers(*headings, *(f"{_HEADINGS.get(name, name)} published" for name in published))
    notes = [_CASES] if "cases" in counts.columns else []
    notes += [] if paper is None else [f"published: {paper.source}"]
    table = Table("", (Column(dimension), *columns), tuple(cells))
    return printing.lines(terminal(table)) + "".join(f"{note}\n" for note in notes)


def of_parts(parts: Mapping[str, Sequence[Item]], dimension: str) -> str:
    """Return the table of questions of each part by the values of a dimension, and values in one part alone."""
    counts = {
        part: Counter(value for item in own for value in item.tags.get(dimension, ())) for part, own in parts.items()
    }
    values = {value: lexicon.display(dimension, value) for value in sorted(set().union(*counts.values()))}
    rows = [(shown, *(count[value] for count in counts.values())) for value, shown in values.items()]
    columns = (Column(dimension), *numbers(*(f"questions to {part}" for part in parts)))
    lines = [printing.lines(terminal(Table("", columns, tuple(rows)))).rstrip()]
    for value, shown in values.items():
        having = [part for part, count in counts.items() if count[value]]
        if len(having) == 1:
            lines.append(f"! {shown} is in {having[0]} alone: too few questions that are independent of each other")
    return "\n".join(lines)
