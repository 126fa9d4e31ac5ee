"""Make the study folder of a plan, and join the readings that come back."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from medvqa import files, printing
from medvqa.figures import counted
from medvqa.items import Benchmark, Item, UsageError
from medvqa.readings import assigning, foreign, reading_file, revision, study_plan
from medvqa.readings.reading_file import Opinion, ReaderStudy, ReadingColumns
from medvqa.readings.study_plan import JOINED, RECEIVED, RECORD, ReadingPlan, StudyRecord
from medvqa.records import run_folder
from medvqa.records.private import make_private
from medvqa.report.bundle.pictures import FOLDER
from medvqa.report.html import reader_pages
from medvqa.session import selecting
from medvqa.tags import selection
from medvqa.tags.expressions import Expression

Loaded = Sequence[tuple[Benchmark, Sequence[Item]]]
"""Benchmarks, each with all its questions."""


def write_study(plan: ReadingPlan, path: Path, loaded: Loaded, folder: Path, show: Callable[[int, int], None]) -> str:
    """Write the study folder of a plan, and return what it holds; the same plan gives the same files.

    `path`: that of the plan. `show` gets the number of drawn images, and of all. UsageError for a plan that cannot be
    fulfilled.
    """
    digests = {benchmark.name: run_folder.data_digest(own) for benchmark, own in loaded}
    typed = [each.name if each.declared is None else each.declared.path for each, _ in loaded]
    private = [benchmark.name for benchmark, _ in loaded if not benchmark.public]
    try:
        items, opinions = _to_decide(plan, _selected(plan, loaded), path.parent)
        record = study_plan.record_of(plan, typed, items, digests)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    with files.writing(str(folder)):
        before = study_plan.stored(folder)
        _check_room(folder, before, record)
        make_private(folder)
        reader_pages.write(folder, plan, record, items, private, opinions, show)
        files.replace(folder / RECORD, msgspec.json.encode(record), mode=0o600)
        for former in () if before is None else before.orders.keys() - record.orders.keys():
            (folder / study_plan.file_name(former, ".html")).unlink(missing_ok=True)
    return _written(plan, record, folder, private)


def _selected(plan: ReadingPlan, loaded: Loaded) -> list[Item]:
    """Return the questions that a plan selects, as a run does by --select and --limit (UsageError)."""
    expression = Expression.parse(plan.select) if plan.select else None
    if expression is not None:
        selecting.check_dimensions("select", expression.dimensions, [item for _, own in loaded for item in own])
    items: list[Item] = []
    for benchmark, own in loaded:
        chosen, dimension = selecting.matching(own, expression), next(iter(benchmark.dimensions), None)
        items += chosen if plan.limit is None else selection.stratified(chosen, plan.limit, dimension=dimension)
    if not items:
        raise UsageError("no question is selected; change select or limit")
    return items


def _to_decide(plan: ReadingPlan, items: list[Item], folder: Path) -> tuple[list[Item], reader_pages.Opinions]:
    """Return the questions without agreement, with whole pairs, and what was said of them (UsageError).

    Without opinions, all questions.
    """
    if not plan.opinions:
        return items, {}
    by_item: defaultdict[tuple[str, str], list[Opinion]] = defaultdict(list)
    for line in foreign.read_any(folder / plan.opinions)[1]:
        if isinstance(line, Opinion):
            by_item[line.benchmark, line.item].append(line)
    # A correction of one half of a pair may need the same in the other.
    left = {
        assigning.unit_of(item)
        for item in items
        if revision.undecided([item], by_item[item.benchmark, item.id], plan.keep_from)
    }
    if not left:
        raise UsageError(f"the reviewers agree on every question: type medvqa read revise {plan.opinions}")
    shown = [item for item in items if assigning.unit_of(item) in left]
    return shown, {key: revision.said(own) for key, own in by_item.items()}


def _check_room(folder: Path, before: StudyRecord | None, record: StudyRecord) -> None:
    """UsageError if the folder has readings of another plan, or images that no plan has put there."""
    images = folder / FOLDER
    if before is None and images.exists():
        raise UsageError(f"{images} is there, and of no study: name another folder with -o FOLDER")
    received = [folder / JOINED, *sorted((folder / RECEIVED).glob("*.jsonl"))]
    there = next((path for path in received if path.exists()), None)
    if before is not None and before.study.plan != record.study.plan and there is not None:
        raise UsageError(
            f"{folder}: the plan or its questions have changed, and {there} has readings of the earlier ones; name "
            "another folder with -o FOLDER, or undo the change"
        )


def _written(plan: ReadingPlan, record: StudyRecord, folder: Path, private: Sequence[str]) -> str:
    """Return what a study folder holds, and what to do next."""
    whose = "every reader" if plan.overlap == "all" else counted(plan.overlap, "readers")
    lines = [f"wrote {folder}: {counted(len(record.questions), 'questions')}, each for {whose}"]
    for reader, order in record.orders.items():
        work = f"{counted(len(order), 'questions')}, {counted(order[-1][1], 'sittings')}"
        lines.append(f"  {folder / study_plan.file_name(reader, '.html')}: {work}")
    if (folder / FOLDER).exists():
        lines.append(f"  images are files in {folder / FOLDER}: send that folder with each page")
    if plan.margin is not None:
        readers = counted(len(plan.readers), "readers")
        lines.append(f"fixed before the first reading: {readers}, a margin of {plan.margin:g} points")
    if private:
        lines.append(
            f"not declared public ({', '.join(private)}): only you can read the files; give each to its reader"
        )
    named = shlex.quote(str(folder))
    lines.append(f"Next: send each reader the page, or serve them on this machine by medvqa view {named}; then")
    lines.append(f"  medvqa read import FILE... --study {named}")
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
    _check_kept(target, lines)
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


def _check_kept(target: Path, lines: reading_file.Lines) -> None:
    """UsageError if a file of readings would lose some by being replaced."""
    if not target.exists():
        return
    now = {(line.reader, line.benchmark, line.item) for line in lines}
    _, before = foreign.read_any(target)
    if lost := sorted({line.reader for line in before if (line.reader, line.benchmark, line.item) not in now}):
        raise UsageError(
            f"{target} has readings of {printing.some(lost, 100)} that the named files lack: name it too, medvqa read "
            f"import {target} FILE..., or another file with -o"
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
        read = counts.get(reader, 0)
        assigned = about.assigned.get(reader, read)
        missing = f", {assigned - read:,} missing" if read < assigned else ""
        lines.append(f"  {reader}: {read:,} of {counted(assigned, 'questions')}{missing}")
    return lines


def _next(about: ReaderStudy, record: StudyRecord | None, target: Path, *, decided: bool) -> str:
    named = [f"--benchmark={name}" for name in (["NAME"] if record is None else record.benchmarks)]
    if about.task == "review":
        # The opinions name a benchmark, but not its file.
        file = [] if record is None or len(named) > 1 or not os.path.isabs(record.benchmarks[0]) else named
        opinions = ["OPINIONS"] if decided else []
        return shlex.join(["medvqa", "read", "revise", *opinions, str(target), *file, "-o", "FOLDER"])
    return shlex.join(["medvqa", "run", *named, f"--model=human:{target}"])
