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
- Rows with an id and a response, in the same containers; they may tell the benchmark, the technique and the variant.
- Rows of either kind may say how the answer ended, as `finish` or `finish_reason`: "length" for one that was cut off.
- results.jsonl of a run folder. As a judge it replays the replies of that run's judge, and no answer of its model.

Column and field names are matched case-insensitively. Files are hostile input: sizes are limited and nothing
in them is evaluated.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain, product
from pathlib import Path
from typing import Any

import msgspec

from medvqa import answers as answers_room
from medvqa import decode, tables
from medvqa.backend import Backend
from medvqa.items import (
    TECHNIQUES,
    Answer,
    AnswerError,
    DataError,
    DataWarning,
    Item,
    MedVQAError,
    Prompt,
    UsageError,
)
from medvqa.judging import RECORDED, TASKS, as_shown
from medvqa.protocols import rotation
from medvqa.protocols.prompts import digest
from medvqa.tables import json_text, limits

Key = tuple[str, str, str, str, int]
"""Benchmark, technique, item id, variant and sample number; "" and 0 if the file does not say."""

FORMATS = (
    "a replay file is MediConfusion's result JSON, a table (TSV, CSV, XLSX) or JSON (lines) with index and "
    "prediction, or with id and response, or results.jsonl of a run folder"
)

_NAMES = (("index", "prediction"), ("id", "response"))
"""Column names of an item's id and its answer."""
_PAIR = "pair"
"""The column of the keys of MediConfusion's result file."""
UNKNOWN = ""
"""The `finish` of an answer if the file does not say."""

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


_JUDGING = frozenset(f"judging/{task}" for task in TASKS)
"""Templates of the prompts of judges, without their digests."""


@dataclass(frozen=True)
class _Recording:
    """The content of a file; None for an item without an answer.

    `replies`: a judge's replies in results.jsonl, None for other files. `closeness`: those of MediConfusion's file.
    """

    answers: Mapping[Key, Answer | None]
    replies: Mapping[tuple[str, str, str], str] | None = None
    closeness: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    """SHA-256 of the file in hex."""

    @cached_property
    def variants(self) -> frozenset[str]:
        """The variants that the file has answers in."""
        return frozenset(variant for *_, variant, _ in self.answers)

    @cached_property
    def repeat(self) -> int:
        """The number of samples per answer, 0 without samples."""
        return max(sample for *_, sample in self.answers)


