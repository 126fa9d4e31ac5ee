"""Logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html): `.eval`, a ZIP archive, and JSON.

Written so by inspect-ai 0.3.285: `header.json` and a member `samples/ID_epoch_N.json` for each question, or one object
with `eval`, `plan` and `samples`. A text may stand in `attachments`. An id that Inspect gave itself counts the samples
from 1, and is no id: one is then read from the metadata of the sample, else the question is found by its text and
choices.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from medvqa.backends.replay import zip_members
from medvqa.backends.replay.logged_json import decoded
from medvqa.backends.replay.recording import (
    UNKNOWN,
    AnswerColumns,
    Entry,
    Harness,
    Recording,
    collected,
    id_in,
    missing,
    score_of,
)
from medvqa.items import Answer, DataError
from medvqa.tables import limits, text_of, whole

HEADER = "header.json"
_JOURNAL = "_journal/start.json"
MAX_UNPACKED = 2**34
"""Bytes of all members, unpacked: 26,000 samples of 600 kB. They are read one after another."""
_SAMPLE = re.compile(r"samples/[^/]+_epoch_\d+\.json")
_ATTACHMENT = "attachment://"
_FINISH = {"max_tokens": "length", "model_length": "length", "content_filter": "refusal"}
"""Words of Inspect for the end of an answer that have another name here."""


class _Dataset(msgspec.Struct):
    name: str | None = None
    samples: int | None = None


class _Named(msgspec.Struct):
    name: str = ""
    solver: str = ""
    params: Any = None


class _Config(msgspec.Struct):
    epochs: int | None = None


class _Eval(msgspec.Struct):
    task: str = ""
    model: str = ""
    dataset: _Dataset = msgspec.field(default_factory=_Dataset)
    config: _Config = msgspec.field(default_factory=_Config)
    packages: dict[str, str] = {}
    scorers: list[_Named] | None = None


class _Plan(msgspec.Struct):
    steps: list[_Named] = []


class _LoggedMessage(msgspec.Struct):
    role: str = ""
    content: Any = ""


class _LoggedChoice(msgspec.Struct):
    message: _LoggedMessage
    stop_reason: str = ""


class _Output(msgspec.Struct):
    choices: list[_LoggedChoice] = []


class _Score(msgspec.Struct):
    value: Any = None


class _Sample(msgspec.Struct):
    id: str | int
    input: str | list[_LoggedMessage]
    epoch: int = 1
    choices: list[str] | None = None
    output: _Output = msgspec.field(default_factory=_Output)
    scores: dict[str, _Score] | None = None
    metadata: dict[str, Any] = {}
    attachments: dict[str, str] = {}
    error: Any = None

    def text(self, content: object) -> str:
        """Return the text of a message's content, without pictures; it may stand in the attachments."""
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
            return "\n".join(self.text(part) for part in parts)
        text = content if isinstance(content, str) else ""
        return self.attachments.get(text.removeprefix(_ATTACHMENT), text) if text.startswith(_ATTACHMENT) else text


class _Start(msgspec.Struct):
    eval: _Eval
    plan: _Plan = msgspec.field(default_factory=_Plan)


class _Log(_Start):
    samples: list[_Sample] | None = None


def is_archive(archive: zipfile.ZipFile) -> bool:
    """Return whether a ZIP archive is a log of Inspect."""
    return not {HEADER, _JOURNAL}.isdisjoint(archive.namelist())


def read_archive(path: Path, columns: AnswerColumns) -> Recording:
    """Return the answers of an `.eval` file; one of a run that was cut off has no header, but a journal.

    DataError with the member for a damaged file, or one above a limit; UsageError if zstandard is needed and missing.
    """
    with limits.opened(path, str(path)) as file, zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        if len(members) > limits.MAX_ROWS:
            raise limits.above(str(path), limits.MAX_ROWS, "members")
        if sum(member.file_size for member in members.values()) > MAX_UNPACKED:
            raise limits.above(str(path), MAX_UNPACKED, "bytes when unpacked")

        def content(name: str) -> bytes:
            return zip_members.content(archive, file, members[name], f"{path} {name}")

        first = HEADER if HEADER in members else _JOURNAL
        start = decoded(content(first), f"{path} {first}", _Start)
        names = [name for name in members if _SAMPLE.fullmatch(name)]
        samples = ((name, decoded(content(name), f"{path} {name}", _Sample)) for name in names)
        return _recording(path, start, samples, columns)


