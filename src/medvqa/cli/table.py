"""`medvqa table`: one measure of several runs by the values of a dimension, as in the papers' tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, option, run_folders, written_as
from medvqa.cli.common import known_and_named, write
from medvqa.session.options import listed

SHOWN = 12
"""Headings that a note lists."""


class TableArguments(Arguments):
    """Print one measure of several runs as a table.

    There is a row for each run, a column for each value of a dimension, means of groups of runs, and the level of
    chance.
    """

    runs: list[Path] = run_folders()
    measure: list[str] = option(
        "the measure (repeatable, or NAME,NAME: a table for each; default: the first of the headline)", "NAME"
    )
    by: str | None = option("the dimension (default: the benchmark's first)", "DIMENSION")
    group: list[str] = option(
        "add a row with the mean of these runs, such as --group=open=reports/a,reports/b (repeatable)", "NAME=RUN,RUN"
    )
    gap: bool = option("show the differences to chance, in points")
    intervals: bool = option("add the 95 % interval to each value of a run")
    csv: Path | None = written_as("CSV", "the values, as fractions,")
    latex: Path | None = written_as("LaTeX", "the table")


def run(typed: TableArguments) -> str:
    """Return the tables as text. UsageError for a benchmark, measure, dimension or run that is not there."""
    from medvqa import comparing, printing, report
    from medvqa.figures import latex, terminal
    from medvqa.report import side_by_side

    registry, named = known_and_named(typed, typed.options().benchmarks, typed.runs)
    reports = {folder: report.build(folder, registry.benchmarks) for folder in dict.fromkeys(typed.runs)}
    benchmark = registry.benchmarks[side_by_side.shared_benchmark(named, list(reports.values()))]
    tables, shown, few = [], [], []
    for name in listed(typed.measure) or benchmark.headline[:1]:
        table, few_of = side_by_side.of_reports(
            reports, benchmark, name, by=typed.by, groups=typed.group, gap=typed.gap
        )
        tables.append(table)
        text = side_by_side.as_table(table, intervals=typed.intervals)
        shown.append(replace(text, title=f"{benchmark.name}: {text.title}"))
        few += [f"! {name}: few units, read with care: {printing.some(few_of, SHOWN)}"] if few_of else []
    write("--csv", typed.csv, lambda: side_by_side.as_csv(tables))
    write("--latex", typed.latex, lambda: "\n".join(map(latex, shown)))
    blocks = [f"{printing.line(table.title)}\n{terminal(table).rstrip()}" for table in shown]
    return "\n".join(["\n\n".join(blocks), *few, *side_by_side.notes(comparing.load_beside(reports, [benchmark.name]))])


COMMAND = Command(TableArguments, run, {"benchmark": "the benchmark, if the runs have several"})
