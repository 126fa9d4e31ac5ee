"""`medvqa`: what is done with data and run folders outside of a test session."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from types import ModuleType

from medvqa import __version__, records
from medvqa.items import Benchmark, DataError, Item, MedVQAError, UsageError
from medvqa.plugin.known import Known, gather_from
from medvqa.plugin.options import ENV_DATA

STORE = Path("reports", records.STORE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 4 with one line on standard error when something that was asked for is not there.

    1 when what was written lacks results.
    """
    options = _parser().parse_args(arguments)
    try:
        made = options.command(options)
    except MedVQAError as error:
        print(f"medvqa: {error}", file=sys.stderr)
        return 4
    output, code = made if isinstance(made, tuple) else (made, 0)
    try:
        print(output, flush=True)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(code)


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
    report.set_defaults(command=_report)

    merge = commands.add_parser(
        "merge",
        parents=[common],
        help="join shares of a run, or partial runs of one configuration, into one run folder",
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
    merge.set_defaults(command=_merge)

    lexicon = commands.add_parser(
        "lexicon", parents=[common], help="print the lexical tree with counts, and what selects each branch"
    )
    lexicon.add_argument("--benchmark", action="append", default=[], metavar="NAME", help="as for pytest")
    lexicon.add_argument("--data", type=Path, default=os.environ.get(ENV_DATA), metavar="DIR", help="as for pytest")
    lexicon.add_argument("--dimension", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    lexicon.add_argument("--html", type=Path, metavar="FILE", help="write an interactive page instead")
    lexicon.set_defaults(command=_lexicon)

    models = commands.add_parser(
        "models", parents=[common], help="list what --model may name: the configs of models/ here, and those that ship"
    )
    models.add_argument("names", nargs="*", metavar="MODEL", help="as for pytest's --model (default: all configs)")
    models.set_defaults(command=_models)
    cache = commands.add_parser("cache", help="list, verify or prune the answers that runs share")
    cache.add_argument(
        "do", choices=["list", "verify", "prune"], help="list what is there, check every line, or delete"
    )
    cache.add_argument("--answers", type=Path, default=STORE, metavar="DIR", help=f"as for pytest (default: {STORE})")
    cache.add_argument("--model", metavar="NAME", help="only answers of this model, by its name in tables")
    cache.add_argument("--run", metavar="NAME", help="only answers that this run asked for")
    cache.add_argument(
        "--older", type=_age, metavar="DAYS", help="only files that were not written to for so many days"
    )
    cache.add_argument("--yes", action="store_true", help="prune: delete, rather than say what would be deleted")
    cache.set_defaults(command=_cache)
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
    from medvqa import benchmarks, report
    from medvqa.report import html
    from medvqa.report.terminal import summary

    known = _known(options.plugin)
    data = Path(options.data) if options.data is not None else None

    def load(benchmark: Benchmark) -> Sequence[Item] | None:
        there = benchmarks.is_found(benchmark, data)
        return benchmarks.load(benchmark, data or Path()) if there else None

    texts = []
    for folder in options.runs:
        made = report.build(folder, known.benchmarks, known.metrics)
        texts.append(summary(report.write(made, html.draw(made, load, options.images)), width=100))
    return "\n".join(texts)


def _merge(options: argparse.Namespace) -> tuple[str, bool]:
    """The summary of the runs as one, and whether anything is missing in it."""
    from medvqa import records, report
    from medvqa.records import merging
    from medvqa.report.terminal import printable, summary

    known = _known(options.plugin)
    beside = options.output.parent if options.output.parent != Path() else options.runs[0].parent
    folder = beside / options.output.name
    records.check_name(folder.name, "-o")
    if folder.exists():
        raise UsageError(f"{folder} exists: name another with -o")
    merged = merging.merge([merging.load(run) for run in options.runs], folder.name)
    merging.write(merged, folder)
    made = report.build(folder, known.benchmarks, known.metrics, merged.missing)
    notes = [f"! {printable(note)}" for note in merged.notes]
    return "\n".join([*notes, summary(report.write(made), width=100)]), not merged.complete


def _age(text: str) -> float:
    days = float(text)
    if not days >= 0:
        raise ValueError(text)
    return days


def _cache(options: argparse.Namespace) -> str:
    """What a store holds, by model and run; what is damaged; what was deleted."""
    if not options.answers.is_dir():
        raise UsageError(f"--answers={options.answers}: no such folder; runs store answers in reports/.answers")
    before = time.time() - 86400 * (options.older or 0)
    chosen = [
        each
        for each in records.contents(options.answers)
        if options.model in (None, each.writer.model if each.writer else "")
        and options.run in (None, each.writer.run if each.writer else "")
        and each.changed <= before
    ]
    if options.do == "verify":
        return _verified(chosen)
    listed = _listed(chosen)
    if options.do == "list":
        return listed
    if options.model is options.run is options.older is None:
        raise UsageError("prune what? Name a model with --model, a run with --run, or an age in days with --older")
    if not options.yes:
        return f"{listed}\nNothing was deleted; add --yes to delete these."
    records.remove(chosen)
    return f"{listed}\nDeleted."


def _listed(files: Sequence[records.Contents]) -> str:
    from medvqa.report.tables import Table
    from medvqa.report.terminal import draw

    groups: dict[tuple[str, str], list[records.Contents]] = {}
    for each in files:
        name = (each.writer.model, each.writer.run) if each.writer else ("?", "?")
        groups.setdefault(name, []).append(each)
    rows = [
        (
            *name,
            f"{sum(each.answers for each in group):,}",
            f"{sum(each.size for each in group) / 1e6:,.1f}",
            time.strftime("%Y-%m-%d", time.localtime(max(each.changed for each in group))),
        )
        for name, group in sorted(groups.items())
    ]
    total = f"{sum(each.answers for each in files):,} answers, {sum(each.size for each in files) / 1e6:,.1f} MB"
    table = Table("answers", ("model", "run", "answers", "MB", "last written"), tuple(rows), right=frozenset({2, 3}))
    return f"{draw(table)}\n{total}" if rows else "no answers"


def _verified(files: Sequence[records.Contents]) -> str:
    problems = [problem for each in files for problem in each.problems]
    answers = sum(each.answers for each in files)
    if not problems:
        return f"{answers:,} answers in {len(files)} files, all whole"
    raise DataError("\n".join([*problems, f"{answers:,} answers are whole; those of {len(problems)} lines are lost"]))


def _lexicon(options: argparse.Namespace) -> str:
    from medvqa import benchmarks, lexicon

    data = Path(options.data) if options.data is not None else None
    chosen = benchmarks.choose(options.benchmark, _known(options.plugin).benchmarks, data)
    loaded = {benchmark.name: benchmarks.load(benchmark, data or Path()) for benchmark in chosen}
    if options.html is not None:
        from medvqa.report import html

        options.html.write_bytes(html.lexicon_page([(benchmark, loaded[benchmark.name]) for benchmark in chosen]))
        return f"wrote {options.html}"
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


def _models(options: argparse.Namespace) -> str:
    from medvqa import configs, suite
    from medvqa.report.tables import Table
    from medvqa.report.terminal import draw

    backends = _known(options.plugin).backends
    folders = [Path("models"), suite.folder("models")]
    named = [configs.resolve(name, folders=folders, backends=backends) for name in options.names]
    # A folder beside its config is looked at where it lies, and shown as it is written.
    as_written = named or configs.available(folders)
    rows = []
    for written, config in zip(as_written, named or configs.available(folders, backends), strict=True):
        known = config.backend in backends
        able = sorted(getattr(backends[config.backend], "capabilities", ())) if known else ["unknown: --plugin=FILE"]
        size = configs.in_units(configs.size(config, backends) if known else None)
        rows.append((config.name, config.backend, written.argument, ", ".join(able), size, config.description))
    columns = ("model", "backend", "argument", "capabilities", "size", "description")
    return draw(Table("", columns, tuple(rows), frozenset({4}))).removesuffix("\n")


if __name__ == "__main__":
    sys.exit(main())