class Replay(Backend):
    """`replay:FILE`: the recorded answer to each item; AnswerError for an item without one."""

    capabilities = frozenset({"generate", "option_logprobs", "option_likelihood"})
    sends_to = None
    looks = False
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
        """The file, read once. UsageError if it does not exist, DataError if it has no known format."""
        argument, path = self.argument, self._path
        if not argument:
            raise UsageError("--model=replay: replay needs a file of recorded answers: --model=replay:FILE")
        if os.path.isdir(argument):
            raise UsageError(f"--model=replay:{argument}: a folder; a run's answers are in its results.jsonl")
        if not os.path.isfile(argument):
            raise UsageError(f"--model=replay:{argument}: no such file")
        if path.stat().st_size > limits.MAX_BYTES:
            raise limits.larger(str(path), limits.MAX_BYTES)
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"--model=replay:{argument}: cannot be read: {error.strerror}") from None
        return _recorded(path, digest)

    def judged(self) -> bool:
        """Whether the answers are free-form ones with a judge's scores; False if the file is unusable."""
        try:
            return bool(self._recording.closeness)
        except (MedVQAError, OSError):
            # `check` reports the error.
            return False

    def check(self) -> None:
        """Raise UsageError or DataError for a file that cannot be used."""
        _ = self._recording

    def draws(self) -> bool:
        """Whether the file holds numbered samples of a repeated run."""
        return self._recording.repeat > 0

    def samples(self) -> int:
        """The number of recorded samples per answer, 0 if some answers have no sample number.

        DataError or UsageError for a file that cannot be used.
        """
        recorded = self._recording
        return recorded.repeat if all(sample for *_, sample in recorded.answers) else 0

    def recorded_by(self, benchmark: str) -> Collection[str]:
        """The techniques of the answers to a benchmark, () if an answer is recorded without one (see `check`)."""
        techniques = {technique for name, technique, *_ in self._recording.answers if name in (benchmark, "")}
        return () if "" in techniques else sorted(techniques, key=TECHNIQUES.index)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file in hex."""
        return self._recording.digest

    def identified(self) -> str:
        """The answers are those of the file."""
        return "the digest of its file"

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
        recorded = {(item.benchmark, item.id) for item in items}
        benchmarks = {benchmark for benchmark, _ in recorded}
        recorded |= {("", item_id) for _, item_id in recorded}
        benchmarks.add("")
        return [
            item_id
            for benchmark, _, item_id, *_ in self._recording.answers
            if benchmark in benchmarks and (benchmark, item_id) not in recorded
        ]

    def generate(self, prompts: Sequence[Prompt]) -> list[Answer | AnswerError]:
        """Look up each prompt by benchmark, technique and item, if the file has them."""
        return [self._answer(prompt) for prompt in prompts]

    def _score(self, prompt: Prompt) -> Answer | AnswerError:
        """The recorded reply of a judge, if the prompt shows an answer of this file."""
        answer = self._recording.answers.get(("", "ff", prompt.item, "", 0))
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
                key = (benchmark, technique, prompt.item, prompt.variant, prompt.sample)
                if key in answers:
                    answer = answers[key]
                    if answer is None:
                        return AnswerError(f"{self._path} has no answer for {prompt.item}: none was recorded")
                    return answer
        variants = self._recording.variants
        if variants - {prompt.variant} and prompt.variant not in variants:
            which = (
                f"{prompt.item} in variant {prompt.variant}" if prompt.variant else f"{prompt.item} without a variant"
            )
            recorded = ", ".join(sorted(name or "none" for name in variants))
            return AnswerError(f"{self._path} has no answer for {which}; variants recorded: {recorded}")
        places = product((prompt.benchmark, ""), (prompt.technique, ""))
        if any((*place, prompt.item, prompt.variant, 1) in answers for place in places):
            which = f"sample {prompt.sample} of {prompt.item}" if prompt.sample else prompt.item
            repeat = self._recording.repeat
            return AnswerError(
                f"{self._path} has no answer for {which}: it was recorded with --samples={repeat}; ask so"
            )
        first = " ".join(str(part) for part in next(iter(answers)) if part)
        return AnswerError(
            f"{self._path} has no answer for {prompt.item}; asked: {prompt.benchmark} {prompt.technique} "
            f"{prompt.item}, first of {len(answers)} recorded: {first}"
        )


@lru_cache(maxsize=2)
def _recorded(path: Path, digest: str) -> _Recording:
    """The content of a file; each state of a file is read once per process."""
    return replace(read(path), digest=digest)


def read(path: Path) -> _Recording:
    """Read recorded answers in any of the formats.

    Raises DataError, with the row if there is one, for a file that is empty, truncated or in no known format, and for
    two answers to one item. In results.jsonl the last line for an item counts.
    """
    with limits.opened(path, str(path)) as file:
        first, _ = json_text.first(file, str(path))
    if first is not None and {"item", "answer"} <= first.keys() and _pair_of_names(map(str.lower, first)) is None:
        return _read_results(path)
    rows = tables.read(path, needed=(*_NAMES, (_PAIR, "answer")), fold=True, key=_PAIR, hint=f"; {FORMATS}")
    head = next(rows)
    every = chain([head], rows)
    return _read_mediconfusion(path, every) if head.unit == _PAIR else _Recording(_collect(every))


def _read_mediconfusion(path: Path, rows: Iterable[tables.TableRow]) -> _Recording:
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
    return _Recording(answers, closeness=closeness)


def _read_results(path: Path) -> _Recording:
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
    return _Recording(answers, replies)


def _as_given(result: _Result) -> Answer | None:
    """Return the answer with log-probabilities by the letters that were shown."""
    return rotation.answer_shown(result.answer, result.item.options, result.variant)


def _result(decoder: msgspec.json.Decoder[_Result], line: bytes) -> _Result:
    if answers_room.IMPOSSIBLE.encode() not in line:
        return decoder.decode(line)
    content = msgspec.json.decode(line, type=dict[str, Any])
    return msgspec.convert({**content, "answer": answers_room.from_json(content.get("answer"))}, _Result)


def _collect(rows: Iterable[tables.TableRow]) -> dict[Key, Answer | None]:
    answers: dict[Key, Answer | None] = {}
    places: dict[Key, str] = {}
    for row in rows:
        key, answer = _entry(row)
        if key in answers:
            raise row.error(f"answers {key[2]}, as {places[key]} does; keep one of them")
        answers[key], places[key] = answer, f"{row.unit} {row.number}"
    return answers


def _entry(row: tables.TableRow) -> tuple[Key, Answer | None]:
    """The key and answer of one row, which has one of the pairs of names."""
    names = _pair_of_names(row.values)
    if names is None:
        raise row.error(f"no answer; {FORMATS}")
    id_name, text_name = names
    item_id = row.identifier(id_name)
    text = None if row.values[text_name] is None else row.text(text_name)
    finish = UNKNOWN
    if "finish" in row.values or "finish_reason" in row.values:
        finish = row.text("finish") or row.text("finish_reason")
    if text_name == "prediction":
        return ("", "", item_id, "", 0), None if text is None or text.startswith(_FAILED) else Answer(
            text, finish=finish
        )
    technique = row.text("technique")
    if technique and technique not in TECHNIQUES:
        raise row.error(f"no technique {technique!r}; known: {', '.join(TECHNIQUES)}", "technique")
    return (row.text("benchmark"), technique, item_id, row.text("variant"), 0), None if text is None else Answer(
        text, finish=finish
    )


def _pair_of_names(names: Iterable[str]) -> tuple[str, str] | None:
    image_pair = set(names)
    for pair in _NAMES:
        if image_pair.issuperset(pair):
            return pair
    return None
