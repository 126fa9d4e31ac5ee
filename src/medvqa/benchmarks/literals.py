"""Cells that hold a list as Python prints it. They are parsed as literals, and nothing is run."""

from __future__ import annotations

import ast
from typing import Any

MAX_LITERAL = 100_000
"""Characters of a cell that is parsed."""


def texts(value: Any) -> list[str] | None:
    """Return the texts of a list, or of its text such as "['liver', 'spleen']"; None for anything else."""
    listed = _literal(value) if isinstance(value, str) else value
    return listed if isinstance(listed, list) and all(isinstance(part, str) for part in listed) else None


def one_or_several(text: str) -> tuple[str, ...]:
    """Return the texts and numbers of a list as texts, each once; for any other text the text itself."""
    listed = _literal(text) if text.startswith("[") else None
    if not isinstance(listed, list) or not all(isinstance(part, str | int | float) for part in listed):
        listed = [text]
    return tuple(dict.fromkeys(str(part) for part in listed if str(part).strip()))


def _literal(text: str) -> Any:
    """The value of a literal, None for anything else and for a text above the limit."""
    try:
        return ast.literal_eval(text) if len(text) <= MAX_LITERAL else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
