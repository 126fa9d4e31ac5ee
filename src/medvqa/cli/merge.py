"""`medvqa merge`: join shards or partial runs into one run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from
from medvqa.items import UsageError

if TYPE_CHECKING:
    from medvqa.records.merging import RunPart


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    merge = commands.add_parser(
        "merge",
        parents=[common],
        help="join shards of a run, or partial runs, into one run folder",
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
    from medvqa import benchmarks, printing, records, report
    from medvqa.records import merging, remaining
    from medvqa.report.terminal import summary

    registry = known_from(options, options.runs)
    beside = options.output.parent if options.output.parent != Path() else options.runs[0].parent
    folder = beside / options.output.name
    records.check_name(folder.name, "-o")
    parts = [merging.load(run) for run in options.runs]
    for path, part in zip(options.runs, parts, strict=True):
        for name in sorted({result.item.benchmark for result in part.results} - registry.benchmarks.keys()):
            raise benchmarks.not_known(f"{path} holds", name, registry.benchmarks)
    merged = merging.merge(parts, folder.name)
    if folder.exists() and any(folder.samefile(run) for run in options.runs):
        raise UsageError(f"{folder} is one of the runs: name another with -o")
    if folder.exists() and (why := _kept(folder, parts)) is not None:
        raise UsageError(f"{folder} exists, and {why}: name another with -o")
    with merging.making(folder, replaces=True) as place:
        merging.write(merged, place, options.runs)
        written = replace(report.write(report.build(place, registry.benchmarks)), folder=folder)
    notes = [f"! {printing.line(note)}" for note in merged.notes]
    ending = [printing.line(line) for line in remaining.to_type(merged, parts)]
    return "\n".join([*notes, summary(written, width=100, exits=False), *ending]), not merged.complete


def _kept(folder: Path, parts: Sequence[RunPart]) -> str | None:
    """Return why an existing folder is not replaced; None for an incomplete merged run of some of these runs."""
    from medvqa import records, report
    from medvqa.comparing import gating

    if not (folder / records.RUN).is_file():
        return "is no run"
    about = records.read_run(folder)
    names = {part.get("name") for part in about.get("merged", ())}
    if not names:
        return "was not merged"
    if about.get("sessions"):
        return "was continued"
    if others := sorted(names - {part.name for part in parts}):
        return f"was merged from {others[0]} too"
    stored = records.read(folder)
    if records.coverage(folder, about, stored).complete and not any(r.score.outcome == "error" for r in stored.results):
        return "is complete"
    made = {*report.DRAWN, records.RUN, records.RESULTS, records.SELECTED, records.OWN_ANSWERS, records.OWN_REPLIES}
    if more := sorted({path.name for path in folder.iterdir()} - made - {gating.FILE}):
        return f"holds {more[0]}, which medvqa merge does not write"
    return None
