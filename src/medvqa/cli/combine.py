"""`medvqa combine`: combine the answers of recorded runs, by vote, by mean or by an oracle."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, known_from, notes_of, output_of, parts_of, write_joined
from medvqa.items import UsageError
from medvqa.session.options import OPTIONS, percents

if TYPE_CHECKING:
    from medvqa.items import Result
    from medvqa.protocols.protocol import Protocol
    from medvqa.records.run_record import RunRecord


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    combine = commands.add_parser(
        "combine",
        parents=[common],
        description="Combine the answers of recorded runs: the answers of each run become samples of one run. Without "
        "-o, print its measures. The exit code is 1 if answers are missing or ended in error.",
    )
    combine.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    combine.add_argument(
        "--combine",
        metavar="HOW",
        help="vote (majority of the options), mean (average the scores) or best-oracle (right if --threshold of the "
        "answers are right); default: as the first run if it combined its answers, else vote",
    )
    combine.add_argument(
        "--threshold",
        type=percents,
        action="append",
        default=[],
        metavar="PERCENT",
        help="with --combine=best-oracle: the share of the answers that must be right (repeatable, or P,P; default: 1)",
    )
    combine.add_argument(
        "--samples",
        metavar="N,N",
        help="print a table by the number of answers: of the first N answers to each question",
    )
    combine.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="NAME",
        help="write the answers as a new run: a name, which then lies beside the first RUN, or a path such as "
        "reports/NAME",
    )
    combine.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """Return tables or a summary, and whether anything is missing."""
    from medvqa import printing
    from medvqa.figures import terminal
    from medvqa.records import coverage, join
    from medvqa.report import sample_tables

    registry = known_from(options, options.runs)
    folder = None if options.output is None else output_of(options)
    if folder is not None and folder.exists():
        raise UsageError(f"{folder} exists: name another with -o")
    for path in options.runs:
        covered = coverage.coverage(path)
        if not covered.finished:
            raise UsageError(f"{path}: {'; '.join(covered.lines)}. Finish that run first: pytest --run={path.name}")
    parts = parts_of(options.runs, registry)
    name = "combined" if folder is None else folder.name
    joined = join.join(parts, name, _protocol(options, parts[0].about))
    protocol = joined.about.protocol
    texts = notes_of(joined) if folder is None else [write_joined(joined, folder, registry)]
    if folder is None or options.samples is not None:
        numbers = _numbers(options.samples, joined.results, protocol)
        if len(protocol.thresholds) > 1 and options.samples is None:
            tables = sample_tables.by_threshold(joined.results, joined.about, registry.benchmarks, protocol)
        else:
            tables = sample_tables.by_samples(joined.results, joined.about, registry.benchmarks, protocol, numbers)
        texts += [f"{printing.line(table.title)}\n\n{terminal(table)}" for table in tables]
    return "\n".join(texts).rstrip("\n"), not joined.complete


def _protocol(options: argparse.Namespace, first: RunRecord) -> Protocol:
    """Return the typed way to combine answers, else the first run's, else a vote (UsageError)."""
    from medvqa.protocols.combining import VOTES
    from medvqa.protocols.protocol import COMBINES, Protocol, check

    recorded = first.protocol
    typed = options.combine
    if typed is None:
        typed = recorded.combine if recorded.combine in VOTES else "best-oracle" if options.threshold else "vote"
    allowed = [name for name in COMBINES if name != "best-self"]
    if typed not in allowed:
        raise UsageError(f"no way to combine '{typed}'; there are: {', '.join(allowed)}")
    thresholds = tuple(dict.fromkeys(one for several in options.threshold for one in several))
    for threshold in thresholds:
        OPTIONS["threshold"].check(threshold)
    if not thresholds and typed == "best-oracle":
        thresholds = recorded.thresholds
    protocol = Protocol(samples=1, combine=typed, thresholds=thresholds)
    check(protocol)
    return protocol


def _numbers(typed: str | None, results: Sequence[Result], protocol: Protocol) -> list[int]:
    """Return the numbers of samples of a table's rows (UsageError)."""
    most = protocol.samples or 1
    if typed is None:
        return [most]
    numbers = []
    for text in typed.split(","):
        if not (text.strip().isascii() and text.strip().isdecimal() and int(text) >= 1):
            raise UsageError(f"--samples={typed}: whole numbers from 1 on are expected, such as --samples=1,10,100")
        if int(text) > most:
            raise UsageError(f"--samples={typed}: there are {most} answers to each question")
        numbers.append(int(text))
    return list(dict.fromkeys(numbers))
