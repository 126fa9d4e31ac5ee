"""Recorded answers as a model: `replay:FILE`. The format is read from the content, not from the file's name.

- MediConfusion's result file, `{pair: {"answer": {"im1": {"full_answer": ...}, "im2": ...}}}`, as
  https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py
  writes it (`sample_eval`, `clean_up_manual`), also with each answer one level deeper, under another "answer".
  The ids are PAIR/1 and PAIR/2. With `gpt_reason` (`clean_up_gpt`) the answers are free-form ones, and `A` and `B` how
  close a judge found them to the options: they answer the technique ff alone, and as a judge the file replays these
  scores. Without it `A` and `B`, and a `logprob` beside them, are not read: they are of the letter that was said.
- Rows with an index and a prediction, as VLMEvalKit writes them
  (https://github.com/open-compass/VLMEvalKit/blob/0044c573821b996d6fe051a8804500bcf25d5a67/vlmeval/inference.py):
  a table (TSV, CSV, XLSX), a JSON array or JSON lines.
- Rows with an id and a response, in the same containers; they may tell the benchmark and the technique.
- Rows of either kind may say how the answer ended, as `finish` or `finish_reason`: "length" for one that was cut off.
- results.jsonl of a run folder. As a judge it replays the replies of that run's judge, and no answer of its model.

Column and field names are matched case-insensitively. Files are hostile input: sizes are limited and nothing
in them is evaluated.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from medvqa import answers as answers_room
from medvqa import files
from medvqa.backend import Backend
from medvqa.data import sheets
from medvqa.data.sheets import Row
from medvqa.items import TECHNIQUES, Answer, AnswerError, DataError, DataWarning, Item, MedVQAError, Prompt, UsageError
from medvqa.judging import RECORDED, TASKS, as_shown
from medvqa.protocols.prompts import digest

Key = tuple[str, str, str, int]
"""Benchmark, technique and id of an item, and the number of the sample: "" and 0 where the file does not tell."""

FORMATS = (
    "a replay file is MediConfusion's result JSON, a table (TSV, CSV, XLSX) or JSON (lines) with index and "
    "prediction, or with id and response, or results.jsonl of a run folder"
)

MAX_DOCUMENT = 2**28
"""Bytes of one JSON document, which is held in memory; JSON lines are not."""
UNKNOWN = ""
"""How an answer ended where a file does not say."""

_BOM = b"\xef\xbb\xbf"
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_FAILED = "Failed to obtain answer"  # what VLMEvalKit records as the prediction when a request failed


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


class _ItemId(msgspec.Struct):
    id: str
    benchmark: str = ""


class _Judgement(msgspec.Struct):
    template: str
    replies: list[str]
    asked: list[str] = []


class _Result(msgspec.Struct):
    item: _ItemId
    answer: Answer | None
    technique: str = ""
    sample: int = 0
    judgement: _Judgement | None = None


_JUDGING = frozenset(f"judging/{task}" for task in TASKS)
"""Templates of the prompts of judges, without their digests."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """What a file holds: answers, and where a judge was asked, its replies or how close it found answers to options.

    `digest` is the SHA-256 of the file in hex, `repeat` the number of samples of each answer, 0 for no samples.
    """

    digest: str
    answers: Mapping[Key, Answer | None]
    repeat: int
    replies: Mapping[tuple[str, str, str], str] | None
    closeness: Mapping[str, str]


class Replay(Backend):
    """`replay:FILE`: the recorded answer to each item; AnswerError for an item without one."""

    capabilities = frozenset({"generate", "option_logprobs", "option_likelihood"})
    sends_to = None
    recorded = True
    argument_is_path = True

    @property
    def title(self) -> str:
        """The file without its folder."""
        return f"replay:{self._path.name}" if self.argument else "replay"

    @property
    def _path(self) -> Path:
        return Path(self.argument)

    @cached_property
    def _recording(self) -> _Recording:
        """The file, read once. UsageError when there is none, DataError when it is none of the formats."""
        argument, path = self.argument, self._path
        if not argument:
            raise UsageError("--model=replay: replay needs a file of recorded answers: --model=replay:FILE")
        if os.path.isdir(argument):
            raise UsageError(f"--model=replay:{argument}: a folder; a run's answers are in its results.jsonl")
        if not os.path.isfile(argument):
            raise UsageError(f"--model=replay:{argument}: no such file")
        if path.stat().st_size > sheets.MAX_BYTES:
            raise DataError(f"{path}: larger than {sheets.MAX_BYTES} bytes")
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"--model=replay:{argument}: cannot be read: {error.strerror}") from None
        read = read_answers(path)
        repeat = max(sample for *_, sample in read)
        return _Recording(digest, read, repeat, read_replies(path), read_closeness(path))

    def judged(self) -> bool:
        """Whether the answers are free-form ones, recorded with the scores of a judge; False for no such file."""
        try:
            return bool(self._recording.closeness)
        except (MedVQAError, OSError):
            # `check` tells what is wrong with it.
            return False

    def check(self) -> None:
        """Raise UsageError or DataError for a file that cannot be used."""
        _ = self._recording

    def load(self) -> None:
        """Read the file, unless that is done."""
        self.check()

    def draws(self) -> bool:
        """Whether samples were recorded, those of a run that repeated its questions."""
        return self._recording.repeat > 0

    def samples(self) -> int:
        """How many samples of each answer were recorded, 0 where there are answers without a number.

        DataError or UsageError for a file that cannot be used.
        """
        recorded = self._recording
        return recorded.repeat if all(sample for *_, sample in recorded.answers) else 0

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file in hex."""
        return self._recording.digest

    def fit(self, items: Iterable[Item]) -> None:
        """Warn (DataWarning) of answers to items that the run's benchmarks do not have."""
        unknown = self._unknown_ids(items)
        if unknown:
            shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            answers = "1 answer to an item" if len(unknown) == 1 else f"{len(unknown)} answers to items"
            message = f"{self._path} has {answers} not in the benchmarks of this run: {shown}"
            warnings.warn(message, DataWarning, stacklevel=2)

    def _unknown_ids(self, items: Iterable[Item]) -> list[str]:
        """Return the ids in the file's order that none of the items has.

        Answers that the file assigns to a benchmark without items are left out: a run need not take all
        benchmarks that were recorded.
        """
        known = {(item.benchmark, item.id) for item in items}
        benchmarks = {benchmark for benchmark, _ in known}
        known |= {("", item_id) for _, item_id in known}
        benchmarks.add("")
        return [
            item_id
            for benchmark, _, item_id, _ in self._recording.answers
            if benchmark in benchmarks and (benchmark, item_id) not in known
        ]

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Look up each prompt by benchmark, technique and item, as far as the file tells them."""
        return [self._answer(prompt) for prompt in prompts]

    def _score(self, prompt: Prompt) -> Answer | AnswerError:
        """The recorded reply of a judge to an answer of this file, if that is what the prompt shows."""
        answer = self._recording.answers.get(("", "ff", prompt.item, 0))
        reply = self._recording.closeness.get(prompt.item)
        if reply is None or answer is None:
            return AnswerError(f"{self._path} has no scores of a judge for {prompt.item}")
        if as_shown(answer.text) not in prompt.text:
            return AnswerError(f"{self._path} has the scores of a judge for {prompt.item}, but for another answer")
        return Answer(reply)

    def _answer(self, prompt: Prompt) -> Answer | AnswerError:
        if prompt.template == f"{RECORDED}/closeness":
            return self._score(prompt)
        replies, answers = self._recording.replies, self._recording.answers
        if replies is not None and prompt.template.partition("@")[0] in _JUDGING:
            reply = replies.get((prompt.benchmark, prompt.item, digest(prompt)))
            if reply is not None:
                return Answer(reply, finish=UNKNOWN)
            return AnswerError(f"{self._path} has no reply of a judge to {prompt.template} about {prompt.item}")
        for benchmark in (prompt.benchmark, ""):
            for technique in (prompt.technique, ""):
                key = (benchmark, technique, prompt.item, prompt.sample)
                if key in answers:
                    answer = answers[key]
                    if answer is None:
                        return AnswerError(f"{self._path} has no answer for {prompt.item}: none was recorded")
                    return answer
        if any((b, t, prompt.item, 1) in answers for b in (prompt.benchmark, "") for t in (prompt.technique, "")):
            which = f"sample {prompt.sample} of {prompt.item}" if prompt.sample else prompt.item
            repeat = self._recording.repeat
            return AnswerError(
                f"{self._path} has no answer for {which}: it was recorded with --repeat={repeat}; ask so"
            )
        first = " ".join(str(part) for part in next(iter(answers)) if part)
        return AnswerError(
            f"{self._path} has no answer for {prompt.item}; asked: {prompt.benchmark} {prompt.technique} "
            f"{prompt.item}, first of {len(answers)} recorded: {first}"
        )


def read_answers(path: Path) -> dict[Key, Answer | None]:
    """Read recorded answers in any of the formats; None stands for an item that got no answer.

    Raises DataError, with the row where there is one, for a file that is empty, truncated or none of the
    formats, and for two answers to one item. In results.jsonl the last line for an item counts.
    """
    with path.open("rb") as file:
        start = file.read(4096).removeprefix(_BOM).lstrip()
    if not start:
        raise DataError(f"{path} is empty; {FORMATS}")
    if start.startswith(b"PK\x03\x04"):
        answers = _collect(path, "row", _rows(path, sheets.workbook(path, FORMATS)))
    elif start.startswith((b"{", b"[")):
        answers = _read_json(path)
    else:
        answers = _collect(path, "row", _rows(path, sheets.table(path, FORMATS)))
    if not answers:
        raise DataError(f"{path} holds no answers; {FORMATS}")
    return answers


def read_replies(path: Path) -> dict[tuple[str, str, str], str] | None:
    """Replies of a judge in results.jsonl by benchmark, item and digest of the prompt; None where a file is none."""
    with path.open("rb") as file:
        first = file.readline(sheets.MAX_BYTES).removeprefix(_BOM)
    try:
        names = msgspec.json.decode(first, type=dict[str, msgspec.Raw]).keys()
    except _JSON_ERRORS:
        return None
    if not {"item", "answer"} <= names or _pair_of_names(name.lower() for name in names):
        return None
    decoder = msgspec.json.Decoder(_Result)
    replies: dict[tuple[str, str, str], str] = {}
    for _, line in _lines(path):
        result = _result(decoder, line)
        if result.judgement is not None:
            for asked, reply in zip(result.judgement.asked, result.judgement.replies, strict=False):
                replies[result.item.benchmark, result.item.id, asked] = reply
    return replies


def _read_json(path: Path) -> dict[Key, Answer | None]:
    lines = (line for _, line in _lines(path))
    first, second = next(lines), next(lines, None)
    try:
        names = msgspec.json.decode(first, type=dict[str, msgspec.Raw]).keys()
    except _JSON_ERRORS:
        return _read_document(path)
    if _pair_of_names(name.lower() for name in names):
        return _collect(path, "line", _json_rows(path))
    if {"item", "answer"} <= names:
        return _read_results(path)
    return _read_document(path) if second is None else _collect(path, "line", _json_rows(path))


def _read_document(path: Path) -> dict[Key, Answer | None]:
    if path.stat().st_size > MAX_DOCUMENT:
        raise DataError(f"{path}: larger than {files.size(MAX_DOCUMENT)}; write JSON lines")
    content = files.read(path, MAX_DOCUMENT).removeprefix(_BOM)
    try:
        document = msgspec.json.decode(content, type=dict[str, msgspec.Raw] | list[object])
    except _JSON_ERRORS as error:
        raise DataError(f"{path} is neither a JSON document nor JSON lines: {error}; {FORMATS}") from None
    _check_keys(content, f"{path}")
    if isinstance(document, list):
        return _collect(path, "record", _records(path, document))
    return _read_mediconfusion(path, document)


def _records(path: Path, document: Sequence[object]) -> Iterator[Row]:
    for number, record in enumerate(document, 1):
        yield number, _lower(record, f"{path}: record {number}")


def _read_mediconfusion(path: Path, document: Mapping[str, msgspec.Raw]) -> dict[Key, Answer | None]:
    decoder = msgspec.json.Decoder(_Pair)
    answers: dict[Key, Answer | None] = {}
    for pair, raw in document.items():
        try:
            slots = decoder.decode(raw).answer
        except _JSON_ERRORS as error:
            raise DataError(f"{path}: {pair!r} is no pair of a MediConfusion result: {error}; {FORMATS}") from None
        for number, slot in ((1, slots.im1), (2, slots.im2)):
            text = (slot.answer or slot).full_answer
            if text is msgspec.UNSET:
                raise DataError(f"{path}: pair {pair!r} has no full_answer in im{number}; {FORMATS}")
            # The official code takes null as an answer that names no option, and counts it as invalid.
            answers["", _technique(slot), f"{pair}/{number}", 0] = Answer(text or "", finish=UNKNOWN)
    if len({technique for _, technique, _, _ in answers}) > 1:
        mixed = next(key[2] for key in answers if key[1] != next(iter(answers))[1])
        raise DataError(f"{path}: some answers have a gpt_reason and some have none, the first that differs: {mixed}")
    return answers


def _technique(slot: _Slot) -> str:
    """FF where a judge's reason stands beside an answer, "" where nothing tells."""
    return "" if (slot.answer or slot).gpt_reason is msgspec.UNSET else "ff"


