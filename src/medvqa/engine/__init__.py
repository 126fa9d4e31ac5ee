"""Asks a model: Prompt -> Answer.

`asking` is one batch; `stream` keeps a model busy with the items that lie ahead; `judges` lets another model judge what
it says; `identity` is what a model says of itself.
"""

from medvqa.engine.asking import Failure, Unavailable, ask, attempt
from medvqa.engine.identity import Identity, identify
from medvqa.engine.judges import Judge, JudgedAnswer, Pending
from medvqa.engine.stream import (
    FAREWELL,
    AnswerMemory,
    Limits,
    Lookahead,
    Recollection,
    Reply,
    Stream,
    Streamed,
    Submitted,
    Ticket,
    Traffic,
)

__all__ = [
    "FAREWELL",
    "AnswerMemory",
    "Failure",
    "Identity",
    "Judge",
    "JudgedAnswer",
    "Limits",
    "Lookahead",
    "Pending",
    "Recollection",
    "Reply",
    "Stream",
    "Streamed",
    "Submitted",
    "Ticket",
    "Traffic",
    "Unavailable",
    "ask",
    "attempt",
    "identify",
]
