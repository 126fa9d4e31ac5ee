"""The items of reporting guidelines, and where an evaluation record serves them (`reporting_items.toml`)."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from medvqa import decode


class Guideline(msgspec.Struct, frozen=True):
    """A reporting guideline: its source, and of each item the number, the subject in our words, and the places."""

    name: str
    source: str
    items: list[list[str]]


class _Guidelines(msgspec.Struct, frozen=True):
    guideline: list[Guideline]


@cache
def guidelines() -> list[Guideline]:
    """Return the guidelines."""
    file = resources.files(__package__).joinpath("reporting_items.toml")
    return decode.decode_bytes(file.read_bytes(), _Guidelines, file.name).guideline
