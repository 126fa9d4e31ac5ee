"""Ask a model: Prompt -> Answer.

`asking` asks one batch; `stream` keeps a model busy with upcoming items; `judges` asks a judge about the answers.
"""

from medvqa.engine.asking import Failure, Unavailable, ask, attempt
from medvqa.engine.judges import Judge, JudgedAnswer, JudgeReplies, Pending
from medvqa.engine.stream import (
    FAREWELL,
    KILLS,
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
    "KILLS",
    "AnswerMemory",
    "Failure",
    "Judge",
    "JudgeReplies",
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
]
