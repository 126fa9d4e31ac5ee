"""How far a run is: numbers so far, by benchmark and technique."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from medvqa.items import OUTCOMES, DataError
from medvqa.records import lock
from medvqa.records.coverage import Coverage
from medvqa.records.run_folder import RESULTS
from medvqa.view.entries import reason
from medvqa.view.run_index import Count, RunIndex
from medvqa.view.shapes import PartProgress, RunProgress, RunState


def state_of(folder: Path, *, finished: bool) -> RunState:
    """Return the state of a readable run folder; `finished`: as its coverage says (`Coverage.finished`).

    A run that a process of this host holds is running, whatever its coverage. Only reads.
    """
    if lock.live_holder(folder) is not None:
        return "running"
    return "finished" if finished else "unfinished"


def run_progress(index: RunIndex, name: str) -> RunProgress:
    """Return the progress of a run as it is now. Numbers count results."""
    with index.lock:
        try:
            covered = index.coverage()
        except DataError:
            covered = Coverage(None, 0)
        counts, run, selected_parts = index.counts(), index.run, index.selected
        version, unread, torn = index.version, index.unread, index.torn
        why = index.run_problem or index.problem
    state = "unreadable" if why else state_of(index.folder, finished=covered.finished)
    running = state == "running"
    answered, selected = covered.number, covered.selected or 0
    rate = index.rate()
    # A session that asks questions again, as after errors, does not tell how many.
    left = (selected - answered) / rate if rate and selected > answered and running else None
    parts: dict[tuple[str, str], list[Count]] = {part: [] for part in selected_parts}
    for count in counts:
        parts.setdefault((count.benchmark, count.technique), []).append(count)
    last_session = run.last_session.started
    return RunProgress(
        name=name,
        state=state,
        answered=answered,
        selected=selected,
        parts=[
            PartProgress(
                benchmark=benchmark,
                title=index.titles.get(benchmark, benchmark),
                technique=technique,
                answered=sum(count.number for count in mine),
                selected=selected_parts.get((benchmark, technique), 0),
                outcomes={
                    outcome: number
                    for outcome in OUTCOMES
                    if (number := sum(count.number for count in mine if count.outcome == outcome))
                },
                score=sum(count.score for count in mine),
                scored=sum(count.scored for count in mine),
            )
            for (benchmark, technique), mine in sorted(parts.items())
        ],
        rate=rate,
        seconds_left=left,
        since=last_session or run.started,
        last=_last(index, running=running) if answered else "",
        version=version,
        truncated=sum(count.truncated for count in counts),
        # The last line of a running session may be on its way.
        unread=unread - (torn and running),
        stopped="" if running else run.last_session.stopped,
        why=reason(why or "; ".join(covered.reasons), index.folder),
    )


def _last(index: RunIndex, *, running: bool) -> str:
    """Time of the last result, "" if it cannot be told: of a running session, the time of the file."""
    if not running and index.run.finished:
        return index.run.finished
    try:
        changed = os.lstat(index.folder / RESULTS).st_mtime
        return datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return ""
