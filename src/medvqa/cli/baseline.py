"""`medvqa baseline`: write a run as one file for `--baseline`."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvqa.cli.common import Commands, known_from
from medvqa.items import UsageError


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    baseline = commands.add_parser(
        "baseline",
        parents=[common],
        description="Write the results of a run as one small file without images, which --baseline=FILE takes.",
    )
    baseline.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    baseline.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the file to write")
    baseline.add_argument(
        "--no-responses",
        action="store_true",
        help="write digests in place of the model's answers; if the data are not declared public, also keyed hashes "
        "in place of ids and texts",
    )
    baseline.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Write the baseline file; return a line about it."""
    from medvqa import printing
    from medvqa.records import baseline_file, coverage, keyed, run_folder, run_record

    about, stored = run_record.read_run(options.run), run_folder.read(options.run)
    run_folder.check_scored(options.run, about)
    covered = coverage.coverage(options.run, about, stored)
    if not covered.complete:
        first = f" ({stored.unread[0]})" if stored.unread else ""
        remedy = (
            f"finish it by pytest --run={options.run.name}"
            if not covered.finished
            else "join the shares by medvqa merge"
        )
        raise UsageError(f"{options.run} cannot be a baseline: {'; '.join(covered.lines)}{first}: {remedy}")
    if about.selected.ranked_by_outcome:
        raise UsageError(
            f"{options.run} cannot be a baseline: its questions were chosen by how they ended before (--lf). "
            "Type the command of the run without --lf"
        )
    if options.output.is_dir():
        raise UsageError(f"-o {options.output}: a folder; name a file")
    hidden, key, left = frozenset[str](), None, ""
    if options.no_responses:
        benchmarks, left = known_from(options, [options.run]).benchmarks, ", without responses"
        held = {result.item.benchmark for result in stored.results} | about.benchmarks.keys()
        hidden = frozenset(name for name in held if name not in benchmarks or not benchmarks[name].public)
    if hidden:
        key = keyed.own_key()
        left += f", ids and texts of {', '.join(sorted(hidden))} as hashes by the key of {key.source}"
    baseline_file.write_baseline(
        options.output, about, stored.results, responses=not options.no_responses, hidden=hidden, key=key
    )
    size = f"{options.output.stat().st_size / 1024:,.0f} KiB"
    written = f"{options.output}: {len(stored.results):,} results of run {options.run.name}{left}, {size}"
    if not stored.unread:
        return written
    number = len(stored.unread)
    unread = "1 line was not read" if number == 1 else f"{number:,} lines were not read, the first"
    return f"{written}\n! {unread}: {printing.line(stored.unread[0])}"
