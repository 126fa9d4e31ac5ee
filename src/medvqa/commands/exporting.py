"""Write a run as a baseline file, or as tables for other programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from medvqa import files, printing
from medvqa.items import Benchmark, MedVQAError, UsageError
from medvqa.records import baseline_file, coverage, keyed, run_folder, run_record
from medvqa.records.run_folder import Stored
from medvqa.records.run_record import RUN, RunRecord
from medvqa.report import Report, rows
from medvqa.report.rows import Rows


def write_baseline(run: Path, output: Path, known: Mapping[str, Benchmark], *, responses: bool) -> str:
    """Write the results of a complete run as one file; return lines about it (UsageError).

    Without `responses`, answers are digests, and data that no benchmark of `known` declares public are hashed by the
    project's own key.
    """
    about, stored = run_record.read_run(run), run_folder.read(run)
    run_folder.check_scored(run, about)
    _check(run, about, stored)
    if output.is_dir():
        raise UsageError(f"-o {output}: a folder; name a file")
    hidden, key, left = frozenset[str](), None, ""
    if not responses:
        held = {result.item.benchmark for result in stored.results} | about.benchmarks.keys()
        hidden = frozenset(name for name in held if name not in known or not known[name].public)
        left = ", without responses"
    if hidden:
        key = keyed.own_key()
        left += f", ids and texts of {', '.join(sorted(hidden))} as hashes by the key of {key.source}"
    baseline_file.write_baseline(output, about, stored.results, responses=responses, hidden=hidden, key=key)
    size = f"{output.stat().st_size / 1024:,.0f} KiB"
    written = f"{output}: {len(stored.results):,} results of run {run.name}{left}, {size}"
    if not stored.unread:
        return written
    number = len(stored.unread)
    unread = "1 line was not read" if number == 1 else f"{number:,} lines were not read, the first"
    return f"{written}\n! {unread}: {printing.line(stored.unread[0])}"


def _check(run: Path, about: RunRecord, stored: Stored) -> None:
    """Raise UsageError for a run that is not complete, or whose questions were chosen by their outcomes."""
    covered = coverage.coverage(run, about, stored)
    if not covered.complete:
        first = f" ({stored.unread[0]})" if stored.unread else ""
        remedy = "join the shares by medvqa merge" if covered.finished else f"finish it by pytest --run={run.name}"
        raise UsageError(f"{run} cannot be a baseline: {'; '.join(covered.lines)}{first}: {remedy}")
    if about.selected.ranked_by_outcome:
        raise UsageError(
            f"{run} cannot be a baseline: its questions were chosen by how they ended before (--lf). "
            "Type the command of the run without --lf"
        )


DICTIONARY = "dictionary.csv"
TABLES: Mapping[str, Callable[[Report], Rows]] = {
    "items": rows.items,
    "results": rows.results,
    "measures": rows.measures,
    "errors": rows.errors,
}
FILES = frozenset({DICTIONARY, *(f"{name}.{kind}" for name in TABLES for kind in ("csv", "parquet"))})
"""All files that an export may write."""


def write_tables(report: Report, folder: Path) -> str:
    """Write items, results and measures of a run as CSV and Parquet, with a data dictionary; return lines about it.

    Without pyarrow, there is no Parquet, and a line says so. UsageError for a run folder, which has a measures.csv of
    its own, and for a folder with files of these names that no export wrote. Those of an earlier export are replaced,
    or removed if this run has none.
    """
    if (folder / RUN).exists():
        raise UsageError(f"-o {folder}: a run folder; name another")
    _check_names(folder)
    tables = {name: of(report) for name, of in TABLES.items() if name != "errors" or report.errors is not None}
    made = {f"{name}.csv": table.csv().encode(errors="replace") for name, table in tables.items()}
    lines = [*report.covered.lines]
    try:
        made |= {f"{name}.parquet": table.parquet() for name, table in tables.items()}
    except MedVQAError as error:
        lines.append(str(error))
    made[DICTIONARY] = rows.dictionary(tables.items()).encode(errors="replace")
    with files.writing(f"-o {folder}:"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in made.items():
            files.replace(folder / name, content)
        for name in FILES - made.keys():
            (folder / name).unlink(missing_ok=True)
    counted = ", ".join(f"{len(table.rows):,} {name}" for name, table in tables.items())
    written = f"{folder}: {counted} of run {report.folder.name}; the columns are explained in {DICTIONARY}"
    return "\n".join([written, *(f"! {printing.line(line)}" for line in lines)])


def _check_names(folder: Path) -> None:
    """Raise UsageError if a file of the user would be replaced: one without the dictionary of an earlier export."""
    there = sorted(name for name in FILES if os.path.lexists(folder / name))
    heading = rows.dictionary(()).encode()
    with files.writing(f"-o {folder}:"):
        if there and not (DICTIONARY in there and files.part(folder / DICTIONARY, 0, len(heading)) == heading):
            raise UsageError(f"-o {folder}: {there[0]} is there, and no export wrote it; name another folder")
