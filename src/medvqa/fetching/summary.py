"""The words of `medvqa fetch`: licences at the start; at the end a line for each benchmark, and the missing files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from medvqa import printing
from medvqa.benchmarks import origins
from medvqa.fetching import manifest
from medvqa.fetching.fetch import Fetched
from medvqa.figures import data_size
from medvqa.items import Benchmark

NAMED = 3
"""Files that a line names if several could not be had for the same reason."""


def terms(benchmarks: Sequence[Benchmark]) -> list[str]:
    """Return a line for each origin: its licence, its owners' page, and its note."""
    lines: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        if (origin := benchmark.origin) is not None:
            line = "; ".join(part for part in (origin.licence, origin.home, origin.note) if part)
            lines.setdefault(line, []).append(benchmark.name)
    return [f"medvqa: {', '.join(names)}: {line}" for line, names in lines.items()]


def text(benchmarks: Sequence[Benchmark], data: Path, done: Fetched) -> str:
    """Return a line for each benchmark, and one list of missing files with reasons."""
    lines = [f"{benchmark.name}: {_state(benchmark, data, done)}" for benchmark in benchmarks]
    unpublished = [wish.file.to for wish in done.wishes if wish.file.to in done.notes and not wish.file.digest]
    lines += [
        f"{count:,} file{'s have' if count != 1 else ' has'} no published digest: SHA-256 recorded in "
        f"{folder / manifest.NAME}, and compared by later calls"
        for folder, count in Counter(manifest.folder_of(data, to)[0] for to in unpublished).items()
    ]
    reasons: dict[str, list[str]] = {}
    for name, reason in done.lacking.items():
        reasons.setdefault(reason, []).append(name)
    lines += ["", "Could not be had:"] if reasons else []
    return "\n".join([*lines, *(f"  {printing.some(names, NAMED)}: {reason}" for reason, names in reasons.items())])


def _state(benchmark: Benchmark, data: Path, done: Fetched) -> str:
    origin = benchmark.origin
    if origin is None or not origins.needs_files(benchmark):
        return "needs no files from elsewhere; nothing to fetch"
    wishes = [wish.file.to for wish in done.wishes if benchmark in wish.benchmarks]
    if not wishes:
        there = not origin.files and benchmark.name not in done.lacking
        return f"is there, in {data}; its owners publish nothing to compare it with" if there else "not there"
    notes = [done.notes[to] for to in wishes if to in done.notes]
    files = f"{len(wishes):,} file{'s' * (len(wishes) != 1)}"
    now = f"in {data}, {sum(to in done.received for to in wishes):,} of them fetched now"
    if len(notes) < len(wishes) or any(file.to in done.lacking for file in origin.files):
        return f"incomplete, {len(notes):,} of {files} {now}"
    return f"complete, {files}, {data_size(sum(note.size for note in notes))} {now}"
