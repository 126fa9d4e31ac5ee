"""Results of run folders without their answers, which are read from results.jsonl again where somebody asks for them.

A result of 3.5 kB has about 300 bytes then: runs on the same questions share these, and equal texts and scores are
kept once.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, DataError, Item, QuestionKey, Result, Score, UsageError, replace
from medvqa.records import run_folder
from medvqa.records.run_folder import MAX_LINE, RESULTS, Mark, Stored

MOST_SCORES = 10_000
"""Different scores that are kept once: most runs have few, but the reason of a score may be a text of its own."""
MOST_OPEN = 200
"""Files that are kept open; answers of further runs are held, as a process may open 1,024 files on many systems."""
_NOTHING: Mapping[str, Any] = {}
_IMPOSSIBLE = f'"{answers.IMPOSSIBLE}"'.encode()


class _AnswerOfLine(msgspec.Struct):
    answer: Answer | None = None


_decoder = msgspec.json.Decoder(_AnswerOfLine)


class _ResultsFile:
    """An open results.jsonl and the places of its lines. It is closed with the last answer that refers to it.

    Lines that are appended later do not move the others, and a file that replaces this one is not read.
    """

    def __init__(self, path: Path) -> None:
        with files.reading(path) as file:
            self._descriptor = os.dup(file.fileno())
        self._path, self._last = path, (-1, Answer(""))
        self.starts = array("Q", [0])
        weakref.finalize(self, os.close, self._descriptor)
        _open.add(self)

    def answer(self, line: int) -> Answer:
        """Return the answer of a line; DataError if the file was written over."""
        if self._last[0] != line:
            start, end = self.starts[line], self.starts[line + 1]
            content = os.pread(self._descriptor, end - start, start)
            try:
                # Only lines with impossible options need the slower way.
                reader = run_folder.decode if _IMPOSSIBLE in content else _decoder.decode
                answer = reader(content).answer
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                answer = None
            if answer is None:
                raise DataError(f"{self._path} was changed while its answers were read; type the command again")
            self._last = line, answer
        return self._last[1]


_open: weakref.WeakSet[_ResultsFile] = weakref.WeakSet()


class StoredAnswer(Answer):
    """An answer that stays in results.jsonl; only what measures read of each is held: `seconds`, `finish` and `cut`.

    It equals an `Answer` of the same content; `replace` and `pickle` make one of it.
    """

    __slots__ = ("_file", "_line")
    _file: _ResultsFile
    _line: int

    def __new__(cls, *args: Any, **fields: Any) -> Any:
        """Return an Answer: `replace` calls this with all fields."""
        return Answer(*args, **fields)

    @classmethod
    def of(cls, answer: Answer, file: _ResultsFile, line: int) -> StoredAnswer:
        """Return the answer of a line, without its texts."""
        stored: StoredAnswer = object.__new__(cls)
        own = {"seconds": answer.seconds, "finish": answer.finish, "cut": answer.cut, "_file": file, "_line": line}
        for name, value in own.items():
            object.__setattr__(stored, name, value)
        return stored

    def read(self) -> Answer:
        """Return the whole answer."""
        return self._file.answer(self._line)

    def __eq__(self, other: object) -> bool:
        """Compare the whole answers."""
        if isinstance(other, StoredAnswer):
            return (self._file is other._file and self._line == other._line) or self.read() == other.read()
        return self.read() == other

    def __hash__(self) -> int:
        """Hash the whole answer."""
        return hash(self.read())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the whole answer."""
        whole = self.read()
        return Answer, tuple(getattr(whole, name) for name in Answer.__match_args__)

    def __repr__(self) -> str:
        """Show the whole answer."""
        return repr(self.read())


def _read_later(name: str) -> property:
    return property(lambda stored: getattr(stored.read(), name))


for _name in ("text", "option_logprobs", "usage", "served_by", "thoughts", "earlier", "whole"):
    setattr(StoredAnswer, _name, _read_later(_name))


class SharedParts:
    """Questions, scores and texts that several results have, each kept once."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._items: dict[tuple[str, str], Item] = {}
        self._texts: dict[str, str] = {}
        self._lists: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._scores: dict[tuple[str, Score], Score] = {}

    def of(self, result: Result, answer: Answer | None) -> Result:
        """Return the result with this answer, and with the parts that it shares with others."""
        return Result(
            self._text(result.run),
            self._item(result.item),
            self._text(result.prompt),
            answer,
            self._score(result.score),
            result.technique,
            result.judgement,
            result.sample,
            self._text(result.variant),
        )

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def _list(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return self._lists.setdefault(texts, texts)

    def _score(self, score: Score) -> Score:
        key = str(score.value), score
        if len(self._scores) < MOST_SCORES:
            return self._scores.setdefault(key, score)
        return self._scores.get(key, score)

    def _item(self, item: Item) -> Item:
        known = self._items.get((item.benchmark, item.id))
        if known is not None:
            return known if _same(known, item) else item
        item = replace(
            item,
            benchmark=self._text(item.benchmark),
            question=self._text(item.question),
            options={letter: self._text(text) for letter, text in item.options.items()},
            answers=self._list(item.answers),
            tags={name: self._list(values) for name, values in item.tags.items()},
            extra=item.extra or _NOTHING,
        )
        self._items[item.benchmark, item.id] = item
        return item


def _same(one: Item, other: Item) -> bool:
    """Whether two questions are equal, and written alike: equal options may have another order, and 1 equals 1.0."""
    return (
        one == other
        and [*one.options] == [*other.options]
        and [*one.tags] == [*other.tags]
        and (not one.extra or repr(one.extra) == repr(other.extra))
    )


def read(folder: Path, shared: SharedParts) -> Stored:
    """Return all results of a run folder, as `run_folder.read`, whose answers stay in the file."""
    path = folder / RESULTS
    if not path.is_file():
        raise UsageError(f"{folder} is no run folder: it has no {RESULTS}")
    results: dict[QuestionKey, Result] = {}
    unread: list[str] = []
    try:
        kept = _ResultsFile(path) if len(_open) < MOST_OPEN else None
        with files.reading(path) as file:
            for number, line in files.lines(file, path, MAX_LINE):
                if kept is not None:
                    kept.starts.append(kept.starts[-1] + len(line))
                if not line.strip():
                    continue
                try:
                    result = run_folder.decode(line)
                except msgspec.DecodeError as error:
                    torn = "" if line.endswith(b"\n") else " (the line is torn: its process was stopped while writing)"
                    unread.append(f"{path} line {number}: {error}{torn}")
                    continue
                answer = result.answer
                if answer is not None and kept is not None:
                    answer = StoredAnswer.of(answer, kept, number - 1)
                results[result.key] = shared.of(result, answer)
            mark = Mark.of(file, file.tell())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return Stored(tuple(results[key] for key in sorted(results)), tuple(unread), mark)
