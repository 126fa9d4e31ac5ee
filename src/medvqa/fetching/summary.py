"""The words of `medvqa fetch`: licences at the start; at the end a line for each benchmark, and the missing files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvqa import printing
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
    lines = [_line(benchmark, data, done) for benchmark in benchmarks]
    lines += _recorded(data, done)
    if done.lacking:
        lines += ["", "Could not be had:"]
        reasons: dict[str, list[str]] = {}
        for lacking in done.lacking:
            reasons.setdefault(lacking.reason, []).append(lacking.name)
        for reason, names in reasons.items():
            lines.append(f"  {printing.some(names, NAMED)}: {reason}")
    return "\n".join(lines)


def _line(benchmark: Benchmark, data: Path, done: Fetched) -> str:
    if benchmark.name in done.nothing:
        return f"{benchmark.name}: needs no files from elsewhere; nothing to fetch"
    if benchmark.name in done.present:
        return f"{benchmark.name}: is there, in {data}; its owners publish nothing to compare it with"
    wishes = [wish for wish in done.wishes if benchmark.name in wish.benchmarks]
    if not wishes:
        return f"{benchmark.name}: not there"
    notes = [done.notes[wish.file.to] for wish in wishes if wish.file.to in done.notes]
    received = sum(wish.file.to in done.received for wish in wishes)
    size = data_size(sum(note.size for note in notes))
    files = f"{len(wishes):,} file{'s' * (len(wishes) != 1)}"
    lacking = {one.name for one in done.lacking}
    named = benchmark.origin.files if benchmark.origin is not None else ()
    if len(notes) < len(wishes) or any(file.to in lacking for file in named):
        return f"{benchmark.name}: incomplete, {len(notes):,} of {files} in {data}, {received:,} of them fetched now"
    return f"{benchmark.name}: complete, {files}, {size} in {data}, {received:,} of them fetched now"


def _recorded(data: Path, done: Fetched) -> list[str]:
    """Return a line for each folder with files whose owners publish no digest."""
    unpublished: dict[Path, int] = {}
    for wish in done.wishes:
        if wish.file.to in done.notes and not wish.file.digest:
            folder = manifest.folder_of(data, wish.file.to)[0]
            unpublished[folder] = unpublished.get(folder, 0) + 1
    return [
        f"{count:,} file{'s have' if count != 1 else ' has'} no published digest: SHA-256 recorded in "
        f"{folder / manifest.NAME}, and compared by later calls"
        for folder, count in unpublished.items()
    ]
