"""`medvqa audit`: look for names of patients and files in every file of a run folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import DataError, UsageError, withholding
from medvqa.session.options import listed

if TYPE_CHECKING:
    from medvqa.records.auditing import Wanted
    from medvqa.records.run_record import RecordedBenchmark


_ADVICE = "They have the names: name them by --benchmark=FILE.toml, --data=DIR or --table=FILE"


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    audit = commands.add_parser(
        "audit",
        parents=[common],
        description="Read the names of people, the patients and the paths of images from the data of a run, and look "
        "for them in every file of its folder. Print files, lines and counts, no name. Exit code 1 if any is found.",
    )
    audit.add_argument("paths", nargs="+", type=Path, metavar="RUN", help="run folders, other folders, or files")
    audit.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME",
        help="a benchmark, or the file that declares one, whose data have the names (repeatable; default: those of the "
        "runs that are not declared public)",
    )
    audit.add_argument(
        "--table",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a table with columns of names, such as Name or Nachname, and of patients (repeatable)",
    )
    audit.add_argument(
        "--public",
        action="store_true",
        help="read no file: tell whether all benchmarks of the runs are declared public, by exit code 0 (else 1)",
    )
    audit.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    audit.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, int]:
    """Return the files, lines and counts; exit code 1 if anything is found."""
    from medvqa.importing.mistakes import row_list
    from medvqa.records import auditing

    for path in options.paths:
        if not path.exists():
            raise UsageError(f"{path}: no such folder or file")
    if options.public:
        return _public(options)
    with withholding():
        wanted = _wanted(options)
    lines, code = [], 0
    for path in options.paths:
        number, found = auditing.audited(path, wanted)
        files = len({one.file for one in found})
        lines.append(f"{path}: {number:,} files read, {files or 'none'} with names of patients or files")
        for one in found:
            inside = row_list([line for line in one.lines if line])
            where = f", line{'s' * (len(one.lines) > 1)} {inside}" if inside else ""
            lines.append(f"  {one.file}: {one.kind}, {one.count:,} time{'s' * (one.count != 1)}{where}")
            code = 1
    names = len(wanted.names.parts) + len(wanted.names.signs)
    lines.append(
        f"looked for {names:,} words of names, {len(wanted.patients):,} numbers of patients or cases and "
        f"{len(wanted.paths):,} parts of paths"
    )
    return "\n".join(lines), code


def _public(options: argparse.Namespace) -> tuple[str, int]:
    """Return which data of the runs are not declared public; exit code 0 if none are (UsageError for no run)."""
    from medvqa.records import run_record

    private: list[str] = []
    for path in options.paths:
        run = run_record.read_run(path)
        known = known_from(options, [path]).benchmarks
        names = list(run.benchmarks)
        private += [name for name in names if name not in known or not known[name].public]
        # Prompts hold the solved examples of a pool.
        pool = run.protocol.pool
        private += [f"the pool {pool}"] if pool and not (pool in known and known[pool].public) else []
        if not names:
            raise UsageError(f"{path}: it names no benchmark")
    if private:
        return f"not declared public: {', '.join(dict.fromkeys(private))}", 1
    return "all benchmarks are declared public", 0


def _wanted(options: argparse.Namespace) -> Wanted:
    """The texts to look for (UsageError if the data of a run are not here, or name nobody)."""
    from medvqa import benchmarks
    from medvqa.benchmarks import table
    from medvqa.records import auditing, run_record
    from medvqa.records.run_record import RUN

    runs = [path for path in options.paths if (path / RUN).is_file()]
    typed = listed(options.benchmark)
    recorded = {name: about for path in runs for name, about in run_record.read_run(path).benchmarks.items()}
    if not typed and not options.table:
        options.benchmark = [_file_of(name, about) for name, about in recorded.items()]
    known = known_from(options, runs).benchmarks
    wanted = auditing.Wanted()
    for file in options.table:
        wanted |= auditing.wanted_of((), _private_cells(file))
    data, _ = data_of(options)
    for name in listed(options.benchmark):
        for benchmark in benchmarks.members(name, known):
            if benchmark.public and not typed:
                continue
            try:
                items = benchmarks.load_found(benchmark, data)
            except DataError as error:
                raise UsageError(f"{error}. {_ADVICE}") from None
            if items is None:
                raise UsageError(f"benchmark '{benchmark.name}': its data are not here. {_ADVICE}")
            source = table.source_of(benchmark)
            cells = (
                [] if source is None else _private_cells(source.file, source.encoding, source.delimiter, source.sheet)
            )
            wanted |= auditing.wanted_of(items, cells)
    if not wanted:
        raise UsageError(
            "nothing to look for: the data name no patient and no file. Name a table with a column of names by "
            "--table=FILE"
        )
    return wanted


def _private_cells(file: Path, encoding: str = "", delimiter: str = "", sheet: str = "") -> list[object]:
    """The cells of a table's private columns and of that of its patients (DataError)."""
    from medvqa import importing

    found = importing.read(file, file.name, encoding=encoding, delimiter=delimiter, sheet=sheet)
    columns = importing.guess(found).columns
    places = {*columns.private, *([columns.one["patient"]] if "patient" in columns.one else [])}
    return [cell for place in sorted(places) for cell in found.values(place)]


def _file_of(name: str, recorded: RecordedBenchmark) -> str:
    """The file that declares a recorded benchmark, if it is here, else the benchmark's name."""
    file = "" if recorded.declared is None else recorded.declared.file
    return file if file and os.path.isfile(file) else name