def read_closeness(path: Path) -> dict[str, str]:
    """What the judge of a MediConfusion result file replied, by item; {} for files without a judge.

    The owners keep its scores and its reason. The reply is put together again in the form that they ask for. Scores of
    0 stand for a judge that could not be reached: such an item is left out.
    """
    content = path.read_bytes().removeprefix(_BOM)
    if b'"gpt_reason"' not in content or not content.lstrip().startswith(b"{"):
        return {}
    try:
        pairs = msgspec.json.decode(content, type=dict[str, _Pair])
    except _JSON_ERRORS:
        return {}
    found: dict[str, str] = {}
    for pair, result in pairs.items():
        for number, outer in ((1, result.answer.im1), (2, result.answer.im2)):
            slot = outer.answer or outer
            if _technique(slot) == "ff" and (slot.A, slot.B) != (0, 0):
                found[f"{pair}/{number}"] = f"A: {slot.A}\nB: {slot.B}\nYour explanation: {slot.gpt_reason or ''}"
    return found


def _read_results(path: Path) -> dict[Key, Answer | None]:
    decoder = msgspec.json.Decoder(_Result)
    answers: dict[Key, Answer | None] = {}
    for number, line in _lines(path):
        try:
            result = _result(decoder, line)
        except _JSON_ERRORS as error:
            raise DataError(f"{path}: line {number} is no result: {error}") from None
        answers[result.item.benchmark, result.technique, result.item.id, result.sample] = result.answer
    return answers


