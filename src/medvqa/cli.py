"""`medvqa`: what is done with data and run folders outside of a test session."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType

from medvqa import __version__
from medvqa.items import MedVQAError, UsageError
from medvqa.plugin.known import Known, gather_from
from medvqa.plugin.options import ENV_DATA


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 4 with one line on standard error when something that was asked for is not there."""
    options = _parser().parse_args(arguments)
    try:
        output: str = options.command(options)
    except MedVQAError as error:
        print(f"medvqa: {error}", file=sys.stderr)
        return 4
    try:
        print(output, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="medvqa", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"pytest-medvqa {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file with medvqa hooks, for instance your conftest.py (repeatable)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    report = commands.add_parser(
        "report", parents=[common], help="write metrics.json, summary.md and junit.xml of run folders anew"
    )
    report.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, such as reports/RUN")
    report.set_defaults(command=_report)

    lexicon = commands.add_parser(
        "lexicon", parents=[common], help="print the lexical tree with counts, and what selects each branch"
    )
    lexicon.add_argument("--benchmark", action="append", default=[], metavar="NAME", help="as for pytest")
    lexicon.add_argument("--data", type=Path, default=os.environ.get(ENV_DATA), metavar="DIR", help="as for pytest")
    lexicon.add_argument("--dimension", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    lexicon.set_defaults(command=_lexicon)
    return parser


def _known(files: Sequence[str]) -> Known:
    """What the hooks bring: the shipped rooms and the files that were named."""
    return gather_from({name: _module(Path(name)) for name in files})


def _module(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"--plugin={path}: no such Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _report(options: argparse.Namespace) -> str:
    from medvqa import report
    from medvqa.report.terminal import summary

    known = _known(options.plugin)
    texts = []
    for folder in options.runs:
        made = report.build(folder, known.benchmarks, known.metrics)
        texts.append(summary(report.write(made), width=100))
    return "\n".join(texts)


def _lexicon(options: argparse.Namespace) -> str:
    from medvqa import benchmarks, lexicon

    data = Path(options.data) if options.data is not None else None
    chosen = benchmarks.choose(options.benchmark, _known(options.plugin).benchmarks, data)
    loaded = {benchmark.name: benchmarks.load(benchmark, data or Path()) for benchmark in chosen}
    blocks = []
    for name, items in loaded.items():
        there = {dimension for item in items for dimension in item.tags}
        wanted = [dimension for dimension in options.dimension if dimension in there]
        if wanted or not options.dimension:
            blocks += [f"{name}: {len(items)} items", lexicon.render(items, dimensions=wanted or None)]
    if not blocks:
        known = sorted({dimension for items in loaded.values() for item in items for dimension in item.tags})
        raise UsageError(f"no dimension '{options.dimension[0]}'; there are: {', '.join(known)}")
    return "\n".join(blocks)


if __name__ == "__main__":
    sys.exit(main())
