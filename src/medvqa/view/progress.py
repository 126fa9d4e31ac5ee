"""How far a run is: numbers so far, by benchmark and technique."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from medvqa import records
from medvqa.items import OUTCOMES, TECHNIQUES
from medvqa.view.facts import Facts
from medvqa.view.following import Follower
from medvqa.view.shapes import PartProgress, RunProgress, RunState
from medvqa.view.snapshot import TRUNCATED, Snapshot
from medvqa.view.state import state_of


def run_progress(follower: Follower, name: str) -> RunProgress:
    """Return the progress of a run as it is now.

    Numbers count results. A run is finished if `records.coverage` says so.
    """
    follower.catch_up()
    facts, snapshot = follower.facts.read(), follower.snapshot()
    state = _state(follower, facts, snapshot)
    running = state == "running"
    answered, selected = len(snapshot), facts.selected
    rate = follower.rate()
    left = max(selected - answered, 0) / rate if rate and selected and running else None
    return RunProgress(
        name=name,
        state=state,
        answered=answered,
        selected=selected,
        parts=_parts(snapshot, facts, follower.titles),
        rate=rate,
        seconds_left=left,
        since=facts.since,
        last=_changed(follower) if answered else "",
        version=snapshot.version,
        truncated=int(np.count_nonzero(snapshot.marks & TRUNCATED)),
        # The last line of a running session may be on its way.
        unread=snapshot.unread - (snapshot.torn and running),
    )


def _state(follower: Follower, facts: Facts, snapshot: Snapshot) -> RunState:
    if facts.problem or follower.problem:
        return "unreadable"
    finished = facts.finished(snapshot.keys, snapshot.runs, snapshot.unread)
    return state_of(follower.folder, finished=finished)


def _parts(snapshot: Snapshot, facts: Facts, titles: Mapping[str, str]) -> list[PartProgress]:
    """Return the numbers of each benchmark and technique that was selected or has a result."""
    codes = snapshot.benchmarks.astype(np.int64) * len(TECHNIQUES) + snapshot.techniques
    order = np.argsort(codes, kind="stable")
    present, begins = np.unique(codes[order], return_index=True)
    rows = {
        (snapshot.benchmark_names[code // len(TECHNIQUES)], str(TECHNIQUES[code % len(TECHNIQUES)])): places
        for code, places in zip(present.tolist(), np.split(order, begins[1:]), strict=False)
    }
    parts = []
    for benchmark, technique in sorted(facts.chosen.parts.keys() | rows.keys()):
        places = rows.get((benchmark, technique), order[:0])
        selected = facts.chosen.parts.get((benchmark, technique), 0)
        parts.append(_part(snapshot, places, (benchmark, titles.get(benchmark, benchmark), technique), selected))
    return parts


def _part(snapshot: Snapshot, rows: NDArray[np.intp], names: tuple[str, str, str], selected: int) -> PartProgress:
    counts = np.bincount(snapshot.outcomes[rows], minlength=len(OUTCOMES)).tolist()
    scores = snapshot.scores[rows]
    # A stranger's file may hold any number.
    scores = scores[np.abs(scores) <= 1]
    return PartProgress(
        benchmark=names[0],
        title=names[1],
        technique=names[2],
        answered=len(rows),
        selected=selected,
        outcomes={outcome: count for outcome, count in zip(OUTCOMES, counts, strict=True) if count},
        score=math.fsum(scores.tolist()),
        scored=len(scores),
    )


def _changed(follower: Follower) -> str:
    """Time at which the results last changed, "" if it cannot be told."""
    try:
        changed = os.lstat(follower.folder / records.RESULTS).st_mtime
        return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return ""
