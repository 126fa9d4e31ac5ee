"""The content of a file of recorded answers, whatever its format: answers, who wrote them, their scores there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from medvqa.decode import did_you_mean
from medvqa.items import Answer, DataError, Item, UsageError
from medvqa.tables import text_of, whole

Key = tuple[str, str, str, str, int]
"""Benchmark, technique, item id, variant and sample number; "" and 0 if the file does not say."""

FORMATS = (
    "a replay file is MediConfusion's result JSON, a table (TSV, CSV, XLSX) or JSON (lines) with index and "
    "prediction, or with id and response, or results.jsonl of a run folder; of other columns, type --set id=COLUMN "
    "--set response=COLUMN"
)

IDS = ("id", "question_id", "qid", "index", "questionId")
"""Names of an id in the logs of harnesses."""
UNKNOWN = ""
"""The `finish` of an answer if the file does not say."""


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The names of columns by role, as typed: None if a role's column is to be known by its name, "" for no column.

    In files of harnesses, a field within a field is named like `metadata.question_id`.
    """

    id: str | None = None
    response: str | None = None
    question: str | None = None
    benchmark: str | None = None
    technique: str | None = None
    finish: str | None = None


class Harness(msgspec.Struct, frozen=True):
    """What a file tells about the program that wrote it; "" for what it does not tell.

    `technique` and `scoring` are in the program's own words, such as its solver and its scorer.
    """

    name: str = ""
    version: str = ""
    model: str = ""
    task: str = ""
    technique: str = ""
    scoring: str = ""


NO_HARNESS = Harness()


class Entry(NamedTuple):
    """One answer of a file, None if none was recorded.

    `where` names its row in messages, `place` without the file. `id` is "" if the file does not tell the question's;
    it is then found by `question` and `options`, or by a whole `prompt` that holds both. `their_score`: a harness's.
    """

    where: str
    place: str
    id: str
    answer: Answer | None
    benchmark: str = ""
    technique: str = ""
    variant: str = ""
    sample: int = 0
    question: str = ""
    options: tuple[str, ...] = ()
    prompt: str = ""
    their_score: float | None = None

    def key(self, item: str, benchmark: str = "") -> Key:
        """Return the key of the answer for an item."""
        return self.benchmark or benchmark, self.technique, item, self.variant, self.sample


@dataclass(frozen=True)
class Recording:
    """The content of a file; None for an item without an answer.

    `replies`: a judge's replies in results.jsonl, None for other files. `closeness`: those of MediConfusion's file.
    `their_scores`: another harness's own. `unplaced`: answers without an id. `questions`: texts beside an id.
    """

    answers: Mapping[Key, Answer | None]
    replies: Mapping[tuple[str, str, str], str] | None = None
    closeness: Mapping[str, str] = field(default_factory=dict)
    harness: Harness = NO_HARNESS
    their_scores: Mapping[Key, float] = field(default_factory=dict)
    unplaced: tuple[Entry, ...] = ()
    questions: Mapping[Key, Entry] = field(default_factory=dict)
    digest: str = ""
    """SHA-256 of the file in hex."""

    @property
    def keys(self) -> Iterator[Key]:
        """The keys of all answers; without an id, that of an unknown item."""
        yield from self.answers
        yield from (entry.key("") for entry in self.unplaced)

    @cached_property
    def variants(self) -> frozenset[str]:
        """The variants that the file has answers in."""
        return frozenset(variant for *_, variant, _ in self.keys)

    @cached_property
    def repeat(self) -> int:
        """The number of samples per answer, 0 without samples."""
        return max(sample for *_, sample in self.keys)

    def placed(self, items: Iterable[Item]) -> Recording:
        """Return the recording with each answer without an id under the one item that has its question and options.

        Answers to questions that no item has are left out. DataError if several items have the text of one, if none
        of the answers has an item, and if the id of an answer is here that of another question.
        """
        items = list(items)
        _check_benchmarks(self.answers, items)
        _check_questions(self.questions, items)
        if not self.unplaced:
            return self
        by_text, by_line = _texts(items), _lines(items)
        found = [(entry, by_text.get(_text(entry.question, entry.options), [])) for entry in self.unplaced]
        found = [(entry, _in_prompt(entry.prompt, by_line) if entry.prompt else same) for entry, same in found]
        several = [(entry, same) for entry, same in found if len(same) > 1]
        if several:
            entry, same = several[0]
            listed = ", ".join(item.id for item in same[:5])
            raise DataError(
                f"{entry.where}: no id, and {len(same)} questions of this run have its question and options "
                f"({listed}); so it is with {len(several)} of {len(found)} answers. Name the column of ids: "
                "--set id=COLUMN"
            )
        if not any(same for _, same in found):
            raise DataError(
                f"{found[0][0].where}: no id, and no question of this run has its question and options; so it is with "
                f"all {len(found)} answers. Name the column of ids: --set id=COLUMN"
            )
        placed = [replaced(entry, same[0]) for entry, same in found if same]
        added = collected(placed, self.harness)
        if both := self.answers.keys() & added.answers.keys():
            raise DataError(f"{placed[0].where}: {next(iter(both))[2]} is answered in another row too")
        return replace(
            self,
            answers={**self.answers, **added.answers},
            their_scores={**self.their_scores, **added.their_scores},
            unplaced=(),
        )


