"""How far a run is: numbers so far, by benchmark and technique."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from medvqa.items import OUTCOMES, TECHNIQUES
from medvqa.records import coverage
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RunRecord
from medvqa.view.facts import Facts
from medvqa.view.following import Follower
from medvqa.view.shapes import PartProgress, RunProgress
from medvqa.view.snapshot import TRUNCATED, Snapshot
from medvqa.view.state import state_of


def run_progress(follower: Follower, name: str) -> RunProgress:
    """Return the progress of a run as it is now.

    Numbers count results. A run is finished if its coverage says so.
    """
    follower.catch_up()
    facts, snapshot = follower.facts.read(), follower.snapshot()
    covered = follower.facts.coverage(facts, snapshot)
    unreadable = facts.problem or follower.problem
    state = "unreadable" if unreadable else state_of(follower.folder, finished=covered.finished)
    running = state == "running"
    answered, selected = covered.number, covered.selected or 0
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
        stopped="" if running else coverage.stopped(facts.run),
    )


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


def _last(follower: Follower, run: RunRecord, *, running: bool) -> str:
    """Time of the last result, "" if it cannot be told: of a running session, the time of the file."""
    if not running and run.finished:
        return run.finished
    try:
        changed = os.lstat(follower.folder / RESULTS).st_mtime
        return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return ""
