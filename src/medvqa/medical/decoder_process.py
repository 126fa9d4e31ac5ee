"""Draw pictures in a process of its own: a decoder that crashes or hangs on a hostile file ends one picture alone.

A process of medvqa has one such process, started with the first medical file; see `child_process`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import msgspec

from medvqa import child_process, medical
from medvqa.child_process import Child, ChildEnded
from medvqa.medical import windows
from medvqa.medical.errors import MedicalError
from medvqa.medical.views import ImageView, parse

if TYPE_CHECKING:
    import PIL.Image

SECONDS = 120
"""Seconds for one picture."""
MEMORY = 6 * 2**30
"""Bytes of address space of the process; the largest picture that is shown takes 2.8 GiB, and see `errors.decoding`."""
CRASHED = "damaged: its decoder crashed"
_BYTES = {"L": 1, "RGB": 3}

_Side = Annotated[int, msgspec.Meta(ge=1)]


class _Request(msgspec.Struct, frozen=True):
    """A picture that is asked for, as by `medical.picture`; the bytes of the file follow if it has no path."""

    path: bytes
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


_child = Child(__name__, isolated=True)


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
    import PIL.Image

    data = b"" if path else file.read()
    # The working folder of the process is that of its start.
    place = os.fsencode(os.path.abspath(path)) if path else b""
    request = _Request(place, kind, view.text, window, burned_in, max_pixels)
    try:
        reply, content = _child.ask(request, _Reply, data, most=max(_BYTES.values()) * max_pixels)
    except ChildEnded as ended:
        late = ended.code == -signal.SIGALRM
        raise MedicalError(f"its decoder took longer than {SECONDS} s" if late else CRASHED) from None
    except OSError as error:
        raise MedicalError(f"the process that reads it cannot be started: {error.strerror}") from None
    if reply.error:
        raise MedicalError(" ".join(reply.error.split())[:1000])
    pixels = reply.width * reply.height
    if pixels > max_pixels or len(content) != pixels * _BYTES[reply.mode]:
        _child.stop()
        raise MedicalError(CRASHED)
    picture = PIL.Image.frombytes(reply.mode, (reply.width, reply.height), content)
    if reply.shown:
        picture.info[windows.SHOWN] = reply.shown[:200]
    return picture


def serve() -> None:
    """Draw pictures until the input ends, in the child process."""
    child_process.answer_all(_Request, _answer, most=sys.maxsize, memory=MEMORY, seconds=SECONDS)


def _answer(request: _Request, data: bytes) -> tuple[_Reply, bytes]:
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
        return _Reply(str(error)), b""
    except OSError as error:
        return _Reply(f"cannot be read: {error.strerror}"), b""
    grey, shown = drawn.mode == "L", drawn.info.get(windows.SHOWN, "")
    reply = _Reply("", "L" if grey else "RGB", drawn.width, drawn.height, shown)
    return reply, (drawn if grey else drawn.convert("RGB")).tobytes()
