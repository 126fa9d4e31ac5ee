"""`medvqa data`: list the benchmarks with their files on this machine."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option, positional, written_as
from medvqa.cli.common import known_and_named, say, write
from medvqa.items import UsageError


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
    from medvqa.fetching import listing, shelf

    options = typed.options()
    folder = options.data
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{options.data_typed}: no such folder")
    registry, names = known_and_named(typed, typed.names)
    known = registry.benchmarks
    chosen = {each.name: each for name in names for each in benchmarks.members(name, known)} or dict(known)

    def tell(line: str) -> None:
        say(f"medvqa: {line}")

    entries = [shelf.look(chosen[name], folder, check=typed.check, tell=tell) for name in sorted(chosen)]
    write("--json", typed.json, lambda: list(map(asdict, entries)))
    wanting = bool(names) and not all(entry.whole for entry in entries)
    # The commands below the table work without the option only if MEDVQA_DATA names the folder.
    written = typed.raw["data"]
    where = "" if folder is not None and not written else " " + shlex.quote(f"--data={written or 'DIR'}")
    return listing.text(entries, folder, where, known.values()), int(wanting)


COMMAND = Command(DataArguments, run, DATA)
