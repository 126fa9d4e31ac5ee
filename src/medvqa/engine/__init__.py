"""Asks a model and scores what it says: item -> Prompt -> Answer -> Score -> Result.

`asking` is one batch or one item; `stream` keeps a model busy with the items that lie ahead.
"""

from medvqa.engine.asking import NEEDS, Failure, Unavailable, ask, attempt, rescored, result, scorer
from medvqa.engine.stream import Limits, Memory, Recollection, Reply, Stream, Streamed, Upcoming

__all__ = [
    "NEEDS",
    "Failure",
    "Limits",
    "Memory",
    "Recollection",
    "Reply",
    "Stream",
    "Streamed",
    "Unavailable",
    "Upcoming",
    "ask",
    "attempt",
    "rescored",
    "result",
    "scorer",
]
