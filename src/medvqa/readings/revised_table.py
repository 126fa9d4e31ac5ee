"""Questions of any benchmark -> the table and the declaration of a version of it, in the form of `medvqa import`.

Images stay where they are; those within a table are written as files. The table is JSON lines, since a cell may hold
a list: letters, images and tags keep their texts whatever signs these have.
"""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medvqa.benchmarks import table_files
from medvqa.benchmarks.recorded import Revision
from medvqa.benchmarks.table_declaration import TableDeclaration
from medvqa.items import Benchmark, DataError, Image, Item
from medvqa.medical import views
from medvqa.perturbing import regions
from medvqa.tables import TableRow
from medvqa.tags import lexicon

IMAGES = "images"
"""Folder of the images that lay within a table."""
ROLES = ("id", "kind", "question", "answer", "image", "pair", "cluster", "box")
"""Roles of columns, which have the same names; no column has the others."""


class RevisedTable(NamedTuple):
    """A table that is not written yet: its declaration, its rows, files of images, and the questions that it makes."""

    declaration: TableDeclaration
    rows: Sequence[Mapping[str, Any]]
    images: Mapping[Path, bytes]
    items: Sequence[Item]


def table_of(benchmark: Benchmark, items: Sequence[Item], toml: Path, revision: Revision) -> RevisedTable:
    """Return the table of a version's questions; `toml` is where its file will be, and the table beside it.

    DataError, which names the question, for the first that a run would refuse, or would read otherwise.
    """
    source = table_files.source_of(benchmark)
    licence = "" if benchmark.origin is None else benchmark.origin.licence
    base = TableDeclaration(licence=licence) if source is None else source.declaration
    images = list(dict.fromkeys(image for item in items for image in item.images))
    content = {image: image.read() for image in images if image.cell is not None}
    held = {image: toml.parent.absolute() / IMAGES / _name(data) for image, data in content.items()}
    places = [os.path.dirname(held.get(image, image.path)) for image in images]
    folder = os.path.commonpath(places) if places else ""
    tags = [name for name in dict.fromkeys(name for item in items for name in item.tags) if name not in base.slices]
    joined = [name for name in benchmark.dimensions if lexicon.CROSSED in name]
    # It is not public: only data below the folder of their file may be declared so, and the images stay where they are.
    declaration = TableDeclaration(
        file=f"{toml.stem}.jsonl",
        name=benchmark.name if benchmark.declared is not None else f"{benchmark.name}-revised",
        title=benchmark.title,
        language=base.language,
        licence=base.licence,
        images=Path(os.path.relpath(folder, toml.parent.absolute())).as_posix() if folder else "",
        options="options",
        window=base.window,
        allow_burned_in=any(image.allow_burned_in for image in images),
        prompt=base.prompt,
        tags=tags,
        crossings=[name for name in joined if {*name.split(lexicon.CROSSED)} <= {*tags, *base.slices, "kind"}],
        columns={**dict.fromkeys(("patient", "case"), ""), **{role: role for role in ROLES}},
        slices={name: name for name in base.slices},
        words=base.words,
        version=str(int(revision.version) + 1) if revision.version.isdecimal() else f"{revision.version} revised",
        revision=revision,
    )
    rows = [_row(item, folder, held, declaration) for item in items]
    table = table_files.table_of(declaration, toml)
    read = list(table.items_of([TableRow(table.shown, "question", row["id"], 0, row) for row in rows]))
    for item, row in zip(read, rows, strict=True):
        if _row(item, folder, {}, declaration) | {"cluster": ""} != row | {"cluster": ""}:
            raise DataError(f"{table.shown} question {item.id}: a run would not read it from a table as it is")
    return RevisedTable(declaration, rows, {path: content[image] for image, path in held.items()}, read)


def _row(item: Item, folder: str, held: Mapping[Image, Path], declaration: TableDeclaration) -> dict[str, Any]:
    """The row of a question, without blanks around its texts."""
    window = declaration.shown_values
    return {
        "id": item.id,
        "kind": item.kind,
        "question": _plain(item.question),
        "options": {letter: _plain(text) for letter, text in item.options.items()} or None,
        "answer": list(map(_plain, item.answers)),
        "image": [_reference(image, held.get(image), folder, window) for image in item.images],
        "pair": item.pair_id,
        "cluster": item.cluster_id,
        "box": list(regions.boxes_of(item.extra)) or None,
        **{name: list(item.tags.get(name, ())) for name in (*declaration.slices, *declaration.tags)},
    }


def _reference(image: Image, file: Path | None, folder: str, window: tuple[float, float] | None) -> str:
    """The path of an image below the folder, with its view and its window, unless that is the table's."""
    path = Path(os.path.relpath(file or image.path, folder)).as_posix()
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


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
