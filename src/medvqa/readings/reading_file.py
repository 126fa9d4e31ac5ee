"""The file of a reader study: JSON lines, a study in the first, then one reading or one opinion in each.

A reader's page exports it, `medvqa read import` joins the files of several readers, and `human:FILE` reads it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from medvqa import decode
from medvqa.items import DataError, of_data
from medvqa.tables import json_text, limits, people

VERSION = 1
"""Value of `readings` in the first line."""
MAX_NAME, MAX_TEXT, MAX_READERS = 200, 20_000, 1000
"""Most characters of a code or an id, of a response, comment or reason; most readers of a study."""
MAX_BYTES = 2**27
"""Bytes of a file: a million readings without comments."""

Task = Literal["answer", "review"]
"""What readers do: answer questions blind, or check questions with their key."""
Decision = Literal["accept", "correct", "reject"]
Arm = Literal["", "without", "with"]
"""Whether a reader saw a model's answer; kept, not analysed."""

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e7)]
_Place = Annotated[int, msgspec.Meta(ge=1, le=10**7)]


class ReaderStudy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first line: what was planned before the first reading.

    `plan`: SHA-256 of the plan and of the questions that it assigns, in hex; "" if there was no plan. `benchmarks`: the
    digests of their questions and images by name, as in run.json. `readers`: the codes of the planned readers.
    `assigned`: code -> number of questions. `margin`: non-inferiority margin of a model against the readers, in points
    of a percentage. `reader`: the code if the file is of one reader, else "".
    """

    readings: Literal[1] = 1
    task: Task = "answer"
    name: _Name = "readings"
    plan: str = ""
    benchmarks: dict[str, str] = {}
    readers: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MAX_READERS)] = ()
    assigned: dict[str, int] = {}
    margin: float | None = None
    reader: str = ""


class ReaderAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reader's answer to one question.

    `response`: letters of options such as "A" or "A,C", or a text. `cannot_tell`: the reader said that it cannot be
    determined; `response` is then "". `score`: from 0 to 1 if people scored the answer elsewhere. `confidence`: 1 to 5.
    `seconds`: the time for which the question was shown. `place` and `sitting` count from 1 in the reader's own order.
    """

    reader: _Name
    benchmark: str
    item: _Name
    response: _Text = ""
    cannot_tell: bool = False
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    confidence: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    seconds: _Seconds | None = None
    comment: _Text = ""
    place: _Place | None = None
    sitting: _Place | None = None
    arm: Arm = ""


class Opinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One expert's opinion of one question.

    `rating`: 1 to 10. A decision "correct" has the corrected `question`, `options` or `answers`; None: unchanged.
    `final`: the decision after both reviewers. The other fields are as in `ReaderAnswer`.
    """

    reader: _Name
    benchmark: str
    item: _Name
    decision: Decision
    rating: Annotated[int, msgspec.Meta(ge=1, le=10)] | None = None
    question: _Text | None = None
    options: dict[str, str] | None = None
    answers: tuple[str, ...] | None = None
    reason: _Text = ""
    final: bool = False
    seconds: _Seconds | None = None
    place: _Place | None = None
    sitting: _Place | None = None


@dataclass(frozen=True, slots=True)
class ReadingColumns:
    """The names of columns by role, as typed: None if a role's column is to be known by its name, "" for no column."""

    id: str | None = None
    reader: str | None = None
    response: str | None = None
    score: str | None = None
    benchmark: str | None = None
    confidence: str | None = None
    seconds: str | None = None
    comment: str | None = None
    arm: str | None = None
    cannot_tell: str | None = None


Line = ReaderAnswer | Opinion
Lines = list[Line]


_USUAL = re.compile(
    r"(?i)(?:reader|reviewer|rater|annotator|senior|junior|primary|resident|attending|fellow|expert|final|student)"
    r"|(?:doctor|radiologist|physician|others?)"
)


def is_personal(code: str) -> bool:
    """Return whether the code of a reader looks like the name or the address of a person, or like a date."""
    return "@" in code or bool(people.suspected(_USUAL.sub("", code).replace(".", " ")))


