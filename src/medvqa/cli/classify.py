"""`medvqa classify`: sort the wrong answers of a run by kinds of errors, and let people correct the kinds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, add_options, count_up, known_from, locked, say
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medvqa.session.options import Options
    from medvqa.session.registry import Registry

_NAMES = ("judge", "benchmark", "limit", "answers", "fresh", "data", "allow-upload", "trust-remote-code")
_LIMITS = ("max-cost", "deadline", "max-errors")
_HELP = {
    "judge": "the model that tells the kinds: a config of models/, or BACKEND:ARGUMENT; without it, the kinds of an "
    "earlier classify are shown",
    "benchmark": "classify only the answers to this benchmark (repeatable, or NAME,NAME; default: all of the run)",
    "limit": "classify at most N wrong answers of each benchmark: a stratified sample (default: all)",
    "answers": "use the judge's replies in another run too: its name or folder; or share them in a place: a folder, "
    "s3://BUCKET/PREFIX, gs:// or az:// (repeatable; default: those of the run alone)",
    "fresh": "ask the judge everything again, without stored replies",
    "data": "folder of the data sets, for the images that the judge sees (default: MEDVQA_DATA)",
    "max-cost": "stop once judging has cost this sum, by the prices in the judge's config",
    "max-errors": "stop after N errors in a row (0: never)",
}
"""Help texts that differ from those of pytest's options."""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    classify = commands.add_parser(
        "classify",
        parents=[common],
        description="Sort the wrong answers of a run by kinds of errors: by rule where one is certain, else by a "
        "judge. Writes errors.json and errors.csv, and adds the shares to the reports. The model is not asked.",
    )
    classify.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    add_options(classify, (OPTIONS[name] for name in (*_NAMES, *_LIMITS)), _HELP)
    classify.add_argument(
        "--taxonomy",
        metavar="TREE",
        help="the tree of kinds: gmai-mmbench, medlesionvqa, or FILE.toml (default: the one of the benchmark's paper)",
    )
    classify.add_argument("--seed", type=int, metavar="N", help="draw another sample with --limit (default: 0)")
    classify.add_argument(
        "--by",
        metavar="DIMENSION",
        help="stratify the sample of --limit by this dimension (default: ability or task, else the benchmark's first)",
    )
    classify.add_argument("--partial", action="store_true", help="partly right answers count as wrong ones too")
    classify.add_argument("--no-images", action="store_true", help="show the judge no images")
    classify.add_argument(
        "--sheet", type=Path, metavar="FILE", help="write the kinds into a sheet for people to correct, .csv or .xlsx"
    )
    classify.add_argument(
        "--human",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="read people's corrections from a filled-in sheet, or from reviews exported by the page (repeatable: one "
        "file for each person)",
    )
    classify.set_defaults(command=run)


def run(typed: argparse.Namespace) -> tuple[str, bool]:
    """Classify a run. Return its shares, and whether the judge left answers without a readable reply."""
    from medvqa.session.options import Options

    registry, options = known_from(typed, [typed.run]), Options.of(vars(typed), Path.cwd())
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit={options.limit}: at least 1 answer is needed")
    with locked(typed.run):
        return _classified(typed, options, registry)


def _classified(typed: argparse.Namespace, options: Options, registry: Registry) -> tuple[str, bool]:
    from medvqa.judging import taxonomy
    from medvqa.session import classifying
    from medvqa.session.ending import interruptible
    from medvqa.session.project import Project

    here, known = Path.cwd(), registry.benchmarks
    if options.judge is not None:
        request = classifying.Request(
            typed.taxonomy, typed.seed or 0, typed.by, partial=typed.partial, images=not typed.no_images
        )
        before = taxonomy.read(typed.run)
        planned = classifying.plan(typed.run, request, Project(here, here, registry, options))
        for line in classifying.check(planned):
            say(line)
        with interruptible():
            stopped = classifying.classify(planned, say=say, progress=count_up("wrong answers"))
        if stopped is not None:
            return stopped, True
        if before is not None and before.people is not None and not typed.human:
            names = ", ".join(before.people.raters)
            say(f"medvqa: the labels are new, without the corrections by {names}: read them again with --human=FILE")
    elif needless := [name for name in _NEED_JUDGE if getattr(typed, name) not in (None, False, [])]:
        raise UsageError(
            f"--{needless[0].replace('_', '-')} says how a judge classifies, and there is none: add --judge=MODEL"
        )
    about, results = classifying.read(typed.run, registry)
    classified = classifying.present(typed.run, results)
    if typed.human:
        classified = classifying.correct(typed.run, classified, typed.human, about, results, known, say=say)
    lines = []
    if typed.sheet is not None:
        lines = classifying.sheet(typed.run, typed.sheet, classified, results)
    return _drawn(typed, options, registry, lines), bool(classifying.unread(classified))


_NEED_JUDGE = ("taxonomy", "seed", "by", "partial", "no_images", "limit", "benchmark", "fresh")


def _drawn(typed: argparse.Namespace, options: Options, registry: Registry, lines: Sequence[str]) -> str:
    """Write the reports of the run; return the shares and other lines as text."""
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import kinds_of_errors

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        return benchmarks.load_found(benchmark, options.data)

    built = report.build(typed.run, registry.benchmarks)
    written = report.write(built, html.draw(built, load, many="none"))
    return "\n".join([kinds_of_errors(written, full=True), *lines, f"run folder: {typed.run}"])
