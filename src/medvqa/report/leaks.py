"""The overlap of benchmarks and a training set, as text, CSV and JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from medvqa import figures, printing
from medvqa.comparing.without import CleanScores, WithoutOverlap
from medvqa.figures import DASH, Table, between, csv, number, numbers, terminal, texts
from medvqa.likeness import BITS, LEVELS, Overlap, Overlaps, Trained
from medvqa.statistics.part import LEAST_LEFT_OUT

SHOWN = 3
"""Files that are named in a line, of those that could not be read."""

COLUMNS = (
    *("benchmark", "item", "overlap", "image", "same", "bits", "turned", "training_image", "like_images"),
    *("question", "question_distance", "training_row", "rows", "row_names_image"),
)
"""The columns of the CSV file; docs/data.md explains them."""
ALONE = "question alone"
"""In place of a level: an item with images of which only the question was found."""


def text(
    overlaps: Mapping[str, Overlaps], trained: Trained, shown: str, near: int, scores: Sequence[CleanScores] = ()
) -> str:
    """Return the summary; `shown` is the training folder as typed, `near` the most bits between like images."""
    about = (_benchmark(name, found, near) for name, found in overlaps.items())
    return "\n\n".join(["\n".join(_training(trained, shown)), *map("\n".join, about), *map(_scores, scores)])


def _training(trained: Trained, shown: str) -> list[str]:
    """Lines about the training set: what was compared, and what was not."""
    files = trained.files
    tables = len(files.tables) - sum(name in trained.unreadable for name in files.tables)
    images = sum(bool(each.pixels) for each in trained.prints)
    lines = [f"{shown}: images {images:,}; tables {tables:,}; rows {trained.rows:,}; texts {trained.texts:,}"]
    hashed = {image.name for image in trained.images}
    unseen = {name: why for name, why in trained.unreadable.items() if name in hashed}
    unread = {name: why for name, why in trained.unreadable.items() if name not in hashed}
    for what, count, named in (
        ("files that could not be compared", len(unread), _reasons(unread)),
        ("images that could not be decoded, and were compared by their bytes alone", len(unseen), _reasons(unseen)),
        (
            "archives and arrays that were not opened",
            len(files.archives),
            f"{printing.some(files.archives, SHOWN, '; ')}; unpack or export them",
        ),
        ("links to folders that were not followed", len(files.links), printing.some(files.links, SHOWN, "; ")),
        ("folders that could not be read", len(files.closed), printing.some(files.closed, SHOWN, "; ")),
    ):
        if count:
            lines.append(f"! {what}: {count:,}; {named}")
    return [printing.line(line) for line in lines]


def _reasons(reasons: Mapping[str, str]) -> str:
    """Files by the first sentence of their reasons: the first file, the number of others, and the reason."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in reasons.items():
        # A reason may repeat the name of the file, and go on with advice for the table of a benchmark.
        names[why.removeprefix("image ").removeprefix(f"{name}: ").partition(". ")[0]].append(name)
    return printing.some([f"{printing.some(files, 1)}: {why}" for why, files in names.items()], SHOWN, "; ")


def _benchmark(name: str, found: Overlaps, near: int) -> list[str]:
    """The table of a benchmark's overlap, and lines about items that were not compared."""
    total = len(found.items)
    rows = []
    for level, meaning in LEVELS.items():
        if level == "look-alike":
            meaning = f"{meaning} (at most {near} of {BITS} bits)"
        own, all_of_these = len(found.at(level)), len(found.up_to(level))
        rows.append((level, own, all_of_these, number(all_of_these / total), meaning))
    columns = (*texts("overlap"), *numbers("items", "with those above", "%"), *texts("the training set has"))
    lines = [printing.line(f"{name}: {total:,} items, {found.images:,} images"), ""]
    lines.append(terminal(Table("", columns, tuple(rows))).rstrip("\n"))
    if found.alone:
        lines.append(f"question alone: {len(found.alone):,} more items; no overlap, as other images are asked the same")
    if found.lacking:
        reasons = Counter(found.lacking.values()).most_common(SHOWN)
        lines.append(
            f"! items with an image that could not be compared: {len(found.lacking):,} (--json=FILE names them): "
            + "; ".join(why for why, _ in reasons)
        )
    if found.plain:
        lines.append(f"! plain images, compared by bytes and pixels alone: {found.plain:,}")
    return [*lines[:3], *map(printing.line, lines[3:])]


