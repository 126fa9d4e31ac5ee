"""What an evaluation record asks people for, and the reporting items that it serves (`record_parts.toml`)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from medvqa import decode

_HEAD = """\
# The form of an evaluation record (medvqa record RUN --form=FILE): what no file of a run knows.
# Write between the quotation marks, or between three of them for several lines. What stays empty is shown as
# "not stated", and counted. Name no patients.
"""


class Guideline(msgspec.Struct, frozen=True):
    """A reporting guideline. An item: its number, its subject, and the places that serve it, SECTION or form.FIELD."""

    name: str
    source: str
    items: list[list[str]]


class RecordParts(msgspec.Struct, frozen=True):
    """The fields of the form with what each asks for, and the guidelines."""

    form: dict[str, str]
    guideline: list[Guideline]


@cache
def parts() -> RecordParts:
    """Return the content of record_parts.toml."""
    file = resources.files(__package__).joinpath("record_parts.toml")
    return decode.decode_bytes(file.read_bytes(), RecordParts, file.name)


def template() -> str:
    """Return an empty form, a comment above each field."""
    return _HEAD + "".join(f'\n# {asks}\n{name} = ""\n' for name, asks in parts().form.items())


def read_form(path: Path | None) -> dict[str, str]:
    """Return the fields of a form, "" where nothing is stated (UsageError for another key, or no text)."""
    kind = msgspec.defstruct("Form", [(name, str, "") for name in parts().form])
    form = kind() if path is None else decode.decode(path, kind, where=f"--form={path}")
    return {name: str(text).strip() for name, text in msgspec.structs.asdict(form).items()}
