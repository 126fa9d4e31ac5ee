"""Let SIGTERM and SIGHUP, sent by schedulers, containers and closed terminals, end a session like Ctrl-C, in time."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from math import inf
from types import FrameType

from medvqa import engine

TERMINATING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process unless it handles them."""
AGAIN = 1.0
"""Seconds in which a repeated signal is ignored: `timeout` sends two."""
LATER = 0.01
"""Seconds after which a signal is sent again that came at an instruction without a line."""
SIGNALS = (signal.SIGINT, *TERMINATING)
LIMIT = 9.0
"""Seconds from SIGTERM or SIGHUP to the end of the process, whatever it still does: `docker stop` kills after ten."""
LAST_PUTS = 3.0
"""Seconds for the last puts into a place, after `engine.FAREWELL` for calls in flight."""
TO_CALL, TO_PUT = 5.0, 2.0
"""Seconds before the end of the process that calls and puts leave for what comes after them, such as run.json."""
LOOK = 0.5
"""Seconds between two looks at the clock: the limit counts from the last one before the signal was heard of, since
native code may have held Python's lock in between."""
LEAST = 3.0
"""Seconds for the end if native code held the lock for too long."""
CUT_SHORT = 2
"""Exit code of a process that is ended then, as that of an interrupted run."""


class Ending:
    """Raises KeyboardInterrupt in the main thread at the first signal, and ignores signals while the session ends.

    `heard` tells whether one came at any time: what would follow the session must not begin then.
    Python drops an exception that a handler raises during a finalizer. So `check` raises it again until `begin`.
    `waits`: the session waits for calls in flight, and a second Ctrl-C ends the waiting.

    A process that gets SIGTERM or SIGHUP ends within `LIMIT` seconds, even if its main thread hangs in native code: a
    thread counts them, and Python's C code tells it of a signal before the main thread runs any Python code.
    """

    def __init__(self) -> None:
        """`listen` installs the handlers."""
        self.signal: signal.Signals | None = None
        """The signal that ended the session; None if no signal did."""
        self.heard = False
        """Whether a signal has come, ignored or not."""
        self.waits = False
        self.interrupted = False
        """Whether a KeyboardInterrupt ended the session, because of a signal or not."""
        self.last_words = ""
        """Printed if the process is ended before it has finished."""
        self.output = 2
        """The file descriptor for them."""
        self.deadline = inf
        """The end of the process, in seconds of `time.monotonic`, once SIGTERM or SIGHUP has come."""
        self.workers: Callable[[], Collection[int]] = tuple
        """Returns processes that are killed if this one is ended before it has finished."""
        self._ends = False
        self._raised = -inf
        self._starts = self._postponed = False
        self._wakeup = -1
        self._over = threading.Event()
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
        if self._replaced.keys() & set(TERMINATING):
            self._watch()

    def begin(self) -> None:
        """Ignore further signals: the session ends, and must write its reports."""
        self._ends = True

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come and `begin` was not called."""
        if self.signal is not None and not self._ends:
            raise KeyboardInterrupt(*self._why())

    def calls_by(self) -> float:
        """Return until when calls in flight may finish, in seconds of `time.monotonic`."""
        return min(time.monotonic() + engine.FAREWELL, self.deadline - TO_CALL)

    def puts_by(self) -> float | None:
        """Return until when answers may be put into a place; None if nothing interrupted the session."""
        return min(time.monotonic() + LAST_PUTS, self.deadline - TO_PUT) if self.interrupted else None

    def restore(self, *, ends_process: bool = False) -> None:
        """Restore the handlers that `listen` replaced, except where another one was installed since.

        `ends_process`: the process is about to end, and after a signal it still must do so in time.
        """
        for number, before in self._replaced.items():
            if signal.getsignal(number) == self._interrupt:
                signal.signal(number, before)
        self._replaced.clear()
        self.output, self.last_words = 2, ""
        if not ends_process:
            self._over.set()
        if self._wakeup != -1:
            signal.set_wakeup_fd(-1)
            os.close(self._wakeup)
            self._wakeup = -1

    def _watch(self) -> None:
        """Start the thread that counts the seconds; another package's file descriptor for signals stays."""
        reads, writes = os.pipe()
        os.set_blocking(writes, False)
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            os.close(reads)
            os.close(writes)
            return
        self._wakeup = writes
        threading.Thread(target=self._count, args=(reads,), name="medvqa-ending", daemon=True).start()

    def _count(self, reads: int) -> None:
        """Wait for a signal that terminates, then end the process after `LIMIT` seconds, unless it ends before."""
        poll, numbers = select.poll(), b""
        poll.register(reads, select.POLLIN)
        try:
            looked = time.monotonic()
            while not set(numbers) & set(TERMINATING):
                now = time.monotonic()
                if not poll.poll(0):
                    # No signal has come until now; the wait may take longer, if native code holds the lock.
                    looked = now
                    poll.poll(LOOK * 1000)
                elif not (numbers := os.read(reads, 64)):
                    return
            self.deadline = min(self.deadline, max(looked + LIMIT, time.monotonic() + LEAST))
            if self._over.wait(self.deadline - time.monotonic()):
                return
        finally:
            # Not before: Python would complain of a pipe that nobody reads when a second signal comes.
            os.close(reads)
        for pid in self.workers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(OSError):
            os.write(self.output, f"\n{self.last_words}\n".encode() if self.last_words else b"")
        os._exit(CUT_SHORT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        if number in TERMINATING:
            self.deadline = min(self.deadline, time.monotonic() + LIMIT)
        if not self._ends and time.monotonic() >= self._raised + AGAIN:
            if self._starts or (frame is not None and frame.f_lineno is None):
                self._postpone(number)
                return
            self._raised = time.monotonic()
            self.signal = signal.Signals(number)
            raise KeyboardInterrupt(*self._why())
        if number == signal.SIGINT and self.waits:
            self.waits = False
            raise KeyboardInterrupt

    def _postpone(self, number: int) -> None:
        """Send a signal again soon, until it is raised.

        Some instructions of Python 3.11 have no line, and pytest ends with a TypeError where a traceback shows one.
        """
        if not self._starts and not self._postponed:
            self._starts = self._postponed = True
            # The signal may come again while this waits for the thread to run.
            threading.Thread(target=self._send_again, args=(number,), name="medvqa-signal", daemon=True).start()
            self._starts = False

    def _send_again(self, number: int) -> None:
        while self.signal is None and not self._ends and signal.getsignal(number) == self._interrupt:
            os.kill(os.getpid(), number)
            time.sleep(LATER)

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
