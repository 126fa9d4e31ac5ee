"""Requeue tests of an xdist worker that died, or give them up."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medvqa.records import suspects

PATIENCE = {False: 1, True: 4}
"""Retries of a test after workers died on it, by whether a model call was in flight.

With a call in flight, another question of the batch may have killed the model.
"""


class Crashes:
    """The workers of a session that died."""

    def __init__(self, run: Path, session: str) -> None:
        """Start without dead workers."""
        self._run = run
        self._session = session
        self._in_flight: dict[str, tuple[str, ...] | None] = {}
        self._blamed: Counter[str] = Counter()
        self.requeued = False
        """Whether any test was requeued."""

    def note(self, worker: str) -> None:
        """Record the questions that a dead worker was asking."""
        self._in_flight[worker] = suspects.bury(self._run, self._session, worker)

    def requeue(self, nodeid: str, worker: str, report: pytest.TestReport, scheduler: Any, *, began: bool) -> None:
        """Requeue the test that xdist blames for a worker's death, unless it seems to kill workers.

        xdist blames a test even if the worker died before the test `began`. Such a test is always requeued: xdist
        limits the number of replaced workers. If the worker was asking a single question, that question is to blame
        and is not asked again, so its test is always requeued too.
        """
        in_flight = self._in_flight.get(worker)
        if began:
            if in_flight is None:
                return
            self._blamed[nodeid] += 1
            if len(in_flight) != 1 and self._blamed[nodeid] > PATIENCE[bool(in_flight)]:
                return
        try:
            scheduler.mark_test_pending(nodeid)
        except NotImplementedError:
            # loadscope and similar schedulers cannot requeue a test.
            return
        self.requeued = True
        report.outcome = "rerun"  # type: ignore[assignment]
        report.medvqa_requeued = True  # type: ignore[attr-defined]
