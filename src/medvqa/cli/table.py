"""`medvqa table`: one measure of several runs by the values of a dimension, as in the papers' tables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from
from medvqa.items import Benchmark, Measure, UsageError
from medvqa.session.options import listed

if TYPE_CHECKING:
    from medvqa.report import Report
    from medvqa.report.side_by_side import SideBySide

SHOWN = 12
"""Headings that a note lists."""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    table = commands.add_parser(
        "table",
        parents=[common],
        description="Print one measure of several runs as a table: a row for each run, a column for each value of a "
        "dimension, means of groups of runs, and the level of chance.",
    )
    table.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, such as reports/RUN")
    table.add_argument("--benchmark", metavar="NAME", help="the benchmark, if the runs have several")
    table.add_argument(
        "--measure",
        action="append",
        default=[],
        metavar="NAME",
        help="the measure (repeatable, or NAME,NAME: a table for each; default: the first of the headline)",
    )
    table.add_argument("--by", metavar="DIMENSION", help="the dimension (default: the benchmark's first)")
    table.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=RUN,RUN",
        help="add a row with the mean of these runs, such as --group=open=reports/a,reports/b (repeatable)",
    )
    table.add_argument("--gap", action="store_true", help="show the differences to chance, in points")
    table.add_argument("--intervals", action="store_true", help="add the 95 %% interval to each value of a run")
    table.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV, as fractions")
    table.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Return the tables as text. UsageError for a benchmark, measure, dimension or run that is not there."""
    from medvqa import printing, report
    from medvqa.figures import terminal
    from medvqa.records import run_folder
    from medvqa.report import side_by_side

    known = known_from(options, options.runs).benchmarks
    folders = list(dict.fromkeys(options.runs))
    reports = {folder: report.build(folder, known) for folder in folders}
    benchmark = known[_benchmark(options.benchmark, list(reports.values()))]
    names = listed(options.measure) or benchmark.headline[:1]
    tables, few_of = zip(*(_table(options, benchmark, reports, name) for name in names), strict=True)
    few = [
        f"! {table.measure}: few units, read with care: {_some(few)}"
        for table, few in zip(tables, few_of, strict=True)
        if few
    ]
    if options.csv is not None:
        try:
            run_folder.write_atomic(options.csv, side_by_side.as_csv(tables).encode())
        except OSError as error:
            raise UsageError(f"--csv={options.csv}: cannot be written: {error.strerror}") from error
    texts = [side_by_side.as_text(table, intervals=options.intervals) for table in tables]
    blocks = [f"{printing.line(f'{benchmark.name}: {text.title}')}\n{terminal(text).rstrip()}" for text in texts]
    return "\n".join(["\n\n".join(blocks), *few, *_notes(folders, benchmark.name)])


def _table(
    options: argparse.Namespace, benchmark: Benchmark, reports: Mapping[Path, Report], measure: str
) -> tuple[SideBySide, list[str]]:
    """Tabulate one measure of the runs, with the headings of columns of few units (UsageError)."""
    from medvqa.report import side_by_side

    measures_of, named = _measures(reports, benchmark.name, measure)
    dimensions = list(dict.fromkeys(name for own in measures_of.values() for each in own for name in each.slice))
    dimension = options.by or next((name for name in benchmark.dimensions if name in dimensions), "kind")
    if dimension not in dimensions:
        raise UsageError(f"--by={dimension}: {_absent(dimension, dimensions)}; there are: {', '.join(dimensions)}")
    table = side_by_side.side_by_side(measures_of, measure, dimension)
    if options.gap:
        if not any("random" in each.references for own in measures_of.values() for each in own if each.name == measure):
            raise UsageError(f"--gap: {measure} has no level of chance")
        table = side_by_side.above_chance(table, measures_of)
    few = side_by_side.of_few(measures_of, table)
    return side_by_side.with_means(table, _groups(options.group, named)), few


