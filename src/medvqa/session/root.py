"""Find the root folder of a project, which holds models/ and reports/, as pytest does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medvqa import decode
from medvqa.items import UsageError

_ALWAYS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that configure pytest, whatever their content."""
_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
PROJECT, MAX_BYTES = "pyproject.toml", 2**20


def root_of(cwd: Path) -> Path:
    """Return the nearest folder, from `cwd` upwards, that configures pytest.

    Without one: the nearest folder with a pyproject.toml, else with a setup.py, else `cwd`.
    https://docs.pytest.org/en/stable/reference/customize.html#finding-the-rootdir
    """
    folders = (cwd, *cwd.parents)
    for holds in (
        _configures,
        lambda folder: (folder / PROJECT).is_file(),
        lambda folder: (folder / "setup.py").is_file(),
    ):
        for folder in folders:
            if holds(folder):
                return folder
    return cwd


def _configures(folder: Path) -> bool:
    if any((folder / name).is_file() for name in _ALWAYS) or _tool_pytest(folder / PROJECT):
        return True
    return any(_has_section(folder / name, section) for name, section in _SECTIONS.items())


def _tool_pytest(path: Path) -> bool:
    """Whether a pyproject.toml holds a table for pytest; False if it cannot be read, which pytest itself reports."""
    try:
        return bool(pytest_table(path))
    except UsageError:
        return False


def pytest_table(path: Path) -> Mapping[str, Any]:
    """Return [tool.pytest] of a pyproject.toml, {} without it or the file; UsageError if the file cannot be read."""
    table: Any = decode.decode(path, dict[str, Any], limit=MAX_BYTES, missing=b"")
    for name in ("tool", "pytest"):
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _has_section(path: Path, section: str) -> bool:
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"^\[{section}\]", text, re.MULTILINE) is not None
