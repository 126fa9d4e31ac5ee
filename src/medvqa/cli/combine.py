"""`medvqa combine`: combine the answers of recorded runs, by vote, by mean or by an oracle."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medvqa.cli.common import Commands, known_from
from medvqa.items import UsageError
from medvqa.session.options import percents

if TYPE_CHECKING:
    from medvqa.items import Result
    from medvqa.protocols.protocol import Protocol


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    combine = commands.add_parser(
        "combine",
        parents=[common],
        help="combine the answers of recorded runs, such as by majority vote",
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
    from medvqa import benchmarks, printing, records, report
    from medvqa.protocols.protocol import Protocol
    from medvqa.records import merging, pooling
    from medvqa.report import sample_tables
    from medvqa.report.terminal import draw, summary

    registry = known_from(options, options.runs)
    folder = _folder(options)
    for path in options.runs:
        covered = records.coverage(path)
        if not covered.finished:
            raise UsageError(f"{path}: {'; '.join(covered.lines)}. Finish that run first: pytest --run={path.name}")
        records.check_scored(path, records.read_run(path))
    parts = [merging.load(path) for path in options.runs]
    for path, part in zip(options.runs, parts, strict=True):
        for name in sorted({result.item.benchmark for result in part.results} - registry.benchmarks.keys()):
            raise benchmarks.not_known(f"{path} holds", name, registry.benchmarks)
    pooled = pooling.pool(parts, folder.name if folder is not None else "combined", _protocol(options, parts[0].about))
    protocol = Protocol.of(pooled.about)
    notes = [f"! {printing.line(note)}" for note in pooled.notes]
    incomplete = not pooled.complete
    if folder is not None:
        with merging.making(folder) as place:
            pooling.write(pooled, place)
            written = replace(report.write(report.build(place, registry.benchmarks)), folder=folder)
        notes.append(summary(written, width=100, exits=False))
    if folder is None or options.samples is not None:
        numbers = _numbers(options.samples, pooled.results, protocol)
        if len(protocol.thresholds) > 1 and options.samples is None:
            tables = sample_tables.by_threshold(pooled.results, pooled.about, registry.benchmarks, protocol)
        else:
            tables = sample_tables.by_samples(pooled.results, pooled.about, registry.benchmarks, protocol, numbers)
        notes += [f"{printing.line(table.title)}\n\n{draw(table)}" for table in tables]
    return "\n".join(notes).rstrip("\n"), incomplete


def _folder(options: argparse.Namespace) -> Path | None:
    """Return the folder of -o, which must not exist (UsageError); None without it."""
    from medvqa import records

    if options.output is None:
        return None
    beside = options.output.parent if options.output.parent != Path() else options.runs[0].parent
    folder: Path = beside / options.output.name
    records.check_name(folder.name, "-o")
    if folder.exists():
        raise UsageError(f"{folder} exists: name another with -o")
    return folder


def _protocol(options: argparse.Namespace, first: Mapping[str, Any]) -> Protocol:
    """Return the typed way to combine answers, else the first run's, else a vote (UsageError)."""
    from medvqa.protocols.combining import VOTES
    from medvqa.protocols.protocol import COMBINES, Protocol, check

    recorded = Protocol.of(first)
    typed = options.combine
    if typed is None:
        typed = recorded.combine if recorded.combine in VOTES else "best-oracle" if options.threshold else "vote"
    allowed = [name for name in COMBINES if name != "best-self"]
    if typed not in allowed:
        raise UsageError(f"no way to combine '{typed}'; there are: {', '.join(allowed)}")
    thresholds = tuple(dict.fromkeys(one for several in options.threshold for one in several))
    for threshold in thresholds:
        if not 0 < threshold <= 100:
            raise UsageError(f"--threshold={threshold:g}: a share in percent, more than 0 and at most 100")
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