def _absent(dimension: str, dimensions: Sequence[str]) -> str:
    """Tell a crossing that the benchmark does not declare from a name that is no dimension."""
    from medvqa.data import lexicon

    parts = dimension.split(lexicon.CROSSED)
    if len(parts) > 1 and all(part in dimensions for part in parts):
        return "the benchmark does not declare this crossing among its dimensions"
    return "no such dimension"


def _some(headings: Sequence[str]) -> str:
    more = len(headings) - SHOWN
    return ", ".join(headings[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _benchmark(typed: str | None, reports: Sequence[Report]) -> str:
    """The benchmark of the table: the one typed, else the only one that all runs have."""
    names = [dict.fromkeys(part.benchmark.name for part in report.parts) for report in reports]
    shared = [name for name in names[0] if all(name in others for others in names)]
    if typed is not None and len(chosen := listed([typed])) > 1:
        raise UsageError(
            f"--benchmark={typed}: a table is about one benchmark, and these are {len(chosen)}; type a command for "
            f"each, such as --benchmark={chosen[0]}"
        )
    if typed is not None and typed not in shared:
        raise UsageError(f"--benchmark={typed}: not in all of these runs; in all are: {', '.join(shared) or 'none'}")
    if typed is None and len(shared) != 1:
        raise UsageError(
            f"name one benchmark by --benchmark=NAME; in all runs are: {', '.join(shared)}"
            if shared
            else "these runs have no benchmark in common"
        )
    return typed or shared[0]


def _measures(
    reports: Mapping[Path, Report], benchmark: str, measure: str
) -> tuple[dict[str, Sequence[Measure]], dict[str, list[str]]]:
    """Return measures by row, and the rows of each run by its path and name.

    A run has a row for each technique by which it has the measure. UsageError if a run has none.
    """
    names = [folder.resolve().name for folder in reports]
    measures_of: dict[str, Sequence[Measure]] = {}
    named: dict[str, list[str]] = {}
    for folder, name in zip(reports, names, strict=True):
        shown = name if names.count(name) == 1 else str(folder)
        parts = [part for part in reports[folder].parts if part.benchmark.name == benchmark]
        having = [part for part in parts if any(each.name == measure for each in part.measures)]
        if not having:
            found = dict.fromkeys(each.name for part in parts for each in part.measures)
            raise UsageError(f"--measure={measure}: {folder} has no such measure; there are: {', '.join(found)}")
        rows = {f"{shown} {part.technique}" if len(having) > 1 else shown: part.measures for part in having}
        measures_of.update(rows)
        for key in (str(folder), shown, *rows):
            named[key] = [key] if key in rows else list(rows)
    return measures_of, named


def _groups(typed: Sequence[str], named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in typed:
        name, sign, members = text.partition("=")
        runs = [member.strip().rstrip("/") for member in members.split(",") if member.strip()]
        if not (sign and name.strip() and runs):
            raise UsageError(f"--group={text}: write a name and runs, as --group=open=reports/a,reports/b")
        for member in runs:
            if member not in named:
                raise UsageError(f"--group={text}: '{member}' is none of the runs; there are: {', '.join(named)}")
        groups[name.strip()] = list(dict.fromkeys(row for member in runs for row in named[member]))
    return groups


def _notes(folders: Sequence[Path], benchmark: str) -> list[str]:
    """Lines about runs that differ from the first in more than the model."""
    from medvqa import comparing, printing

    first, *others = comparing.beside(
        [(str(folder), comparing.load(folder)) for folder in folders], [benchmark], option="--benchmark="
    )
    lines = []
    for other in others:
        contrast = comparing.contrast(other, first)
        lines += [f"not comparable: {line}" for line in contrast.refusals]
        if contrast.difference is not None:
            lines.append(f"one setting differs: {contrast.difference.line(other.name, first.name)}")
    notes = [line for other in others for line in comparing.notes(other, first)]
    if not others:
        notes = comparing.gaps(first)
    return [
        *(f"! {printing.line(line)}" for line in dict.fromkeys([*lines, *notes])),
    ]
