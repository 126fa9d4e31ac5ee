"""`medvqa rescore`: score stored answers again, by a judge or another rule, without asking the model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa.cli.common import Commands, add_options, count_up, known_from, locked, say
from medvqa.items import Benchmark, Item
from medvqa.session.options import OPTIONS

if TYPE_CHECKING:
    from medvqa.session.options import Options
    from medvqa.session.registry import Registry

_NAMES = (
    "judge",
    "ff-gap",
    "extract-with",
    "rules-first",
    "judge-prompt",
    "extraction",
    "answers",
    "fresh",
    "allow-upload",
    "trust-remote-code",
    "max-cost",
    "deadline",
    "max-errors",
    "data",
)
_HELP = {
    "judge": "the model that judges open answers: a config of models/, or BACKEND:ARGUMENT",
    "ff-gap": "for answers by --technique=ff: the closest option is the answer if it leads by POINTS; without "
    "--judge, the stored replies are read again",
    "extraction": "the rule that reads answers, sound or official (default: the rule of the run)",
    "answers": "use the judge's replies in another run too: its name or folder; or share them in a place: a folder, "
    "s3://BUCKET/PREFIX, gs:// or az:// (repeatable; default: those of the run alone)",
    "fresh": "ask the judge everything again, without stored replies",
    "max-cost": "stop once judging has cost this sum, by the prices in the judge's config",
    "max-errors": "stop after N errors in a row (0: never)",
    "data": "folder of the data sets, for images of the page (default: MEDVQA_DATA)",
}
"""Help texts that differ from those of pytest's options."""


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    rescore = commands.add_parser(
        "rescore",
        parents=[common],
        description="Score the stored answers of a run again, by a judge or by another rule of extraction. The model "
        "is not asked. The run changes only when all answers have their new score.",
    )
    rescore.add_argument("run", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    add_options(rescore, (OPTIONS[name] for name in _NAMES), _HELP)
    rescore.set_defaults(command=run)


def run(typed: argparse.Namespace) -> tuple[str, bool]:
    """Rescore a run. Return its summary, and whether it is unfinished or has errors."""
    from medvqa.session.options import Options

    here = Path.cwd()
    registry, options = known_from(typed, [typed.run]), Options.of(vars(typed), here)
    with locked(typed.run):
        return _rescored(typed, options, registry)


def _rescored(typed: argparse.Namespace, options: Options, registry: Registry) -> tuple[str, bool]:
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import summary
    from medvqa.session import rescoring
    from medvqa.session.ending import interruptible
    from medvqa.session.project import Project

    here = Path.cwd()
    planned = rescoring.plan(typed.run, Project(here, here, registry, options), as_before=typed.extraction is None)
    for line in rescoring.check(planned):
        say(line)
    with interruptible():
        stopped = rescoring.rescore(planned, say=say, progress=count_up("results"))
    if stopped is not None:
        return stopped, True
    built = report.build(typed.run, registry.benchmarks)
    data = options.data

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        return benchmarks.load_found(benchmark, data)

    written = report.write(built, html.draw(built, load, many="none"))
    errors = any(result.score.outcome == "error" for part in written.parts for result in part.results)
    return summary(written, width=100, exits=False), errors or not built.covered.finished
