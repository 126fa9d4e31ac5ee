"""The life of the server: its port, its secrets, its temporary folder, and how it ends."""

from __future__ import annotations

import errno
import fcntl
import gc
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
import traceback
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import uvicorn

from medvqa import printing
from medvqa.items import UsageError
from medvqa.readings.study_plan import StudyRecord
from medvqa.report.html import page
from medvqa.session.registry import Registry
from medvqa.view import studies
from medvqa.view.app import Site, application
from medvqa.view.connections import Connection
from medvqa.view.drawing import Drawings
from medvqa.view.guard import Guard, Tokens
from medvqa.view.images import Originals
from medvqa.view.run_index import RunIndexes
from medvqa.view.run_list import RunFolders
from medvqa.view.sources import Sources

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp

HOST = "127.0.0.1"
PREFIX = "medvqa-view-"
"""Start of the name of the temporary folder."""
LARGEST_HEAD = 2**15
"""Bytes of the head of a request."""
BACKLOG = 128
SECONDS = 1
"""Time that open requests have to end after Ctrl-C."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(folder: Path, sources: Sources, registry: Registry, *, port: int = 0, browser: bool = True) -> None:
    """Serve a folder of runs until Ctrl-C or SIGTERM. UsageError if it has no runs, or the port is taken.

    `port`: 0 for a free one. `browser`: whether to open the page.
    """
    indexes = RunIndexes(registry.benchmarks)
    folders = RunFolders(folder, registry, indexes)
    number = folders.find()
    if number == 0:
        raise UsageError(
            f"{folder} has no runs: start one by `medvqa run --model=...` or pytest, or name the folder that has them"
        )
    with _listening(port) as listener, scratch() as temporary:
        site = Site(folders, indexes, Originals(sources, temporary, indexes), Drawings(sources))
        token, ticket = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        tokens, place = Tokens(token, ticket), listener.getsockname()[1]
        server = _ViewServer(lambda: Guard(application(site), place, tokens), listener, site)
        runs = "1 run" if number == 1 else f"{number:,} runs"
        address = f"http://{HOST}:{place}/?token="
        said = f"medvqa view: {runs} of {printing.line(str(folder))} at {address}{token} (Ctrl-C ends it)"
        _serve(server, said, address + ticket if browser else "")


def serve_study(folder: Path, record: StudyRecord, *, port: int = 0) -> None:
    """Serve the pages of a study folder, each to its reader, until Ctrl-C or SIGTERM (UsageError)."""
    with _listening(port) as listener:
        token_of = {reader: secrets.token_urlsafe(32) for reader in record.orders}
        tokens, place = Tokens(token_of), listener.getsockname()[1]
        policy = f"{page.policy(folder=True, saves=True)}; frame-ancestors 'none'".encode()
        server = _ViewServer(lambda: Guard(studies.application(folder, record), place, tokens, policy), listener)
        addresses = (f"  {reader}: http://{HOST}:{place}/?token={token}" for reader, token in token_of.items())
        _serve(server, "\n".join([f"medvqa view: {printing.line(str(folder))} (Ctrl-C ends it)", *addresses]))


def _serve(server: _ViewServer, said: str, opened: str = "") -> None:
    """Run a server until a signal ends it: say where it is, and open an address in the browser, if one is given."""
    gc.freeze()  # A search for cycles that walks over all modules takes 30 ms of a request.
    with _signals_raise():
        try:
            threading.Thread(target=server.run, name="server", daemon=True).start()
            server.wait_until_ready()
            print(said, flush=True)
            if opened:
                threading.Thread(target=webbrowser.open, args=[opened], daemon=True).start()
            server.wait_until_ended()
        except KeyboardInterrupt:
            pass  # This is how it is ended.
        finally:
            server.end()


class _ViewServer(uvicorn.Server):
    """Uvicorn without its own handling of signals. Its requests hold no exit up: they run in daemon threads."""

    def __init__(self, app: Callable[[], ASGIApp], listener: socket.socket, site: Site | None = None) -> None:
        self._site = site
        self._listener = listener
        self._ready, self._ended = threading.Event(), threading.Event()
        super().__init__(
            uvicorn.Config(
                app,
                factory=True,
                loop="asyncio",
                http=Connection,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                h11_max_incomplete_event_size=LARGEST_HEAD,
                timeout_keep_alive=10,
                timeout_graceful_shutdown=SECONDS,
            )
        )
        _log_to_stderr()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say when requests are taken."""
        await super().startup(sockets)
        self._ready.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `end`."""
        try:
            super().run([self._listener])
        finally:
            self._ready.set()
            self._ended.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the drawing, then all connections."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # Requests that are cut off now are no errors.
        if self._site is not None:
            self._site.drawings.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: `serve` takes them."""
        yield

    def wait_until_ready(self) -> None:
        """Return when requests are taken, or the server has failed to start."""
        self._ready.wait()

    def wait_until_ended(self, seconds: float | None = None) -> None:
        """Return when nothing is served any more, or after some seconds.

        Not `Thread.join`: once a signal has interrupted it, Python 3.11 takes the thread for ended.
        """
        self._ended.wait(seconds)

    def end(self) -> None:
        """Stop serving; requests that are open then are left behind."""
        self.should_exit = True
        self.wait_until_ended(SECONDS + 0.5)
        if self._site is not None:
            self._site.drawings.close()
            self._site.originals.close()


class _LogLine(logging.Formatter):
    """One printable line for each record, without a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message, and for an exception its kind, text and place."""
        text = record.getMessage().strip()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            frames = traceback.extract_tb(error.__traceback__)
            place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
            text += f": {type(error).__name__}: {error}{place}"
        return f"medvqa view: {printing.line(text)[:500]}"


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_LogLine())
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.ERROR)


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Listen on this machine alone (UsageError)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # A port whose last connections are just ending can be had again; one that is listened on cannot.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(BACKLOG)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "another program uses it" if taken else error.strerror
            raise UsageError(f"--port={port}: {why}; name another one, or leave --port out for a free one") from None
        yield listener


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Within the block, a signal that ends the server raises KeyboardInterrupt, once; a second one ends it hard."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # One that is ignored stays so: `nohup` keeps a server alive after its terminal.
    taken = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for each in taken:
            signal.signal(each, signal.default_int_handler)
        raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this process alone, which is removed at the end; so are those of servers that were killed."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # Its mode is 0700.
    try:
        with open(folder / "lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            # Without a lock it may be a folder that is just being made.
            if time.time() - status.st_mtime > 60 and _is_free(folder / "lock"):
                shutil.rmtree(folder, ignore_errors=True)


def _is_free(lock: Path) -> bool:
    try:
        with open(lock, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
