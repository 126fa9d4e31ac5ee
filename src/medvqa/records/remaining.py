"""What to type to run the missing shards of a merged run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from medvqa.data.selection import Shard
from medvqa.records.coverage import SHOWN, merged_shards, own_shards
from medvqa.records.merging import Merged, RunPart

MAX_NUMBERS = 1000
"""Missing shards that are named by number: a stranger's run.json may claim a billion."""
_ARRAY = "SLURM_ARRAY_TASK_ID="


def to_type(merged: Merged, runs: Sequence[RunPart]) -> list[str]:
    """Return lines that say how to finish a merged run: its unfinished parts, and its missing shards."""
    return [*_unfinished(merged, runs), *_missing(merged.about, runs)]


def _unfinished(merged: Merged, runs: Sequence[RunPart]) -> list[str]:
    """Return a line for each part with questions that lack a result, or ended in an error, in all parts."""
    there = {result.key for result in merged.results if result.score.outcome != "error"}
    lines = []
    for run in runs:
        lacking = len(set(run.keys) - there)
        if lacking:
            shards = own_shards(run.about)
            how = f"--shard={shards[0]} --run={run.name}" if len(shards) == 1 else f"--run={run.name}"
            left = f"{lacking:,} of {len(run.keys):,} questions"
            lines.append(f"to finish {run.name} ({left}): type its command with {how}")
    return [*lines[:SHOWN], *([f"and {len(lines) - SHOWN:,} other runs"] if len(lines) > SHOWN else [])]


def _missing(about: Mapping[str, Any], runs: Sequence[RunPart]) -> list[str]:
    """Return lines about the shards that no part has."""
    lines = []
    shards = [shard for shard, _ in merged_shards(about)]
    for of in sorted({shard.of for shard in shards}):
        present = {shard.number for shard in shards if shard.of == of}
        absent = list(islice((number for number in range(1, of + 1) if number not in present), MAX_NUMBERS))
        if not absent:
            continue
        known = next((run for run in runs if any(Shard.parse(shard).of == of for shard in own_shards(run.about))), None)
        if known is None:
            continue  # it was merged before, and the merged run names its parts
        lines += [
            f"to run shard {number}/{of}: type the command of {known.name} with --shard={number}/{of} "
            f"--run={_name(known, number, of)}"
            for number in absent[:SHOWN]
        ]
        if len(absent) < MAX_NUMBERS and (tasks := _slurm(known, absent, of)):
            lines.append(f"or as tasks of Slurm: {tasks}")
    return lines


def _name(run: RunPart, number: int, of: int) -> str:
    """Return the name of another shard's run, like that of this one."""
    stem = run.name.removesuffix(Shard.parse(own_shards(run.about)[-1]).suffix)
    return f"{stem}{Shard(number, of).suffix}" if stem != run.name else "NAME"


def _slurm(run: RunPart, absent: Sequence[int], of: int) -> str:
    """Return the command that submits the missing tasks of an array; "" if the run was no task of a plain array."""
    sources = [session.get("shard_source", "") for session in run.about.get("sessions", ())]
    if not sources or not sources[-1].startswith(_ARRAY) or "SLURM_PROCID" in sources[-1]:
        return ""
    return f"MEDVQA_SHARDS={of} sbatch --array={','.join(str(number - 1) for number in absent)} FILE"
