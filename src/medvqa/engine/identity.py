"""What a model says of itself, checked once it is made and before anything is asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from medvqa import answers
from medvqa.items import Model, UsageError


@dataclass(frozen=True, slots=True)
class Identity:
    """A model's name, its fingerprint (None: it has none) and its settings as JSON values."""

    name: str
    fingerprint: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def identify(model: Model, secrets: Collection[str] = ()) -> Identity:
    """What a model says of itself, without the `secrets`; UsageError, which names the model, for wrong types."""
    fingerprint = _called(model, "fingerprint")
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise _wrong(model, f"fingerprint() gave a value of type {_type(fingerprint)}; a text or None is expected")
    if fingerprint == "":
        raise _wrong(model, "fingerprint() gave an empty text; None says that answers are not reused across runs")
    if fingerprint is not None and not answers.is_unicode(fingerprint):
        raise _wrong(model, "fingerprint() gave half a surrogate pair, which is no Unicode text")
    about = _called(model, "about")
    if about is not None and not isinstance(about, Mapping):
        raise _wrong(
            model, f"about() gave a value of type {_type(about)}; a mapping of texts to JSON values is expected"
        )
    try:
        # There and back: what xdist can send, and run.json holds.
        settings = msgspec.json.decode(msgspec.json.encode(about or {}))
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(model, f"about() gave what is no JSON value: {answers.line_of(error)}") from None
    name, told = answers.redacted(model.name, secrets), answers.redacted_value(settings, secrets)
    return Identity(name, None if fingerprint is None else answers.redacted(fingerprint, secrets), told)


def _called(model: Model, name: str) -> object:
    """What an optional method of a model gives, None where it has none."""
    method = getattr(model, name, None)
    if method is None:
        return None
    if not callable(method):
        raise _wrong(model, f"{name} is of type {_type(method)}; a method is expected")
    found: object = method()
    return found


def _wrong(model: Model, why: str) -> UsageError:
    return UsageError(f"model '{model.name}': {why}")


def _type(value: object) -> str:
    return type(value).__name__
