"""Limit the requests in flight to one server."""

from __future__ import annotations

import time


class RequestGate:
    """The number of requests that a server may have in flight: at most `limit`, none while it asks to wait.

    If the server is busy, the limit halves, once for all requests in flight. It grows by one after each `limit`
    answers, up to the ceiling.
    """

    def __init__(self, ceiling: int) -> None:
        """`ceiling`: the first and largest limit."""
        self.limit = self.ceiling = ceiling
        self.in_flight = 0
        self.resume = 0.0
        """The time (monotonic) before which the server gets no request."""
        self._answered = 0
        self._halved = 0.0

    def room(self, now: float) -> int:
        """Return the number of requests that may be sent at the time `now` (monotonic)."""
        return self.limit - self.in_flight if self.resume <= now else 0

    def answered(self) -> None:
        """Count an answer."""
        self._answered += 1
        if self._answered >= self.limit:
            self._answered, self.limit = 0, min(self.limit + 1, self.ceiling)

    def busy(self, started: float, wait: float) -> None:
        """Note that the server refused a request sent at `started`; `wait` (seconds) before the next."""
        now = time.monotonic()
        self.resume = max(self.resume, now + wait)
        if started >= self._halved:
            self._halved, self._answered, self.limit = now, 0, max(self.limit // 2, 1)
