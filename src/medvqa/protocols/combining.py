"""Combine the results of one question: its samples and its rotations."""

from __future__ import annotations

from collections.abc import Iterable

from medvqa.items import Result
from medvqa.protocols.protocol import Protocol


def combined(results: Iterable[Result], protocol: Protocol) -> tuple[Result, ...]:
    """Return the results that metrics count, sorted by key: one for each question if the protocol combines answers.

    With `combine="mean"`, metrics average the samples of a question, so the results stay as they are.
    """
    return tuple(results)
