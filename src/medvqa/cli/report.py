"""`medvqa report`: the files of run folders, written anew."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from medvqa.cli.common import Commands, known_from
from medvqa.items import Benchmark, Item
from medvqa.plugin.options import ENV_DATA


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    report = commands.add_parser(
        "report", parents=[common], help="write metrics.json, summary.md, junit.xml and index.html of run folders anew"
    )
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    report.add_argument(
        "--images",
        choices=("thumbs", "folder", "none"),
        help="in index.html: small ones inside it (thumbs), files beside it (folder), or none (default: by their "
        "number, and none of data that were handed out on request)",
    )
    report.add_argument(
        "--data",
        type=Path,
        default=os.environ.get(ENV_DATA),
        metavar="DIR",
        help="where images are read, as for pytest",
    )
    report.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Write the files of each folder anew; their summaries."""
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import summary

    known = known_from(options.plugin)
    data = Path(options.data) if options.data is not None else None

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        there = benchmarks.is_found(benchmark, data)
        return benchmarks.load(benchmark, data or Path()) if there else None

    texts = []
    for folder in options.runs:
        made = report.build(folder, known.benchmarks, known.metrics)
        texts.append(summary(report.write(made, html.draw(made, load, options.images)), width=100))
    return "\n".join(texts)
