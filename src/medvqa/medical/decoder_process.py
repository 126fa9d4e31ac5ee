"""Draw pictures in a process of its own: a decoder that crashes or hangs on a hostile file ends one picture alone.

A process of medvqa has one such process, started with the first medical file; see `child_process`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import msgspec

from medvqa import child_process, medical
from medvqa.child_process import Child, ChildEnded
from medvqa.medical import Drawing, series, windows
from medvqa.medical.errors import MedicalError
from medvqa.medical.series import FrameHeader, SeriesSlice
from medvqa.medical.views import ImageView

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
    """A picture that is asked for; the bytes of its file follow if it has no path.

    `index`: the folder or file of a series whose pictures are asked for, as by `series.index`.
    """

    drawing: Drawing | None = None
    index: bytes = b""


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A picture, whose pixels follow, the pictures of a series, or an error; `shown` is as in `windows.SHOWN`."""

    error: str = ""
    mode: Literal["L", "RGB"] = "L"
    width: _Side = 1
    height: _Side = 1
    shown: str = ""
    pictures: tuple[FrameHeader, ...] = ()


_child = Child(__name__, isolated=True)


def picture(file: BinaryIO, drawing: Drawing) -> PIL.Image.Image:
    """Return the picture of a medical file, as `medical.picture` (MedicalError)."""
    import PIL.Image

    data = b"" if drawing.path else file.read()
    reply, content = _asked(_Request(drawing), data, most=max(_BYTES.values()) * drawing.max_pixels)
    pixels = reply.width * reply.height
    if pixels > drawing.max_pixels or len(content) != pixels * _BYTES[reply.mode]:
        _child.stop()
        raise MedicalError(CRASHED)
    picture = PIL.Image.frombytes(reply.mode, (reply.width, reply.height), content)
    if reply.shown:
        picture.info[windows.SHOWN] = reply.shown[:200]
    return picture


def _asked(request: _Request, data: bytes, most: int) -> tuple[_Reply, bytes]:
    """Return a reply of the process (MedicalError)."""
    try:
        reply, content = _child.ask(request, _Reply, data, most=most)
    except ChildEnded as ended:
        late = ended.code == -signal.SIGALRM
        raise MedicalError(f"its decoder took longer than {SECONDS} s" if late else CRASHED) from None
    except OSError as error:
        raise MedicalError(f"the process that reads it cannot be started: {error.strerror}") from None
    if reply.error:
        raise MedicalError(" ".join(reply.error.split())[:1000])
    return reply, content


def slices(path: str, view: ImageView) -> list[SeriesSlice]:
    """Return the slices that a view of a folder or file names; its headers are read once (MedicalError, OSError)."""
    return series.slices(_indexed(path, medical.stamp(path)), path, view)


@lru_cache(maxsize=64)
def _indexed(path: str, stamp: tuple[int, int]) -> tuple[FrameHeader, ...]:
    """The pictures of a series, for each state of its files."""
    return _asked(_Request(index=os.fsencode(os.path.abspath(path))), b"", most=0)[0].pictures


def of_slices(named: Sequence[SeriesSlice], drawing: Drawing) -> PIL.Image.Image:
    """Return the picture of a slice, or of several side by side, each with the same window (MedicalError, OSError)."""
    view = drawing.view
    columns, rows = view.montage or (1, 1)
    drawn = []
    for one in named:
        alone = replace(
            drawing,
            path=os.fsencode(os.path.abspath(one.path)),
            view=replace(view, frame=one.frame or None, places=view.places[:1], montage=None),
            max_pixels=drawing.max_pixels // (columns * rows),
        )
        with open(one.path, "rb") as file:
            of = picture(file, alone)
        drawn.append((of, str(of.info.pop(windows.SHOWN, ""))))
    shown = {words for _, words in drawn}
    if len(shown) > 1:
        raise MedicalError("its slices have windows of their own; type one for all: ?window=CENTRE,WIDTH")
    if len({of.size for of, _ in drawn}) > 1:
        raise MedicalError("its slices have different sizes; name one alone")
    whole = drawn[0][0] if view.montage is None else _montage([of for of, _ in drawn], columns, rows)
    places = "; ".join(one.words for one in named)
    whole.info[windows.SHOWN] = windows.described(places, shown.pop()) if places else shown.pop()
    return whole


def _montage(pictures: Sequence[PIL.Image.Image], columns: int, rows: int) -> PIL.Image.Image:
    """Return one picture of slices of one size, from the upper left, row by row; places without one are black."""
    import PIL.Image

    width, height = pictures[0].size
    whole = PIL.Image.new(pictures[0].mode, (columns * width, rows * height))
    for place, picture in enumerate(pictures):
        whole.paste(picture, (place % columns * width, place // columns * height))
    return whole


def serve() -> None:
    """Draw pictures until the input ends, in the child process."""
    child_process.answer_all(_Request, _answer, most=sys.maxsize, memory=MEMORY, seconds=SECONDS)


def _answer(request: _Request, data: bytes) -> tuple[_Reply, bytes]:
    drawing = request.drawing
    try:
        if drawing is None:
            return _Reply(pictures=tuple(series.index(os.fsdecode(request.index)))), b""
        with open(drawing.path, "rb") if drawing.path else io.BytesIO(data) as file:
            drawn = medical.picture(file, drawing)
    except MedicalError as error:
        return _Reply(str(error)), b""
    except OSError as error:
        return _Reply(f"cannot be read: {error.strerror}"), b""
    grey, shown = drawn.mode == "L", drawn.info.get(windows.SHOWN, "")
    reply = _Reply("", "L" if grey else "RGB", drawn.width, drawn.height, shown)
    return reply, (drawn if grey else drawn.convert("RGB")).tobytes()
