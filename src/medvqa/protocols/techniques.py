"""The capabilities that techniques need."""

from __future__ import annotations

from collections.abc import Mapping

from medvqa.items import Technique

NEEDS: Mapping[Technique, str] = {
    "mc": "generate",
    "gd": "option_logprobs",
    "ps": "option_likelihood",
    "ff": "generate",
}
"""Technique -> the capability that a model must have for it."""
