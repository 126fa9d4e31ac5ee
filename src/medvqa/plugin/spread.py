"""How tests reach xdist workers: never fewer than the batches that a worker's model is to be kept busy with."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from xdist.scheduler.load import LoadScheduling  # type: ignore[import-untyped]

from medvqa.engine.stream import WINDOW


class BatchScheduling(LoadScheduling):  # type: ignore[misc]
    """xdist's own `load`, which hands out less and less towards the end, down to two tests at a time.

    Once `batch` is known to be above 1, a worker gets another batch whenever it has less than three windows of the
    stream left, as long as there are tests, but never more than half of what is its share: a worker whose model
    is ready first must not take the tests of the others.
    """

    batch = 1

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Called after each test of a worker; `duration` is in seconds."""
        if not node.shutting_down and self.batch > 1:
            share = len(self.collection or ()) // len(self.nodes)
            if len(self.node2pending[node]) < min(3 * WINDOW * self.batch, share // 2):
                self._send_tests(node, self.batch)
        super().check_schedule(node, duration)

    def _send_tests(self, node: Any, num: int) -> None:
        """Leave tests that cannot be sent with the worker that is dead: they come back when its death is told.

        Between a worker's death and the telling, the death of another one has its tests sent on.
        """
        with suppress(OSError):
            super()._send_tests(node, num)
