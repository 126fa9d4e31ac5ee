"""DICOM files, NIfTI volumes and slides -> pictures of 8 bits, without their headers.

`views` reads a reference such as `x.dcm?window=lung`; `windows` maps raw values to grey; `dicom`, `volumes` and
`slides` have one kind of file each; `series` finds a slice in a folder of DICOM files. Only pixels leave this room: no
error quotes a header, and no library's message is passed on.

Files are not trusted, and the decoders are C and C++ libraries, some of which abort or hang on damaged files:
`decoder_process` runs them in a process of its own, whose memory and time are limited once for all of them. Decoders
check only what they can name: the size of a file, of a picture and of a header.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Literal

from medvqa.medical.errors import MedicalError as MedicalError
from medvqa.medical.errors import lacking as lacking
from medvqa.medical.errors import reading
from medvqa.medical.views import SLIDES, ImageView

if TYPE_CHECKING:
    import PIL.Image

Medical = Literal["", "dicom", "nifti", "slide"]
"""The kinds of medical files; "" for any other file."""

HEAD = 1024
"""Bytes at the start of a file that tell its kind."""

MAX_BYTES = {"dicom": 4 * 2**30, "nifti": 4 * 2**30, "slide": 2**36}
"""Largest files by kind. They are read in parts: one frame, one slice, one region."""


def kind(head: bytes, name: str, view: ImageView) -> Medical:
    """Return the kind of a file by the first HEAD bytes of its content; slides by `region` or the end of the name.

    MedicalError if the name promises another content.
    """
    low = name.lower()
    if head[128:132] == b"DICM":
        return "dicom"
    if _is_nifti(head):
        return "nifti"
    if view.region is not None or low.endswith(SLIDES):
        return "slide"
    if head and low.endswith((".dcm", ".dicom")):
        raise MedicalError("no DICOM file: DICM is missing at byte 128. Save it with a preamble and file meta header")
    if head and low.endswith((".nii", ".nii.gz")):
        raise MedicalError("no NIfTI file of one part (.nii or .nii.gz)")
    return ""


def _is_nifti(head: bytes) -> bool:
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 352)
    # The size of the header, in either order of bytes, and the magic (nifti1.h, nifti2.h).
    if head[344:348] == b"n+1\0":
        return head[:4] in (b"\x5c\1\0\0", b"\0\0\1\x5c")
    return head[4:8] == b"n+2\0" and head[:4] in (b"\x1c\2\0\0", b"\0\0\2\x1c")


def stamp(path: str) -> tuple[int, int]:
    """Return size and time of change of a file; of a folder, numbers that change with any of its files (OSError)."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size, status.st_mtime_ns
    with os.scandir(path) as entries:
        files = sorted((e.name, s.st_size, s.st_mtime_ns) for e in entries for s in [e.stat(follow_symlinks=False)])
    seen = hashlib.sha256(repr(files).encode("utf-8", "surrogatepass")).digest()
    return sum(size for _, size, _ in files), int.from_bytes(seen[:8])


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that is asked for.

    `path`: the file as by `os.fsencode`, b"" for bytes of another file. `window`: the values shown as black and as
    white. `burned_in` allows files that declare burnt-in annotation.
    """

    path: bytes
    kind: Medical
    view: ImageView
    window: tuple[float, float] | None
    burned_in: bool
    max_pixels: int


def picture(file: BinaryIO, drawing: Drawing) -> PIL.Image.Image:
    """Return the picture of an open medical file: 8 bits, grey or RGB (MedicalError for everything that is wrong)."""
    from medvqa.medical import dicom, slides, volumes

    kind, view, window, max_pixels = drawing.kind, drawing.view, drawing.window, drawing.max_pixels
    view.check(kind)
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    if size > MAX_BYTES[kind]:
        raise MedicalError(f"larger than {MAX_BYTES[kind] // 2**30} GiB")
    if kind == "slide" and window is not None:
        raise MedicalError("a window is for grey images of more than 8 bits, and this is a slide")
    with reading(kind):
        if kind == "dicom":
            return dicom.picture(file, view, window, burned_in=drawing.burned_in, max_pixels=max_pixels)
        if kind == "slide":
            return slides.picture(os.fsdecode(drawing.path), view, max_pixels=max_pixels)
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            return volumes.picture(file, view, window, max_pixels=max_pixels)
        import gzip

        with gzip.GzipFile(fileobj=file) as stream:
            return volumes.picture(stream, view, window, max_pixels=max_pixels)