def replaced(entry: Entry, item: Item) -> Entry:
    """Return the entry as the answer to an item."""
    return entry._replace(id=item.id, benchmark=item.benchmark, question="", prompt="")


def collected(entries: Iterable[Entry], harness: Harness | None = None) -> Recording:
    """Return the recording of a file's answers; DataError for two answers to one item."""
    answers: dict[Key, Answer | None] = {}
    places: dict[Key, str] = {}
    their_scores: dict[Key, float] = {}
    questions: dict[Key, Entry] = {}
    unplaced = []
    for entry in entries:
        if not entry.id:
            unplaced.append(entry)
            continue
        key = entry.key(entry.id)
        if key in answers:
            raise DataError(f"{entry.where}: answers {entry.id}, as {places[key]} does; keep one of them")
        answers[key], places[key] = entry.answer, entry.place
        if entry.their_score is not None:
            their_scores[key] = entry.their_score
        if entry.question or entry.prompt:
            questions[key] = entry
    return Recording(answers, None, {}, harness or NO_HARNESS, their_scores, tuple(unplaced), questions)


def score_of(value: object) -> float | None:
    """Return the score that a harness writes as a number, true or false, or C, P and I; None for anything else."""
    if isinstance(value, bool | int | float):
        return float(value) if 0 <= value <= 1 else None
    return {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "1": 1.0, "0": 0.0, "True": 1.0, "False": 0.0}.get(str(value))


