"""`medvqa lexicon`: print the tags of the data, with counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option
from medvqa.cli.common import known_and_named, questions_of, write
from medvqa.decode import did_you_mean
from medvqa.items import UsageError


class LexiconArguments(Arguments):
    """Print the tags of the questions as a tree.

    Each branch has its number of questions and the expression that selects them with pytest -m or medvqa run --select.
    """

    dimension: list[str] = option(
        "only this dimension, such as modality, or two that are crossed, as ability+question_type (repeatable)", "NAME"
    )
    counts: bool = option(
        "print a table for each dimension instead: its values with their numbers of questions, modalities and labels"
    )
    html: Path | None = option("write the tree as an interactive page instead", "FILE")


def run(typed: LexiconArguments) -> str:
    """Return the count of items for each tag, or write an interactive page."""
    from medvqa.report import tag_counts
    from medvqa.tags import lexicon, own_tags

    options = typed.options()
    registry, named = known_and_named(typed, options.benchmarks)
    known, read = registry.benchmarks, questions_of(options, named, registry.benchmarks)
    loaded = {name: items for name, (items, _) in read.items()}
    if options.tags:
        tags = own_tags.read(options.tags)
        tags.check(loaded, known)
        loaded = {name: tags.added(items) for name, items in loaded.items()}
    if typed.html is not None:
        from medvqa.report import html

        trees = [(known[name], items) for name, items in loaded.items()]
        write("--html", typed.html, lambda: html.lexicon_page(trees))
        return f"wrote {typed.html}"
    blocks = []
    for name, items in loaded.items():
        present, folder = {dimension for item in items for dimension in item.tags}, read[name][1]

        def there(dimensions: Sequence[str], present: set[str] = present) -> list[str]:
            return [dimension for dimension in dimensions if present.issuperset(dimension.split(lexicon.CROSSED))]

        wanted = there(typed.dimension)
        if wanted or not typed.dimension:
            where = f", read from {folder}" if folder not in (options.data, Path()) else ""
            blocks.append(f"{name}: {len(items)} items{where}")
            if typed.counts:
                blocks += [tag_counts.text(items, each) for each in wanted or there(known[name].dimensions)]
            else:
                blocks.append(lexicon.render(items, dimensions=wanted or None))
    if not blocks:
        dimensions = sorted({dimension for items in loaded.values() for item in items for dimension in item.tags})
        raise UsageError(f"no dimension '{typed.dimension[0]}'{did_you_mean(typed.dimension[0], dimensions)}")
    return "\n".join(blocks)


COMMAND = Command(
    LexiconArguments,
    run,
    {
        "benchmark": "only this benchmark or group (repeatable, or NAME,NAME; default: all whose data are found)",
        **DATA,
        "tags": "add tags of your own, as in a run (repeatable)",
    },
)
