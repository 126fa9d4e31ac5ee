"""`medvqa data`: list the benchmarks with their files on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.arguments import DATA, Arguments, Command, option, positional, written_as
from medvqa.cli.common import known_and_named, say, write
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.fetching.shelf import LmuTables, ShelfEntry

SHOWN = 3
"""Tables that are named in a line."""
WIDEST = 40
"""Characters of a licence in the table."""


@dataclass(frozen=True, kw_only=True)
class DataArguments(Arguments):
    """List benchmarks: whether their files are there and complete, licence, size, digests and path.

    Also how to get missing files. The exit code is 1 if a benchmark that you name is not complete.
    """

    names: list[str] = positional("a benchmark, a group or a file such as klinik.toml (default: all)", "NAME", least=0)
    check: bool = option(
        "compute the digest of each file for which the owners publish one, and count the questions of large files"
    )
    json: Path | None = written_as("JSON", "the list")


def run(typed: DataArguments) -> tuple[str, int]:
    """Return the list, and 1 if a named benchmark is not complete."""
    from medvqa import benchmarks
    from medvqa.fetching import shelf

    options = typed.options()
    folder = options.data
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{options.data_typed}: no such folder")
    registry, names = known_and_named(typed, typed.names)
    known = registry.benchmarks
    chosen = {each.name: each for name in names for each in benchmarks.members(name, known)} or dict(known)
    entries = [shelf.look(chosen[name], folder, check=typed.check, tell=_tell) for name in sorted(chosen)]
    write("--json", typed.json, lambda: list(map(shelf.as_json, entries)))
    wanting = bool(names) and not all(entry.whole for entry in entries)
    # The commands below the table work without the option only if MEDVQA_DATA names the folder.
    written = typed.raw["data"]
    where = "" if folder is not None and not written else " " + shlex.quote(f"--data={written or 'DIR'}")
    return _text(entries, folder, where, shelf.lmu_tables(known.values())), int(wanting)


def _tell(line: str) -> None:
    say(f"medvqa: {line}")


def _text(entries: Sequence[ShelfEntry], folder: Path | None, where: str, lmu: LmuTables | None) -> str:
    """Return the table, and lines that say how to get what is missing; `where` ends their commands."""
    from medvqa import printing
    from medvqa.fetching import shelf
    from medvqa.figures import Table, numbers, terminal, texts

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
            name, lacks, remedy = entry.benchmark.name, shelf.lacks(entry), shelf.remedy(entry, where)
            advice = "; ".join(filter(None, [*lacks, remedy]))
            named.setdefault("" if advice == f"{shelf.FETCH} {name}{where}" else advice, []).append(name)
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
    from medvqa import configs

    origin = entry.benchmark.origin
    path = entry.folder if entry.paths else None
    if path is not None:
        path = Path(os.path.commonpath([each.parent for each in entry.paths]))
    return (
        entry.benchmark.name,
        entry.state,
        _of(entry.questions, entry.benchmark.release),
        _of(entry.images, entry.named) if entry.named != 0 else "–",
        configs.in_units(entry.size or None),
        entry.released.digests or "–",
        _short(origin.licence if origin is not None else ""),
        f"{path or '–'}{' (VLMEvalKit)' if entry.lmu else ''}",
    )


def _short(licence: str) -> str:
    """Return the licence in few words; --json has the whole text."""
    return (licence if len(licence) <= WIDEST else f"{licence[: WIDEST - 2].rstrip()} …") or "–"


def _of(there: int | None, wanted: int | None) -> str:
    if there is None:
        return "–" if wanted is None else f"– of {wanted:,}"
    return f"{there:,}" if wanted in (None, there) else f"{there:,} of {wanted:,}"


COMMAND = Command(DataArguments, run, DATA)
