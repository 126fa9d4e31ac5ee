"""Asks a model and scores what it says: item -> Prompt -> Answer -> Score -> Result.

`rules` says how answers are read; `asking` is one batch or one item; `stream` keeps a model busy with the items that
lie ahead; `judges` lets another model judge what it says; `identity` is what a model says of itself.
"""

from medvqa.engine import rules
from medvqa.engine.asking import NEEDS, Failure, Unavailable, ask, attempt, by_rule, led_by, rescored, result
from medvqa.engine.identity import Identity, identify
from medvqa.engine.judges import Judge, Judged, Pending
from medvqa.engine.rules import scorer
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
    "NEEDS",
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
    "by_rule",
    "identify",
    "led_by",
    "rescored",
    "result",
    "rules",
    "scorer",
]
