"""`medvqa run`: run as pytest does, in a folder without tests."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from medvqa import printing
from medvqa.cli.arguments import RUN_OPTIONS, Arguments, Command
from medvqa.cli.common import known_from, say
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.session.door import Ended
    from medvqa.session.progress import Progress

_PAUSE = 10.0
"""Seconds between two lines of progress if standard error is no terminal."""
_EXAMPLES = """\
examples:
  medvqa run                                       the phantom benchmark, with the model that ships
  medvqa run --model=random --limit=50             50 questions of each benchmark, answered at random
  medvqa run --model=hf:FOLDER --data=DIR          a checkpoint, on the data sets in DIR
  medvqa run --model=MODEL --select="lexicon(modality='ct') and not bone"
  medvqa run --model=MODEL --run=NAME              continue the run reports/NAME

exit codes:
  0   every selected question has a result, right or wrong
  1   questions ended in error or have no result
  2   the run was interrupted, or stopped by --max-errors or --max-cost; --run=NAME continues it
  4   an option or the data cannot be used; nothing was asked
  5   no question was selected
  10  the gate failed
  11  the gate is inconclusive
"""


class RunArguments(Arguments):
    """Ask a model the questions of benchmarks, score its answers, and write the run folder reports/RUN.

    This is a run as with pytest, in one process: same numbers, reports and stored answers.
    """


def run(typed: RunArguments) -> tuple[str, int]:
    """Run, and return the summary and the exit code."""
    from medvqa.session.door import INTERRUPTED, conduct
    from medvqa.session.options import Options, Setting
    from medvqa.session.root import root_of

    here, select = Path.cwd(), typed.raw["select"]
    if select is not None and not select.strip():
        raise UsageError("--select: a value is empty; write --select=EXPRESSION, or leave it out")
    options, setting = Options.of(typed.raw, here), Setting(root_of(here), here)
    try:
        ended = conduct(
            options,
            setting,
            known_from(typed),
            select=select,
            say=_say_over,
            on_progress=progress_line().show,
            command=partial(_command, typed),
        )
    except KeyboardInterrupt:
        return "interrupted before anything was asked", INTERRUPTED
    return "\n".join(lines_of(ended, typed)), ended.exit_code


def progress_line() -> Progress:
    """Return the progress of one run: a line that is rewritten on a terminal, and written now and then elsewhere."""
    from medvqa.session.progress import Progress

    def rewrite(line: str) -> None:
        width = get_terminal_size().columns - 1
        printing.to_stderr(f"\r{line[:width]:{width}}")

    return Progress(say, rewrite if sys.stderr.isatty() else None, pause=_PAUSE)


def _say_over(line: str) -> None:
    """Say a line, in place of the progress line on a terminal."""
    if sys.stderr.isatty():
        printing.to_stderr(f"\r{'':{get_terminal_size().columns - 1}}\r")
    say(line)


def lines_of(ended: Ended, typed: Arguments) -> list[str]:
    """Return the summary of a run, and the command that continues it."""
    from medvqa.records import coverage
    from medvqa.report.terminal import can_draw, summary

    finished, lines, select = ended.finished, list[str](), typed.raw["select"]
    if sys.stderr.isatty() and finished.asked:
        say("")
    told = finished.report is not None and coverage.stopped(finished.report.run) == ended.stopped
    if ended.stopped is not None and not told:
        lines.append(f"! stopped: {ended.stopped}")
    if not (ended.questions or finished.asked):
        chosen = "" if select is None else f": nothing matches --select={shlex.quote(select)}"
        lines.append(f"no question was selected{chosen}; `medvqa lexicon` prints the tags of the questions")
    if finished.report is not None:
        bars = sys.stdout.isatty() and can_draw(sys.stdout.encoding)
        lines.append(summary(finished.report, width=get_terminal_size().columns, bars=bars))
    lines += ended.notes
    if finished.problem is not None:
        lines.append(f"! {finished.problem}")
        if ended.folder.is_dir():
            lines.append(f"run folder: {ended.folder}")
    if finished.incomplete or (ended.stopped is not None and not finished.asked):
        lines.append(f"to go on: {_command(typed, ended.folder.name, ended.auto_shard)}")
    if finished.unselected:
        lines.append(
            f"{finished.unselected:,} of the missing questions were selected by an earlier command: leave out "
            "--select, --limit and --shard to ask them too"
        )
    return lines


def _command(typed: Arguments, run: str, auto_shard: str) -> str:
    """Return the command that continues a run."""
    words = [word for word in typed.words if word != "--fresh"]
    if auto_shard:
        from medvqa.session.sharding import without_auto

        return shlex.join(["medvqa", *without_auto(words, auto_shard, run)])
    return shlex.join(["medvqa", *words, *([] if typed.raw["run"] is not None else [f"--run={run}"])])


COMMAND = Command(RunArguments, run, RUN_OPTIONS, _EXAMPLES)
