"""results.jsonl of a run folder. As a judge it replays the replies of that run's judge, and no answer of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from medvqa import answers as answers_room
from medvqa import decode
from medvqa.backends.replay.recording import Harness, Key, Recording
from medvqa.items import Answer, DataError
from medvqa.protocols import rotation
from medvqa.tables import json_text, limits


class _ItemId(msgspec.Struct):
    id: str
    benchmark: str = ""
    options: dict[str, str] = {}


class _Judgement(msgspec.Struct):
    template: str
    replies: list[str]
    asked: list[str] = []


class _Result(msgspec.Struct):
    item: _ItemId
    answer: Answer | None
    technique: str = ""
    sample: int = 0
    variant: str = ""
    judgement: _Judgement | None = None


def read(path: Path) -> Recording:
    """The answers of results.jsonl, and replies of a judge by benchmark, item and digest of the prompt."""
    decoder = msgspec.json.Decoder(_Result)
    answers: dict[Key, Answer | None] = {}
    replies: dict[tuple[str, str, str], str] = {}
    with limits.opened(path, str(path)) as file:
        for number, line in json_text.lines(file, str(path), limits.MAX_RESULT):
            try:
                result = _result(decoder, line)
            except decode.ERRORS as error:
                raise DataError(f"{path} line {number}: no result: {error}") from None
            key = (result.item.benchmark, result.technique, result.item.id, result.variant, result.sample)
            answers[key] = _as_given(result)
            if result.judgement is not None:
                for question, reply in zip(result.judgement.asked, result.judgement.replies, strict=False):
                    replies[result.item.benchmark, result.item.id, question] = reply
    return Recording(answers, replies, harness=Harness("medvqa"))


def _as_given(result: _Result) -> Answer | None:
    """Return the answer with log-probabilities by the letters that were shown."""
    return rotation.answer_shown(result.answer, result.item.options, result.variant)


def _result(decoder: msgspec.json.Decoder[_Result], line: bytes) -> _Result:
    if answers_room.IMPOSSIBLE.encode() not in line:
        return decoder.decode(line)
    content = msgspec.json.decode(line, type=dict[str, Any])
    return msgspec.convert({**content, "answer": answers_room.from_json(content.get("answer"))}, _Result)
