"""How a signal ends a session of pytest, in the process that the user started and in workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

from medvqa.plugin.process import is_worker
from medvqa.session.ending import SIGNALS, Ending


class SignalHooks:
    """Lets SIGTERM and SIGHUP end a session as Ctrl-C does.

    A worker takes Ctrl-C the same way, so that a second signal, which its controller sends it, changes nothing.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Handle signals until the session's end."""
        self._ending = Ending()
        self._worker = is_worker(config)
        self._ending.listen((*SIGNALS, signal.SIGINT) if self._worker else SIGNALS)
        config.add_cleanup(self._ending.restore)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """The session ends, whatever was first to end it."""
        self._ending.begin()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Let no signal stop the reports. A worker dies of its signal in the end: xdist replaces it if it was alone."""
        self._ending.begin()
        result = yield
        if self._worker and self._ending.signal in SIGNALS:
            signal.signal(self._ending.signal, signal.SIG_DFL)
            os.kill(os.getpid(), self._ending.signal)
        return result
