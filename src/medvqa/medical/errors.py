"""The error of this room, and the libraries that read medical files."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

EXTRA = "pip install 'pytest-medvqa[dicom]'"
"""Installs every reader of this room."""


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
