"""`medvqa lexicon`: print the tags of the data, with counts."""

from __future__ import annotations

import argparse
from pathlib import Path

from medvqa import files
from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import UsageError
from medvqa.session.options import listed


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    lexicon = commands.add_parser(
        "lexicon",
        parents=[common],
        help="print the tags of the questions as a tree, with counts",
        description="Print the tags of the questions as a tree. Each branch has its number of questions and the "
        "expression that selects them with pytest -m or medvqa run --select.",
    )
    lexicon.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="NAME",
        help="only this benchmark or group (repeatable, or NAME,NAME; default: all whose data are found)",
    )
    lexicon.add_argument("--data", metavar="DIR", help="folder of the data sets (default: MEDVQA_DATA)")
    lexicon.add_argument(
        "--dimension",
        action="append",
        default=[],
        metavar="NAME",
        help="only this dimension, such as modality (repeatable)",
    )
    lexicon.add_argument("--html", type=Path, metavar="FILE", help="write the tree as an interactive page instead")
    lexicon.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Return the count of items for each tag, or write an interactive page."""
    from medvqa import benchmarks
    from medvqa.data import lexicon

    data, typed = data_of(options)
    chosen = benchmarks.choose(listed(options.benchmark), known_from(options).benchmarks, data, typed)
    folders = {benchmark.name: benchmarks.folder_of(benchmark, data) or data or Path() for benchmark in chosen}
    loaded = {benchmark.name: benchmarks.load(benchmark, folders[benchmark.name]) for benchmark in chosen}
    if options.html is not None:
        from medvqa.report import html

        content = html.lexicon_page([(benchmark, loaded[benchmark.name]) for benchmark in chosen])
        try:
            files.replace(options.html, content)
        except OSError as error:
            raise UsageError(f"--html={options.html}: cannot be written: {error.strerror}") from error
        return f"wrote {options.html}"
    blocks = []

    def where(name: str) -> str:
        return f", read from {folders[name]}" if folders[name] not in (data, Path()) else ""

    for name, items in loaded.items():
        present = {dimension for item in items for dimension in item.tags}
        wanted = [dimension for dimension in options.dimension if dimension in present]
        if wanted or not options.dimension:
            blocks += [f"{name}: {len(items)} items{where(name)}", lexicon.render(items, dimensions=wanted or None)]
    if not blocks:
        dimensions = sorted({dimension for items in loaded.values() for item in items for dimension in item.tags})
        raise UsageError(f"no dimension '{options.dimension[0]}'; there are: {', '.join(dimensions)}")
    return "\n".join(blocks)
