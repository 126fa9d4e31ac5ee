"""The memory of a stream: stored answers, and questions that may have killed a worker."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa.engine import KILLS, Recollection
from medvqa.items import AnswerError
from medvqa.records.answer_places import PlaceReader
from medvqa.records.exchange import Exchange
from medvqa.records.log import Log
from medvqa.records.recall import Recalled, StoredAnswers
from medvqa.records.suspects import Suspects


class Memory:
    """The stored answers of one model, and the log of one process of a run."""

    def __init__(
        self,
        stored: StoredAnswers,
        log: Log,
        suspects: Suspects,
        readers: Sequence[PlaceReader] = (),
    ) -> None:
        """Use stored answers, a log and the `readers` of places, which `close` closes, and the suspects of a run."""
        self._stored = stored
        self._log = log
        self._readers = readers
        self._suspects = suspects
        self.key = stored.key
        self.begin, self.end = log.begin, log.end

    def recall(self, keys: Sequence[str]) -> list[Recollection]:
        """Look up stored answers. A question that kills workers ends in an error; a suspected one is asked alone.

        A worker's death is noted before its tests go to another worker, which therefore sees its stored answers.
        """
        died = self._suspects.refresh()
        stored = self._stored.recall(keys, look=died)
        return [self._recollection(key, recalled) for key, recalled in zip(keys, stored, strict=True)]

    def _recollection(self, key: str, recalled: Recalled | None) -> Recollection:
        if recalled is not None:
            return Recollection(recalled.answer, recalled.source)
        if self._suspects.kills(key):
            return Recollection(AnswerError(KILLS))
        return Recollection(alone=self._suspects.suspects(key))

    @property
    def damaged(self) -> int:
        """The number of lines that cannot be read: a quick look for news of `unread`."""
        number = len(self._stored.broken)
        for reader in self._readers:
            number += reader.damaged
        return number

    @property
    def unread(self) -> tuple[str, ...]:
        """The lines of logs that cannot be read."""
        return (*self._stored.unread, *(line for reader in self._readers for line in reader.unread))

    def exchange_by(self, exchange: Exchange) -> None:
        """Let a thread close the log in time, and read places again."""
        exchange.add(self._log, self._readers)

    def close(self) -> None:
        """Close the log (Unwritable)."""
        for reader in self._readers:
            reader.close()
        self._log.close()
