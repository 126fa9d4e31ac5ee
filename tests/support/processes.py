"""Processes that start warm: forked from a parent that has imported pytest, its plugins and the package.

A cold start of pytest with two workers imports the same packages three times, which takes longer than most sessions.
`Popen` and `run` behave as in `subprocess`: the processes are real, with pids, signals, pipes, sessions and exit
codes of their own. Workers of pytest-xdist start warm too, in the process group of their controller.

Commands that are not `python -m MODULE ...`, and environments that configure the interpreter, start cold.
"""

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Signals that a process ignores if the process that starts it does."""
TESTS = Path(__file__).parents[1]
WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""What execnet passes to `python -c` to start a worker."""
PACKAGES = (
    "execnet.gateway_base",
    "numpy.random",
    "openai",
    "openpyxl",
    "PIL.Image",
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "rich.progress",
    "scipy.sparse.csgraph",
    "scipy.special",
    "scipy.stats",
    "xdist.remote",
    "xdist.workermanage",
)


# --- the parent of warm processes ---------------------------------------------------------------------------


class Parent:
    """A process without threads that forks on request."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.lock = threading.Lock()

    @classmethod
    def start(cls) -> "Parent":
        """Start a parent that has run a session; it ends with this process."""
        ours, theirs = socket.socketpair()
        code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from support import processes; processes.main()"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())],
            env=environment | {"OMP_NUM_THREADS": "1"},  # a process with threads cannot be forked
            cwd=TESTS,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        return cls(ours)

    def spawn(self, request: dict[str, Any], streams: Sequence[int]) -> tuple[int, socket.socket]:
        """Fork a process; return its pid and the socket on which its wait status arrives."""
        ours, theirs = socket.socketpair()
        with self.lock, theirs:
            fds = array.array("i", [*streams, theirs.fileno()])
            self.control.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        body = json.dumps(request).encode()
        ours.sendall(struct.pack("I", len(body)) + body)
        return struct.unpack("i", _receive(ours, 4))[0], ours


_parents: dict[int, Parent] = {}


def parent() -> Parent:
    """Return this process's parent of warm processes; start it if there is none."""
    if os.getpid() not in _parents:
        _parents[os.getpid()] = Parent.start()
    return _parents[os.getpid()]


def main() -> None:
    """Import everything, then fork on request."""
    control = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    serve(control)


def warm_up() -> None:
    """Import what sessions import, and run one: it loads plugins with rewritten assertions, and compiles templates."""
    import pytest

    from support.strangers import CONFTEST, TEST

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        for name, text in {"conftest.py": CONFTEST, "test_warm.py": TEST, "pytest.ini": "[pytest]\n"}.items():
            (Path(folder) / name).write_text(text)
        options = ("-p", "no:cacheprovider", f"--rootdir={folder}", f"--config-file={folder}/pytest.ini")
        with contextlib.chdir(folder):
            pytest.main([*options, "--model=stubborn:A", folder])
    for name in ("conftest", "test_warm"):
        sys.modules.pop(name, None)
    medvqa = importlib.import_module("medvqa")
    modules = [module.name for module in pkgutil.walk_packages(medvqa.__path__, "medvqa.")]
    for name in (*modules, *PACKAGES):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> None:
    """Fork a process for each request until the requesting process has ended; report how each process ends."""
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    channels: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            while (ended := _ended()) is not None:
                with channels.pop(ended[0]) as channel, contextlib.suppress(OSError):
                    channel.sendall(struct.pack("i", ended[1]))
        if control in ready:
            message, fds, _, _ = socket.recv_fds(control, 1, 4)
            if not message:
                return
            channel = socket.socket(fileno=fds[3])
            request = json.loads(_receive(channel, struct.unpack("I", _receive(channel, 4))[0]))
            pid = os.fork()
            if pid == 0:
                _become(request, fds[:3])
            for fd in fds[:3]:
                os.close(fd)
            channels[pid] = channel
            with contextlib.suppress(OSError):
                channel.sendall(struct.pack("i", pid))


