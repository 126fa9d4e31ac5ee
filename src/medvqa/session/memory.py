"""The memory of a stream: stored answers, and questions that may have killed a worker."""

from __future__ import annotations

from collections.abc import Sequence

from medvqa import records
from medvqa.engine import KILLS, Recollection
from medvqa.items import Answer, AnswerError, Prompt


class Memory:
    """An answer store, and the journal of one process of a run."""

    def __init__(
        self,
        store: records.Store,
        journal: records.Journal,
        suspects: records.Suspects,
        unread_segments: tuple[str, ...] = (),
    ) -> None:
        """Use a store, a journal and the suspects of a run; `close` closes the first two."""
        self._unread_segments = unread_segments
        self._store = store
        self._journal = journal
        self._suspects = suspects

    def key(self, prompt: Prompt, digest: str, sample: int) -> str:
        """Return the key of the store."""
        return records.answer_key(prompt, digest, sample)

    def recall(self, keys: Sequence[str]) -> list[Recollection]:
        """Look up stored answers. A question that kills workers ends in an error; a suspected one is asked alone.

        A worker's death is noted before its tests go to another worker, which therefore sees its stored answers.
        """
        died = self._suspects.refresh()
        stored = self._store.recall(keys, look=died)
        return [self._recollection(key, recalled) for key, recalled in zip(keys, stored, strict=True)]

    def _recollection(self, key: str, recalled: records.Recalled | None) -> Recollection:
        if recalled is not None:
            return Recollection(recalled.answer, recalled.earlier)
        if self._suspects.kills(key):
            return Recollection(AnswerError(KILLS))
        return Recollection(alone=self._suspects.suspects(key))

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Note the keys of a call that begins."""
        self._journal.begin(call, keys)

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """Store the answers, then note the end of the call."""
        self._store.remember(keys, answers)
        self._journal.end(call)

    @property
    def unread(self) -> tuple[str, ...]:
        """The lines of the store that cannot be read, and the segments of a shared one."""
        return (*self._unread_segments, *self._store.unread)

    def close(self) -> None:
        """Close both files."""
        self._journal.close()
        self._store.close()
