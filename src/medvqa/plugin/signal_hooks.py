"""End a session of pytest on a signal, in the process that the user started and in workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

from medvqa.plugin.process import CONTROLLER, ENDING, TERMINAL, is_worker
from medvqa.session.ending import TERMINATING, Ending


class SignalHooks:
    """Lets SIGTERM and SIGHUP end a session as Ctrl-C does."""

    def __init__(self, config: pytest.Config) -> None:
        """Handle signals until the session's end."""
        self._ending = config.stash[ENDING] = Ending()
        self._worker = is_worker(config)
        if not self._worker:
            # Standard output and error are captured while a test runs.
            self._ending.output = config.stash[TERMINAL]
            self._ending.last_words = config.stash[CONTROLLER].last_words()
            self._ending.workers = config.stash[CONTROLLER].workers
        self._ending.listen()
        config.add_cleanup(lambda: self._ending.restore(ends_process=True))

    def pytest_collectreport(self) -> None:
        """End the session if a signal was lost."""
        self._ending.check()

    def pytest_runtest_logstart(self) -> None:
        """End the session if a signal was lost."""
        self._ending.check()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Note that the session ends, by a signal or by Ctrl-C."""
        self._ending.begin()
        self._ending.interrupted = True

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Let no signal stop the reports. A worker then dies of its signal, so that xdist can replace it."""
        self._ending.begin()
        # The controller decides when a worker ends.
        self._ending.waits = not self._worker
        try:
            result = yield
        finally:
            self._ending.waits = False
        if self._worker and self._ending.signal in TERMINATING:
            signal.signal(self._ending.signal, signal.SIG_DFL)
            os.kill(os.getpid(), self._ending.signal)
        return result
