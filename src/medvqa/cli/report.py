"""`medvqa report`: write the files of run folders anew."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, add_options, data_of, known_from
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import OPTIONS, listed

if TYPE_CHECKING:
    from medvqa.report.html import Pictures
    from medvqa.session.registry import Registry

_LIKE = (
    "show the counts of another evaluation kit too, flaws included: llava-med or medevalkit (repeatable, or KIT,KIT; "
    "default: those of the run)"
)


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    report = commands.add_parser(
        "report",
        parents=[common],
        description="Write metrics.json, measures.csv, summary.md, junit.xml, gate.xml and index.html of run folders "
        "again, from the stored results. For several runs, also write a page that compares them. The exit code is 1 if "
        "results are missing.",
    )
    report.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="a run folder, such as reports/RUN; the others are compared with the first",
    )
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page that compares several runs (default: NEW-against-BASELINE.html beside the first run)",
    )
    report.add_argument(
        "--blank",
        type=Path,
        metavar="RUN",
        help="the run that asked the same questions of the same model without the images (--ablate=blank): the reports "
        "show the gain of the image. It is kept in blank.json",
    )
    report.add_argument(
        "--images",
        metavar="{inside,inside:N,folder,none}",
        help="images of index.html: inside (in the page, at most 16 MB of them), inside:N (at most N MB), folder "
        "(files beside the page, with all their pixels) or none (default: inside for up to 400 images, else folder; "
        "none if the data are not declared public)",
    )
    report.add_argument(
        "--data",
        metavar="DIR",
        help="the folder of the data sets, for images (default: MEDVQA_DATA)",
    )
    add_options(report, [OPTIONS["metric-like"]], {"metric-like": _LIKE})
    report.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="FILE",
        help="a file such as klinik.toml that declares a benchmark of the runs, for images (repeatable)",
    )
    report.set_defaults(command=run)


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """Write the files of each folder anew, and the page that compares them.

    Return their summaries, and whether results are missing.
    """
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import summary

    registry = known_from(options, [*options.runs, *([options.blank] if options.blank else [])])
    data, _ = data_of(options)

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        return benchmarks.load_found(benchmark, data)

    if options.images is not None:
        html.parse(options.images)  # Refuse a wrong value before anything is read.
    runs = list(dict.fromkeys(options.runs))
    typed = vars(options)["metric-like"]
    like = None if typed is None else listed(typed)
    if options.output is not None and len(runs) < 2:
        raise UsageError("-o names the page that compares several runs: name a second RUN")
    if options.blank is not None:
        if len(runs) > 1:
            raise UsageError(f"--blank={options.blank} belongs to one run, and {len(runs)} are named: name one RUN")
        write_gap(runs[0], options.blank, registry)
    texts, drawn, unfinished = [], [], False
    for folder in runs:
        built = report.build(folder, registry.benchmarks, like=like, data=data)
        if like:
            benchmarks.check_kits(like, [part.benchmark for part in built.parts], registry.benchmarks)
        unfinished |= not built.covered.finished
        drawn.append(html.draw(built, load, options.images))
        texts.append(summary(report.write(built, drawn[-1]), width=100, exits=False))
    if len(runs) > 1:
        texts.append(compared_page(runs, options.output, registry, drawn))
    return "\n".join(texts), unfinished


def write_gap(folder: Path, without_images: Path, registry: Registry) -> None:
    """Write blank.json of a run: its gap to the run without the images (UsageError)."""
    from medvqa import comparing
    from medvqa.comparing import blank

    found = blank.against(comparing.load(folder), comparing.load(without_images), registry.benchmarks)
    try:
        blank.write(folder, found)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error


def compared_page(runs: Sequence[Path], output: Path | None, registry: Registry, drawn: Sequence[Pictures]) -> str:
    """Write the page that compares the runs with the first; return its path and lines about runs not comparable."""
    from medvqa import comparing, printing
    from medvqa.records import run_folder
    from medvqa.report import html

    sides = comparing.named_apart([comparing.load(folder) for folder in runs], list(map(str, runs)))
    study = comparing.study(sides, registry.benchmarks, flips=False)
    lines = dict.fromkeys(line for versus in study.versus for line in versus.refusals)
    messages = [f"! not comparable: {printing.line(line)}" for line in lines]
    if not study.comparable:
        return "\n".join([*messages, "no comparison was written; medvqa compare --anyway compares them nevertheless"])
    file = output or runs[0].resolve().parent / html.comparison_name(study)
    content = html.comparison_page(study, registry.benchmarks, html.inside(drawn))
    try:
        run_folder.write_atomic(file, content)
    except OSError as error:
        raise UsageError(f"-o {file} cannot be written: {error.strerror}") from error
    return "\n".join([*messages, f"comparison: {file}"])
