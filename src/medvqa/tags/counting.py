"""Counts of the loaded questions by tag, beside the counts that the papers print (tags/lexica/counts.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import msgspec

from medvqa import decode
from medvqa.items import Item
from medvqa.tags import lexicon

CONTOUR = "contour_level"
"""Mask and contour level hold the same cases, drawn twice. GMAI-MMBench counts them once in Tables 5 and 6."""


class PublishedCounts(msgspec.Struct, frozen=True):
    """A table of a paper: counts by value of a dimension, in `columns`."""

    benchmarks: tuple[str, ...]
    dimension: str
    source: str
    columns: tuple[str, ...]
    values: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts by value of one dimension, (values, columns).

    Columns are the dimensions nested in this one, which count distinct values, then "questions" and, if the benchmark
    has perceptual granularities, "cases": single-choice questions without those at contour level. None: not known,
    since no question has such a tag (labels, if the key is withheld).
    """

    dimension: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[int | None, ...]]
    total: tuple[int | None, ...]
    published: PublishedCounts | None = None


@cache
def published() -> tuple[PublishedCounts, ...]:
    """Return the tables of the papers."""
    content = resources.files("medvqa").joinpath("tags", "lexica", "counts.json").read_bytes()
    return decode.decode_bytes(content, tuple[PublishedCounts, ...], "counts.json", "JSON")


def count(items: Sequence[Item], dimension: str, benchmark: str = "") -> Counts:
    """Count the items by their values in a dimension, which may cross others; those without a value are left out.

    An item with several values counts under each, and once in the total.
    """
    tagged = [(item, lexicon.values_of(item, dimension)) for item in items]
    inside = [item for item, values in tagged if values]
    table = next((t for t in published() if benchmark in t.benchmarks and t.dimension == dimension), None)
    present = {name for item in items for name in item.tags} | {*(table.columns if table else ())}
    nested = [name for name in _nested(dimension) if name in present]
    columns = (*nested, "questions", *(("cases",) if any("granularity" in item.tags for item in items) else ()))
    values = sorted({value for _, values in tagged for value in values})
    return Counts(
        dimension,
        columns,
        {value: _row([item for item, values in tagged if value in values], columns, items) for value in values},
        _row(inside, columns, items),
        table,
    )


def _nested(dimension: str) -> tuple[str, ...]:
    """Return the dimensions below this one in the lexicons' trees; of GMAI-MMBench's granularities, as of its tasks."""
    paths = [path for vocabulary in lexicon.lexicons() for path in vocabulary.trees]
    top = "task" if dimension == "granularity" else dimension
    return next((path[1:] for path in paths if path[0] == top), ())


def _row(items: Sequence[Item], columns: Sequence[str], everything: Sequence[Item]) -> tuple[int | None, ...]:
    numbers: list[int | None] = []
    for column in columns:
        if column == "questions":
            numbers.append(len(items))
        elif column == "cases":
            single = [item for item in items if item.kind == "single_choice"]
            numbers.append(sum(CONTOUR not in item.tags.get("granularity", ()) for item in single))
        elif any(column in item.tags for item in everything):
            numbers.append(len({value for item in items for value in item.tags.get(column, ())}))
        else:
            numbers.append(None)
    return tuple(numbers)
