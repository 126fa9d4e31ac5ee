"""Let SIGTERM and SIGHUP, sent by schedulers, containers and closed terminals, end a session as Ctrl-C does."""

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
"""Seconds in which a repeated signal is ignored: `timeout` sends two."""
SIGNALS = (signal.SIGINT, *TERMINATING)


class Ending:
    """Raises KeyboardInterrupt in the main thread at the first signal, and ignores signals while the session ends.

    Python drops an exception that a handler raises during a finalizer. So `check` raises it again until `begin`.
    `waits`: the session waits for calls in flight, and a second Ctrl-C ends the waiting.
    """

    def __init__(self) -> None:
        """`listen` installs the handlers."""
        self.signal: signal.Signals | None = None
        """The signal that ended the session; None if no signal did."""
        self.waits = False
        self.interrupted = False
        """Whether a KeyboardInterrupt ended the session, because of a signal or not."""
        self._ends = False
        self._raised = -inf
        self._replaced: dict[signal.Signals, signal._HANDLER] = {}

    def listen(self) -> None:
        """Install handlers in place of Python's own.

        An ignored signal stays ignored (nohup), and handlers of other packages stay. Does nothing outside of the main
        thread, to which handlers belong.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before in (signal.SIG_DFL, signal.default_int_handler):
                self._replaced[number] = before
                signal.signal(number, self._interrupt)

    def begin(self) -> None:
        """Ignore further signals: the session ends, and must write its reports."""
        self._ends = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come and `begin` was not called."""
        if self.signal is not None and not self._ends:
            raise KeyboardInterrupt(*self._why())

    def restore(self) -> None:
        """Restore the handlers that `listen` replaced, except where another one was installed since."""
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
    """Treat SIGTERM and SIGHUP as Ctrl-C within the block."""
    ending = Ending()
    ending.listen()
    try:
        yield
    finally:
        ending.restore()
