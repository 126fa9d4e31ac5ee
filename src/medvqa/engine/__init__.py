"""Asks a model and scores what it says: item -> Prompt -> Answer -> Score -> Result.

`asking` is one batch or one item; `stream` keeps a model busy with the items that lie ahead.
"""

from medvqa.engine.asking import NEEDS, Failure, Unavailable, ask, attempt, result, scorer
from medvqa.engine.stream import Limits, Stream, Streamed, Upcoming

__all__ = [
    "NEEDS",
    "Failure",
    "Limits",
    "Stream",
    "Streamed",
    "Unavailable",
    "Upcoming",
    "ask",
    "attempt",
    "result",
    "scorer",
]
