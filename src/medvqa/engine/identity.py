"""The identity that a loaded model declares, read before the first prompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from medvqa import answers
from medvqa.backend import Backend


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's name, its fingerprint (None without one) and its settings as JSON values."""

    name: str
    fingerprint: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def identify(model: Backend, secrets: Collection[str] = ()) -> Identity:
    """Return the identity of a loaded model, without `secrets`; UsageError, with its name, for wrong types."""
    fingerprint = model.fingerprint()
    return Identity(
        answers.redacted(model.title, secrets),
        None if fingerprint is None else answers.redacted(fingerprint, secrets),
        answers.redacted_value(model.about(), secrets),
    )
