"""Questions of any benchmark -> the table and the declaration of a version of it, in the form of `medvqa import`.

Images stay where they are; those within a table are written as files. The table is JSON lines, since a cell may hold
a list: letters, images and tags keep their texts whatever signs these have.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from medvqa.benchmarks import table_files
from medvqa.benchmarks.recorded import Revision
from medvqa.benchmarks.table_declaration import TableDeclaration
from medvqa.items import Benchmark, DataError, Image, Item
from medvqa.medical import views
from medvqa.tables import TableRow
from medvqa.tables.problems import Problems
from medvqa.tags import lexicon

IMAGES = "images"
"""Folder of the images that lay within a table."""
ROLES = ("id", "kind", "question", "options", "answer", "image", "pair", "cluster")
"""Roles of columns, which have the same names; no column has the others."""
MOST_SHOWN = 10
"""Mistakes that a message lists."""


@dataclass(frozen=True, slots=True)
class RevisedTable:
    """A table that is not written yet: its rows, its declaration, and the files of images, by their paths."""

    declaration: TableDeclaration
    rows: tuple[Mapping[str, Any], ...]
    images: Mapping[Path, bytes] = field(default_factory=dict)

    def lines(self) -> bytes:
        """Return the table as JSON lines."""
        return b"".join(msgspec.json.encode(row) + b"\n" for row in self.rows)


def version_of(benchmark: Benchmark) -> str:
    """Return the version that a benchmark's file names, else "1"."""
    source = table_files.source_of(benchmark)
    return (source.declaration.version if source is not None else "") or "1"


def table_of(benchmark: Benchmark, items: Sequence[Item], toml: Path, file: str, revision: Revision) -> RevisedTable:
    """Return the table of a version's questions; `toml` and `file` are where the two files will be (DataError)."""
    source = table_files.source_of(benchmark)
    base = TableDeclaration(title=benchmark.title) if source is None else source.declaration
    if source is None and benchmark.origin is not None:
        base = msgspec.structs.replace(base, licence=benchmark.origin.licence)
    images = list(dict.fromkeys(image for item in items for image in item.images))
    content = {image: image.read() for image in images if image.cell is not None}
    held = {image: toml.parent / IMAGES / _name(data) for image, data in content.items()}
    paths = [os.path.abspath(held.get(image, image.path)) for image in images]
    folder = os.path.commonpath(map(os.path.dirname, paths)) if paths else ""
    tags = [name for name in dict.fromkeys(name for item in items for name in item.tags) if name not in base.slices]
    joined = [name for name in benchmark.dimensions if lexicon.CROSSED in name and source is None]
    number = revision.version
    declaration = msgspec.structs.replace(
        base,
        name=benchmark.name if benchmark.declared is not None else f"{benchmark.name}-revised",
        file=file,
        images=Path(os.path.relpath(folder, os.path.abspath(toml.parent))).as_posix() if folder else "",
        # Only data below the folder of their file may be declared public, and the images stay where they are.
        public=False,
        encoding="",
        delimiter="",
        sheet="",
        separator="",
        numbers_from=None,
        kind="",
        options="options",
        allow_burned_in=any(image.allow_burned_in for image in images),
        tags=tags,
        crossings=[*base.crossings, *(name for name in joined if {*name.split(lexicon.CROSSED)} <= {*tags, "kind"})],
        columns={role: role for role in ROLES if role != "options"} | {"patient": "", "case": ""},
        slices={name: name for name in base.slices},
        version=str(int(number) + 1) if number.isdecimal() else f"{number} revised",
        revision=revision,
    )
    rows = tuple(_row(item, folder, held, declaration) for item in items)
    return RevisedTable(declaration, rows, {path: content[image] for image, path in held.items()})


def checked(table: RevisedTable, items: Sequence[Item], toml: Path) -> list[Item]:
    """Return the questions as a run reads them from the table; they must be `items`.

    DataError, which names each question, for what a run or `medvqa import` refuses.
    """
    source = table_files.table_of(table.declaration, toml)
    rows = [TableRow(source.shown, "line", number, number, dict(values)) for number, values in enumerate(table.rows, 1)]
    problems = Problems(source.shown, collects=True)
    source.questions(rows, problems)
    wrong = [
        problem.at(f"question {items[problem.row - 1].id}" if isinstance(problem.row, int) else source.shown)
        for problem in problems.found
        if problem.refused
    ]
    read = [] if wrong else list(source.items_of(rows))
    wrong += [
        f"question {was.id}: a table does not keep it as it is; it would become {_content(now)}"
        for was, now in zip(items, read, strict=False)
        if _content(was) != _content(now)
    ]
    if wrong:
        more = [f"and {len(wrong) - MOST_SHOWN:,} more"] if len(wrong) > MOST_SHOWN else []
        raise DataError("\n".join([*wrong[:MOST_SHOWN], *more]))
    return read


def _row(item: Item, folder: str, held: Mapping[Image, Path], declaration: TableDeclaration) -> dict[str, Any]:
    window = declaration.shown_values
    return {
        "id": item.id,
        "kind": item.kind,
        "question": item.question,
        "options": dict(item.options) or None,
        "answer": list(item.answers),
        "image": [_reference(image, held.get(image), folder, window) for image in item.images],
        "pair": item.pair_id,
        "cluster": item.cluster_id,
        **{name: list(item.tags.get(name, ())) for name in (*declaration.slices, *declaration.tags)},
    }


def _reference(image: Image, file: Path | None, folder: str, window: tuple[float, float] | None) -> str:
    """The path of an image below the folder, with its view and its window, unless that is the table's."""
    path = Path(os.path.relpath(image.path if file is None else os.path.abspath(file), folder)).as_posix()
    if file is not None and image.medical_kind:
        # A medical picture within a table is written as it is shown.
        return path
    parts = views.split(image.name)[1]
    named = any(part.startswith(("window=", "range=")) for part in parts.split("&"))
    if image.window is not None and image.window != window and not named:
        low, high = map(float, image.window)
        parts = "&".join(filter(None, (parts, f"range={low!r},{high!r}")))
    return f"{path}?{parts}" if parts else path


def _name(data: bytes) -> str:
    ending = "jpg" if data.startswith(b"\xff\xd8") else "png"
    return f"{hashlib.sha256(data).hexdigest()}.{ending}"


def _content(item: Item) -> tuple[Any, ...]:
    """The content of a question as a table keeps it: without blanks around texts, which are composed (NFC)."""
    tags = sorted((name, *map(_plain, values)) for name, values in item.tags.items() if values)
    options = [(letter, _plain(text)) for letter, text in item.options.items()]
    texts = [_plain(item.question), *map(_plain, item.answers), item.pair_id]
    return item.kind, texts, options, tags, len(item.images)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