def _result(decoder: msgspec.json.Decoder[_Result], line: bytes) -> _Result:
    if answers_room.IMPOSSIBLE.encode() not in line:
        return decoder.decode(line)
    content = msgspec.json.decode(line, type=dict[str, Any])
    return msgspec.convert({**content, "answer": answers_room.from_json(content.get("answer"))}, _Result)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removeprefix(_BOM).strip() if number == 1 else line.strip()
            if content:
                yield number, content


def _json_rows(path: Path) -> Iterator[Row]:
    decoder = msgspec.json.Decoder()
    for number, line in _lines(path):
        try:
            row = decoder.decode(line)
        except _JSON_ERRORS as error:
            raise DataError(f"{path}: line {number} is not JSON: {error}") from None
        # Each member has a colon: a line without further ones needs no second, slower look.
        if isinstance(row, dict) and line.count(b":") > len(row):
            _check_keys(line, f"{path}: line {number}")
        yield number, _lower(row, f"{path}: line {number}")


def _check_keys(content: bytes, where: str) -> None:
    """Raise DataError for JSON with two values under one key, of which msgspec keeps the last and says nothing."""
    try:
        json.loads(content.decode(errors="replace"), object_pairs_hook=lambda members: sheets.once(members, where))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON: {error}") from None


