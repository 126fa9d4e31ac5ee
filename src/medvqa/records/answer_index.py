"""Where the answers of a model lie in its logs, by their keys; they are read when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from medvqa.items import Answer, AnswerError
from medvqa.records.log import AnswerLine, answer_in

_LENGTH, _START = 32, 48
"""Bits of the length of a line, and of its place in its file."""


class IndexedLogs(ABC):
    """The answers of one model in logs that have names.

    Of several answers to a question, the last one in the log of the latest name counts. A line that is damaged, changed
    since it was indexed, or holds no answer hides no other one.
    """

    def __init__(self, identity: str) -> None:
        """Know no log yet. `identity`: the model's."""
        self._identity = identity
        self._logs: list[str] = []
        self._numbers: dict[str, int] = {}
        # Key -> number of the log, start and length of the line, in one number: an answer takes 200 bytes.
        self._latest: dict[bytes, int] = {}
        self._others: dict[bytes, list[int]] = {}

    @abstractmethod
    def _line(self, log: str, start: int, length: int) -> bytes:
        """Return a line (OSError)."""

    @abstractmethod
    def _note_line(self, log: str, start: int, why: str) -> None:
        """Note that a line holds no answer: another version checked less before storing."""

    def _add(self, log: str, lines: Sequence[AnswerLine], base: int = 0) -> None:
        """Add lines of a log, which begin at `base` in its file."""
        if log not in self._numbers:
            self._numbers[log] = len(self._logs)
            self._logs.append(log)
        first, latest = (self._numbers[log] << _START | base) << _LENGTH, self._latest
        for key, start, length in lines:
            place = first + (start << _LENGTH | length)
            known = latest.setdefault(key, place)
            if known != place:
                newer = self._order(known) < self._order(place)
                latest[key] = place if newer else known
                self._others.setdefault(key, []).append(known if newer else place)

    def _order(self, place: int) -> tuple[str, int]:
        return self._logs[place >> _START + _LENGTH], place

    def _found(self, key: str) -> tuple[str, Answer] | None:
        """Return the name of the log and the answer that counts for a key, None without one (OSError)."""
        latest = self._latest.get(name := bytes.fromhex(key))
        if latest is None:
            return None
        others = self._others.get(name)
        for place in (latest, *(sorted(others, key=self._order, reverse=True) if others else ())):
            log = self._logs[place >> _START + _LENGTH]
            start, length = place >> _LENGTH & (1 << _START) - 1, place & (1 << _LENGTH) - 1
            try:
                answer = answer_in(self._identity, self._line(log, start, length), key)
            except AnswerError as error:
                self._note_line(log, start, str(error))
            else:
                if answer is not None:
                    return log, answer
        return None
