"""Private folders: the files of a run may identify patients."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from medvqa import files

REPORTS = "reports"
"""The folder of run folders; git is kept from it."""
IGNORE = ".gitignore"
IGNORED = b"*\n# Runs hold questions and answers. Change this file as you like: it is written once.\n"


def make_private(folder: Path) -> None:
    """Create a folder for a run or for answers, readable by its owner alone, and keep it out of git (OSError).

    Missing folders above it are made alike; folders that are there stay as they are. A folder above it that is made
    here or is called reports gets a .gitignore, unless it has one.
    """
    above = folder.parent
    created = not above.exists()
    files.private_folder(folder)
    if created or above.name == REPORTS:
        # A folder that cannot be written is no reason to stop: its runs are private nevertheless.
        with suppress(OSError):
            files.write_new(above / IGNORE, IGNORED, mode=0o644)