def read_document(path: Path, content: bytes, columns: AnswerColumns) -> Recording:
    """Return the answers of a log in JSON (DataError)."""
    log = decoded(content, f"{path}: no log of Inspect", _Log)
    samples = ((f"sample {number}", sample) for number, sample in enumerate(log.samples or (), 1))
    return _recording(path, log, samples, columns)


def _recording(path: Path, start: _Start, samples: Iterable[tuple[str, _Sample]], columns: AnswerColumns) -> Recording:
    solvers = [step.solver.rpartition("/")[2] for step in start.plan.steps]
    harness = Harness(
        "Inspect",
        start.eval.packages.get("inspect_ai", ""),
        start.eval.model,
        start.eval.task,
        ", ".join(solvers),
        # The first one's scores are read.
        start.eval.scorers[0].name if start.eval.scorers else "",
    )
    # The solver asks for a letter; others tell nothing of how the question was put.
    technique = "mc" if "multiple_choice" in solvers else ""
    recording = collected(_entries(path, start.eval, technique, samples, columns), harness)
    if not recording.answers and not recording.unplaced:
        raise DataError(f"{path}: a log of Inspect without samples; log them: inspect eval without --no-log-samples")
    return recording


def _entries(
    path: Path, run: _Eval, technique: str, samples: Iterable[tuple[str, _Sample]], columns: AnswerColumns
) -> Iterator[Entry]:
    held = 0
    for place, sample in samples:
        where = f"{path} {place}"
        question = sample.input if columns.question != "" else ""
        if not isinstance(question, str):
            of_user = [message.content for message in question if message.role == "user"]
            question = sample.text(of_user[-1]) if of_user else ""
        question, answer = sample.text(question), _answer(sample, columns, where)
        # They stay in memory, and a small archive may unpack to any number of them.
        held += len(question) + (len(answer.text) if answer else 0) + sum(map(len, sample.choices or ()))
        if held > limits.MAX_UNPACKED:
            raise limits.above(where, limits.MAX_UNPACKED, "characters of questions and answers")
        score = next(iter((sample.scores or {}).values()), None)
        yield Entry(
            where,
            place,
            _id(sample, run, columns, where),
            answer,
            technique=technique,
            sample=sample.epoch if (run.config.epochs or 1) > 1 else 0,
            question=question,
            options=tuple(sample.choices or ()),
            their_score=None if score is None else score_of(score.value),
        )


def _id(sample: _Sample, run: _Eval, columns: AnswerColumns, where: str) -> str:
    """The question's id: the typed field, else the sample's, unless it counts samples, else one of its metadata."""
    if columns.id is not None:
        return _field(sample, columns.id, "id", where) if columns.id.strip() else ""
    counts = isinstance(sample.id, int) and 1 <= sample.id <= (run.dataset.samples or 0)
    return id_in([sample.metadata if counts else {"id": str(sample.id)}])


def _answer(sample: _Sample, columns: AnswerColumns, where: str) -> Answer | None:
    if columns.response:
        return Answer(_field(sample, columns.response, "response", where), finish=UNKNOWN)
    if not sample.output.choices:
        return None
    choice = sample.output.choices[0]
    finish = _FINISH.get(choice.stop_reason, choice.stop_reason)
    return Answer(sample.text(choice.message.content), finish=UNKNOWN if finish == "unknown" else finish)


def _field(sample: _Sample, typed: str, role: str, where: str) -> str:
    """The text of a field such as `id` or `metadata.question_id` (UsageError)."""
    name = typed.strip()
    value: object = sample.metadata.get(name.removeprefix("metadata."))
    if name == "id":
        value = sample.id
    if not (text := text_of(value)):
        raise missing(role, typed, where, ["id", *(f"metadata.{name}" for name in sample.metadata)])
    return whole(text.strip())
