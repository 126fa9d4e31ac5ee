"""`medvqa merge`: join shards or partial runs into one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvqa.cli.common import Commands, known_from
from medvqa.items import UsageError


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    merge = commands.add_parser(
        "merge",
        parents=[common],
        help="join shards of a run, or partial runs, into one run folder",
        description="Join shards of a run, or partial runs of one configuration, into one run folder. The exit code "
        "is 1 if a shard or a result is missing.",
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
    from medvqa.records import merging
    from medvqa.report.terminal import summary

    registry = known_from(options, options.runs)
    beside = options.output.parent if options.output.parent != Path() else options.runs[0].parent
    folder = beside / options.output.name
    records.check_name(folder.name, "-o")
    if folder.exists():
        raise UsageError(f"{folder} exists: name another with -o")
    parts = [merging.load(run) for run in options.runs]
    for path, part in zip(options.runs, parts, strict=True):
        for name in sorted({result.item.benchmark for result in part.results} - registry.benchmarks.keys()):
            raise benchmarks.not_known(f"{path} holds", name, registry.benchmarks)
    merged = merging.merge(parts, folder.name)
    merging.write(merged, folder, options.runs)
    built = report.build(folder, registry.benchmarks)
    notes = [f"! {printing.line(note)}" for note in merged.notes]
    return "\n".join([*notes, summary(report.write(built), width=100, exits=False)]), not merged.complete
