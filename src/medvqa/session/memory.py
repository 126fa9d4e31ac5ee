"""What the stream of a process knows beyond this process: stored answers, and which questions are suspected."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa import records
from medvqa.engine import Recollection
from medvqa.items import Answer, AnswerError, Prompt

KILLS = "the worker died twice on this question, the second time when it was asked alone"


class Memory:
    """An answer store, and the journal of one process of a run."""

    def __init__(self, store: records.Store, journal: records.Journal, suspects: records.Suspects) -> None:
        """Join the three; `close` closes the first two."""
        self._store = store
        self._journal = journal
        self._suspects = suspects

    def key(self, prompt: Prompt, digest: str, sample: int) -> str:
        """The key of the store."""
        return records.answer_key(prompt, digest, sample)

    def recall(self, keys: Sequence[str]) -> list[Recollection]:
        """Stored answers; a question that kills workers ends in an error, one that may is asked alone.

        Tests of a worker that died come to others only after its death was noted, so that what it stored is seen.
        """
        died = self._suspects.refresh()
        found = self._store.recall(keys, look=died)
        return [self._recollection(key, known) for key, known in zip(keys, found, strict=True)]

    def _recollection(self, key: str, known: records.Recalled | None) -> Recollection:
        if known is not None:
            return Recollection(known.answer, known.earlier)
        if self._suspects.kills(key):
            return Recollection(AnswerError(KILLS))
        return Recollection(alone=self._suspects.suspects(key))

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Note what is asked."""
        self._journal.begin(call, keys)

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """Store the answers, then note that they are."""
        self._store.remember(keys, answers)
        self._journal.end(call)

    @property
    def unread(self) -> tuple[str, ...]:
        """Lines of the store that cannot be read."""
        return self._store.unread

    def close(self) -> None:
        """Close both files."""
        self._journal.close()
        self._store.close()
