"""Questions by the values of a dimension, of a benchmark and in the parts of a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from medvqa import printing
from medvqa.figures import Column, Table, numbers, terminal
from medvqa.items import Item
from medvqa.tags import counting, lexicon

_HEADINGS: Mapping[str, str] = {"modality": "modalities", "label": "labels"}


def text(items: Sequence[Item], dimension: str) -> str:
    """Return the table of counts of one dimension."""
    counts = counting.count(items, dimension)
    rows = sorted((lexicon.display(dimension, value), *row) for value, row in counts.rows.items())
    columns = numbers(*(_HEADINGS.get(column, column) for column in counts.columns))
    return printing.lines(terminal(Table("", (Column(dimension), *columns), (*rows, ("together", *counts.total)))))


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
