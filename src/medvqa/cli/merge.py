"""`medvqa merge`: join shards or partial runs into one run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from, output_of, parts_of, write_joined
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.records.join import RunPart


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    merge = commands.add_parser(
        "merge",
        parents=[common],
        description="Join shards of a run, or partial runs of one configuration, into one run folder. The exit code "
        "is 1 if a shard or a result is missing. A merged run that lacks some is replaced by one of the same runs and "
        "more.",
    )
    merge.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    merge.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="NAME",
        help="the new run: a name, which then lies beside the first RUN, or a path such as reports/NAME",
    )
    merge.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """Merge the runs; return the summary, and whether anything is missing."""
    from medvqa import printing
    from medvqa.records import join, remaining

    registry = known_from(options, options.runs)
    folder = output_of(options)
    parts = parts_of(options.runs, registry)
    if folder.exists() and any(folder.samefile(run) for run in options.runs):
        raise UsageError(f"{folder} is one of the runs: name another with -o")
    joined = join.join(parts, folder.name)
    if folder.exists() and (why := _kept(folder, parts)) is not None:
        raise UsageError(f"{folder} exists, and {why}: name another with -o")
    text = write_joined(joined, folder, registry, parts=options.runs, replaces=True)
    ending = [printing.line(line) for line in remaining.to_type(joined, parts)]
    return "\n".join([text, *ending]), not joined.complete


def _kept(folder: Path, parts: Sequence[RunPart]) -> str | None:
    """Return why an existing folder is not replaced; None for an incomplete merged run of some of these runs."""
    from medvqa import report
    from medvqa.comparing import gating
    from medvqa.records import coverage, run_record
    from medvqa.records.log import ANSWERS
    from medvqa.records.recall import EARLIER_REPLIES
    from medvqa.records.run_folder import RESULTS
    from medvqa.records.run_record import RUN
    from medvqa.records.selected import SELECTED

    if not (folder / RUN).is_file():
        return "is no run"
    about = run_record.read_run(folder)
    names = {part.name for part in about.merged}
    if not names:
        return "was not merged"
    if about.sessions:
        return "was continued"
    if others := sorted(names - {part.name for part in parts}):
        return f"was merged from {others[0]} too"
    covered = coverage.coverage(folder, about)
    if covered.complete and not covered.errors:
        return "is complete"
    made = {*report.DRAWN, RUN, RESULTS, SELECTED, ANSWERS, EARLIER_REPLIES}
    if more := sorted({path.name for path in folder.iterdir()} - made - {gating.FILE}):
        return f"holds {more[0]}, which medvqa merge does not write"
    return None
