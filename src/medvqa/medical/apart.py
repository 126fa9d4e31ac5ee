"""Draw pictures in a process of its own: a decoder that crashes or hangs on a hostile file ends one picture alone.

A process of medvqa has one such process, started with the first medical file. It ends when its input ends. Requests and
replies are a length (4 bytes), JSON and bytes; nothing that it says is trusted.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from medvqa import medical
from medvqa.medical import windows
from medvqa.medical.errors import MedicalError
from medvqa.medical.views import ImageView, parse

if TYPE_CHECKING:
    import PIL.Image

SECONDS = 120
"""Seconds for one picture."""
MEMORY = 16 * 2**30
"""Bytes of address space of the process."""
KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS")
"""Variables of the environment that the process gets."""
MAX_REPLY = 2**16
"""Bytes of the JSON of a reply."""
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from medvqa.medical import apart; apart.serve()"
_BYTES = {"L": 1, "RGB": 3}

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
    request = {
        # The working folder of the process is that of its start.
        "path": os.path.abspath(path) if path else "",
        "bytes": len(data),
        "kind": kind,
        "view": view.text,
        "window": window,
        "burned_in": burned_in,
        "max_pixels": max_pixels,
    }
    with _lock:
        process = _process()
        try:
            return _asked(process, request, data, max_pixels)
        except (OSError, EOFError, ValueError) as error:
            if isinstance(error, MedicalError):
                raise
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
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    try:
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-c", _START, paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # No keys of servers, which stand in the environment.
            env={name: os.environ[name] for name in KEPT if name in os.environ},
            start_new_session=True,
        )
    except OSError as error:
        raise MedicalError(f"the process that reads it cannot be started: {error.strerror}") from None
    if not _running:
        atexit.register(_end)
    _running[os.getpid()] = process
    return process


def _asked(process: subprocess.Popen[bytes], request: dict[str, Any], data: bytes, max_pixels: int) -> PIL.Image.Image:
    """Send a request and read the reply (MedicalError; OSError, EOFError or ValueError if the process is broken)."""
    import PIL.Image

    if process.stdin is None or process.stdout is None:
        raise EOFError
    _send(process.stdin, request, data)
    reply = _receive(process.stdout)
    if "error" in reply:
        message = " ".join(str(reply["error"]).split())
        raise MedicalError(message[:1000])
    mode, width, height = reply["mode"], int(reply["width"]), int(reply["height"])
    if mode not in _BYTES or width < 1 or height < 1 or width * height > max_pixels:
        raise ValueError
    content = _exactly(process.stdout, width * height * _BYTES[mode])
    picture = PIL.Image.frombytes(mode, (width, height), content)
    if shown := reply.get(windows.SHOWN):
        picture.info[windows.SHOWN] = str(shown)[:200]
    return picture


def _send(file: IO[bytes], values: dict[str, Any], data: bytes) -> None:
    text = json.dumps(values).encode()
    file.write(struct.pack("<I", len(text)) + text)
    file.write(data)
    file.flush()


def _receive(file: IO[bytes]) -> dict[str, Any]:
    (length,) = struct.unpack("<I", _exactly(file, 4))
    if length > MAX_REPLY:
        raise ValueError
    values = json.loads(_exactly(file, length))
    if not isinstance(values, dict):
        raise ValueError
    return values


def _exactly(file: IO[bytes], length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise EOFError
    return content


def serve() -> None:
    """Draw pictures until the input ends: the process apart."""
    replies = os.fdopen(os.dup(1), "wb")
    # Decoders print to the standard output.
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    requests = sys.stdin.buffer
    with suppress(EOFError, BrokenPipeError):
        while True:
            request = _receive(requests)
            # Its default action ends the process, even within a decoder.
            signal.alarm(SECONDS)
            _serve_one(request, _exactly(requests, request["bytes"]), replies)
            signal.alarm(0)


def _serve_one(request: dict[str, Any], data: bytes, replies: BinaryIO) -> None:
    try:
        with open(request["path"], "rb") if request["path"] else io.BytesIO(data) as file:
            drawn = medical.picture(
                file,
                request["path"],
                request["kind"],
                parse(request["view"]),
                window=tuple(request["window"]) if request["window"] else None,
                burned_in=request["burned_in"],
                max_pixels=request["max_pixels"],
            )
    except MedicalError as error:
        _send(replies, {"error": str(error)}, b"")
    except OSError as error:
        _send(replies, {"error": f"cannot be read: {error.strerror}"}, b"")
    else:
        reply = {"mode": drawn.mode, "width": drawn.width, "height": drawn.height}
        shown = drawn.info.get(windows.SHOWN, "")
        _send(replies, {**reply, windows.SHOWN: shown}, drawn.tobytes())
