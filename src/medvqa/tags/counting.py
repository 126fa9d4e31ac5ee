"""Counts of the loaded questions by tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medvqa.items import Item
from medvqa.tags import lexicon

QUESTIONS = "questions"


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts by value of one dimension, (values, columns).

    Columns are the dimensions nested in this one that the questions have, which count distinct values, then QUESTIONS.
    """

    columns: tuple[str, ...]
    rows: Mapping[str, tuple[int, ...]]
    total: tuple[int, ...]


def count(items: Sequence[Item], dimension: str) -> Counts:
    """Count the items by their values in a dimension, which may cross others; those without a value are left out.

    An item with several values counts under each, and once in the total.
    """
    tagged = [(item, lexicon.values_of(item, dimension)) for item in items]
    present = {name for item in items for name in item.tags}
    nested = [name for name in _nested(dimension) if name in present]

    def row(inside: Sequence[Item]) -> tuple[int, ...]:
        return (*(len({value for item in inside for value in item.tags.get(name, ())}) for name in nested), len(inside))

    values = sorted({value for _, values in tagged for value in values})
    rows = {value: row([item for item, values in tagged if value in values]) for value in values}
    return Counts((*nested, QUESTIONS), rows, row([item for item, values in tagged if values]))


def _nested(dimension: str) -> tuple[str, ...]:
    """Return the dimensions below this one in the lexicons' trees; of GMAI-MMBench's granularities, as of its tasks."""
    paths = [path for vocabulary in lexicon.lexicons() for path in vocabulary.trees]
    top = "task" if dimension == "granularity" else dimension
    return next((path[1:] for path in paths if path[0] == top), ())
