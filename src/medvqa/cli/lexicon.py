"""`medvqa lexicon`: print the tags of the data, with counts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from medvqa import files
from medvqa.cli.common import Commands, data_of, known_from
from medvqa.items import Item, UsageError
from medvqa.session.options import listed


def add(commands: Commands, common: argparse.ArgumentParser) -> None:
    """Add the command."""
    lexicon = commands.add_parser(
        "lexicon",
        parents=[common],
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
        help="only this dimension, such as modality, or two that are crossed, as ability+question_type (repeatable)",
    )
    lexicon.add_argument(
        "--counts",
        action="store_true",
        help="print a table for each dimension instead: its values with their numbers of questions, modalities and "
        "labels, beside the published ones",
    )
    lexicon.add_argument(
        "--tags", action="append", default=[], type=Path, metavar="FILE", help="add tags of your own, as in a run"
    )
    lexicon.add_argument("--html", type=Path, metavar="FILE", help="write the tree as an interactive page instead")
    lexicon.set_defaults(command=run)


def run(options: argparse.Namespace) -> str:
    """Return the count of items for each tag, or write an interactive page."""
    from medvqa import benchmarks
    from medvqa.data import lexicon, own_tags

    data, typed = data_of(options)
    known = known_from(options).benchmarks
    chosen = benchmarks.choose(listed(options.benchmark), known, data, typed)
    folders = {benchmark.name: benchmarks.folder_of(benchmark, data) or data or Path() for benchmark in chosen}
    loaded = {benchmark.name: benchmarks.load(benchmark, folders[benchmark.name]) for benchmark in chosen}
    if options.tags:
        tags = own_tags.read(options.tags)
        tags.check(loaded, known)
        loaded = {name: tags.added(items) for name, items in loaded.items()}
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
        wanted = [dimension for dimension in options.dimension if present.issuperset(dimension.split(lexicon.CROSSED))]
        if wanted or not options.dimension:
            blocks.append(f"{name}: {len(items)} items{where(name)}")
            if options.counts:
                own = wanted or [d for d in known[name].dimensions if present.issuperset(d.split(lexicon.CROSSED))]
                blocks += [_counts(items, dimension, name) for dimension in own]
            else:
                blocks.append(lexicon.render(items, dimensions=wanted or None))
    if not blocks:
        dimensions = sorted({dimension for items in loaded.values() for item in items for dimension in item.tags})
        raise UsageError(f"no dimension '{options.dimension[0]}'; there are: {', '.join(dimensions)}")
    return "\n".join(blocks)


def _counts(items: Sequence[Item], dimension: str, benchmark: str) -> str:
    """Draw the table of counts of one dimension."""
    from medvqa import printing
    from medvqa.data import counting, lexicon
    from medvqa.figures import DASH, Column, Table, numbers, terminal

    counts = counting.count(items, dimension, benchmark)
    paper = counts.published
    published = () if paper is None else paper.columns
    rows: list[tuple[object, ...]] = [
        (
            lexicon.display(dimension, value),
            *row,
            *(() if paper is None else paper.values.get(value, (None,) * len(published))),
        )
        for value, row in counts.rows.items()
    ]
    if paper is not None:
        absent = [value for value in paper.values if value not in counts.rows]
        rows += [
            (lexicon.display(dimension, value), *(0 for _ in counts.columns), *paper.values[value]) for value in absent
        ]
    # A number that is unknown is a dash; the published table has no row for all.
    cells = [[DASH if cell is None else cell for cell in row] for row in sorted(rows, key=lambda row: str(row[0]))]
    cells.append(
        ["together", *(DASH if number is None else number for number in counts.total), *("" for _ in published)]
    )
    headings = (_HEADINGS.get(column, column) for column in counts.columns)
    columns = numbers(*headings, *(f"{_HEADINGS.get(name, name)} published" for name in published))
    table = Table("", (Column(dimension), *columns), tuple(cells))
    notes = [_CASES] if "cases" in counts.columns else []
    notes += [] if paper is None else [f"published: {paper.source}"]
    return printing.lines(terminal(table)) + "".join(f"{note}\n" for note in notes)


_CASES = "cases: single-choice questions without those at contour level, which show the cases at mask level again"
_HEADINGS = {"modality": "modalities", "label": "labels"}
