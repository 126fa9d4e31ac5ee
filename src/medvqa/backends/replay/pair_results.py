"""MediConfusion's result file: `{pair: {"answer": {"im1": {"full_answer": ...}, "im2": ...}}}`.

https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py
writes it (`sample_eval`, `clean_up_manual`), also with each answer one level deeper, under another "answer".
The ids are PAIR/1 and PAIR/2. With `gpt_reason` (`clean_up_gpt`) the answers are free-form ones, and `A` and `B` how
close a judge found them to the options: they answer the technique ff alone, and as a judge the file replays these
scores. Without it `A` and `B`, and a `logprob` beside them, are not read: they are of the letter that was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from medvqa import tables
from medvqa.backends.replay.recording import FORMATS, UNKNOWN, Harness, Key, Recording
from medvqa.items import Answer, DataError

PAIR = "pair"
"""The column of the keys of the file."""


class _Slot(msgspec.Struct):
    full_answer: str | msgspec.UnsetType | None = msgspec.UNSET
    answer: _Slot | None = None
    gpt_reason: str | msgspec.UnsetType | None = msgspec.UNSET
    A: Any = None
    B: Any = None


class _Slots(msgspec.Struct):
    im1: _Slot
    im2: _Slot


class _Pair(msgspec.Struct):
    answer: _Slots


def read(path: Path, rows: Iterable[tables.TableRow]) -> Recording:
    """The answers of MediConfusion's result file, and its judge's replies, by item.

    The owners keep the judge's scores and reason; the reply is rebuilt in their requested form. Scores of 0 mean that
    the judge could not be reached: such an item has no reply.
    """
    answers: dict[Key, Answer | None] = {}
    closeness: dict[str, str] = {}
    for row in rows:
        slots = row.convert(_Pair, hint=f"; {FORMATS}").answer
        for number, outer in ((1, slots.im1), (2, slots.im2)):
            slot = outer.answer or outer
            name = f"{row.number}/{number}"
            if slot.full_answer is msgspec.UNSET:
                raise row.error(f"no full_answer in im{number}; {FORMATS}")
            # A judge's reason stands beside answers in FF alone; else nothing tells the technique.
            technique = "" if slot.gpt_reason is msgspec.UNSET else "ff"
            # The official code takes null as an answer that names no option, and counts it as invalid.
            answers["", technique, name, "", 0] = Answer(slot.full_answer or "", finish=UNKNOWN)
            if technique == "ff" and (slot.A, slot.B) != (0, 0):
                closeness[name] = f"A: {slot.A}\nB: {slot.B}\nYour explanation: {slot.gpt_reason or ''}"
    if len({technique for _, technique, *_ in answers}) > 1:
        mixed = next(key[2] for key in answers if key[1] != next(iter(answers))[1])
        raise DataError(f"{path}: some answers have a gpt_reason and some have none, the first that differs: {mixed}")
    return Recording(answers, closeness=closeness, harness=Harness("MediConfusion"))
