"""SIGTERM and SIGHUP end a session as Ctrl-C does: schedulers, containers and closed terminals send them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Ending:
    """Raises KeyboardInterrupt in the main thread at the first signal; while the session ends, others are ignored."""

    def __init__(self) -> None:
        """Nothing is changed before `listen`."""
        self.signal: signal.Signals | None = None
        """What ended the session, None while it goes on or if it ended otherwise."""
        self._ends = False
        self._replaced: dict[signal.Signals, signal._HANDLER] = {}

    def listen(self, numbers: Collection[signal.Signals] = SIGNALS) -> None:
        """Handle these signals where Python's own handling stands.

        One that is ignored stays so (nohup), and so does a handler of somebody else's. Handlers belong to the main
        thread: in any other, nothing is done.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in numbers:
            before = signal.getsignal(number)
            if before in (signal.SIG_DFL, signal.default_int_handler):
                self._replaced[number] = before
                signal.signal(number, self._interrupt)

    def begin(self) -> None:
        """The session ends: what comes now must not stop its reports."""
        self._ends = True

    def restore(self) -> None:
        """Put back what `listen` replaced, unless somebody else has a handler there by now."""
        for number, before in self._replaced.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)
        self._replaced.clear()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._ends:
            self._ends = True
            self.signal = signal.Signals(number)
            raise KeyboardInterrupt(f"ended by {self.signal.name}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP be Ctrl-C within the block."""
    ending = Ending()
    ending.listen()
    try:
        yield
    finally:
        ending.restore()
