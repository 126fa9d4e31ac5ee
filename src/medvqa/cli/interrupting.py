"""Ctrl-C before a command runs: its imports take most of the first second."""

from __future__ import annotations

import os
import signal
from types import FrameType


def end_at_once() -> None:
    """Let Ctrl-C end the process with one line and exit code 2, unless the parent process ignores it.

    An exception would leave modules half imported: Python prints a traceback, and some C modules crash.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, after `end_at_once`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"medvqa: interrupted\n")
    os._exit(2)
