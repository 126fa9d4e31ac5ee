"""The shipped backends, one file or package each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medvqa.backend import Backend


def pytest_medvqa_backends() -> Sequence[type[Backend]]:
    """Return the backends; one that needs an extra says so when it is used."""
    # Import lazily: registering this plugin must cost nothing.
    from medvqa.backends.baselines import Echo, Majority, Random
    from medvqa.backends.hf import HF
    from medvqa.backends.human import Human
    from medvqa.backends.openai import OpenAI
    from medvqa.backends.ray import Ray
    from medvqa.backends.replay import Replay
    from medvqa.backends.serve import Serve
    from medvqa.backends.vllm import VLLM

    return [Replay, Human, Random, Majority, Echo, OpenAI, HF, VLLM, Ray, Serve]
