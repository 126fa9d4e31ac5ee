"""What to type to finish a joined run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from medvqa.records.coverage import (
    MAX_RANGES,
    in_ranges,
    is_one,
    missing_numbers,
    own_shards,
    present_shards,
    shards_in_words,
)
from medvqa.records.join import Joined, RunPart
from medvqa.records.run_record import RunRecord
from medvqa.tags.selection import Shard

SHOWN = 5
"""Unfinished parts that are listed."""
_ARRAY = "SLURM_ARRAY_TASK_ID="


def to_type(joined: Joined, runs: Sequence[RunPart]) -> list[str]:
    """Return lines that say how to finish a run joined from parts: its unfinished parts, and its missing shards."""
    return [*_unfinished(joined, runs), *_missing(joined.about, runs)]


def _unfinished(joined: Joined, runs: Sequence[RunPart]) -> list[str]:
    """Return a line for each part with questions that lack a result, or ended in an error, in all parts."""
    there = {result.key for result in joined.results if result.score.outcome != "error"}
    lines = []
    for run in runs:
        lacking = len(set(run.keys) - there)
        if lacking:
            shards = own_shards(run.about)
            how = f"--shard={shards[0]} --run={run.name}" if len(shards) == 1 else f"--run={run.name}"
            left = f"{lacking:,} of {len(run.keys):,} questions"
            lines.append(f"to finish {run.name} ({left}): type its command with {how}")
    return [*lines[:SHOWN], *([f"and {len(lines) - SHOWN:,} other runs"] if len(lines) > SHOWN else [])]


def _missing(run: RunRecord, runs: Sequence[RunPart]) -> list[str]:
    """Return lines about the shards that no part has."""
    lines = []
    for of, shards in present_shards(run).items():
        absent = missing_numbers({number for number, _ in shards}, of)
        if not absent:
            continue
        known = next((part for part in runs if any(shard.of == of for shard in own_shards(part.about))), None)
        if known is None:
            continue  # it was merged before, and the merged run names its parts
        lines += _to_run(known, absent, of)
        if len(absent) <= MAX_RANGES and (tasks := _slurm(known, absent, of)):
            lines.append(f"or as tasks of Slurm: {tasks}")
    return lines


def _to_run(run: RunPart, absent: Sequence[range], of: int) -> list[str]:
    """Return the lines that say how to run missing shards: one command, or a loop of a shell over all of them."""
    named, stem = shards_in_words(absent, of), _stem(run)
    first = absent[0][0]
    if is_one(absent):
        name = f"{stem}{Shard(first, of).suffix}" if stem else "NAME"
        return [f"to run {named}: type the command of {run.name} with --shard={first}/{of} --run={name}"]
    options = f"--shard=N/{of} --run={stem or 'NAME'}-Nof{of}"
    lines = [f"to run {named}: type the command of {run.name} with {options}, for each number N"]
    if len(absent) <= MAX_RANGES:
        numbers = " ".join(str(part[0]) if len(part) == 1 else f"$(seq {part[0]} {part[-1]})" for part in absent)
        options = f"--shard=$N/{of} --run={shlex.quote(stem or 'NAME')}-${{N}}of{of}"
        lines.append(f"or all in a shell: for N in {numbers}; do COMMAND {options}; done")
    return lines


def _stem(run: RunPart) -> str:
    """Return the name of a shard's run without its number; "" if the name has another form."""
    stem = run.name.removesuffix(own_shards(run.about)[-1].suffix)
    return stem if stem != run.name else ""


def _slurm(run: RunPart, absent: Sequence[range], of: int) -> str:
    """Return the command that submits the missing tasks of an array; "" if the run was no task of a plain array."""
    sources = [session.shard_source for session in run.about.sessions]
    if not sources or not sources[-1].startswith(_ARRAY) or "SLURM_PROCID" in sources[-1]:
        return ""
    return f"MEDVQA_SHARDS={of} sbatch --array={in_ranges(absent, less=1).replace(' ', '')} FILE"
