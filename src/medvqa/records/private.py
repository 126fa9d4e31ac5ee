"""Private folders and items without patients: the files of a run may identify people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from medvqa import files
from medvqa.items import Item
from medvqa.protocols.shots import SOURCES, source_of

REPORTS = "reports"
"""The folder of run folders; git is kept from it."""
IGNORE = ".gitignore"
IGNORED = b"*\n# Runs hold questions and answers. Change this file as you like: it is written once.\n"


def make_private(folder: Path) -> None:
    """Create a folder for a run or for answers, readable by its owner alone, and keep it out of git (OSError).

    Missing folders above it are made alike; folders that are there stay as they are. A folder above it that is made
    here or is called reports gets a .gitignore, unless it has one.
    """
    above = folder.parent
    created = not above.exists()
    files.private_folder(folder)
    if created or above.name == REPORTS:
        # A folder that cannot be written is no reason to stop: its runs are private nevertheless.
        with suppress(OSError):
            files.write_new(above / IGNORE, IGNORED, mode=0o644)


def groups(items: Iterable[Item]) -> dict[str, str]:
    """Return the names of clusters for a run folder: no patient, no case, in a benchmark that is not public.

    A cluster is called after its first question. One that has the name of an image keeps it: results name images.
    """
    items = list(items)
    images = {name for item in items for image in item.images for name in (image.name, f"image {image.name}")}
    first: dict[str, str] = {}
    for item in items:
        if item.cluster_id is not None:
            first[item.cluster_id] = min(item.id, first.get(item.cluster_id, item.id))
    return {name: name if name in images else f"{_GROUP}{id}" for name, id in first.items()}


def without_patient(item: Item, names: Mapping[str, str]) -> Item:
    """Return the item for a run folder: without fields that name a patient or a case, and with a name of `groups`."""
    if item.cluster_id is None and not item.extra:
        return item
    name = item.cluster_id if item.cluster_id is None else names.get(item.cluster_id, f"{_GROUP}{item.id}")
    return replace(item, cluster_id=name, extra=_impersonal(item.extra))


def _impersonal(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that name no patient and no case, and those within them."""
    return {
        name: _impersonal(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if not ((source := source_of(name)) in SOURCES or source.startswith("patient"))
    }


_GROUP = "group of "
