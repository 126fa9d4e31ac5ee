"""Make the study folder of a plan, and join the readings that come back."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.figures import counted
from medvqa.items import Benchmark, Item, UsageError
from medvqa.readings import foreign, reading_file, study_plan
from medvqa.readings.reading_file import Opinion, ReaderStudy, ReadingColumns
from medvqa.readings.study_plan import JOINED, RECEIVED, RECORD, ReadingPlan, StudyRecord
from medvqa.records import private, run_folder
from medvqa.report.bundle import pictures
from medvqa.report.html import reader_pages
from medvqa.session import selecting
from medvqa.tags import selection
from medvqa.tags.expressions import Expression

Loaded = Sequence[tuple[Benchmark, Sequence[Item]]]
"""Benchmarks, each with all its questions."""


def write_study(
    plan: ReadingPlan, path: Path, loaded: Loaded, benchmarks: Sequence[str], folder: Path, show: reader_pages.Show
) -> str:
    """Write the study folder of a plan, and return what it holds; the same plan gives the same files.

    `path`: the file of the plan. `benchmarks`: as to type. UsageError for a plan that cannot be fulfilled, and if the
    folder has readings of another one.
    """
    items, opinions = _to_decide(plan, _selected(plan, loaded, path), path)
    digests = {benchmark.name: run_folder.data_digest(own) for benchmark, own in loaded}
    public = {benchmark.name: benchmark.public for benchmark, _ in loaded}
    try:
        record = study_plan.record_of(plan, benchmarks, items, digests)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    with files.writing(str(folder)):
        before = study_plan.stored(folder)
        _make_room(folder, before, record)
        by_id = {(item.benchmark, item.id): item for item in items}
        sizes = reader_pages.write(folder, plan, record, by_id, public, opinions, show)
        files.replace(folder / RECORD, msgspec.json.encode(record), mode=0o600)
    return _written(plan, record, folder, sizes, [name for name in public if not public[name]])


def _selected(plan: ReadingPlan, loaded: Loaded, path: Path) -> list[Item]:
    """Return the questions that a plan selects, as a run does by --select and --limit (UsageError)."""
    everything = [item for _, own in loaded for item in own]
    expression = Expression.parse(plan.select) if plan.select else None
    if expression is not None:
        selecting.check_dimensions("select", expression.dimensions, everything)
    items: list[Item] = []
    for benchmark, own in loaded:
        chosen = selecting.matching(own, expression)
        if plan.limit is not None:
            dimension = next(iter(benchmark.dimensions), None)
            chosen = selection.stratified(chosen, plan.limit, dimension=dimension)
        items += chosen
    if not items:
        raise UsageError(f"{path}: no question is selected; change select or limit")
    return items


def _to_decide(plan: ReadingPlan, items: Sequence[Item], path: Path) -> tuple[Sequence[Item], reader_pages.Opinions]:
    """Return the questions without agreement, and what was said of them; without opinions, all (UsageError)."""
    if not plan.opinions:
        return items, {}
    from medvqa.readings import revision

    _, lines = foreign.read_any(path.parent / plan.opinions)
    by_item: defaultdict[tuple[str, str], list[Opinion]] = defaultdict(list)
    for line in lines:
        if isinstance(line, Opinion):
            by_item[line.benchmark, line.item].append(line)
    left = [item for item in items if revision.undecided([item], by_item[item.benchmark, item.id], plan.keep_from)]
    if not left:
        raise UsageError(f"{path}: the reviewers agree on every question: type medvqa read revise {plan.opinions}")
    return left, {key: revision.said(own) for key, own in by_item.items()}


def _make_room(folder: Path, before: StudyRecord | None, record: StudyRecord) -> None:
    """Make the folder, without pages of an earlier plan (OSError); UsageError if it has readings of that plan."""
    private.make_private(folder)
    if before is None or before.study.plan == record.study.plan:
        return
    received = [folder / JOINED, *sorted((folder / RECEIVED).glob("*.jsonl"))]
    if there := next((path for path in received if path.exists()), None):
        raise UsageError(
            f"{folder}: the plan or its questions have changed, and {there} has readings of the earlier ones; name "
            "another folder with -o FOLDER, or undo the change"
        )
    for reader in before.orders:
        (folder / f"{reader}.html").unlink(missing_ok=True)


def _written(
    plan: ReadingPlan, record: StudyRecord, folder: Path, sizes: Mapping[str, int], hidden: Sequence[str]
) -> str:
    """Return what a study folder holds, and what to do next."""
    whose = "every reader" if plan.overlap == "all" else counted(plan.overlap, "readers")
    lines = [f"wrote {folder}: {len(record.questions):,} questions, each for {whose}"]
    for reader, order in record.orders.items():
        lines.append(
            f"  {folder / f'{reader}.html'}: {len(order):,} questions, {counted(order[-1][1], 'sittings')}, "
            f"{sizes[reader] / 1e6:.1f} MB of images"
        )
    if (folder / pictures.FOLDER).exists():
        lines.append(f"  images are files in {folder / pictures.FOLDER}: send that folder with each page")
    if plan.margin is not None:
        lines.append(f"fixed before the first reading: {len(plan.readers)} readers, a margin of {plan.margin:g} points")
    if hidden:
        lines.append(
            f"the pages hold images of data that are not declared public ({', '.join(hidden)}): only you can read the "
            "files; pass each to its reader alone"
        )
    named = shlex.quote(str(folder))
    lines += [
        f"Next: send each reader the page, or serve them on this machine by medvqa view {named}; then",
        f"  medvqa read import FILE... --study {named}",
    ]
    return "\n".join(lines)


def import_files(
    paths: Sequence[Path], study: Path | None, output: Path | None, columns: ReadingColumns | None = None
) -> str:
    """Join files of readings, check them against their study, write one file, and return who read how much.

    `study`: the study folder; None looks for one around the files. A study folder among `paths` stands for what `medvqa
    view` received. `columns` are those of tables. UsageError, DataError.
    """
    named = [each for path in paths for each in _expanded(path)]
    around = (each for path in named for each in (path.parent, path.parent.parent))
    folder = study or next((each for each in around if (each / RECORD).is_file()), None)
    record = None if folder is None else study_plan.stored(folder)
    if study is not None and record is None:
        raise UsageError(f"--study={study}: no study folder, which has {RECORD}; medvqa read PLAN.toml makes one")
    read = []
    for path in named:
        about, lines = foreign.read_any(path, columns)
        if record is None and about.plan and about.reader:
            raise UsageError(f"{path}: name the folder of its study, which has {RECORD}: --study FOLDER")
        if record is not None:
            lines = study_plan.by_ids(record, about, lines, str(path))
        read.append((str(path), about, lines))
    about, lines = reading_file.joined(read)
    if record is not None:
        about = record.study
    target = output or (folder / JOINED if folder is not None else Path(JOINED))
    with files.writing(str(target)):
        files.replace(target, reading_file.encode(about, lines), mode=0o600)
    counts = Counter(line.reader for line in lines)
    decided = all(isinstance(line, Opinion) and line.final for line in lines)
    what, who = ("opinions", "reviewers") if about.task == "review" else ("readings", "readers")
    return "\n".join(
        [
            f"wrote {target}: {counted(len(lines), what)} of {counted(len(counts), who)}",
            *_coverage(about, counts),
            f"Next: {_next(about, record, target, decided=decided)}",
            *(["OPINIONS: the file of the reviewers' opinions, which these decisions are about"] if decided else []),
        ]
    )


def _expanded(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    received = sorted((path / RECEIVED).glob("*.jsonl"))
    if not received:
        raise UsageError(f"{path}: nothing was received yet in {path / RECEIVED}; name the files that readers sent")
    return received


def _coverage(about: ReaderStudy, counts: Mapping[str, int]) -> list[str]:
    """Return a line for each reader with the number of questions read, of those assigned, and of those missing."""
    lines = []
    for reader in about.readers:
        assigned, read = about.assigned.get(reader), counts.get(reader, 0)
        missing = f", {assigned - read:,} missing" if assigned is not None and read < assigned else ""
        number = counted(read, "questions") if assigned is None else f"{read:,} of {counted(assigned, 'questions')}"
        lines.append(f"  {reader}: {number}{missing}")
    return lines


def _next(about: ReaderStudy, record: StudyRecord | None, target: Path, *, decided: bool) -> str:
    named = [f"--benchmark={name}" for name in (["NAME"] if record is None else record.benchmarks)]
    if about.task == "review":
        # The opinions name a benchmark, but not its file.
        file = [] if record is None or len(named) > 1 or not os.path.isabs(record.benchmarks[0]) else named
        opinions = ["OPINIONS"] if decided else []
        return shlex.join(["medvqa", "read", "revise", *opinions, str(target), *file, "-o", "FOLDER"])
    return shlex.join(["medvqa", "run", *named, f"--model=human:{target}"])
