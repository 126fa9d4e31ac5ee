"""Tests of an xdist worker that died: put back into the queue, or given up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medvqa import records

PATIENCE = {False: 1, True: 4}
"""How often a test is tried again after workers died on it; the key: a model call was in flight at that time.

With a call in flight, the model may have died of another question of the batch.
"""


class Crashes:
    """The workers of a session that died."""

    def __init__(self, run: Path, session: str) -> None:
        """Start without dead workers."""
        self._run = run
        self._session = session
        self._asked: dict[str, tuple[str, ...] | None] = {}
        self._blamed: Counter[str] = Counter()
        self.requeued = False
        """Whether a test was put back into the queue."""

    def note(self, worker: str) -> None:
        """A worker has died: the questions that it was asking are suspected."""
        self._asked[worker] = records.bury(self._run, self._session, worker)

    def requeue(self, nodeid: str, worker: str, report: pytest.TestReport, scheduler: Any, *, began: bool) -> None:
        """Put the test at the cursor of a dead worker back, unless it seems to be what kills.

        xdist blames it, even where the worker died before it `began`: it may then come back as often as xdist replaces
        workers. Where the worker was asking one question alone, that question is to blame and will not be asked
        again; so its test may come back as often as that happens.
        """
        asked = self._asked.get(worker)
        if began:
            if asked is None:
                return
            self._blamed[nodeid] += 1
            if len(asked) != 1 and self._blamed[nodeid] > PATIENCE[bool(asked)]:
                return
        try:
            scheduler.mark_test_pending(nodeid)
        except NotImplementedError:
            # loadscope and its kin cannot take a test back.
            return
        self.requeued = True
        report.outcome = "rerun"  # type: ignore[assignment]
        report.medvqa_requeued = True  # type: ignore[attr-defined]