def id_in(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the id of a question in parts of a log, by the first of IDS that one of them has; "" without one."""
    texts = (text_of(part.get(name)) for name in IDS for part in parts)
    return next((whole(text.strip()) for text in texts if text and text.strip()), "")


def missing(role: str, typed: str, where: str, names: Iterable[str]) -> UsageError:
    """Return the error of a typed column, or field, that is not there."""
    return UsageError(f"--set {role}={typed}: {where} has no such column{did_you_mean(typed.strip(), names)}")


# --- by question and options ----------------------------------------------------------------------------------

_Text = tuple[str, tuple[str, ...]]
_LETTERED = re.compile(r"\(?([A-Z])[.):]+ ?(.*)")
"""An option on a line of a prompt."""
_LABEL = re.compile(r"\(?[A-Za-z][.):]+ ?|\(?\d[.):]+ |[-*•] ")
"""What stands before an option there."""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _text(question: str, options: Sequence[str]) -> _Text:
    return _one_line(question), tuple(map(_one_line, options))


def _texts(items: Iterable[Item]) -> Mapping[_Text, list[Item]]:
    """The items by question and options."""
    by_text = defaultdict(list)
    for item in items:
        by_text[_text(item.question, tuple(item.options.values()))].append(item)
    return by_text


def _lines(items: Iterable[Item]) -> Mapping[str, list[Item]]:
    """The items by the first line of their question."""
    by_line = defaultdict(list)
    for item in items:
        if item.question.strip():
            by_line[_one_line(item.question.strip().splitlines()[0])].append(item)
    return by_line


def _in_prompt(prompt: str, by_line: Mapping[str, list[Item]]) -> list[Item]:
    """The items whose question stands in a prompt as whole lines, with each option at the end of a later line."""
    lines = [_one_line(line) for line in prompt.splitlines()]
    found = {}
    for place, line in enumerate(lines):
        for start in {line, line.partition(": ")[2]} - {""}:
            for item in by_line.get(start, ()):
                rest = [start, *lines[place + 1 :]]
                if _stands_in(item, rest):
                    found[item.benchmark, item.id] = item
    return list(found.values())


def _stands_in(item: Item, lines: Sequence[str]) -> bool:
    question = [_one_line(line) for line in item.question.strip().splitlines()]
    if [*lines[: len(question)]] != question:
        return False
    rest = iter(lines[len(question) :])
    if len(listed_in("\n".join(lines))) not in (0, len(item.options)):
        return False
    return all(any(_names_option(line, text) for line in rest) for text in map(_one_line, item.options.values()))


def _names_option(line: str, text: str) -> bool:
    """Whether a line of a prompt is an option's text, with or without its letter: `A. text`, `(A) text`, `A: text`."""
    return line == text or (line.endswith(text) and _LABEL.fullmatch(line.removesuffix(text)) is not None)


def _check_benchmarks(answers: Iterable[Key], items: Sequence[Item]) -> None:
    """Raise DataError if an answer without a benchmark has the id of different questions of several benchmarks."""
    named = defaultdict(list)
    for item in items:
        named[item.id].append(item)
    for name in dict.fromkeys(name for benchmark, _, name, *_ in answers if not benchmark):
        same = named.get(name, [])
        other = next((other for other in same if _asked(other) != _asked(same[0])), None)
        if other is not None:
            raise DataError(
                f"{name} is the id of a question of {same[0].benchmark} and of another one of {other.benchmark}, and "
                "the answers do not tell which they belong to. Ask one benchmark, or type --set benchmark=COLUMN"
            )


def _asked(item: Item) -> tuple[_Text, tuple[object, ...]]:
    return _text(item.question, tuple(item.options.values())), tuple(item.images)


def _check_questions(questions: Mapping[Key, Entry], items: Sequence[Item]) -> None:
    """Raise DataError if an answer's id is here that of another question: its ids count rows, or are of other data.

    Also if its options are here in another order, or others: its letters are those of the file.
    """
    named = defaultdict(list)
    for item in items if questions else ():
        named[item.id].append(item)
    for (benchmark, _, name, *_), entry in questions.items():
        for item in named.get(name, ()):
            if benchmark in ("", item.benchmark):
                _check_question(entry, item)


def _check_question(entry: Entry, item: Item) -> None:
    there = _one_line(item.question)
    written = _one_line(entry.question or entry.prompt)
    ways = (
        "Type --set id=COLUMN if another column holds the ids, --set id= to find questions by text and options, or "
        "--set question= if only the texts differ"
    )
    if there not in written and (entry.prompt or written not in there):
        raise DataError(f"{entry.where}: its id {item.id} is that of another question here. {ways}")
    listed, options = _plain(entry.options or listed_in(entry.prompt)), _plain(item.options.values())
    if all(one == other for one, other in zip(listed, options, strict=False)):
        return
    if sorted(listed) == sorted(options):
        raise DataError(
            f"{entry.where}: its options stand in another order than those of {item.id} here, so its letters name "
            "others. Ask with the options in the order of the data set"
        )
    raise DataError(f"{entry.where}: its options are not those of {item.id} here, so its letters name others. {ways}")


def _plain(options: Iterable[str]) -> list[str]:
    """Options without what does not tell them apart: letter case, blanks and full stops around them."""
    return [_one_line(option).casefold().strip(" .") for option in options]


def listed_in(prompt: str) -> tuple[str, ...]:
    """Return the options that a prompt lists last, each on a line after its letter: `A. text`, `(A) text`."""
    options: list[str] = []
    for found in map(_LETTERED.fullmatch, map(str.strip, prompt.splitlines())):
        if found and found[1] == "A":
            options = []
        if found and ord(found[1]) == ord("A") + len(options):
            options.append(found[2])
    return tuple(options)