def _scores(score: CleanScores) -> str:
    """The table of a run's measures with and without overlap."""
    lines = [f"{score.run}, with and without overlap", ""]
    rows = tuple(_row(row) for row in score.rows)
    columns = (
        *(*texts("benchmark", "measure", "left out"), *numbers("items", "overlap", "all", "clean")),
        *numbers("difference", "95 % interval", "groups"),
    )
    if rows:
        lines.append(terminal(Table("", columns, rows)))
    else:
        lines.append("no item of this run overlaps, so nothing is left out")
    if any(row.numbers.few for row in score.rows):
        lines.append(f"counts alone: fewer than {LEAST_LEFT_OUT} questions or pairs overlap, or do not")
    if any(row.numbers.low is None and not row.numbers.few for row in score.rows):
        lines.append("no interval: too few independent groups are left out, or no score varies")
    for name, count in score.unknown.items():
        lines.append(f"! {name}: items that are not in the data here, or differ, and count as clean: {count:,}")
    lines += [f"! {failed.name}: {failed.why}" for failed in score.failed]
    return "\n".join([printing.line(lines[0]), "", *map(printing.lines, lines[2:])]).rstrip("\n")


def _row(row: WithoutOverlap) -> tuple[object, ...]:
    found = row.numbers
    left, whole, part = (number(value, percent=row.percent) for value in (found.left, found.whole, found.part))
    if found.few and found.counted is not None:
        left = "/".join(map(figures.count, found.counted))
    return (
        *(f"{row.benchmark}, {row.technique}", row.measure, row.level, row.items, left, whole, part),
        DASH if found.few else number(found.difference, percent=row.percent, sign=True),
        between(found.low, found.high, percent=row.percent, sign=True) or DASH,
        f"{found.groups_left_out:,} of {found.groups:,}",
    )


def as_csv(overlaps: Mapping[str, Overlaps]) -> str:
    """Return a row for each item and training image that are alike, or for the item's question."""
    rows = ((name, *_cells(each)) for name, found in overlaps.items() for each in found.found)
    return csv(COLUMNS, rows)


def _cells(each: Overlap) -> Iterator[object]:
    match, question = each.match, each.question
    yield printing.line(each.item)
    yield each.level or ALONE
    yield printing.line(each.image)
    yield match.kind if match else ""
    yield match.bits if match else ""
    yield match.turn if match else ""
    yield printing.line(each.trained)
    yield each.images
    yield ("equal" if question.equal else "near") if question else ""
    yield f"{question.distance:.3f}" if question else ""
    yield printing.line(question.where) if question else ""
    yield each.rows
    yield ("yes" if each.joined else "no") if match and question else ""


def as_json(
    overlaps: Mapping[str, Overlaps], trained: Trained, near: int, scores: Iterable[CleanScores] = ()
) -> dict[str, Any]:
    """Return the counts, the items of each level and the scores as JSON; not the texts."""
    return {
        "training": {
            "images": sum(bool(each.pixels) for each in trained.prints),
            "rows": trained.rows,
            "texts": trained.texts,
            "not_compared": {printing.line(name): printing.line(why) for name, why in trained.unreadable.items()},
            "archives": list(map(printing.line, trained.files.archives)),
            "links": list(map(printing.line, trained.files.links)),
            "closed": list(map(printing.line, trained.files.closed)),
        },
        "near": {"hash": "phash", "bits": BITS, "most": near},
        "benchmarks": {
            name: {
                "items": len(found.items),
                "images": found.images,
                "levels": {level: sorted(found.at(level)) for level in LEVELS},
                "question_alone": sorted(found.alone),
                "not_compared": dict(found.lacking),
                "plain_images": found.plain,
            }
            for name, found in overlaps.items()
        },
        "scores": [
            {
                "run": score.run,
                "benchmark": row.benchmark,
                "technique": row.technique,
                "measure": row.measure,
                "without": row.level,
                "items_left_out": row.items,
                **{name: getattr(row.numbers, name) for name in row.numbers.__dataclass_fields__},
            }
            for score in scores
            for row in score.rows
        ],
    }
