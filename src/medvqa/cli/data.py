"""`medvqa data`: list the benchmarks with their files on this machine."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.cli.common import Commands, data_of, known_from, say
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.fetching.shelf import LmuTables, ShelfEntry


SHOWN = 3
"""Tables that are named in a line."""
WIDEST = 40
"""Characters of a licence in the table."""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    data = commands.add_parser(
        "data",
        parents=[common],
        description="List benchmarks: whether their files are there and complete, licence, size, digests and path, and "
        "how to get missing files. The exit code is 1 if a benchmark that you name is not complete.",
    )
    data.add_argument(
        "names", nargs="*", metavar="NAME", help="a benchmark, a group or a file such as klinik.toml (default: all)"
    )
    data.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    data.add_argument(
        "--check",
        action="store_true",
        help="compute the digest of each file for which the owners publish one, and count the questions of large files",
    )
    data.add_argument("--json", type=Path, metavar="FILE", help="write the list to this file")
    data.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Return the list, and whether a named benchmark is not complete."""
    from medvqa import benchmarks
    from medvqa.fetching import shelf
    from medvqa.records import run_folder

    folder, typed = data_of(options)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{typed}: no such folder")
    # A file, such as klinik.toml, is replaced by the name of its benchmark.
    options.benchmark = options.names
    known = known_from(options).benchmarks
    chosen = {each.name: each for name in options.benchmark for each in benchmarks.members(name, known)} or dict(known)
    entries = [shelf.look(chosen[name], folder, check=options.check, tell=_tell) for name in sorted(chosen)]
    if options.json is not None:
        try:
            run_folder.write_json(options.json, [_as_json(entry) for entry in entries])
        except OSError as error:
            raise UsageError(f"{options.json} cannot be written: {error.strerror}") from error
    wanting = bool(options.names) and not all(entry.whole for entry in entries)
    return _text(entries, folder, shelf.lmu_tables(known.values()), options.data), int(wanting)


def _tell(line: str) -> None:
    say(f"medvqa: {line}")


def _text(entries: Sequence[ShelfEntry], folder: Path | None, lmu: LmuTables | None, typed: str | None) -> str:
    from medvqa import printing
    from medvqa.fetching import shelf
    from medvqa.figures import Table, numbers, terminal, texts

    columns = (
        *(*texts("benchmark", "state"), *numbers("questions", "images", "size")),
        *texts("digests", "licence", "path"),
    )
    table = terminal(Table("", columns, tuple(map(_row, entries))))
    about = f"data folder: {folder}" if folder else "no data folder: name it by --data=DIR, or set MEDVQA_DATA"
    # The commands below work without it only if MEDVQA_DATA names the folder.
    where = "" if folder is not None and not typed else " " + shlex.quote(f"--data={typed or 'DIR'}")
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
    """The licence in few words; --json has the whole text."""
    return (licence if len(licence) <= WIDEST else f"{licence[: WIDEST - 2].rstrip()} …") or "–"


def _of(there: int | None, wanted: int | None) -> str:
    if there is None:
        return "–" if wanted is None else f"– of {wanted:,}"
    return f"{there:,}" if wanted in (None, there) else f"{there:,} of {wanted:,}"


def _as_json(entry: ShelfEntry) -> dict[str, Any]:
    from medvqa.fetching import shelf

    origin = entry.benchmark.origin
    return {
        "benchmark": entry.benchmark.name,
        "group": entry.benchmark.group,
        "state": entry.state,
        "questions": entry.questions,
        "release": entry.benchmark.release,
        "images": entry.images,
        "images_named": entry.named,
        "bytes": entry.size,
        "files": [str(path) for path in entry.paths],
        "files_released": entry.released.count,
        "files_absent": list(entry.released.absent),
        "files_of_another_size": list(entry.released.short),
        "digests": entry.released.digests,
        "digests_that_differ": list(entry.released.differing),
        "licence": origin.licence if origin is not None else "",
        "home": origin.home if origin is not None else "",
        "folder": str(entry.folder) if entry.folder is not None else None,
        "vlmevalkit": entry.lmu,
        "problem": entry.problem,
        "remedy": shelf.remedy(entry),
    }
