"""Parts that commands share: messages, the data folder, and the registry of a project."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from medvqa import printing
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.records.join import Joined, RunPart
    from medvqa.session.options import Option
    from medvqa.session.registry import Registry

Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # argparse has no public name
"""The argument of a command's `add`, to which it adds its parser."""


def add_options(parser: argparse._ActionsContainer, rows: Iterable[Option], helps: Mapping[str, str] = {}) -> None:
    """Add options of runs; `helps` has help texts that differ here."""
    from medvqa.session.options import names_of

    for row in rows:
        names = (f"--{name}" for name in names_of(row.name))
        parser.add_argument(*names, dest=row.name, **row.arguments(helps.get(row.name, "")))


def say(text: str) -> None:
    """Print a message, as far as it is printable, on standard error."""
    printing.to_stderr(printing.lines(text) + "\n")


def data_of(options: argparse.Namespace) -> tuple[Path | None, str]:
    """Return the data folder of --data or MEDVQA_DATA, and the text that named it. UsageError for an empty --data."""
    from medvqa.session.options import data_folder

    if options.data == "":
        raise UsageError("--data: a value is empty; write --data=DIR, or leave it out")
    return data_folder(options.data, Path.cwd())


def known_from(options: argparse.Namespace, runs: Iterable[Path] = ()) -> Registry:
    """Return the registry of the shipped rooms, packages, conftest.py files and --plugin files (UsageError).

    It has the benchmarks that `runs` recorded. The files among the benchmarks of --benchmark are replaced in `options`
    by the names of their benchmarks.
    """
    from medvqa.session import conftests
    from medvqa.session.options import listed
    from medvqa.session.registry import Registry

    named = [Path(name).resolve() for name in options.plugin]
    for typed, path in zip(options.plugin, named, strict=True):
        if not path.is_file():
            raise UsageError(f"--plugin={typed}: no such Python file")
    own, skipped = ([], []) if options.noconftest else conftests.found(Path.cwd())
    for file, line in skipped:
        if file not in named:
            say(f"medvqa: {line}")
    modules = []
    for file in own:
        try:
            modules.append(conftests.load(file))
        except UsageError as error:
            raise UsageError(f"{error}. --noconftest leaves out conftest.py files") from error.__cause__
    # As with hooks of pytest, the innermost conftest.py and the last --plugin come first.
    known = Registry.of(reversed([*modules, *(conftests.load(file) for file in named if file not in own)]))
    typed = vars(options).get("benchmark")
    if typed:
        several = [typed] if isinstance(typed, str) else typed
        known, names = known.with_files(listed(several), Path.cwd())
        options.benchmark = ",".join(names) if isinstance(typed, str) else names
    return known.with_runs(runs)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder, if the folder is one, within the block (UsageError)."""
    from medvqa.records.lock import Lock
    from medvqa.records.run_record import RUN

    lock = Lock(folder)
    try:
        try:
            if (folder / RUN).is_file() and (line := lock.acquire()) is not None:
                say(line)
        except OSError as error:
            raise UsageError(f"run folder {folder} cannot be written: {error.strerror}") from error
        yield
    finally:
        lock.release()


def output_of(options: argparse.Namespace) -> Path:
    """Return the run folder of -o: a name lies beside the first run (UsageError)."""
    from medvqa.records import run_folder

    beside = options.output.parent if options.output.parent != Path() else options.runs[0].parent
    folder: Path = beside / options.output.name
    run_folder.check_name(folder.name, "-o")
    return folder


def parts_of(runs: Sequence[Path], registry: Registry) -> list[RunPart]:
    """Return the content of run folders that are joined (UsageError, also for a benchmark that is not known)."""
    from medvqa import benchmarks
    from medvqa.records import join

    parts = [join.load(run) for run in runs]
    for path, part in zip(runs, parts, strict=True):
        for name in sorted({result.item.benchmark for result in part.results} - registry.benchmarks.keys()):
            raise benchmarks.not_known(f"{path} holds", name, registry.benchmarks)
    return parts


def write_joined(
    joined: Joined, folder: Path, registry: Registry, *, parts: Sequence[Path] = (), replaces: bool = False
) -> str:
    """Write a joined run and its reports; return its notes and summary. For the arguments see `records.join.join`."""
    from medvqa import report
    from medvqa.records import join
    from medvqa.report.terminal import summary

    with join.making(folder, replaces=replaces) as place:
        join.write(joined, place, parts)
        written = replace(report.write(report.build(place, registry.benchmarks)), folder=folder)
    return "\n".join([*notes_of(joined), summary(written, width=100, exits=False)])


def notes_of(joined: Joined) -> list[str]:
    """Return the notes on a joined run, for people."""
    return [f"! {printing.line(note)}" for note in joined.notes]


def count_up(unit: str) -> Callable[[int, int], None]:
    """Return a function that shows the number done and the total on a terminal, such as `3/20 results`."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r  {done}/{total} {unit}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show
