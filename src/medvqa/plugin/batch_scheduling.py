"""Hand tests to xdist workers in numbers that keep each worker's model busy."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from xdist.scheduler.load import LoadScheduling  # type: ignore[import-untyped]

from medvqa.engine.stream import WINDOW


class BatchScheduling(LoadScheduling):  # type: ignore[misc]
    """xdist's `load`, but with whole batches. `load` itself hands out fewer and fewer tests, down to two at a time.

    If `batch` is above 1, a worker gets another batch whenever fewer than three windows of the stream are left to it.
    It holds at most half of its share: a worker whose model is ready first must not take the tests of the others.
    """

    batch = 1

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        """Send a worker another batch if it needs one, after each of its tests; `duration` is in seconds."""
        if not node.shutting_down and self.batch > 1:
            share = len(self.collection or ()) // len(self.nodes)
            if len(self.node2pending[node]) < min(3 * WINDOW * self.batch, share // 2):
                self._send_tests(node, self.batch)
        super().check_schedule(node, duration)

    def _send_tests(self, node: Any, num: int) -> None:
        """Ignore tests that cannot be sent to a dead worker: xdist requeues them once it notes the death.

        Before that, the death of another worker may send tests to it.
        """
        with suppress(OSError):
            super()._send_tests(node, num)
