"""The words of `medvqa data`: the benchmarks with their files on this machine, and how to get what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from medvqa import printing
from medvqa.fetching import shelf
from medvqa.fetching.shelf import LmuTables, ShelfEntry
from medvqa.figures import DASH, Table, data_size, numbers, terminal, texts

SHOWN = 3
"""Tables that are named in a line."""
WIDEST = 40
"""Characters of a licence in the table."""


def text(entries: Sequence[ShelfEntry], folder: Path | None, where: str, lmu: LmuTables | None) -> str:
    """Return the table, and lines that say how to get what is missing; `where` ends their commands."""
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
    if lmu is not None:
        notes.append(
            f"VLMEvalKit's folder {lmu.folder}: {printing.some(lmu.read, SHOWN) or 'no table'} can be read here"
        )
        if lmu.others:
            notes.append(
                f"not read, since these tables are in VLMEvalKit's own form: {printing.some(lmu.others, SHOWN)}"
            )
    return "\n".join([printing.line(about), "", table, *map(printing.line, notes)]).rstrip("\n")


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
