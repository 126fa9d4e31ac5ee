"""The files of a training set: images, tables of texts, and files that are not opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from medvqa import tables
from medvqa.items import DataError, Image, UsageError
from medvqa.tables import image_cells, json_text, limits

MAX_FILES = 2**22
"""Files of a training set."""

ARCHIVES = frozenset(
    {".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"}
    | {".arrow", ".tfrecord", ".lmdb", ".mdb", ".npz", ".npy", ".h5", ".hdf5", ".pkl", ".pt", ".pth", ".mat"}
)
"""Endings of files that may hold images or texts, and are not opened."""
VOLUMES = (".nii.gz",)
"""Endings of compressed images, which are no archives."""
OTHERS = frozenset(
    {".txt", ".md", ".rst", ".html", ".htm", ".xml", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".log", ".py", ".ipynb"}
    | {".sh", ".pdf", ".bin", ".safetensors", ".gguf", ".lock", ".metadata", ".gitattributes", ".gitignore", ".xls"}
)
"""Endings of files that are neither images nor tables, and are passed over."""
DEEPEST = 50
"""Levels of lists and objects in a cell; deeper ones are left out."""


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row of a table: its name, all texts of its cells, and the images that it holds."""

    where: str
    texts: Sequence[str]
    images: Sequence[Image]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The files of a folder, by names relative to it, sorted.

    `archives` are not opened, `links` are links to folders, which are not followed, `closed` are folders that cannot be
    read; `others` counts further files.
    """

    folder: Path
    images: tuple[str, ...]
    tables: tuple[str, ...]
    archives: tuple[str, ...]
    links: tuple[str, ...]
    closed: tuple[str, ...]
    others: int

    @classmethod
    def listed(cls, folder: Path, shown: str) -> TrainingSet:
        """Return the files of a folder and its subfolders (UsageError, with the name `shown`, for none).

        Files of a name that begins with a dot are left out. Links to files are followed: caches of downloads have them.
        """
        if not folder.is_dir():
            problem = "a file; name the folder around it" if folder.exists() else "no such folder"
            raise UsageError(f"{shown}: {problem}")
        by_kind: dict[str, list[str]] = {"image": [], "table": [], "archive": [], "link": [], "closed": [], "other": []}

        def closed(error: OSError) -> None:
            if Path(error.filename) == folder:
                raise UsageError(f"{shown}: cannot be read: {error.strerror}") from error
            by_kind["closed"].append(os.path.relpath(error.filename, folder))

        count = 0
        for parent, folders, files in os.walk(folder, onerror=closed):
            beside = os.path.relpath(parent, folder)
            for name in folders:
                if os.path.islink(os.path.join(parent, name)):
                    by_kind["link"].append(_joined(beside, name))
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in files:
                if not name.startswith("."):
                    by_kind[_kind(name)].append(_joined(beside, name))
                    count += 1
            if count > MAX_FILES:
                raise UsageError(f"{shown}: more than {MAX_FILES:,} files; name a part of it")
        images, tables, archives, links, shut = (
            tuple(sorted(by_kind[kind])) for kind in ("image", "table", "archive", "link", "closed")
        )
        if not (images or tables or archives or links or shut):
            raise UsageError(f"{shown}: no image and no table is in this folder; nothing can be compared")
        return cls(folder, images, tables, archives, links, shut, len(by_kind["other"]))

    def pictures(self) -> Iterator[Image]:
        """Yield the image files."""
        for name in self.images:
            # A question mark in a name of an image begins a view.
            yield Image(name.replace("?", "\ufffd"), os.path.join(self.folder, name))

    def rows(self, table: str) -> Iterator[TrainingRow]:
        """Yield the rows of a table (DataError for one that cannot be read, or not to its end)."""
        path = self.folder / table
        if table.lower().endswith(".json"):
            yield from _document(path, table)
        elif table.lower().endswith(".tsv") and _holds_images(path):
            for row in image_cells.read(path, root=self.folder):
                *texts, image = row.values.values()
                yield TrainingRow(f"{table} row {row.number}", texts, [image] if image.digest else [])
        else:
            for row in tables.read(path, name=table):
                yield _row(row.where, row.values)


def _joined(parent: str, name: str) -> str:
    return name if parent == os.curdir else f"{parent}/{name}"


def _kind(name: str) -> str:
    ending = os.path.splitext(name)[1].lower()
    if ending in tables.ENDINGS:
        return "table"
    if ending in ARCHIVES and not name.lower().endswith(VOLUMES):
        return "archive"
    return "other" if ending in OTHERS else "image"


def _row(where: str, value: Any) -> TrainingRow:
    texts: list[str] = []
    images: list[Image] = []
    _collect(value, texts, images, 0)
    return TrainingRow(where, texts, images)


def _collect(value: Any, texts: list[str], images: list[Image], depth: int) -> None:
    """Collect the texts and images of a value of JSON."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Image):
        images.append(value)
    elif depth < DEEPEST and isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            _collect(inner, texts, images, depth + 1)


def _document(path: Path, name: str) -> Iterator[TrainingRow]:
    """The rows of a JSON file: of an array, of the arrays and objects in an object, or of lines."""
    try:
        with limits.opened(path, name) as file:
            value = json_text.document(file, name, "")
    except DataError:
        lines = tables.read(path, name=name, lines=True)
        try:
            first = list(islice(lines, 2))
        except DataError:
            first = []
        if len(first) < 2:
            raise
        for row in (*first, *lines):
            yield _row(row.where, row.values)
        return
    if isinstance(value, list):
        yield from (_row(f"{name} record {number}", entry) for number, entry in enumerate(value, 1))
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if isinstance(entry, list):
                yield from (_row(f"{name} {key} {number}", inner) for number, inner in enumerate(entry, 1))
            else:
                yield _row(f"{name} {key}", entry)
    else:
        yield _row(name, value)


def _holds_images(path: Path) -> bool:
    """Whether a table has the columns `index` and `image`, as those of VLMEvalKit, whose cells hold images."""
    try:
        with limits.opened(path, path.name) as file:
            columns = file.readline(limits.MAX_TEXT).decode("utf-8", "replace").lower().strip().split("\t")
    except DataError:
        return False
    return {"index", "image"} <= set(columns)
