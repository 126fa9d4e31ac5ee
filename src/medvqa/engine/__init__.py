"""Asks a model: Prompt -> Answer.

`asking` is one batch; `stream` keeps a model busy with the items that lie ahead; `judges` lets another model judge what
it says; `identity` is what a model says of itself.
"""

from medvqa.engine.asking import Failure, Unavailable, ask, attempt
from medvqa.engine.identity import Identity, identify
from medvqa.engine.judges import Judge, Judged, Pending
from medvqa.engine.stream import (
    Limits,
    Memory,
    Recollection,
    Reply,
    Stream,
    Streamed,
    Submitted,
    Ticket,
    Traffic,
    Upcoming,
)

__all__ = [
    "Failure",
    "Identity",
    "Judge",
    "Judged",
    "Limits",
    "Memory",
    "Pending",
    "Recollection",
    "Reply",
    "Stream",
    "Streamed",
    "Submitted",
    "Ticket",
    "Traffic",
    "Unavailable",
    "Upcoming",
    "ask",
    "attempt",
    "identify",
]
