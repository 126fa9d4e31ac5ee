"""What a model says of itself, checked once it is made and before anything is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from medvqa import answers
from medvqa.backend import Backend


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's name, its fingerprint (None: it has none) and its settings as JSON values."""

    name: str
    fingerprint: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def identify(model: Backend, secrets: Collection[str] = ()) -> Identity:
    """What a loaded model says of itself, without the `secrets`; UsageError, which names the model, for wrong types."""
    fingerprint = model.fingerprint()
    return Identity(
        answers.redacted(model.title, secrets),
        None if fingerprint is None else answers.redacted(fingerprint, secrets),
        answers.redacted_value(model.about(), secrets),
    )