def _ended() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _receive(channel: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = channel.recv(count - len(received))
        if not part:
            raise EOFError("the parent of warm processes has ended")
        received += part
    return received


# --- a warm process -----------------------------------------------------------------------------------------


def _become(request: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """Do what `python` does with the command line of the request; never return."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for number, fd in enumerate(os.dup(fd) for fd in streams):
        os.dup2(fd, number)
    os.closerange(3, 1024)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # it was found in another environment
    time.tzset()
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [os.getcwd(), *filter(None, folders), *(path for path in sys.path[1:] if path != str(TESTS))]
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding=encoding, closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding=encoding, closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(  # type: ignore[misc]
        2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False
    )
    if not request["is_worker"]:
        _warm_workers()
    code = 1
    try:
        if request["is_worker"]:
            sys.argv[:] = ["-c"]
            sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
            exec(WORKER, vars(sys.modules["__main__"]))
        else:
            sys.argv[:] = request["arguments"]
            sys.modules.pop(f"{sys.argv[0]}.__main__", None)
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        _end()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:  # noqa: BLE001 - the interpreter's last resort
        traceback.print_exc()
    _end()
    os._exit(code & 0xFF)


def _end() -> None:
    """Do what the interpreter does at its end."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _warm_workers() -> None:
    """Fork a parent for the workers of this session, in its process group, and let execnet use it."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        for number in range(3):  # the pipes of the session end with the session
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, 1024)
        serve(theirs)
        os._exit(0)
    theirs.close()
    _parents[os.getpid()] = Parent(ours)
    gateway_io = importlib.import_module("execnet.gateway_io")

    def start(self: Any, args: list[str], execmodel: Any) -> None:
        self.popen = Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        gateway_io.Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel=execmodel)

    gateway_io.Popen2IOMaster.__init__ = start


# --- for tests ----------------------------------------------------------------------------------------------


def _starts_warm(command: Sequence[str], environment: dict[str, str]) -> bool:
    is_python = command[0] == sys.executable
    is_known = command[1].startswith("-m") or command[-1] == WORKER
    configured = {name for name in environment if name.startswith(("PYTHON", "LC_"))} - {
        "PYTHONPATH",
        "PYTHONIOENCODING",
    }
    inherited = all(environment[name] == os.environ.get(name) for name in configured)
    return is_python and is_known and inherited


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` for `[sys.executable, "-m", MODULE, ...]`, started warm."""

    _status: socket.socket | None = None

    def _execute_child(self, *arguments: Any) -> None:
        names = (
            "args executable preexec_fn close_fds pass_fds cwd env startupinfo creationflags shell p2cread p2cwrite "
            "c2pread c2pwrite errread errwrite restore_signals gid gids uid umask start_new_session process_group"
        )
        given = dict(zip(names.split(), arguments, strict=True))
        command = [os.fspath(word) for word in given["args"]]
        environment = dict(os.environ if given["env"] is None else given["env"])
        if given["preexec_fn"] is not None or not _starts_warm(command, environment):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        read, write, error = given["p2cread"], given["c2pwrite"], given["errwrite"]
        is_worker = command[-1] == WORKER
        request = {
            "is_worker": is_worker,
            "arguments": [command[1][2:] or command[2], *command[3 if command[1] == "-m" else 2 :]],
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "environment": environment,
            "new_session": given["start_new_session"],
            "ignored": [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN],
        }
        streams = [number if fd == -1 else fd for number, fd in enumerate((read, write, error))]
        self.pid, self._status = parent().spawn(request, streams)
        self._child_created = True
        pipes = (given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc, no-any-return]
        if wait_flags & os.WNOHANG and not _is_ready(self._status):
            return 0, 0
        try:
            status = struct.unpack("i", _receive(self._status, 4))[0]
        except (EOFError, OSError):
            status = signal.SIGKILL  # its parent was killed, with the group
        self._status.close()
        return self.pid, status

    def _internal_poll(self, *arguments: Any, **named: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*arguments, **named)  # type: ignore[misc, no-any-return]
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid and self.returncode is None:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


def _is_ready(channel: socket.socket) -> bool:
    """Whether something can be read; `select.select` takes no number from 1,024 on."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))


def run(
    command: Sequence[str | os.PathLike[str]], *, timeout: float | None = None, check: bool = False, **how: Any
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with a warm start; takes `capture_output` and the arguments of `Popen`."""
    if how.pop("capture_output", False):
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **how) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
