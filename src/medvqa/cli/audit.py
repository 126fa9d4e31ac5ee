"""`medvqa audit`: look for names of patients and files in every file of a run folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.arguments import DATA, Arguments, Command, option, positional
from medvqa.cli.common import known_and_named, known_from
from medvqa.items import UsageError, withholding

if TYPE_CHECKING:
    from medvqa.records.auditing import Wanted
    from medvqa.records.run_record import RecordedBenchmark


class AuditArguments(Arguments):
    """Read the names of people, the patients and the paths of images from the data of a run, and look for them.

    Every file of the folder is read. Files, lines and counts are printed, and no name. Exit code 1 if any is found.
    """

    paths: list[Path] = positional("run folders, other folders, or files", "RUN")
    table: list[Path] = option(
        "a table with columns of names, such as Name or Nachname, and of patients (repeatable)", "FILE"
    )
    public: bool = option(
        "read no file: tell whether all benchmarks of the runs are declared public, by exit code 0 (else 1)"
    )


def run(typed: AuditArguments) -> tuple[str, int]:
    """Return the files, lines and counts; exit code 1 if anything is found."""
    from medvqa.records import auditing

    for path in typed.paths:
        if not path.exists():
            raise UsageError(f"{path}: no such folder or file")
    if typed.public:
        return _public(typed)
    with withholding():
        wanted = _wanted(typed)
    lines, code = [], 0
    for path in typed.paths:
        number, found = auditing.audited(path, wanted)
        files = len({one.file for one in found})
        lines.append(f"{path}: {number:,} files read, {files or 'none'} with names of patients or files")
        lines += [f"  {one.text}" for one in found]
        code |= bool(found)
    return "\n".join([*lines, f"looked for {wanted.counted}"]), code


def _public(typed: AuditArguments) -> tuple[str, int]:
    """Return which data of the runs are not declared public; exit code 0 if none are (UsageError for no run)."""
    from medvqa.records import run_record

    private: list[str] = []
    for path in typed.paths:
        run, known = run_record.read_run(path), known_from(typed, [path]).benchmarks
        if not run.benchmarks:
            raise UsageError(f"{path}: it names no benchmark")
        private += [name for name in run.benchmarks if name not in known or not known[name].public]
        # Prompts hold the solved examples of a pool.
        pool = run.protocol.pool
        private += [f"the pool {pool}"] if pool and not (pool in known and known[pool].public) else []
    if private:
        return f"not declared public: {', '.join(dict.fromkeys(private))}", 1
    return "all benchmarks are declared public", 0


def _wanted(typed: AuditArguments) -> Wanted:
    """Return the texts to look for (UsageError if the data of a run are not here, or name nobody)."""
    from medvqa import benchmarks
    from medvqa.records import auditing, run_record
    from medvqa.records.run_record import RUN

    options, runs = typed.options(), [path for path in typed.paths if (path / RUN).is_file()]
    names = list(options.benchmarks)
    if not (names or typed.table):
        recorded = {name: about for path in runs for name, about in run_record.read_run(path).benchmarks.items()}
        names = [_file_of(name, about) for name, about in recorded.items()]
    registry, names = known_and_named(typed, names, runs)
    wanted = auditing.Wanted()
    for file in typed.table:
        wanted |= auditing.wanted_of_table(file)
    for benchmark in (each for name in names for each in benchmarks.members(name, registry.benchmarks)):
        if options.benchmarks or not benchmark.public:
            wanted |= auditing.wanted_of_benchmark(benchmark, options.data)
    if not wanted:
        raise UsageError(
            "nothing to look for: the data name no patient and no file, or are declared public. Name a benchmark by "
            "--benchmark=NAME, or a table with a column of names by --table=FILE"
        )
    return wanted


def _file_of(name: str, recorded: RecordedBenchmark) -> str:
    """Return the file that declares a recorded benchmark, if it is here, else the benchmark's name."""
    file = "" if recorded.declared is None else recorded.declared.file
    return file if file and os.path.isfile(file) else name


COMMAND = Command(
    AuditArguments,
    run,
    {
        "benchmark": "a benchmark, or the file that declares one, whose data have the names (repeatable; default: "
        "those of the runs that are not declared public)",
        **DATA,
    },
)
