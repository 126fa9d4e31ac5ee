"""Draw pictures in a process of its own: a decoder that crashes or hangs on a hostile file ends one picture alone.

A process of medvqa has one such process, started with the first medical file. It ends when its input ends. Requests and
replies are a line of JSON, then bytes; nothing that it says is trusted.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, Literal, TypeVar

import msgspec

from medvqa import child_process, medical
from medvqa.medical import windows
from medvqa.medical.errors import MedicalError
from medvqa.medical.views import ImageView, parse

if TYPE_CHECKING:
    import PIL.Image

SECONDS = 120
"""Seconds for one picture."""
MEMORY = 6 * 2**30
"""Bytes of address space of the process; the largest picture that is shown takes 2.8 GiB, and see `errors.decoding`."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS")
"""Variables of the environment that the process gets."""
MAX_REPLY = 2**16
"""Bytes of the line of a request or reply."""
_BYTES = {"L": 1, "RGB": 3}

M = TypeVar("M")
_Side = Annotated[int, msgspec.Meta(ge=1)]


class _Request(msgspec.Struct, frozen=True):
    """A picture that is asked for, as by `medical.picture`; `length` bytes of the file follow if it has no path."""

    path: bytes
    length: int
    kind: medical.Medical
    view: str
    window: tuple[float, float] | None
    burned_in: bool
    max_pixels: int


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture, whose pixels follow, or an error; `shown` is as in `windows.SHOWN`."""

    error: str = ""
    mode: Literal["L", "RGB"] = "L"
    width: _Side = 1
    height: _Side = 1
    shown: str = ""


_lock = threading.Lock()
_running: dict[int, subprocess.Popen[bytes]] = {}
"""The process of each process: a fork must not share one."""


def picture(
    file: BinaryIO,
    path: str,
    kind: medical.Medical,
    view: ImageView,
    *,
    window: tuple[float, float] | None,
    burned_in: bool,
    max_pixels: int,
) -> PIL.Image.Image:
    """Return the picture of a medical file, as `medical.picture` (MedicalError)."""
    data = b"" if path else file.read()
    # The working folder of the process is that of its start.
    place = os.fsencode(os.path.abspath(path)) if path else b""
    request = _Request(place, len(data), kind, view.text, window, burned_in, max_pixels)
    with _lock:
        process = _process()
        try:
            return _asked(process, request, data)
        except MedicalError:
            raise
        except (OSError, EOFError, ValueError, msgspec.DecodeError):
            process.kill()
            process.wait()
            if process.returncode == -signal.SIGALRM:
                raise MedicalError(f"its decoder took longer than {SECONDS} s") from None
            raise MedicalError("damaged: its decoder crashed") from None


def _end() -> None:
    """End the process with the one that started it; it also ends when its input does."""
    if (process := _running.pop(os.getpid(), None)) is not None:
        process.kill()
        process.wait()


def _process() -> subprocess.Popen[bytes]:
    process = _running.get(os.getpid())
    if process is not None and process.poll() is None:
        return process
    _running.clear()
    # No keys of servers, which stand in the environment.
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    try:
        process = child_process.start(__name__, environment=environment, isolated=True)
    except OSError as error:
        raise MedicalError(f"the process that reads it cannot be started: {error.strerror}") from None
    if not _running:
        atexit.register(_end)
    _running[os.getpid()] = process
    return process


def _asked(process: subprocess.Popen[bytes], request: _Request, data: bytes) -> PIL.Image.Image:
    """Send a request and read the reply (MedicalError; OSError, EOFError or ValueError if the process is broken)."""
    import PIL.Image

    if process.stdin is None or process.stdout is None:
        raise EOFError
    _send(process.stdin, request, data)
    reply = _receive(process.stdout, _Reply)
    if reply.error:
        raise MedicalError(" ".join(reply.error.split())[:1000])
    if reply.width * reply.height > request.max_pixels:
        raise ValueError
    content = _exactly(process.stdout, reply.width * reply.height * _BYTES[reply.mode])
    picture = PIL.Image.frombytes(reply.mode, (reply.width, reply.height), content)
    if reply.shown:
        picture.info[windows.SHOWN] = reply.shown[:200]
    return picture


def _send(file: IO[bytes], message: _Request | _Reply, data: bytes) -> None:
    file.write(msgspec.json.encode(message) + b"\n")
    file.write(data)
    file.flush()


def _receive(file: IO[bytes], type: type[M]) -> M:
    line = file.readline(MAX_REPLY)
    if not line.endswith(b"\n"):
        raise EOFError
    return msgspec.json.decode(line, type=type)


def _exactly(file: IO[bytes], length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise EOFError
    return content


def serve() -> None:
    """Draw pictures until the input ends, in the child process."""
    # Decoders print to the standard output.
    replies = child_process.replies()
    child_process.limit_memory(MEMORY)
    requests = sys.stdin.buffer
    with suppress(EOFError, BrokenPipeError):
        while True:
            request = _receive(requests, _Request)
            # Its default action ends the process, even within a decoder.
            signal.alarm(SECONDS)
            _serve_one(request, _exactly(requests, request.length), replies)
            signal.alarm(0)


def _serve_one(request: _Request, data: bytes, replies: BinaryIO) -> None:
    path = os.fsdecode(request.path)
    try:
        with open(path, "rb") if path else io.BytesIO(data) as file:
            drawn = medical.picture(
                file,
                path,
                request.kind,
                parse(request.view),
                window=request.window,
                burned_in=request.burned_in,
                max_pixels=request.max_pixels,
            )
    except MedicalError as error:
        _send(replies, _Reply(str(error)), b"")
    except OSError as error:
        _send(replies, _Reply(f"cannot be read: {error.strerror}"), b"")
    else:
        grey, shown = drawn.mode == "L", drawn.info.get(windows.SHOWN, "")
        reply = _Reply("", "L" if grey else "RGB", drawn.width, drawn.height, shown)
        _send(replies, reply, (drawn if grey else drawn.convert("RGB")).tobytes())
