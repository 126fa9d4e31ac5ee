"""Results of run folders without their answers, which are read from results.jsonl again where somebody asks for them.

A result of 3.5 kB has about 300 bytes then: runs on the same questions share these (`run_folder.SharedResults`).
"""

from __future__ import annotations

import os
import sys
import weakref
from array import array
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from medvqa import answers
from medvqa.items import Answer, DataError
from medvqa.records import run_folder
from medvqa.records.run_folder import RESULTS, ResultLine, SharedResults, Stored

MOST_OPEN = 200
"""Files that are kept open; answers of further runs are held, as a process may open 1,024 files on many systems."""
_IMPOSSIBLE = f'"{answers.IMPOSSIBLE}"'.encode()


class _AnswerOfLine(msgspec.Struct):
    answer: Answer | None = None


_decoder = msgspec.json.Decoder(_AnswerOfLine)


class _ResultsFile:
    """An open results.jsonl and the places of its lines. It is closed with the last answer that refers to it.

    Lines that are appended later do not move the others, and a file that replaces this one is not read.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._descriptor = os.dup(file.fileno())
        self._path, self._last = path, (-1, Answer(""))
        self._starts, self._lengths = array("Q"), array("I")
        weakref.finalize(self, os.close, self._descriptor)
        _open.add(self)

    def __call__(self, line: ResultLine) -> Answer | None:
        """Return the answer of a line, which is read again when somebody asks for its texts; None without one."""
        if line.result is None or line.result.answer is None:
            return None
        self._starts.append(line.start)
        self._lengths.append(line.length)
        return StoredAnswer.of(line.result.answer, self, len(self._starts) - 1)

    def answer(self, place: int) -> Answer:
        """Return one of the answers, in the order of their lines; DataError if the file was written over."""
        if self._last[0] != place:
            content = os.pread(self._descriptor, self._lengths[place], self._starts[place])
            try:
                # Only lines with impossible options need the slower way.
                reader = run_folder.decode if _IMPOSSIBLE in content else _decoder.decode
                answer = reader(content).answer
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                answer = None
            if answer is None:
                raise DataError(f"{self._path} was changed while its answers were read; type the command again")
            self._last = place, answer
        return self._last[1]


_open: weakref.WeakSet[_ResultsFile] = weakref.WeakSet()


class StoredAnswer(Answer):
    """An answer that stays in results.jsonl; only what measures read of each is held: times, ends, notes, confidences.

    It equals an `Answer` of the same content; `replace` and `pickle` make one of it.
    """

    __slots__ = ("_file", "_place")
    _file: _ResultsFile
    _place: int

    def __new__(cls, *args: Any, **fields: Any) -> Any:
        """Return an Answer: `replace` calls this with all fields."""
        return Answer(*args, **fields)

    @classmethod
    def of(cls, answer: Answer, file: _ResultsFile, place: int) -> StoredAnswer:
        """Return an answer of a file without its texts."""
        stored: StoredAnswer = object.__new__(cls)
        # Each line has its own text of `finish`; all are the same few words.
        own: dict[str, Any] = {"seconds": answer.seconds, "finish": sys.intern(answer.finish), "cut": answer.cut}
        own |= {"noted": answer.noted, "confidence": answer.confidence}
        for name, value in {**own, "_file": file, "_place": place}.items():
            object.__setattr__(stored, name, value)
        return stored

    def read(self) -> Answer:
        """Return the whole answer."""
        return self._file.answer(self._place)

    def __eq__(self, other: object) -> bool:
        """Compare the whole answers."""
        if isinstance(other, StoredAnswer):
            return (self._file is other._file and self._place == other._place) or self.read() == other.read()
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


def read(folder: Path, shared: SharedResults) -> Stored:
    """Return all results of a run folder, as `run_folder.read`, whose answers stay in the file."""
    later = partial(_ResultsFile, folder / RESULTS) if len(_open) < MOST_OPEN else None
    return run_folder.read(folder, shared, later=later)
