"""How far a run is: numbers so far, by benchmark and technique."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

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
    # A session that asks questions again, as after errors, does not tell how many.
    left = (selected - answered) / rate if rate and selected > answered and running else None
    return RunProgress(
        name=name,
        state=state,
        answered=answered,
        selected=selected,
        parts=_parts(snapshot, facts, follower.titles),
        rate=rate,
        seconds_left=left,
        since=facts.since,
        last=_last(follower, facts.run, running=running) if answered else "",
        version=snapshot.version,
        truncated=int(np.count_nonzero(snapshot.marks & TRUNCATED)),
        # The last line of a running session may be on its way.
        unread=snapshot.unread - (snapshot.torn and running),
        stopped="" if running else records.stopped(facts.run),
    )


def _state(follower: Follower, facts: Facts, snapshot: Snapshot) -> RunState:
    if facts.problem or follower.problem:
        return "unreadable"
    state = state_of(follower.folder, finished=False)
    if state != "running" and follower.facts.finished(facts, snapshot):
        return "finished"
    return state


def _parts(snapshot: Snapshot, facts: Facts, titles: Mapping[str, str]) -> list[PartProgress]:
    """Return the numbers of each benchmark and technique that was selected or has a result."""
    names = [(benchmark, str(technique)) for benchmark in snapshot.benchmark_names for technique in TECHNIQUES]
    codes = snapshot.benchmarks.astype(np.int64) * len(TECHNIQUES) + snapshot.techniques
    flat = np.bincount(codes * len(OUTCOMES) + snapshot.outcomes, minlength=len(names) * len(OUTCOMES))
    outcomes = dict(zip(names, flat.reshape(-1, len(OUTCOMES)).tolist(), strict=True))
    # A stranger's file may hold any number.
    valid = np.abs(snapshot.scores) <= 1
    scored = np.bincount(codes[valid], minlength=len(names)).tolist()
    scores = np.bincount(codes[valid], weights=snapshot.scores[valid], minlength=len(names)).tolist()
    sums = dict(zip(names, zip(scores, scored, strict=True), strict=True))
    present = {name for name, counts in outcomes.items() if any(counts)}
    parts = []
    for benchmark, technique in sorted(facts.chosen.parts.keys() | present):
        counts = outcomes.get((benchmark, technique), [0] * len(OUTCOMES))
        score, number = sums.get((benchmark, technique), (0.0, 0))
        parts.append(
            PartProgress(
                benchmark=benchmark,
                title=titles.get(benchmark, benchmark),
                technique=technique,
                answered=sum(counts),
                selected=facts.chosen.parts.get((benchmark, technique), 0),
                outcomes={outcome: count for outcome, count in zip(OUTCOMES, counts, strict=True) if count},
                score=score,
                scored=number,
            )
        )
    return parts


def _last(follower: Follower, run: Mapping[str, Any], *, running: bool) -> str:
    """Time of the last result, "" if it cannot be told: of a running session, the time of the file."""
    if not running and (ended := run.get("finished")):
        return str(ended)
    try:
        changed = os.lstat(follower.folder / records.RESULTS).st_mtime
        return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return ""
