"""Opinions of experts about a benchmark -> a new version of it: table and TOML file, changes.csv, datasheet.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
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

    `data` is the data folder. UsageError if questions lack a final decision, and for opinions about other questions;
    DataError for a correction that does not fit; both name the questions.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists: name another folder with -o")
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
        "Agreement": "; ".join(_agreement(items, opinions)) or "no question has two opinions",
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
    if other := sorted({opinion.benchmark for opinion in opinions} - {"", name}):
        raise UsageError(
            f"some opinions are about {printing.some(other, MOST_SHOWN)}, not {name}: revise one at a time"
        )
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


def _agreement(items: Sequence[Item], opinions: Sequence[Opinion]) -> list[str]:
    """Return the agreement of every two reviewers, before any final decision; UsageError without scikit-learn."""
    import numpy as np

    groups = {item.id: item.cluster_id or f"item {item.id}" for item in items}
    by_reader: dict[str, dict[str, Opinion]] = {}
    for opinion in (each for each in opinions if not each.final):
        by_reader.setdefault(opinion.reader, {})[opinion.item] = opinion
    lines = []
    for one, other in combinations(sorted(by_reader), 2):
        both = [(by_reader[one][id], by_reader[other][id]) for id in by_reader[one] if id in by_reader[other]]
        if not both:
            continue
        codes = np.array([[DECISIONS.index(opinion.decision) for opinion in pair] for pair in both])
        _, group = np.unique([groups[opinion.item] for opinion, _ in both], return_inverse=True)
        exact, kappa, _ = coefficients.nominal(codes[:, 0], codes[:, 1], group, len(DECISIONS))
        said = f"the same decision in {_shown(exact.figure(percent=True))}, Cohen's kappa {_shown(kappa.figure())}"
        rated = np.array([(a.rating, b.rating) for a, b in both if a.rating and b.rating])
        if len(rated):
            weighted = coefficients.cohen(rated[:, 0] - 1, rated[:, 1] - 1, 10, weights="quadratic")
            apart = figures.Figure(float(np.abs(rated[:, 0] - rated[:, 1]).mean()), percent=False).text
            shown = figures.Figure(weighted, percent=False, digits=3).text
            said += f"; ratings differ by {apart} on average, quadratic kappa {shown}"
        lines.append(f"{one} and {other} on {figures.counted(len(both), 'questions')}: {said}")
    return lines


def _shown(figure: figures.Figure) -> str:
    return f"{figure.stated} ({figure.interval})" if figure.low is not None else figure.stated
