"""Functions that commands share: messages, the registry of a project, and files that are written besides."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import files, printing
from medvqa.cli.arguments import Arguments
from medvqa.items import Benchmark, Item, UsageError

if TYPE_CHECKING:
    from medvqa.session.options import Options
    from medvqa.session.registry import Registry


def say(text: str) -> None:
    """Print a message, as far as it is printable, on standard error."""
    printing.to_stderr(printing.lines(text) + "\n")


def known_from(options: Arguments | argparse.Namespace, runs: Iterable[Path] = ()) -> Registry:
    """Return the registry of the shipped rooms, packages, conftest.py files and --plugin files (UsageError).

    It has the benchmarks that `runs` recorded.
    """
    from medvqa.session import conftests

    return conftests.registry(options.plugin, noconftest=options.noconftest, say=say).with_runs(runs)


def known_and_named(
    options: Arguments, benchmarks: Sequence[str], runs: Iterable[Path] = ()
) -> tuple[Registry, list[str]]:
    """Return the registry with the files among `benchmarks`, such as klinik.toml, and the names of all of these."""
    known, names = known_from(options).with_files(benchmarks, Path.cwd())
    return known.with_runs(runs), names


def questions_of(
    options: Options, names: Sequence[str], known: Mapping[str, Benchmark]
) -> dict[str, tuple[tuple[Item, ...], Path]]:
    """Return the questions of benchmarks, by name, and the folder that they were read from (UsageError, DataError).

    Without `names`, all that are found (`benchmarks.choose`).
    """
    from medvqa import benchmarks

    data, loaded = options.data, {}
    for benchmark in benchmarks.choose(names, known, data, options.data_typed):
        folder = benchmarks.folder_of(benchmark, data) or data or Path()
        loaded[benchmark.name] = benchmarks.load(benchmark, folder), folder
    return loaded


def write(option: str, path: Path | None, content: Callable[[], object]) -> None:
    """Write what `content` returns into the file that an option names, if any (UsageError).

    It is a text, bytes, or a value to write as JSON. The file is replaced whole.
    """
    from medvqa.records import run_folder

    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"{option}={path}: a folder; name a file")
    made = content()
    with files.writing(f"{option}={path}:"):
        if isinstance(made, str | bytes):
            files.replace(path, made.encode(errors="replace") if isinstance(made, str) else made)
        else:
            run_folder.write_json(path, made)


def count_up(unit: str) -> Callable[[int, int], None]:
    """Return a function that shows the number done and the total on a terminal, such as `3/20 results`."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r  {done}/{total} {unit}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show
