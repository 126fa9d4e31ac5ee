"""The words of `medvqa data`: the benchmarks with their files on this machine, and how to get what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from medvqa import printing
from medvqa.benchmarks import folders, origins
from medvqa.fetching import shelf
from medvqa.fetching.shelf import ShelfEntry
from medvqa.figures import DASH, Table, data_size, numbers, terminal, texts
from medvqa.items import Benchmark

SHOWN = 3
"""Tables that are named in a line."""
WIDEST = 40
"""Characters of a licence in the table."""


def text(entries: Sequence[ShelfEntry], folder: Path | None, where: str, known: Iterable[Benchmark]) -> str:
    """Return the table, and lines that say how to get what is missing; `where` ends their commands.

    Lines about VLMEvalKit's folder name the tables in it that one of the `known` benchmarks reads, and the others.
    """
    columns = (
        *(*texts("benchmark", "state"), *numbers("questions", "images", "size")),
        *texts("digests", "licence", "path"),
    )
    table = terminal(Table("", columns, tuple(map(_row, entries))))
    about = f"data folder: {folder}" if folder else "no data folder: name it by --data=DIR, or set MEDVQA_DATA"
    # Members of a group often share their advice.
    named: dict[str, list[str]] = {}
    for entry in entries:
        if not entry.whole:
            command = f"{shelf.FETCH} {entry.benchmark}"
            remedy = entry.remedy.replace(command, f"{command}{where}", 1)
            advice = "; ".join(filter(None, [*entry.lacks(), remedy]))
            named.setdefault("" if advice == f"{command}{where}" else advice, []).append(entry.benchmark)
    simple = named.pop("", [])
    notes = [f"{shelf.FETCH} NAME{where} brings {', '.join(simple)}"] if simple else []
    notes += [f"{', '.join(names)}: {advice}" for advice, names in named.items()]
    return "\n".join([printing.line(about), "", table, *map(printing.line, (*notes, *_of_vlmevalkit(known)))]).rstrip(
        "\n"
    )


def _of_vlmevalkit(known: Iterable[Benchmark]) -> Iterator[str]:
    if (folder := folders.lmu_data()) is None:
        return
    there = (path for each in known if origins.elsewhere(each) == folder for path in origins.files_of(each, folder))
    try:
        read = sorted({path.name for path in there})
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix.lower() == ".tsv" and path.name not in read
        )
    except OSError:
        return
    yield f"VLMEvalKit's folder {folder}: {printing.some(read, SHOWN) or 'no table'} can be read here"
    if others:
        yield f"not read, since these tables are in VLMEvalKit's own form: {printing.some(others, SHOWN)}"


def _row(entry: ShelfEntry) -> tuple[str, ...]:
    path = os.path.commonpath([Path(each).parent for each in entry.files]) if entry.folder and entry.files else DASH
    return (
        entry.benchmark,
        entry.state,
        _of(entry.questions, entry.release),
        _of(entry.images, entry.images_named) if entry.images_named != 0 else DASH,
        data_size(entry.bytes or None),
        entry.digests or DASH,
        _short(entry.licence),
        f"{path}{' (VLMEvalKit)' if entry.vlmevalkit else ''}",
    )


def _short(licence: str) -> str:
    """Return the licence in few words; --json has the whole text."""
    return (licence if len(licence) <= WIDEST else f"{licence[: WIDEST - 2].rstrip()} …") or DASH


def _of(there: int | None, wanted: int | None) -> str:
    if there is None:
        return DASH if wanted is None else f"{DASH} of {wanted:,}"
    return f"{there:,}" if wanted in (None, there) else f"{there:,} of {wanted:,}"
