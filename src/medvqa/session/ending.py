"""SIGTERM and SIGHUP end a session as Ctrl-C does: schedulers, containers and closed terminals send them."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType

TERMINATING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process unless it handles them."""
AGAIN = 1.0
"""Seconds within which a second signal is taken for the first: `timeout` sends two."""
SIGNALS = (signal.SIGINT, *TERMINATING)


class Ending:
    """Raises KeyboardInterrupt in the main thread at the first signal; while the session ends, others are ignored.

    Python drops what a handler raises while a finalizer runs, so a signal counts until `begin`: `check` raises again.
    `waits`: the session waits for what is in flight. A second Ctrl-C ends the waiting.
    """

    def __init__(self) -> None:
        """Nothing is changed before `listen`."""
        self.signal: signal.Signals | None = None
        """What ended the session, None while it goes on or if it ended otherwise."""
        self.waits = False
        self.interrupted = False
        """Whether KeyboardInterrupt ended the session: of a signal, or of anything else."""
        self._ends = False
        self._raised = -inf
        self._replaced: dict[signal.Signals, signal._HANDLER] = {}

    def listen(self) -> None:
        """Handle the signals where Python's own handling stands.

        One that is ignored stays so (nohup), and so does a handler of somebody else's. Handlers belong to the main
        thread: in any other, nothing is done.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before in (signal.SIG_DFL, signal.default_int_handler):
                self._replaced[number] = before
                signal.signal(number, self._interrupt)

    def begin(self) -> None:
        """The session ends: what comes now must not stop its reports."""
        self._ends = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, and the session does not end."""
        if self.signal is not None and not self._ends:
            raise KeyboardInterrupt(*self._why())

    def restore(self) -> None:
        """Put back what `listen` replaced, unless somebody else has a handler there by now."""
        for number, before in self._replaced.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)
        self._replaced.clear()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._ends and time.monotonic() >= self._raised + AGAIN:
            self._raised = time.monotonic()
            self.signal = signal.Signals(number)
            raise KeyboardInterrupt(*self._why())
        if number == signal.SIGINT and self.waits:
            self.waits = False
            raise KeyboardInterrupt

    def _why(self) -> list[str]:
        return [f"ended by {self.signal.name}"] if self.signal in TERMINATING else []


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP be Ctrl-C within the block."""
    ending = Ending()
    ending.listen()
    try:
        yield
    finally:
        ending.restore()
