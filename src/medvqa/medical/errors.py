"""The error of this room."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

EXTRA = "pip install 'pytest-medvqa[dicom]'"
"""Installs every reader of this room."""


READERS: Mapping[str, tuple[str, str]] = {
    "dicom": ("DICOM files", "pydicom"),
    "nifti": ("NIfTI files", "nibabel"),
    "slide": ("slides", "openslide"),
}
"""The module that reads each kind of file, with the kind in words."""


class MedicalError(ValueError):
    """A medical file cannot be shown; the message quotes nothing of the file's texts."""


def need(kind: str) -> str:
    """Return the line that says what to install for a kind of file."""
    files, module = READERS[kind]
    return f"{files} need {module}: {EXTRA}"


def lacking() -> dict[str, str]:
    """Return the kinds of files whose reader is not installed, each with what to install."""
    return {kind: need(kind) for kind, (_, module) in READERS.items() if importlib.util.find_spec(module) is None}
