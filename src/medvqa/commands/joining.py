"""Join runs: shards and partial runs into one run, or the answers of several runs as samples of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medvqa import benchmarks, printing, report
from medvqa.comparing import gating
from medvqa.items import UsageError
from medvqa.protocols.protocol import COMBINES, Protocol
from medvqa.records import coverage, join, remaining, run_folder, run_record
from medvqa.records.join import Joined, RunPart
from medvqa.records.log import ANSWERS
from medvqa.records.recall import EARLIER_REPLIES
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.records.selected import SELECTED
from medvqa.records.sent_prompts import PROMPTS
from medvqa.report.terminal import summary
from medvqa.session.registry import Registry


def merge(runs: Sequence[Path], output: Path, registry: Registry) -> tuple[str, bool]:
    """Join shards or partial runs of one configuration into one run folder; return its summary and notes.

    The second value is whether nothing is missing. An incomplete merged run of some of these runs is replaced. `output`
    is as for `folder_of` (UsageError).
    """
    folder = folder_of(output, runs[0])
    parts = _parts_of(runs, registry)
    if folder.exists() and any(folder.samefile(run) for run in runs):
        raise UsageError(f"{folder} is one of the runs: name another with -o")
    joined = join.join(parts, folder.name)
    if folder.exists() and (why := _kept(folder, parts)) is not None:
        raise UsageError(f"{folder} exists, and {why}: name another with -o")
    text = _written(joined, folder, registry, parts=runs)
    return "\n".join([text, *map(printing.line, remaining.to_type(joined, parts))]), joined.complete


def combine(runs: Sequence[Path], output: Path | None, registry: Registry, how: str | None) -> tuple[Joined, str]:
    """Join the answers of finished runs as samples of one run; return it and its notes.

    With `output`, it is written as a new run, and its summary is returned too. `how` is --combine, by default a vote
    (UsageError).
    """
    folder = None if output is None else folder_of(output, runs[0])
    if folder is not None and folder.exists():
        raise UsageError(f"{folder} exists: name another with -o")
    for path in runs:
        covered = coverage.coverage(path)
        if not covered.finished:
            raise UsageError(f"{path}: {'; '.join(covered.lines)}. Finish that run first: pytest --run={path.name}")
    parts = _parts_of(runs, registry)
    if (how := how or "vote") not in COMBINES:
        raise UsageError(f"no way to combine '{how}'; there are: {', '.join(COMBINES)}")
    protocol = Protocol(samples=1, combine=how)
    joined = join.join(parts, "combined" if folder is None else folder.name, protocol)
    return joined, "\n".join(_notes(joined)) if folder is None else _written(joined, folder, registry, samples=runs)


def folder_of(output: Path, first: Path) -> Path:
    """Return the run folder of -o: a name lies beside the first run (UsageError)."""
    folder = (output.parent if output.parent != Path() else first.parent) / output.name
    run_folder.check_name(folder.name, "-o")
    return folder


def _parts_of(runs: Sequence[Path], registry: Registry) -> list[RunPart]:
    """Return the content of run folders that are joined (UsageError, also for a benchmark that is not known)."""
    parts = [join.load(run) for run in runs]
    for path, part in zip(runs, parts, strict=True):
        benchmarks.check_known(f"{path} holds", part.results, registry.benchmarks)
    return parts


def _written(
    joined: Joined, folder: Path, registry: Registry, *, parts: Sequence[Path] = (), samples: Sequence[Path] = ()
) -> str:
    """Write a joined run and its reports; return its notes and summary. For the arguments see `records.join`."""
    with join.making(folder, replaces=bool(parts)) as place:
        join.write(joined, place, parts, samples)
        written = replace(report.write(report.build(place, registry.benchmarks)), folder=folder)
    return "\n".join([*_notes(joined), summary(written, width=100, exits=False)])


def _notes(joined: Joined) -> list[str]:
    return [f"! {printing.line(note)}" for note in joined.notes]


def _kept(folder: Path, parts: Sequence[RunPart]) -> str | None:
    """Return why an existing folder is not replaced; None for an incomplete merged run of some of these runs."""
    if not (folder / RUN).is_file():
        return "is no run"
    about = run_record.read_run(folder)
    names = {part.name for part in about.merged}
    if not names:
        return "was not merged"
    if about.sessions:
        return "was continued"
    if others := sorted(names - {part.name for part in parts}):
        return f"was merged from {others[0]} too"
    covered = coverage.coverage(folder, about)
    if covered.complete and not covered.errors:
        return "is complete"
    made = {*report.DRAWN, RUN, RESULTS, PROMPTS, SELECTED, ANSWERS, EARLIER_REPLIES}
    if more := sorted({path.name for path in folder.iterdir()} - made - {gating.FILE}):
        return f"holds {more[0]}, which medvqa merge does not write"
    return None
