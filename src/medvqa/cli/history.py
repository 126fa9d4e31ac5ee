"""`medvqa history`: runs in the order of time."""

from __future__ import annotations

from pathlib import Path

from medvqa.cli.arguments import Arguments, Command, output, run_folders, written_as
from medvqa.cli.common import known_and_named, write
from medvqa.items import MedVQAError, UsageError


class HistoryArguments(Arguments):
    """Print the headline measures of runs in the order of time, with intervals and the gate's decisions.

    Runs of different settings, data or selections stand apart. What is no run folder is left out, and said.
    """

    runs: list[Path] = run_folders(" (reports/* takes all)")
    json: Path | None = written_as("JSON lines", "a line for each measure of each run")
    output: Path | None = output("also draw a page with a plot of each measure, and write it to this file")


def run(typed: HistoryArguments) -> str:
    """Return the tables as text (UsageError if no run can be read)."""
    from medvqa import printing, report
    from medvqa.figures import titled
    from medvqa.report import history, html

    registry, named = known_and_named(typed, typed.options().benchmarks, typed.runs)
    reports, left_out = list[report.Report](), list[str]()
    for folder in dict.fromkeys(typed.runs):
        try:
            reports.append(report.build(folder, registry.benchmarks))
        except MedVQAError as error:
            left_out.append(str(error))
    if not reports:
        raise UsageError(f"no run can be read; type medvqa history reports/*: {printing.some(left_out, 3)}")
    rows = [row for row in history.rows(reports) if not named or row.measure.benchmark in named]
    write("--json", typed.json, lambda: history.json_lines(rows))
    write("-o", typed.output, lambda: html.history_page(rows, left_out))
    blocks = [titled(history.table(each)) for each in history.by_measure(rows)]
    written = [f"wrote {typed.output}"] if typed.output is not None else []
    return "\n".join(["\n\n".join(blocks), *(f"! left out: {line}" for line in left_out), *written])


COMMAND = Command(HistoryArguments, run, {"benchmark": "only this benchmark"})
