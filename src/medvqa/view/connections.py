"""Connections that wait for their client no longer than a working browser takes, and that are limited in number.

Uvicorn itself waits for a request, a body, or a client that does not read, without an end.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 200
"""Connections. With more, the one that has waited longest for its request is closed."""
SECONDS = {"request": 10, "body": 60, "reading": 60}
"""Limits of the time for a request to be there, for its body, and until a client that does not read goes on."""
PERIOD = 2
"""Seconds between two looks at a connection."""


class Connection(H11Protocol):
    """A connection that is closed when its client is late."""

    def connection_made(self, transport: Any) -> None:
        """Look at the connection from time to time."""
        super().connection_made(transport)
        self._phase: tuple[object, ...] = ()
        self.since = self.loop.time()
        mine = (each for each in self.connections if isinstance(each, Connection))
        there = [each for each in mine if not each.transport.is_closing()]
        waiting = [each for each in there if each.waits_for == "request"]
        if len(there) > MOST and waiting:
            min(waiting, key=lambda each: each.since).transport.abort()
        self._timer: asyncio.TimerHandle = self.loop.call_later(PERIOD, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._timer.cancel()
        super().connection_lost(exc)

    @property
    def waits_for(self) -> str:
        """What of the client the connection waits for, "" for nothing."""
        if self.flow.write_paused:
            return "reading"
        if self.conn.their_state is h11.IDLE:
            return "request"
        return "body" if self.conn.their_state is h11.SEND_BODY else ""

    def _look(self) -> None:
        phase = (self.waits_for, self.cycle)
        if phase != self._phase:
            self._phase, self.since = phase, self.loop.time()
        elif self.loop.time() - self.since > SECONDS.get(self.waits_for, float("inf")):
            self.transport.abort()
            return
        self._timer = self.loop.call_later(PERIOD, self._look)
