"""A process between a run and one server: it ends the server, and all that the server has started, with the run.

It is run as a file, with the standard library alone: `python -I watcher.py SECONDS COMMAND...`. Its input is a pipe
from the run: the server is ended when the run writes there, closes it, or dies in whatever way. If the server ends by
itself, its exit code is printed. Processes that left the server's group are found on Linux: this one adopts orphans.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

LOOK = 0.2
"""Seconds between two looks at the server and at the run."""
KILLING = 10.0
"""Seconds for processes to vanish after SIGKILL: a process within a driver may take long."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""Numbers of Linux (sys/prctl.h)."""


def prctl(option: int, value: int) -> None:
    """Set a property of this process; do nothing on other systems than Linux."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def ended_children() -> dict[int, int] | None:
    """Return the exit codes of the children that ended since the last call, by pid; None if no child is left."""
    codes: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return codes
            codes[pid] = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        return codes or None


def descendants() -> list[int]:
    """Return the pids of the processes below this one; [] where there is no /proc."""
    parents = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as file:
            # The name of the program, in brackets, may hold blanks and brackets.
            parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    below, found = {os.getpid()}, []
    while more := [pid for pid, parent in parents.items() if parent in below and pid not in found]:
        found += more
        below = set(more)
    return found


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a group of processes, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end(server: int, seconds: float) -> None:
    """Ask the server's group to end, and kill all that is left after `seconds`."""
    if seconds:
        signal_group(server, signal.SIGTERM)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ended_children() is None:
            break
        time.sleep(0.02)
    until = time.monotonic() + KILLING
    while time.monotonic() < until:
        signal_group(server, signal.SIGKILL)
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if ended_children() is None:
            return
        time.sleep(0.02)


def watch(server: int, run: int) -> int | None:
    """Wait until the run ends (None), or the server (its exit code). `run` is the pid of the run."""
    while os.getppid() == run:
        codes = ended_children()
        if codes is None or server in codes:
            return (codes or {}).get(server, 0)
        # A fork of the run may hold its end of the pipe open after its death: its pid is looked at too.
        if select.select([0], [], [], LOOK)[0]:
            return None
    return None


def main() -> None:
    """Start the server and watch it."""
    run, seconds, command = os.getppid(), float(sys.argv[1]), sys.argv[2:]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The run decides when the server ends. A handler, as a program that is started would inherit SIG_IGN.
        signal.signal(number, lambda *_: None)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        server = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=2,
            start_new_session=True,
            preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM),  # this process has one thread
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stdout.write("127")
        return
    code = watch(server.pid, run)
    end(server.pid, seconds if code is None else 0)
    server.returncode = 0  # It was waited for.
    if code is not None:
        sys.stdout.write(str(code))


if __name__ == "__main__":
    main()
