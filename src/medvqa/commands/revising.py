"""Opinions of experts about a benchmark -> a new version of it: table and TOML file, changes.csv, datasheet.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from medvqa import benchmarks, figures, files, printing
from medvqa.benchmarks import table_files
from medvqa.benchmarks.recorded import CHANGES, Revision
from medvqa.importing import writing
from medvqa.items import Benchmark, Item, UsageError
from medvqa.judging import coefficients
from medvqa.readings import revised_table, revision
from medvqa.readings.reading_file import Opinion, ReaderStudy
from medvqa.records import run_folder

SHEET = "datasheet.md"
DECISIONS = ("accept", "correct", "reject")
MOST_SHOWN = 20
"""Ids that a message lists."""


def revise(
    study: ReaderStudy,
    opinions: Sequence[Opinion],
    benchmark: Benchmark,
    data: Path | None,
    folder: Path,
    *,
    keep_from: int | None = None,
) -> str:
    """Write the new version of a benchmark into a folder; return its numbers and the commands to type next.

    `data` is the data folder. Opinions about other benchmarks do not count. UsageError if questions lack a final
    decision, and for opinions about other questions; DataError for a correction that does not fit; both name the
    questions.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists: name another folder with -o")
    others = {opinion.benchmark for opinion in opinions} - {"", benchmark.name}
    opinions = [opinion for opinion in opinions if opinion.benchmark not in others]
    if not opinions:
        raise UsageError(f"the opinions are about {printing.some(sorted(others), MOST_SHOWN)}, not {benchmark.name}")
    items = _reviewed(study, opinions, benchmark, data)
    if waiting := revision.undecided(items, opinions, keep_from):
        need = "1 question needs" if len(waiting) == 1 else f"{len(waiting):,} questions need"
        raise UsageError(
            f"{need} a final decision, since reviewers differ: {printing.some(waiting, MOST_SHOWN)}. A plan with "
            'opinions = "FILE" makes the page of an adjudicator: medvqa read PLAN.toml'
        )
    kept, changes = revision.revised(items, opinions, keep_from)
    if not kept:
        raise UsageError("every question would be removed: nothing is written")
    source, old = table_files.source_of(benchmark), run_folder.data_digest(items)
    version = (source.declaration.version if source is not None else "") or "1"
    removed = len(items) - len(kept)
    changed = len({change.id for change in changes}) - removed
    counted = f"{figures.counted(changed, 'questions')} changed, {removed:,} removed"
    made_of = Revision(benchmark.name, version, old, counted)
    toml = folder / f"{table_files.name_of(Path(f'{benchmark.name}.toml'))}.toml"
    table = revised_table.table_of(benchmark, kept, toml, made_of)
    said = f"version {table.declaration.version}, {len(kept):,} questions"
    reviews = Counter(opinion.item for opinion in opinions if not opinion.final)
    reviewed = len({opinion.item for opinion in opinions})
    alone = sum(reviews[id] < 2 for id in {opinion.item for opinion in opinions})
    by = _people(opinions, final=False)
    once = f"{figures.counted(alone, 'questions')} of these with fewer than two reviewers" if alone else ""
    about = {
        "This version": f"{said}, SHA-256 {run_folder.data_digest(table.items)}",
        "Made of": f"version {version}, {len(items):,} questions, SHA-256 {old}",
        "Kept as they were": f"{len(kept) - changed:,}; corrected: {changed:,}; removed: "
        f"{removed:,} ({CHANGES} has each change with its reason)",
        "Plan of the review": study.plan or "none recorded",
        "Reviewed": "; ".join(filter(None, [f"{reviewed:,} of {len(items):,} questions, by {by}", once])),
        "Final decisions": _people(opinions, final=True),
        "Agreement": _agreement(items, opinions),
        "Rules": revision.RULE + (f" One that is rated below {keep_from} of 10 goes." if keep_from is not None else ""),
    }
    sheet = "".join(f"- {key}: {printing.markdown(value)}\n" for key, value in about.items())
    with files.writing(str(folder)):
        (folder / revised_table.IMAGES if table.images else folder).mkdir(parents=True, exist_ok=True)
        for path, content in table.images.items():
            files.replace(path, content)
        files.replace(
            toml.with_name(table.declaration.file), b"".join(msgspec.json.encode(row) + b"\n" for row in table.rows)
        )
        files.replace(folder / CHANGES, figures.csv(revision.Change._fields, changes).encode())
        files.replace(folder / SHEET, f"# {printing.markdown(benchmark.name)}: data sheet\n\n{sheet}".encode())
    # Last: whoever finds this file finds all of them.
    table_files.write(table.declaration, toml, note=writing.NOTE.replace("import", "read revise"))
    return "\n".join(
        [
            *([f"! reviewed: {once}"] if once else []),
            f"wrote {toml}: {said} ({counted})",
            *(f"  {line}" for line in writing.commands(toml)[:2]),
        ]
    )


def _reviewed(
    study: ReaderStudy, opinions: Sequence[Opinion], benchmark: Benchmark, data: Path | None
) -> tuple[Item, ...]:
    """Return the questions of a benchmark; UsageError unless the opinions are about these."""
    name = benchmark.name
    benchmarks.choose([name], {name: benchmark}, data)
    items = benchmarks.load(benchmark, benchmarks.folder_of(benchmark, data) or data or Path())
    if unknown := sorted({opinion.item for opinion in opinions} - {item.id for item in items}):
        # A page exports codes; ids come back by its study folder.
        first = "; first type medvqa read import FILE... --study FOLDER" if study.reader else ""
        raise UsageError(f"{name} has no question {printing.some(unknown, MOST_SHOWN)}{first}")
    if study.benchmarks.get(name, digest := run_folder.data_digest(items)) != digest:
        raise UsageError(f"{name}: its questions have changed since the review was planned; name the file of that time")
    return items


def _people(opinions: Sequence[Opinion], *, final: bool) -> str:
    """The codes of those who reviewed, or decided, each with the number of opinions."""
    counts = Counter(opinion.reader for opinion in opinions if opinion.final is final)
    return ", ".join(f"{code} ({count:,})" for code, count in sorted(counts.items())) or "none"


def _agreement(items: Sequence[Item], opinions: Sequence[Opinion]) -> str:
    """Return the agreement of the decisions of reviewers, before any final decision."""
    import numpy as np

    reviews = [opinion for opinion in opinions if not opinion.final]
    codes = sorted({opinion.reader for opinion in reviews})
    decisions = np.full((len(items), len(codes)), -1)
    place = {item.id: row for row, item in enumerate(items)}
    for opinion in reviews:
        decisions[place[opinion.item], codes.index(opinion.reader)] = DECISIONS.index(opinion.decision)
    both = (decisions >= 0).sum(axis=1) > 1
    _, group = np.unique([item.cluster_id or f"item {item.id}" for item in items], return_inverse=True)
    if not both.any():
        return "no question has two opinions"
    said = coefficients.nominal_said(decisions[both], group[both])
    return f"{said}, for the decisions on {figures.counted(int(both.sum()), 'questions')}"
