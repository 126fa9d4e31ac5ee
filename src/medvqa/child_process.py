"""A process of medvqa that serves this one: it decodes hostile files or draws pages, with limits of its own.

A child gets requests by its input and replies by its output, each as JSON with bytes after it. Nothing that it says is
trusted: it reads hostile files. It ends when its input does, whatever it is doing then.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import IO, BinaryIO, TypeVar

import msgspec

KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS")
"""Variables of the environment that an isolated child gets: no keys of servers."""
MAX_MESSAGE = 2**26
"""Bytes of the JSON of a message."""
ENDING = 0.5
"""Seconds for a child whose output ended to end by itself, which tells its exit code."""
_SIZES = re.compile(rb"([0-9]{1,12}) ([0-9]{1,12})\n")
_START = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); importlib.import_module(sys.argv[2]).serve()"
)

M = TypeVar("M", bound=msgspec.Struct)


class ChildEnded(Exception):
    """A child ended, or broke, before it replied."""

    def __init__(self, code: int) -> None:
        """`code`: its exit code, minus the number of a signal."""
        super().__init__(f"exit code {code}")
        self.code = code


class Child:
    """A process that runs `serve` of a module. It is started with the first request, and again after it has ended.

    Threads may share it. A fork starts a process of its own.
    """

    def __init__(self, module: str, *, errors: int | IO[bytes] = subprocess.DEVNULL, isolated: bool = False) -> None:
        """Start nothing yet. `errors` gets its standard error.

        `isolated` gives it the variables KEPT alone, and ignores files of the user that change Python.
        """
        self._module, self._errors, self._isolated = module, errors, isolated
        self._lock = threading.Lock()
        self._owner = 0
        self._closed = False
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, request: msgspec.Struct, reply: type[M], content: bytes = b"", *, most: int = 0) -> tuple[M, bytes]:
        """Send a request with bytes; return the reply with its bytes, `most` at most (ChildEnded).

        OSError if it cannot be started.
        """
        with self._lock:
            process = self._running()
            try:
                if process.stdin is None or process.stdout is None or self._closed:
                    raise EOFError
                send(process.stdin, request, content)
                return receive(process.stdout, reply, most)
            except (OSError, EOFError, ValueError):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(ENDING)
                _end(process, self._owner)
                raise ChildEnded(process.returncode) from None

    def stop(self) -> None:
        """End the process: a request that waits fails, and the next one starts another."""
        if self.process is not None and self._owner == os.getpid():
            self.process.kill()

    def close(self) -> None:
        """End the process, and answer no request any more."""
        self._closed = True
        self.stop()
        with self._lock:
            if self.process is not None:
                _end(self.process, self._owner)

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None or self._owner != os.getpid() or self.process.poll() is not None:
            self.process, self._owner = self._started(), os.getpid()
            weakref.finalize(self, _end, self.process, self._owner)
        return self.process

    def _started(self) -> subprocess.Popen[bytes]:
        paths = json.dumps([os.path.abspath(path) for path in sys.path])
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return subprocess.Popen(  # noqa: S603
            [sys.executable, *(["-I"] if self._isolated else []), "-c", _START, paths, self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=kept if self._isolated else None,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End a process of this one; a fork leaves those of others."""
    if owner != os.getpid():
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def send(file: IO[bytes], message: msgspec.Struct, content: bytes = b"") -> None:
    """Write a message and its bytes (OSError)."""
    line = msgspec.json.encode(message)
    file.writelines((b"%d %d\n" % (len(line), len(content)), line, content))
    file.flush()


def receive(file: IO[bytes], type: type[M], most: int) -> tuple[M, bytes]:
    """Read a message and its bytes, `most` at most (EOFError, msgspec.DecodeError)."""
    sizes = _SIZES.fullmatch(file.readline(32))
    if sizes is None:
        raise EOFError
    length, number = int(sizes[1]), int(sizes[2])
    if length > MAX_MESSAGE or number > most:
        raise EOFError
    line, content = file.read(length), file.read(number)
    if len(line) < length or len(content) < number:
        raise EOFError
    return msgspec.json.decode(line, type=type), content


# --- in the child -------------------------------------------------------------------------------------------------


def answer_all(
    type: type[M],
    answer: Callable[[M, bytes], tuple[msgspec.Struct, bytes]],
    *,
    most: int = 0,
    memory: int | None = None,
    seconds: int = 0,
) -> None:
    """Answer the requests of this child until its input ends.

    `most`: bytes that come with a request. `memory`: bytes of address space. `seconds`: for one request, 0 for any.
    """
    output = _replies()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and the input with it.
    if memory is not None:
        _limit_memory(memory)
    requests: queue.SimpleQueue[tuple[M, bytes]] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                requests.put(receive(sys.stdin.buffer, type, most))
        finally:
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            request, content = requests.get()
            # The default action of SIGALRM ends the process, even within a decoder.
            signal.alarm(seconds)
            reply, content = answer(request, content)
            signal.alarm(0)
            with suppress(BrokenPipeError):
                send(output, reply, content)
    finally:
        # An orderly end would wait for the thread that reads.
        traceback.print_exc()
        os._exit(1)


def _replies() -> BinaryIO:
    """Return the output of this child for its replies; what other code prints goes nowhere."""
    output = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return output


def _limit_memory(most: int) -> None:
    """Limit the address space of this child, in bytes; a child that crashes leaves no core file."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
