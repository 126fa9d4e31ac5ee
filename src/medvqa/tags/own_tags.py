"""Tags of one's own: a table of ids gives the questions of any benchmark further tags (`--tags=FILE`).

    id,failure_pattern,visual_prompt
    10001,vascular,no
    10002/1,medical devices|vascular,yes

`id` is the id of a question, or of a pair, which tags both of its questions. Each other column is a dimension, and its
cells hold values, separated by `|`. An optional column `benchmark` is needed only if an id occurs in several.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec

from medvqa import tables
from medvqa.items import Item, UsageError, of_data
from medvqa.tags import lexicon

FORMAT = "; tags are a table (CSV, TSV, XLSX or JSON) with the column id, and a column for each dimension"
RESERVED = frozenset({"id", "benchmark", "kind"})


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A row about a question or a pair: `where` locates it, `benchmark` is "" if it names none."""

    where: str
    id: str
    benchmark: str


@dataclass(frozen=True, slots=True)
class TagRow(QuestionRow):
    """The tags of one row."""

    tags: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class OwnTags:
    """The rows of all tables; `dimensions` in the order of their columns."""

    rows: tuple[TagRow, ...] = ()
    dimensions: tuple[str, ...] = ()

    @property
    def about(self) -> dict[str, object]:
        """The fields for run.json: the dimensions, and a digest of ids and tags."""
        content = sorted((row.benchmark, row.id, sorted(row.tags.items())) for row in self.rows)
        digest = sha256(msgspec.json.encode(content)).hexdigest()
        return {"dimensions": self.dimensions, "sha256": digest}

    def added(self, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items of one benchmark with their tags.

        UsageError for a dimension that the items have already: their own values must not be mixed with others.
        """
        if not self.rows:
            return tuple(items)
        own = {dimension for item in items for dimension in item.tags}
        for dimension in self.dimensions:
            if dimension in own:
                raise UsageError(
                    f"--tags: questions of {items[0].benchmark} have the dimension '{dimension}' already; rename the "
                    "column"
                )
        rows_of: dict[str, list[TagRow]] = {}
        for row in self.rows:
            rows_of.setdefault(row.id, []).append(row)
        return tuple(_tagged(item, rows_of) for item in items)

    def check(self, items_of: Mapping[str, Sequence[Item]], known: Iterable[str]) -> None:
        """UsageError for an id that no question or pair of the benchmarks has, or that several benchmarks have.

        `items_of`: the items by benchmark. Rows of a `known` benchmark that is not among them are left out.
        """
        check_ids("--tags", self.rows, items_of, known)


def check_ids(
    option: str, rows: Iterable[QuestionRow], items_of: Mapping[str, Sequence[Item]], known: Iterable[str]
) -> None:
    """UsageError for an id that no question or pair of the benchmarks has, or that several benchmarks have.

    `option` names the file. `items_of` and `known` are as in `OwnTags.check`.
    """
    names = {benchmark: _names(items) for benchmark, items in items_of.items()}
    for row in rows:
        if row.benchmark and row.benchmark not in names:
            if row.benchmark in known:
                continue
            raise UsageError(f"{option}: {row.where}: no benchmark '{row.benchmark}'")
        holders = [name for name in names if row.benchmark in ("", name) and row.id in names[name]]
        if not holders:
            raise UsageError(
                f"{option}: {row.where}: no question or pair of {row.benchmark or ', '.join(names)} has the id "
                f"{of_data(repr(row.id))}"
            )
        if len(holders) > 1:
            raise UsageError(
                f"{option}: {row.where}: {', '.join(holders)} have the id {of_data(repr(row.id))}; add a column "
                "benchmark"
            )


def _tagged(item: Item, rows_of: Mapping[str, Sequence[TagRow]]) -> Item:
    rows = [*rows_of.get(item.id, ()), *(rows_of.get(item.pair_id, ()) if item.pair_id is not None else ())]
    tags: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.benchmark in ("", item.benchmark):
            for dimension, values in row.tags.items():
                tags.setdefault(dimension, {}).update(dict.fromkeys(values))
    return replace(item, tags={**item.tags, **{name: tuple(values) for name, values in tags.items()}}) if tags else item


def _names(items: Iterable[Item]) -> set[str]:
    return {name for item in items for name in (item.id, item.pair_id) if name is not None}


def read(paths: Iterable[Path]) -> OwnTags:
    """Read tables of tags. UsageError for a missing file; DataError for a bad table or name of a column."""
    rows: list[TagRow] = []
    dimensions: dict[str, None] = {}
    for path in paths:
        if not path.is_file():
            raise UsageError(f"--tags={path}: no such file")
        for row in tables.read(path, name=path.name, needed=[("id",)], fold=True, hint=FORMAT):
            columns = {column: lexicon.slug(column) for column in row.values if column not in ("id", "benchmark")}
            if not columns:
                raise row.error(f"no column of tags beside the id{FORMAT}")
            for column, dimension in columns.items():
                if dimension in RESERVED or not dimension.isidentifier() or keyword.iskeyword(dimension):
                    raise row.error(f"no name of a dimension{FORMAT}", column)
                dimensions.setdefault(dimension)
            tags = {
                dimension: values
                for column, dimension in columns.items()
                if (values := lexicon.slugs(row.text(column).split("|")))
            }
            rows.append(TagRow(row.where, row.identifier("id"), row.text("benchmark").strip(), tags))
    return OwnTags(tuple(rows), tuple(dimensions))
