"""The capabilities that techniques need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medvqa.items import Technique, UsageError

NEEDS: Mapping[Technique, str] = {
    "mc": "generate",
    "gd": "option_logprobs",
    "ps": "option_likelihood",
    "ff": "generate",
}
"""Technique -> the capability that a model must have for it."""


def check(techniques: Iterable[Technique], able: Iterable[str], spec: str) -> None:
    """UsageError for a technique that needs a capability which the model does not have."""
    able = frozenset(able)
    for technique in techniques:
        if NEEDS[technique] not in able:
            raise UsageError(
                f"technique '{technique}' needs a model that can {NEEDS[technique]}; "
                f"'{spec}' has: {', '.join(sorted(able)) or 'nothing'}"
            )
