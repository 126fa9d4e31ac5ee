"""Opinions of experts about a benchmark -> a new version of it: table and TOML file, changes.csv, datasheet.md."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from pathlib import Path

from medvqa import benchmarks, figures, files, printing
from medvqa.benchmarks import table_files
from medvqa.benchmarks.recorded import Revision
from medvqa.importing import writing
from medvqa.items import Benchmark, Item, UsageError
from medvqa.judging import coefficients
from medvqa.readings import revised_table, revision
from medvqa.readings.reading_file import Opinion, ReaderStudy
from medvqa.readings.revision import RevisedQuestions
from medvqa.records import run_folder

CHANGES, SHEET = "changes.csv", "datasheet.md"
DECISIONS = ("accept", "correct", "reject")
MOST_SHOWN = 20
"""Ids that a message lists."""
NOTE = "Written by medvqa read revise. `medvqa help your-questions` explains every key."


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
    if keep_from is not None and not 1 <= keep_from <= 10:
        raise UsageError(f"--keep-from={keep_from}: ratings are from 1 to 10")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists: name another folder with -o")
    items = _reviewed(study, opinions, benchmark, data)
    if waiting := revision.undecided(items, opinions, keep_from):
        reasons = "".join(f"\n  {id}: {why}" for id, why in list(waiting.items())[:MOST_SHOWN])
        more = f"\n  and {len(waiting) - MOST_SHOWN:,} more" if len(waiting) > MOST_SHOWN else ""
        raise UsageError(
            f"{len(waiting):,} question{'s need' if len(waiting) > 1 else ' needs'} a final decision; a plan with "
            f'opinions = "FILE" makes the page of an adjudicator (medvqa read PLAN.toml):{reasons}{more}'
        )
    kept = revision.revised(items, opinions, keep_from)
    if not kept.items:
        raise UsageError("every question would be removed: nothing is written")
    before = Revision(
        benchmark=benchmark.name,
        version=revised_table.version_of(benchmark),
        data_sha256=run_folder.data_digest(items),
        changed=kept.changed,
        removed=kept.removed,
        changes=CHANGES,
    )
    stem = table_files.name_of(Path(f"{benchmark.name}.toml"))
    toml = folder / f"{stem}.toml"
    table = revised_table.table_of(benchmark, kept.items, toml, f"{stem}.jsonl", before)
    digest = run_folder.data_digest(revised_table.checked(table, kept.items, toml))
    sheet = _sheet(study, items, opinions, kept, before, keep_from, table.declaration.version, digest)
    with files.writing(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in table.images.items():
            path.parent.mkdir(exist_ok=True)
            files.replace(path, content)
        files.replace(folder / f"{stem}.jsonl", table.lines())
        files.replace(folder / CHANGES, figures.csv(revision.COLUMNS, [each.row for each in kept.changes]).encode())
        files.replace(folder / SHEET, sheet.encode())
    # Last: whoever finds this file finds all of them.
    table_files.write(table.declaration, toml, note=NOTE)
    said = f"wrote {toml}: version {table.declaration.version}, {len(kept.items):,} questions ({before.since})"
    return "\n".join([said, *(f"  {line}" for line in writing.commands(toml)[:2])])


def _reviewed(
    study: ReaderStudy, opinions: Sequence[Opinion], benchmark: Benchmark, data: Path | None
) -> tuple[Item, ...]:
    """Return the questions of a benchmark; UsageError unless the opinions are about these."""
    name = benchmark.name
    if not opinions:
        raise UsageError("no opinions: these files hold answers of readers, or nothing")
    if other := sorted({opinion.benchmark for opinion in opinions} - {"", name}):
        raise UsageError(
            f"some opinions are about {_some(other)}, and not about {name}: revise one benchmark at a time"
        )
    benchmarks.choose([name], {name: benchmark}, data)
    items = benchmarks.load(benchmark, benchmarks.folder_of(benchmark, data) or data or Path())
    if unknown := sorted({opinion.item for opinion in opinions} - {item.id for item in items}):
        raise UsageError(f"{name} has no question {_some(unknown)}")
    if study.benchmarks.get(name, digest := run_folder.data_digest(items)) != digest:
        raise UsageError(f"{name}: its questions have changed since the review was planned; name the file of that time")
    return items


def _some(names: Sequence[str]) -> str:
    return printing.some(names, MOST_SHOWN)


def _sheet(
    study: ReaderStudy,
    items: Sequence[Item],
    opinions: Sequence[Opinion],
    kept: RevisedQuestions,
    before: Revision,
    keep_from: int | None,
    version: str,
    digest: str,
) -> str:
    """Return the data sheet in Markdown; it has no dates, since opinions have none."""
    reviews = [opinion for opinion in opinions if not opinion.final]
    final = [opinion for opinion in opinions if opinion.final]
    number = len({opinion.item for opinion in opinions})
    pairs = sum(change.reviewers == change.final == "" for change in kept.changes)
    lines = [
        f"# {printing.markdown(before.benchmark)}, version {printing.markdown(version)}: data sheet",
        "",
        f"- Made of version {printing.markdown(before.version)}: {len(items):,} questions, SHA-256 "
        f"{before.data_sha256}",
        f"- This version: {len(kept.items):,} questions, SHA-256 {digest}",
        f"- Plan of the review: {printing.markdown(study.plan) or 'none recorded'}",
        f"- Reviewed: {number:,} of {len(items):,} questions, by {_people(reviews)}",
        f"- Final decisions: {_people(final)}",
        f"- Kept as they were: {len(kept.items) - kept.changed:,}; corrected: {kept.changed:,}; removed: "
        f"{kept.removed:,}, of these {pairs:,} only because the other question of the pair was",
        f"- Every change with its reason: {CHANGES}",
        *(f"- Agreement of {line}" for line in _agreement(items, reviews)),
        "",
        "## Rules",
        "",
        f"- {revision.RULE}",
        "- Of a pair, both questions stay, or neither. Questions without an opinion stay.",
    ]
    if keep_from is not None:
        lines.append(f"- A question that is rated below {keep_from} of 10 is removed.")
    return "\n".join([*lines, ""])


def _people(opinions: Collection[Opinion]) -> str:
    """The codes of people, each with the number of opinions."""
    codes = sorted({opinion.reader for opinion in opinions})
    counted = [f"{printing.markdown(code)} ({sum(each.reader == code for each in opinions):,})" for code in codes]
    return ", ".join(counted) or "none"


def _agreement(items: Sequence[Item], reviews: Sequence[Opinion]) -> list[str]:
    """Return the agreement of every two reviewers, before any final decision; UsageError without scikit-learn."""
    import numpy as np

    groups: dict[str, int] = {}
    group_of = {item.id: groups.setdefault(item.cluster_id or f"item {item.id}", len(groups)) for item in items}
    by_reader: dict[str, dict[str, Opinion]] = {}
    for opinion in reviews:
        by_reader.setdefault(opinion.reader, {})[opinion.item] = opinion
    lines = []
    for one, other in combinations(sorted(by_reader), 2):
        both = [(by_reader[one][id], by_reader[other][id]) for id in by_reader[one] if id in by_reader[other]]
        if not both:
            continue
        codes = np.array([[DECISIONS.index(opinion.decision) for opinion in pair] for pair in both])
        group = np.array([group_of[opinion.item] for opinion, _ in both])
        exact, kappa, _ = coefficients.nominal(codes[:, 0], codes[:, 1], group, len(DECISIONS))
        line = (
            f"{printing.markdown(one)} and {printing.markdown(other)} on {len(both):,} questions: the same decision in "
            f"{_shown(exact.figure(percent=True))}, Cohen's kappa {_shown(kappa.figure())}"
        )
        rated = [(a.rating, b.rating) for a, b in both if a.rating is not None and b.rating is not None]
        if rated:
            ratings = np.array(rated)
            weighted = coefficients.cohen(ratings[:, 0] - 1, ratings[:, 1] - 1, 10, weights="quadratic")
            apart = figures.Figure(float(np.abs(ratings[:, 0] - ratings[:, 1]).mean()), percent=False)
            shown = coefficients.Coefficient(weighted).figure().text
            line += f"; ratings of {len(rated):,} differ by {apart.text} on average, quadratic kappa {shown}"
        lines.append(line)
    return lines


def _shown(figure: figures.Figure) -> str:
    return f"{figure.stated} ({figure.interval})" if figure.low is not None else figure.stated
