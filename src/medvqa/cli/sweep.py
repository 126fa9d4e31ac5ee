"""`medvqa sweep`: run a grid of settings, and compare its runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from, say
from medvqa.cli.report import compared_page
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa import comparing
    from medvqa.report.grid import GridRow
    from medvqa.session.registry import Registry
    from medvqa.session.sweeping import Done, Sweep

_EPILOG = """\
example, sweep.toml:
  [options]                          options of medvqa run, for all runs
  benchmark = "phantom-mediconfusion"

  [grid]                             lists of values: one run for each combination
  model = ["phantom-vlm", "random"]
  ablate = ["", "blank"]             "" leaves the option out

exit codes: the worst of the runs', from medvqa run --help; 4 also if the file cannot be used
"""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "sweep",
        parents=[common],
        description="Run every combination of the settings in a file, one run folder each, in this process. The same "
        "command goes on with an interrupted sweep: finished runs are not asked again.\n"
        "At the end it prints the measures of all runs and the gain of each setting, and writes them to reports/NAME.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", type=Path, metavar="FILE.toml", help="the settings of the sweep")
    parser.add_argument("--dry-run", action="store_true", help="print the runs and their commands, and ask nothing")
    parser.set_defaults(command=run)


def run(typed: argparse.Namespace) -> tuple[str, int]:
    """Run the sweep; return its tables and the worst exit code of its runs."""
    from medvqa.records import private, run_folder
    from medvqa.records.run_record import RUN
    from medvqa.report import comparison, grid
    from medvqa.session import sweeping
    from medvqa.session.display import StderrDisplay
    from medvqa.session.options import Options
    from medvqa.session.project import Project
    from medvqa.session.root import root_of

    here = Path.cwd()
    sweep = sweeping.read(typed.file)
    registry = known_from(typed)
    project = Project(root_of(here), here, registry, Options.of({}, here))
    folder = project.reports / sweep.name
    if (folder / RUN).exists():
        raise UsageError(f"{typed.file}: name: {folder} is a run; give the sweep another name")
    if typed.dry_run:
        reasons = sweeping.check(sweep, project)
        lines = [f"{sweep.name}: {len(sweep.cells)} runs"]
        for cell in sweep.cells:
            lines.append(cell.command)
            lines += [f"! {reasons[cell.run]}"] if cell.run in reasons else []
        return "\n".join(lines), 4 if reasons else 0

    def tell(number: int, done: Done, cost: float) -> None:
        price = f", cost {cost:.4g} so far" if cost else ""
        why = f": {done.why}" if done.why else ""
        say(f"[{number}/{len(sweep.cells)}] {done.cell.run}: {done.state}, {done.questions:,} answers{price}{why}")

    ended = sweeping.conduct_all(sweep, project, StderrDisplay(), on_done=tell)
    rows = [_row(done) for done in ended]
    answered = {row.run for row in rows if row.report is not None}
    by_name = {row.run: row for row in rows}
    pairs = [(by_name[cell.run], by_name[other.run], name) for cell, other, name in sweep.neighbours()]
    sides = _sides(project.reports, answered)
    registry = registry.with_runs(project.reports / name for name in sorted(answered))
    gains = grid.gains(pairs, sides, registry.benchmarks)
    about = sweep.name, sweep.settings, sweep.base, rows, gains
    sections = grid.sections(*about)
    lines = [comparison.text(sections)]
    try:
        private.make_private(folder)
        run_folder.write_atomic(folder / "sweep.md", comparison.as_markdown(sections).encode())
        run_folder.write_json(folder / "sweep.json", grid.as_json(*about))
        run_folder.write_atomic(folder / "sweep.csv", grid.as_csv(sweep.settings, rows).encode())
        run_folder.write_atomic(folder / "gains.csv", grid.gains_as_csv(gains).encode())
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    lines += _page(sweep, project.reports, answered, folder / "index.html", registry)
    lines.append(f"sweep: {folder}")
    if any(done.state != "finished" for done in ended):
        lines.append(f"to go on: medvqa sweep {typed.file}")
    return "\n".join(lines), sweeping.exit_code(ended)


def _row(done: Done) -> GridRow:
    from medvqa.report.grid import GridRow

    cell = done.cell
    return GridRow(cell.run, cell.settings, done.state, done.why, done.code, done.questions, done.cost, done.report)


def _sides(reports: Path, runs: set[str]) -> dict[str, comparing.Side]:
    from medvqa import comparing

    return {name: comparing.load(reports / name) for name in sorted(runs)}


def _page(sweep: Sweep, reports: Path, answered: set[str], file: Path, registry: Registry) -> list[str]:
    """Write the page that compares the base with the runs that differ from it in one setting.

    Return lines about it, none without such runs.
    """
    base = next((cell.run for cell in sweep.cells if cell.settings == sweep.base), None)
    near = [cell.run for cell, other, _ in sweep.neighbours() if other.run == base and cell.run in answered]
    if base not in answered or not near:
        return []
    # The notes name runs that are not comparable already.
    return compared_page([reports / name for name in (base, *near)], file, registry, []).splitlines()[-1:]
