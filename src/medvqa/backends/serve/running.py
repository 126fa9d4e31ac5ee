"""Servers that run for the time of a run: their GPUs, ports, logs, start and end."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa import answers, files, printing
from medvqa.backends.hf import checkpoint
from medvqa.backends.serve import watcher
from medvqa.backends.serve.engine_commands import HOST, ServerCommand
from medvqa.items import UsageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
KEY_NAME = "VLLM_API_KEY"
"""The variable that gives vLLM its key."""
FOLDER = "servers"
"""The subfolder of the run folder with the logs."""
GRACE = 5.0
"""Seconds for a server to end after SIGTERM, before it is killed."""
LOOK, ANSWERING, SEEN = 0.2, 5.0, 2.0
"""Seconds between two looks at a server that starts, for its answer, and for its watcher to see that it has ended."""
SAY = 30.0
"""Seconds between two lines about the wait."""
TAIL, SHOWN, WIDTH = 2**14, 4, 300
"""Bytes of a log's end that are read, its lines that are shown, and characters of each."""


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that was started: its watcher, its port, its log, and the size of the log before."""

    watcher: subprocess.Popen[bytes]
    port: int
    log: Path
    begin: int

    def exit_code(self) -> int | None:
        """Return the exit code of the server if it has ended by itself, else None."""
        if self.watcher.poll() is None or self.watcher.stdout is None:
            return None
        said = self.watcher.stdout.read() if not self.watcher.stdout.closed else b""
        return int(said) if re.fullmatch(rb"-?\d{1,5}", said) else self.watcher.returncode

    def ended(self) -> int | None:
        """Return its exit code if it has ended by itself, also if its watcher has not seen that yet."""
        try:
            socket.create_connection((HOST, self.port), ANSWERING).close()
        except ConnectionRefusedError:
            with suppress(subprocess.TimeoutExpired):
                self.watcher.wait(SEEN)
        except OSError:
            pass  # too busy to answer
        return self.exit_code()

    def last_lines(self) -> str:
        """Return the last lines of its log as one printable line."""
        try:
            size = self.log.stat().st_size
            start = max(self.begin, size - TAIL)
            text = files.part(self.log, start, size - start).decode("utf-8", "replace")
        except OSError as error:
            return f"its log cannot be read: {error.strerror}"
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        return " | ".join(printing.line(printing.clipped(line, WIDTH)) for line in lines[-SHOWN:]) or "none"

    def is_ready(self, path: str, key: str) -> bool:
        """Return whether the path is answered with HTTP 200 to 299."""
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}")
        request.add_header("Authorization", f"Bearer {key}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=ANSWERING):
                return True
        except (OSError, ValueError, urllib.error.URLError):
            return False


class RunningServers:
    """The servers of one model, one for each group of GPUs. They end with this process, in whatever way it ends."""

    def __init__(
        self, command: ServerCommand, groups: Sequence[str | None], gpus: int, wait: float, *, title: str
    ) -> None:
        """Start nothing yet. `groups`: values of CUDA_VISIBLE_DEVICES, None to leave it; `wait`: most seconds."""
        self._command, self._groups, self._gpus, self._seconds, self._title = command, groups, gpus, wait, title
        self._started: list[StartedServer] = []
        self._ready = self._stopped = False
        self._key = ""

    def start(self, folder: Path, key: str) -> None:
        """Start the servers, with their logs in a subfolder of `folder`, and return at once (UsageError, OSError)."""
        self._key = key
        files.private_folder(folder)
        logs = files.subfolder(folder, FOLDER)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self._command.model)[-60:].strip(".-") or "server"
        for number, group in enumerate(self._groups):
            log, port = logs / f"{name}-{number}.log", _free_port()
            words = self._command.filled(port, self._gpus)
            descriptor = files.appending(log)
            try:
                os.fchmod(descriptor, 0o600)
                begin = os.fstat(descriptor).st_size
                process = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-I", watcher.__file__, str(GRACE), *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=descriptor,
                    env={**os.environ, **({} if group is None else {VISIBLE: group}), KEY_NAME: key},
                    start_new_session=True,
                )
            finally:
                os.close(descriptor)
            self._started.append(StartedServer(process, port, log, begin))

    @property
    def told(self) -> Mapping[str, Any]:
        """The addresses and the key, for the processes that ask."""
        return {"urls": [f"http://{HOST}:{server.port}/v1" for server in self._started], "key": self._key}

    def wait(self, say: Callable[[str], None]) -> None:
        """Return once all servers are ready; UsageError if one ends before, or takes too long."""
        if self._ready:
            return
        begin = shown = time.monotonic()
        number = len(self._started)
        say(
            f"medvqa: starting {'a server' if number == 1 else f'{number} servers'} for '{self._title}': "
            f"{printing.line(shlex.join(self._command.words))}; log: {printing.line(str(self._started[0].log))}"
        )
        waiting = self._started
        while waiting := [server for server in waiting if not server.is_ready(self._command.ready, self._key)]:
            for server in self._started:
                if (code := server.exit_code()) is not None:
                    raise UsageError(f"'{self._title}': {self._ended(server, code, 'before it was ready')}")
            seconds = time.monotonic() - begin
            if seconds > self._seconds:
                raise UsageError(
                    f"'{self._title}': its server was not ready ({self._command.ready}) after "
                    f"{self._seconds:g} s; set wait in [server] higher if it needs longer. Last lines of "
                    f"{waiting[0].log}: {self._tail(waiting[0])}"
                )
            if time.monotonic() - shown >= SAY:
                shown = time.monotonic()
                state = f"{seconds:.0f} of {self._seconds:g} s"
                say(f"medvqa: waiting for '{self._title}' ({state}): {self._tail(waiting[0])}")
            time.sleep(LOOK)
        self._ready = True
        say(f"medvqa: '{self._title}' is ready after {time.monotonic() - begin:.0f} s")

    def stop(self) -> list[str]:
        """Tell the servers to end, and return at once; a line for each that had ended by itself. Idempotent."""
        if self._stopped:
            return []
        self._stopped, lines = True, []
        for number, server in enumerate(self._started):
            if self._ready and (code := server.ended()) is not None:
                lines.append(f"! '{self._title}': {self._ended(server, code, 'during the run', number)}")
            if server.watcher.stdin is not None:
                try:
                    # A fork of this process may hold the pipe open: closing alone might tell nothing.
                    server.watcher.stdin.write(b"q")
                    server.watcher.stdin.close()
                except OSError:
                    pass  # the watcher has ended
        return lines

    def close(self) -> None:
        """End the servers and wait for their end; a watcher that is slow goes on alone. Idempotent."""
        self.stop()
        until = time.monotonic() + GRACE + watcher.KILLING
        for server in self._started:
            try:
                server.watcher.wait(max(until - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                continue
            if server.watcher.stdout is not None:
                server.watcher.stdout.close()

    def _ended(self, server: StartedServer, code: int, when: str, number: int = 0) -> str:
        name = "its server" if len(self._started) == 1 else f"its server {number}"
        return f"{name} ended {when} ({_exit(code)}). Last lines of {server.log}: {self._tail(server)}"

    def _tail(self, server: StartedServer) -> str:
        return answers.redacted(server.last_lines(), [self._key])


def _exit(code: int) -> str:
    """Return an exit code in words."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        port: int = bound.getsockname()[1]
        return port


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as in CUDA_VISIBLE_DEVICES; the driver is asked if that is not set."""
    if VISIBLE in os.environ:
        named = [name.strip() for name in os.environ[VISIBLE].split(",")]
        # CUDA ignores all after the first name that is none, such as -1.
        return named[: next((place for place, name in enumerate(named) if name in ("", "-1")), len(named))]
    query = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")
    try:
        process = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return process.stdout.split()


def groups_of(devices: Sequence[str], size: int) -> list[str | None]:
    """Return the groups of GPUs, one for each server; [None] without GPUs, [] if one server needs more."""
    return [*checkpoint.in_groups(devices, size)] if devices else [None]
