"""The error of this room, the libraries that read medical files, and their memory."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

EXTRA = "pip install 'pytest-medvqa[dicom]'"
"""Installs every reader of this room."""


SLACK = 2**29
"""Bytes of memory for the decoder of a small picture."""
PIXEL = 48
"""Bytes of memory for each pixel: three channels of 32 bits, four times."""


class MedicalReader(NamedTuple):
    """A library that reads one kind of file: the kind in words, its module, and what is said of a damaged file."""

    files: str
    module: str
    damaged: str


READERS: Mapping[str, MedicalReader] = {
    "dicom": MedicalReader("DICOM files", "pydicom", "a damaged DICOM file"),
    "nifti": MedicalReader("NIfTI files", "nibabel", "a damaged NIfTI file"),
    "slide": MedicalReader("slides", "openslide", "no slide that openslide reads, or a damaged one"),
}


class MedicalError(ValueError):
    """A medical file cannot be shown; the message quotes nothing of the file's texts."""


@contextmanager
def reading(kind: str) -> Iterator[None]:
    """Read a kind of file: MedicalError without its module, and for every exception, which may quote the file."""
    reader = READERS[kind]
    try:
        importlib.import_module(reader.module)
    except (ImportError, OSError):
        raise MedicalError(_need(reader)) from None
    try:
        yield
    except MedicalError:
        raise
    except MemoryError:
        raise MedicalError("it needs more memory than this machine has") from None
    except Exception as error:
        # The libraries, their decoders, zlib and numpy raise many types.
        raise MedicalError(f"{reader.damaged} ({type(error).__name__})") from error


def _need(reader: MedicalReader) -> str:
    return f"{reader.files} need {reader.module}: {EXTRA}"


def lacking() -> dict[str, str]:
    """Return the kinds of files whose reader is not installed, each with what to install."""
    return {kind: _need(reader) for kind, reader in READERS.items() if importlib.util.find_spec(reader.module) is None}


@contextmanager
def decoding(pixels: int) -> Iterator[None]:
    """Limit the memory of a decoder by the size of its picture: a small file may claim a frame of many GiB.

    Without it, each of several pytest workers could take `decoder_process.MEMORY` at once. A process without any limit,
    which is not that of the decoders, and a system without /proc stay as they are.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        yield
        return
    needed = pages * resource.getpagesize() + SLACK + PIXEL * pixels
    resource.setrlimit(resource.RLIMIT_AS, (min(soft, needed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
