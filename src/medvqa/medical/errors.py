"""The error of this room."""

from __future__ import annotations

EXTRA = "pip install 'pytest-medvqa[dicom]'"
"""Installs every reader of this room."""


class MedicalError(ValueError):
    """A medical file cannot be shown; the message quotes nothing of the file's texts."""
