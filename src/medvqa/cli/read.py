"""`medvqa read`: make the pages of a reader study or an expert review, join readings, and revise a benchmark."""

from __future__ import annotations

import os
from pathlib import Path

from medvqa.cli.arguments import DATA, Arguments, Command, option, output, positional
from medvqa.cli.common import count_up, known_and_named, known_from, questions_of
from medvqa.items import UsageError

IMPORT, REVISE = "import", "revise"


class ReadArguments(Arguments):
    """Let people read the questions of benchmarks: assign them to readers, and write a page for each reader.

    `medvqa read PLAN.toml` writes a study folder. `medvqa read import FILE...` joins the files that the pages export,
    or tables of other programs, into one for --model=human:FILE. `medvqa read revise FILE...` makes a new version of a
    benchmark from the opinions of experts.
    """

    named: list[str] = positional("PLAN.toml; or import or revise, and files", "PLAN.toml|import FILE|revise FILE")
    output: Path | None = output(
        "the study folder (default: named as the plan's file), the joined file, or the folder of the new version",
        "FOLDER",
    )
    study: Path | None = option("with import: the study folder (default: the folder around the files)", "FOLDER")
    set: list[str] = option(
        "with import of a table: the column of a role, such as id=CASE or response=FINDING (repeatable)",
        "ROLE=COLUMN",
    )
    benchmark: str | None = option(
        "with revise: the benchmark, or the file that declares it (default: that of the opinions)", "NAME"
    )
    keep_from: int | None = option(
        "with revise: a question stays if it is rated N or more, and a pair if both of its questions are",
        "N",
        low=1,
        high=10,
    )


def run(typed: ReadArguments) -> str:
    """Do what the first word says, and return what to print."""
    first, *rest = typed.named
    paths = [Path(os.path.expanduser(word)) for word in rest]
    forms = {IMPORT: _import, REVISE: _revise}
    if first in forms:
        if not paths:
            raise UsageError(f"name the files: medvqa read {first} FILE...")
        return forms[first](typed, paths)
    if rest:
        raise UsageError(f"one plan at a time: medvqa read {first}; files are joined by medvqa read import FILE...")
    return _plan(typed, Path(os.path.expanduser(first)))


def _plan(typed: ReadArguments, path: Path) -> str:
    from medvqa.commands import reading
    from medvqa.readings import study_plan

    if other := typed.first_given("study", "set", "benchmark", "keep_from"):
        raise UsageError(f"{other} goes with medvqa read import or revise; a plan names its benchmarks itself")
    if (path / study_plan.RECORD).exists():
        raise UsageError(f"{path}: a study; type medvqa view {path}, or name the file of a plan")
    if path.is_dir():
        raise UsageError(f"{path}: a folder, and no study: name the file of a plan")
    plan = study_plan.read_plan(path)
    registry, names = known_from(typed).with_files(plan.benchmarks, path.resolve().parent)
    loaded = questions_of(typed.options(), names, registry.benchmarks)
    parts = [(registry.benchmarks[name], items) for name, (items, _) in loaded.items()]
    return reading.write_study(plan, path, parts, typed.output or Path(path.stem), count_up("images"))


def _import(typed: ReadArguments, paths: list[Path]) -> str:
    from medvqa import decode
    from medvqa.commands import reading
    from medvqa.readings.reading_file import ReadingColumns
    from medvqa.session import chosen

    if other := typed.first_given("benchmark", "keep_from"):
        raise UsageError(f"{other} goes with medvqa read revise")
    columns = decode.converted(chosen.columns_of(typed.set), ReadingColumns, "--set")
    return reading.import_files(paths, typed.study, typed.output, columns)


def _revise(typed: ReadArguments, paths: list[Path]) -> str:
    if typed.output is None:
        raise UsageError("name the folder of the new version: medvqa read revise FILE... -o FOLDER")
    from medvqa import benchmarks
    from medvqa.commands import revising
    from medvqa.readings import foreign, reading_file
    from medvqa.readings.reading_file import Opinion

    # A final decision is of another plan than the opinions before it.
    read = [(str(path), *foreign.read_any(path)) for path in paths]
    lines = reading_file.once((name, line) for name, _, own in read for line in own)
    opinions = [line for line in lines if isinstance(line, Opinion)]
    if not opinions:
        raise UsageError("no opinions: these files hold answers of readers, or nothing")
    named = sorted({opinion.benchmark for opinion in opinions} - {""})
    if typed.benchmark is None and len(named) != 1:
        raise UsageError(f"the opinions name {len(named)} benchmarks: type the one to revise, --benchmark=NAME")
    registry, names = known_and_named(typed, [typed.benchmark or named[0]])
    members = benchmarks.members(names[0], registry.benchmarks)
    if len(members) != 1:
        raise UsageError(f"--benchmark={names[0]}: these are several; name one of them")
    data = typed.options().data
    return revising.revise(read[0][1], opinions, members[0], data, typed.output, keep_from=typed.keep_from)


COMMAND = Command(ReadArguments, run, DATA)
