"""Variants: the different prompts and rotations of one question within a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from medvqa.items import DataError

JOINED = "+"
"""Between the parts of a variant's name. No prompt's name holds it."""

_ROTATION = re.compile(r"r([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask a question within a run that asks it in several ways.

    `prompt`: the prompt's name, "" if the run has one prompt. `rotation`: options are shifted by this number of
    places; None if the run rotates none.
    """

    prompt: str = ""
    rotation: int | None = None

    @property
    def name(self) -> str:
        """The value of `QuestionKey.variant`: "short", "r1", "short+r1"; "" for neither. Rotation 0 is "r1"."""
        rotation = [] if self.rotation is None else [f"r{self.rotation + 1}"]
        return JOINED.join([*([self.prompt] if self.prompt else []), *rotation])

    @classmethod
    def parse(cls, name: str) -> Variant:
        """Return the variant of a name (DataError)."""
        return _parsed(name)


# Every result is asked for its variant several times, and a run has few.
@lru_cache(maxsize=1024)
def _parsed(name: str) -> Variant:
    head, joined, last = name.rpartition(JOINED)
    if (match := _ROTATION.fullmatch(last)) is not None:
        return Variant(head, int(match[1]) - 1)
    if joined:
        raise DataError(f"variant {name[:60]!r}: its last part is no rotation, such as r1")
    return Variant(name)
