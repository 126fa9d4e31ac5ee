"""`medvqa run`: run as pytest does, in a folder without tests."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from medvqa.cli.arguments import RUN_OPTIONS, Arguments, Command
from medvqa.cli.common import known_from
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.session.options import Options
    from medvqa.session.run import End

_EXAMPLES = """\
examples:
  medvqa run                               the phantom, by the model that ships
  medvqa run --model=random --limit=50     50 questions of each benchmark
  medvqa run --model=hf:FOLDER --data=DIR  a checkpoint, on the data in DIR
  medvqa run --model=MODEL --run=NAME      continue the run reports/NAME
  medvqa run --model=MODEL --select="lexicon(modality='ct') and not bone"

exit codes:
  0   every selected question has a result, right or wrong
  1   questions ended in error or have no result
  2   the run was interrupted, or stopped by --max-errors or --max-cost
      (--run=NAME continues it)
  4   an option or the data cannot be used; nothing was asked
  5   no question was selected
  10  the gate failed, perhaps before the end (--stop=early)
  11  the gate is inconclusive
"""


class RunArguments(Arguments):
    """Ask a model the questions of benchmarks, score its answers, and write the run folder reports/RUN.

    This is a run as with pytest, in one process: same numbers, reports and stored answers.
    """


def run(typed: RunArguments) -> tuple[str, int]:
    """Run, and return the summary and the exit code."""
    from medvqa.session.display import StderrDisplay
    from medvqa.session.door import conduct
    from medvqa.session.options import Options
    from medvqa.session.project import Project
    from medvqa.session.root import root_of
    from medvqa.session.run import INTERRUPTED

    here, select = Path.cwd(), typed.raw["select"]
    if select is not None and not select.strip():
        raise UsageError("--select: a value is empty; write --select=EXPRESSION, or leave it out")
    options = Options.of(typed.raw, here)
    command = partial(_command, typed, options)
    try:
        project = Project(root_of(here), here, known_from(typed), options)
        end = conduct(project, StderrDisplay(), select=select, command=command)
    except KeyboardInterrupt:
        return "interrupted before anything was asked", INTERRUPTED
    return "\n".join(lines_of(end, typed, options)), end.exit_code


def lines_of(end: End, typed: Arguments, options: Options) -> list[str]:
    """Return the summary of a run, and the command that continues it."""
    from medvqa.report.terminal import can_draw, summary

    lines, select = list[str](), typed.raw["select"]
    told = end.report is not None and end.report.run.last_session.stopped == end.stopped
    if end.stopped is not None and not told:
        lines.append(f"! stopped: {end.stopped}")
    if not (end.questions or end.asked):
        chosen = "" if select is None else f": nothing matches --select={shlex.quote(select)}"
        lines.append(f"no question was selected{chosen}; `medvqa lexicon` prints the tags of the questions")
    if end.report is not None:
        bars = sys.stdout.isatty() and can_draw(sys.stdout.encoding)
        lines.append(summary(end.report, width=get_terminal_size().columns, bars=bars))
    lines += end.notes
    if end.problem is not None:
        lines.append(f"! {end.problem}")
        if end.folder.is_dir():
            lines.append(f"run folder: {end.folder}")
    if end.incomplete or (end.stopped is not None and not end.asked):
        lines.append(f"to go on: {_command(typed, options, end.folder.name)}")
    if end.unselected:
        lines.append(
            f"{end.unselected:,} of the missing questions were selected by an earlier command: leave out "
            "--select, --limit and --shard to ask them too"
        )
    return lines


def _command(typed: Arguments, options: Options, run: str) -> str:
    """Return the command that continues a run."""
    from medvqa.session.sharding import without_auto, without_once

    words = without_once(typed.words)
    if options.shard is not None and options.shard_source:
        return shlex.join(["medvqa", *without_auto(words, options.shard, run)])
    return shlex.join(["medvqa", *words, *([] if typed.raw["run"] is not None else [f"--run={run}"])])


COMMAND = Command(RunArguments, run, RUN_OPTIONS, _EXAMPLES)
