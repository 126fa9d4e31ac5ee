"""What a technique needs of a model."""

from __future__ import annotations

from collections.abc import Mapping

from medvqa.items import Technique

NEEDS: Mapping[Technique, str] = {
    "mc": "generate",
    "gd": "option_logprobs",
    "ps": "option_likelihood",
    "ff": "generate",
}
"""The capability that a model must have for a technique."""
