"""`medvqa paper`: a model's row in a table of a benchmark's paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.arguments import RUN_OPTIONS, Arguments, Command, option, positional, run_folders, written_as
from medvqa.cli.common import known_and_named, known_from, say, write
from medvqa.cli.run import lines_of
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.paper_tables import PaperTable
    from medvqa.report.build import Report
    from medvqa.session.registry import Registry

_EXAMPLES = """\
examples:
  medvqa paper mediconfusion --model=MODEL --judge=JUDGE --data=DIR     Table 1: MC, GD, PS, and FF with a judge
  medvqa paper gmai-mmbench --model=MODEL --data=DIR --answers-from-category
                                                                        Table 2: VAL, TEST and the tasks of TEST
  medvqa paper medlesionvqa --model=MODEL --judge=JUDGE --data=DIR      Table 2: each ability, micro and macro
  medvqa paper mediconfusion reports/RUN reports/OTHER                  the row of recorded runs; nothing is asked
  medvqa paper gmai-mmbench reports/RUN --table=3                       another table of the paper: by department
  medvqa paper mediconfusion --table=10                                 its published rows alone
  medvqa paper mediconfusion --model=random --benchmark=phantom-mediconfusion

Options of `medvqa run` are valid here, too. The exit codes are those of `medvqa run`.
"""


class PaperArguments(Arguments):
    """Ask a model what a row of a paper's table needs, and print the row beside the published ones.

    It is one run, as with `medvqa run`. With RUN, print the row of recorded runs instead.
    """

    paper: str = positional("a data set with published rows, such as mediconfusion", "PAPER")
    runs: list[Path] = run_folders(least=0)
    table: str = option(
        "another table, by its number (default: the main one); without RUN and --model, its published rows alone",
        "N",
        default="",
    )
    latex: Path | None = written_as("LaTeX", "the tables")


def run(typed: PaperArguments) -> tuple[str, int]:
    """Return the row of recorded runs, or ask for it; with the exit code."""
    from medvqa import report

    if not typed.runs and typed.table and typed.raw["model"] is None:
        return _text(typed, _table(typed, known_from(typed)), []), 0
    if not typed.runs:
        return _asked(typed)
    if given := typed.first_given(*RUN_OPTIONS):
        raise UsageError(f"{given}: runs are recorded and nothing is asked; leave it out, or leave out RUN")
    known = known_from(typed, typed.runs)
    table = _measured(typed, known)
    reports = [report.build(folder, known.benchmarks) for folder in dict.fromkeys(typed.runs)]
    return _text(typed, table, reports), 0


def _table(typed: PaperArguments, known: Registry) -> PaperTable:
    """Return the table that was named (UsageError)."""
    from medvqa.report import papers

    return papers.named(typed.paper, typed.table, known.benchmarks.values())


def _measured(typed: PaperArguments, known: Registry) -> PaperTable:
    """Return the table, if measures of a run give columns of it (UsageError)."""
    from medvqa.report import papers

    table = _table(typed, known)
    papers.check_measured(table, f"--table={typed.table}")
    return table


def _asked(typed: PaperArguments) -> tuple[str, int]:
    """Ask the model in one run."""
    from medvqa.commands import paper_runs
    from medvqa.session.display import StderrDisplay
    from medvqa.session.door import conduct
    from medvqa.session.project import Project
    from medvqa.session.root import root_of
    from medvqa.session.run import INTERRUPTED

    here, options, select = Path.cwd(), typed.options(), typed.raw["select"]
    known, names = known_and_named(typed, options.benchmarks)
    table = _measured(typed, known)
    if typed.raw["model"] is None:
        raise UsageError("medvqa paper: name --model=MODEL, or recorded runs")
    project = Project(root_of(here), here, known, replace(options, benchmarks=tuple(names)))
    try:
        project = paper_runs.completed(table, project, extraction=typed.raw["extraction"], select=select, say=say)
        end = conduct(project, StderrDisplay(), select=select)
    except KeyboardInterrupt:
        return "interrupted before anything was asked", INTERRUPTED
    lines = lines_of(end, typed, project.options)
    if end.report is not None and end.report.parts:
        try:
            lines += ["", _text(typed, table, [end.report])]
        except UsageError as error:  # no figure: the lines above say what became of the questions
            lines += ["", f"! {error}"]
    return "\n".join(lines), end.exit_code


def _text(typed: PaperArguments, table: PaperTable, reports: Sequence[Report]) -> str:
    from medvqa import printing
    from medvqa.figures import latex, terminal
    from medvqa.report import papers

    row = papers.row_of(table, reports) if reports else None
    shown = [papers.beside(table, row), *([] if row is None else [papers.own(table, row)])]
    notes = papers.sources(table, row) if row is None else papers.notes(table, row, reports)
    write("--latex", typed.latex, lambda: "\n".join(map(latex, shown)))
    return "\n".join([*map(terminal, shown), *(f"! {printing.line(line.removesuffix('.'))}." for line in notes)])


COMMAND = Command(PaperArguments, run, RUN_OPTIONS, _EXAMPLES)