def _lower(record: object, where: str) -> Mapping[str, object]:
    """Return the fields of a record under their names in lower case; {} for what is no object.

    `_entry` reports a record without fields, with the number of its row.
    """
    if not isinstance(record, dict):
        return {}
    fields = {name.lower(): value for name, value in record.items()}
    return fields if len(fields) == len(record) else sheets.once([(k.lower(), v) for k, v in record.items()], where)


def _rows(path: Path, table: Iterator[Sequence[object]]) -> Iterator[Row]:
    """Name the cells of a table by its first row, which must have a pair of names that is known."""

    def check(names: Sequence[str]) -> None:
        if not _pair_of_names(names):
            raise DataError(f"{path}: the columns are {', '.join(names)[:200]}; {FORMATS}")

    return sheets.named(path, table, check)


def _collect(path: Path, unit: str, rows: Iterable[Row]) -> dict[Key, Answer | None]:
    answers: dict[Key, Answer | None] = {}
    numbers: dict[Key, int] = {}
    for number, row in rows:
        try:
            key, answer = _entry(row)
        except ValueError as error:
            raise DataError(f"{path}: {unit} {number}: {error}") from None
        if key in answers:
            raise DataError(f"{path}: {unit}s {numbers[key]} and {number} both answer {key[2]}; keep one of them")
        answers[key], numbers[key] = answer, number
    return answers


def _entry(row: Mapping[str, object]) -> tuple[Key, Answer | None]:
    """Read one row; ValueError says what is wrong with it."""
    names = _pair_of_names(row)
    if names is None:
        found = ", ".join(row)[:200] or "none"
        raise ValueError(f"neither index and prediction nor id and response among the fields; found: {found}")
    id_name, text_name = names
    item_id = sheets.identifier(row, id_name)
    text = None if row[text_name] is None else sheets.text(row, text_name)
    finish = UNKNOWN
    if "finish" in row or "finish_reason" in row:
        finish = sheets.text(row, "finish") or sheets.text(row, "finish_reason")
    if text_name == "prediction":
        return ("", "", item_id, 0), None if text is None or text.startswith(_FAILED) else Answer(text, finish=finish)
    technique = sheets.text(row, "technique")
    if technique and technique not in TECHNIQUES:
        raise ValueError(f"no technique {technique!r}; known: {', '.join(TECHNIQUES)}")
    return (sheets.text(row, "benchmark"), technique, item_id, 0), None if text is None else Answer(text, finish=finish)


def _pair_of_names(names: Iterable[str]) -> tuple[str, str] | None:
    found = set(names)
    for pair in (("index", "prediction"), ("id", "response")):
        if found.issuperset(pair):
            return pair
    return None