def parse(content: bytes, name: str) -> tuple[ReaderStudy, Lines]:
    """Return the study and the lines of a file; DataError, which names the line, for anything else.

    A reader may have several equal lines on a question, which count once: of these the last is returned.
    """
    if len(content) > MAX_BYTES:
        raise limits.larger(name, MAX_BYTES)
    study: ReaderStudy | None = None
    placed: list[tuple[str, Line]] = []
    for number, value in json_text.values(io.BytesIO(content), name):
        where = f"{name} line {number}"
        if not isinstance(value, dict):
            raise DataError(f"{where}: no object of JSON")
        if study is None:
            if "readings" not in value:
                raise DataError(
                    f'{where}: no file of readings: the first line begins with {{"readings": {VERSION}, ...'
                )
            study = decode.converted(value, ReaderStudy, where, error=DataError)
            continue
        if len(placed) == limits.MAX_ROWS:
            raise limits.above(where, limits.MAX_ROWS, "readings")
        kind: type[Line] = ReaderAnswer if study.task == "answer" else Opinion
        placed.append((where, decode.converted(value, kind, where, error=DataError)))
    if study is None:
        raise DataError(f"{name}: empty file; a file of readings has its study in the first line")
    return study, once(placed)


def first_line(study: ReaderStudy) -> dict[str, object]:
    """Return the object of the first line; `readings` stands in it though it is a default."""
    fields: dict[str, object] = msgspec.to_builtins(study)
    return {"readings": VERSION, **fields}


def encode(study: ReaderStudy, lines: Iterable[Line]) -> bytes:
    """Return the content of a file."""
    return b"".join(msgspec.json.encode(one) + b"\n" for one in (first_line(study), *lines))


def once(placed: Iterable[tuple[str, Line]]) -> Lines:
    """Return lines of one or several files, each reader once on a question, in the order of their first lines.

    DataError, which begins with the place of a line, for a line that contradicts itself or an earlier one.
    """
    kept: dict[tuple[object, ...], tuple[str, Line]] = {}
    for where, line in placed:
        final = isinstance(line, Opinion) and line.final
        key = line.reader, line.benchmark, line.item, final
        if problem := _problem(line):
            raise DataError(f"{where}: {problem}")
        if key in kept and _said(kept[key][1]) != _said(line):
            reader, item = of_data(repr(line.reader)), of_data(repr(line.item))
            raise DataError(
                f"{where}: reader {reader} has another {'opinion' if isinstance(line, Opinion) else 'answer'} to "
                f"{item} than in {kept[key][0]}; keep one of them"
            )
        kept[key] = where, line
    return [line for _, line in kept.values()]


def joined(files: Sequence[tuple[str, ReaderStudy, Lines]]) -> tuple[ReaderStudy, Lines]:
    """Return the files of one study (name, study, lines) as one, its lines as by `once` (DataError).

    Files with a plan must have the same; a table has none and goes with any.
    """
    name, first, _ = next((one for one in files if one[1].plan), files[0])
    for other, study, _ in files:
        if study.task != first.task or (study.plan and study.plan != first.plan):
            raise DataError(f"{other}: of another study than {name}: join the files of each study by themselves")
    lines = once((file, line) for file, _, listed in files for line in listed)
    readers = first.readers if first.plan else tuple(sorted({line.reader for line in lines}))
    return msgspec.structs.replace(first, readers=readers, reader=""), lines


def _said(line: Line) -> tuple[object, ...]:
    """What a line says of its question, without times, places and comments."""
    if isinstance(line, ReaderAnswer):
        return line.response.strip(), line.cannot_tell, line.score, line.arm
    return line.decision, line.rating, line.question, line.options, line.answers


def _problem(line: Line) -> str:
    """Why a line contradicts itself; "" if it does not."""
    if not line.reader.strip():
        return "no reader: give the reader's code, such as R1"
    if isinstance(line, ReaderAnswer) and bool(line.response) + line.cannot_tell + (line.score is not None) > 1:
        return "more than one of a response, a score by people and cannot_tell; keep one of them"
    return ""
