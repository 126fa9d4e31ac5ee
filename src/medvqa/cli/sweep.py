"""`medvqa sweep`: run a grid of settings, and compare its runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.arguments import Arguments, Command, option, positional
from medvqa.cli.common import known_from, say
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.report.grid import GridRow

_EXAMPLE = """\
example, sweep.toml:
  [options]                          options of medvqa run, for all runs
  benchmark = "phantom-mediconfusion"

  [grid]                             lists of values: a run per combination
  model = ["phantom-vlm", "random"]
  ablate = ["", "blank"]             "" leaves the option out

exit codes: the worst of the runs', from medvqa run --help; 4 also if the file
cannot be used
"""


class SweepArguments(Arguments):
    """Run every combination of the settings in a file, one run folder each, in this process.

    The same command goes on with an interrupted sweep: finished runs are not asked again. At the end it prints the
    measures of all runs and the gain of each setting, and writes them to reports/NAME.
    """

    file: Path = positional("the settings of the sweep", "FILE.toml")
    dry_run: bool = option("print the runs and their commands, and ask nothing")


def run(typed: SweepArguments) -> tuple[str, int]:
    """Run the sweep; return its tables and the worst exit code of its runs."""
    from medvqa.commands import sweeping
    from medvqa.records.run_record import RUN
    from medvqa.session.display import StderrDisplay
    from medvqa.session.options import Options
    from medvqa.session.project import Project
    from medvqa.session.root import root_of

    here, sweep = Path.cwd(), sweeping.read(typed.file)
    project = Project(root_of(here), here, known_from(typed), Options.of({}, here))
    folder = project.reports / sweep.name
    if (folder / RUN).exists():
        raise UsageError(f"{typed.file}: name: {folder} is a run; give the sweep another name")
    if typed.dry_run:
        reasons = sweeping.check(sweep, project)
        lines = [f"{sweep.name}: {len(sweep.cells)} runs"]
        for cell in sweep.cells:
            lines += [cell.command, *([f"! {reasons[cell.run]}"] if cell.run in reasons else [])]
        return "\n".join(lines), 4 if reasons else 0

    def tell(number: int, row: GridRow, cost: float) -> None:
        price = f", cost {cost:.4g} so far" if cost else ""
        why = f": {row.why}" if row.why else ""
        say(f"[{number}/{len(sweep.cells)}] {row.run}: {row.state}, {row.questions:,} answers{price}{why}")

    rows = sweeping.conduct_all(sweep, project, StderrDisplay(), on_done=tell)
    lines = sweeping.write(sweep, rows, project)
    if any(row.state != "finished" for row in rows):
        lines.append(f"to go on: medvqa sweep {typed.file}")
    return "\n".join(lines), sweeping.exit_code(rows)


COMMAND = Command(SweepArguments, run, examples=_EXAMPLE)
