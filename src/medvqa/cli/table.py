"""`medvqa table`: runs side by side, in the layout of a paper or by the values of a dimension."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.arguments import Arguments, Command, option, output, run_folders, written_as
from medvqa.cli.common import known_and_named, say, write
from medvqa.items import UsageError
from medvqa.session.options import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from medvqa.report.build import Report
    from medvqa.report.side_by_side import SideBySide
    from medvqa.session.registry import Registry

SHOWN = 12
"""Headings that a note lists."""
FORMATS = {"terminal": "", "latex": ".tex", "markdown": ".md", "csv": ".csv", "parquet": ".parquet"}
"""The formats of a table, with the ending of a file that tells each."""


class TableArguments(Arguments):
    """Print runs side by side: a row for each run, means of groups of runs, and the level of chance.

    The columns are those of the benchmark's paper, or one measure by the values of a dimension. A figure is in bold if
    no other run is shown to be better.
    """

    runs: list[Path] = run_folders()
    layout: str = option(
        "the columns: slices (of one measure), paper (of the benchmark's paper), paper:N for another table of it, or "
        "the name of a paper (default: paper for GMAI-MMBench, MediConfusion and MedLesionVQA, unless --measure or "
        "--by is typed, else slices)",
        "LAYOUT",
        default="",
    )
    measure: list[str] = option(
        "the measure (repeatable, or NAME,NAME: a table for each; default: the first of the headline)", "NAME"
    )
    by: str | None = option("the dimension (default: the benchmark's first)", "DIMENSION")
    group: list[str] = option(
        "add a row with the mean of these runs, such as --group=open=reports/a,reports/b (repeatable)", "NAME=RUN,RUN"
    )
    gap: bool = option("show the differences to chance, in points")
    intervals: bool = option("add the 95 % interval to each value of a run")
    published: bool = option("add the rows that the paper published, which are never in bold")
    format: str = option(
        "terminal, latex (for the package booktabs), markdown, csv or parquet (values as fractions, with intervals; "
        "default: by the ending of -o, else terminal)",
        "FORMAT",
        choices=tuple(FORMATS),
        default="",
    )
    output: Path | None = output("write the table to this file instead")
    csv: Path | None = written_as("CSV", "the values, as fractions,")
    latex: Path | None = written_as("LaTeX", "the table")


def run(typed: TableArguments) -> str:
    """Return the tables as text. UsageError for a benchmark, measure, dimension or run that is not there."""
    from medvqa import comparing, report
    from medvqa.report import side_by_side

    ending = "" if typed.output is None else typed.output.suffix.lower()
    form = typed.format or next((name for name, end in FORMATS.items() if end == ending), "terminal")
    if form == "parquet" and typed.output is None:
        raise UsageError("--format=parquet: name a file by -o FILE")
    registry, named = known_and_named(typed, typed.options().benchmarks, typed.runs)
    reports = {folder: report.build(folder, registry.benchmarks) for folder in dict.fromkeys(typed.runs)}
    tables, notes, names = _tables(typed, reports, registry, named)
    runs = comparing.load_beside(reports, names)
    tables = side_by_side.in_bold(tables, runs, registry.benchmarks)
    notes += [side_by_side.RULE] if any(row.bold for table in tables for row in table.rows) else []
    notes += side_by_side.notes(runs)

    def written(form: str) -> str | bytes:
        return side_by_side.written(form, tables, notes, intervals=typed.intervals)

    write("--csv", typed.csv, lambda: written("csv"))
    write("--latex", typed.latex, lambda: written("latex"))
    write("-o", typed.output, lambda: written(form))
    if typed.output is not None:
        return "\n".join([f"{typed.output}: the table as {form}", *(f"! {note}" for note in notes)])
    if form == "csv":
        for note in notes:
            say(f"! {note}")
    return str(written(form)).removesuffix("\n")


def _tables(
    typed: TableArguments, reports: Mapping[Path, Report], registry: Registry, named: Sequence[str]
) -> tuple[list[SideBySide], list[str], list[str]]:
    """Return the tables, notes about them, and the names of their benchmarks."""
    from medvqa import printing
    from medvqa.report import papers, side_by_side

    slices = typed.first_given("measure", "by")
    parts = {
        folder: replace(each, parts=tuple(part for part in each.parts if not named or part.benchmark.name in named))
        for folder, each in reports.items()
    }
    present = {part.benchmark.name for each in parts.values() for part in each.parts}
    layout = typed.layout or ("slices" if slices else "")
    paper = papers.layout(layout, present, registry.benchmarks.values())
    notes = list[str]()
    if paper is None:
        if typed.published:
            there = papers.layouts(present, registry.benchmarks.values())
            raise UsageError(f"--published: the rows are in the layout of a paper, such as {there}")
        benchmark = registry.benchmarks[side_by_side.shared_benchmark(named, list(reports.values()))]
        tables = [
            side_by_side.of_reports(reports, benchmark, name, by=typed.by, groups=typed.group, gap=typed.gap)
            for name in listed(typed.measure) or benchmark.headline[:1]
        ]
        names = [benchmark.name]
    else:
        if slices is not None:
            raise UsageError(f"{slices}: the columns are those of {paper.title}; leave it out, or type --layout=slices")
        table, notes = papers.side_by_side(paper, parts, groups=typed.group, gap=typed.gap, published=typed.published)
        tables = [table]
        names = sorted({figure.of["benchmark"] for row in table.rows for figure in row.figures if figure.of})
    for table in tables:
        if few := side_by_side.of_few(table):
            about = f"{table.columns[0].measure}: " if paper is None else ""
            notes.append(f"{about}few units, read with care: {printing.some(few, SHOWN)}")
    return tables, notes, names


COMMAND = Command(TableArguments, run, {"benchmark": "the benchmark, if the runs have several"})
