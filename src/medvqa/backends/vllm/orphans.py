"""End the processes of an engine that outlive this process, also after kill -9.

vLLM starts workers where a model takes several GPUs, and they stay if their parent is killed. All inherit a mark in
their environment. A watcher, a small process of its own, waits for the end of a pipe that this process holds, and then
ends what bears the mark.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "MEDVQA_VLLM_MARK"
"""Environment variable of an engine's processes. Its value tells engines apart."""
SECONDS = 10.0
"""Time for which the watcher looks for processes again: one may have been starting another."""


class Watcher:
    """The watcher of this process. What this process starts from now on ends with it."""

    def __init__(self) -> None:
        """Start the watcher."""
        self._mark = secrets.token_hex(16)
        # A session of its own: Ctrl-C and the end of a terminal reach the watched processes, not the watcher.
        command = [sys.executable, "-I", "-S", __file__, self._mark]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        os.environ[MARK] = self._mark

    def close(self) -> None:
        """End what is left of the processes, and the watcher."""
        os.environ.pop(MARK, None)
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _marked(mark: str) -> list[int]:
    """Return the processes of this user that bear a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # another user's, or it has ended
            if wanted in variables:
                found.append(int(folder.name))
    return found


def _watch(mark: str) -> None:
    """Wait for the end of standard input; then kill what bears the mark."""
    sys.stdin.buffer.read()
    end = time.monotonic() + SECONDS
    while (processes := _marked(mark)) and time.monotonic() < end:
        for process in processes:
            # Without contextlib, whose import would cost the watcher more than all else.
            try:  # noqa: SIM105
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass  # it has ended
        time.sleep(0.1)


if __name__ == "__main__":
    _watch(sys.argv[1])
