"""The file of a reader study: JSON lines, a study in the first, then one reading or one opinion in each.

A reader's page exports it, `medvqa read import` joins the files of several readers, and `human:FILE` reads it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

VERSION = 1
"""Value of `readings` in the first line."""
MAX_NAME, MAX_TEXT, MAX_READERS = 200, 20_000, 1000
"""Most characters of a code or an id, of a response, comment or reason; most readers of a study."""

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


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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
    `final`: the decision after both reviewers. The other fields are as in `Reading`.
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
