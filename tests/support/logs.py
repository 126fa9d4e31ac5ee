"""The log of a process and the answers that it finds, as one thing: what a process of a run remembers."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec

from medvqa.items import Answer
from medvqa.records.log import ANSWERS, Log, LogHead
from medvqa.records.recall import LogFolder, Recalled, StoredAnswers

WRITER = LogHead(backend="slow", model="slow:1", fingerprint="weights 1", run="run", session="session 1")


class Remembering:
    """A process of a run. `head`: of its log."""

    def __init__(
        self,
        run: Path,
        head: LogHead = WRITER,
        sources: Sequence[LogFolder] = (),
        *,
        fresh: bool = False,
        process: str = "main",
    ) -> None:
        self.log = Log(run, process)
        self.log.begin_as(head)
        self.stored = StoredAnswers(run, head, sources, log=self.log, fresh=fresh)
        self._calls = count(1)

    def remember(self, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        call = next(self._calls)
        self.log.begin(call, keys)
        self.log.end(call, keys, answers)

    def recall(self, keys: Sequence[str], *, look: bool = False) -> list[Recalled | None]:
        return self.stored.recall(keys, look=look)

    @property
    def unread(self) -> tuple[str, ...]:
        return self.stored.unread

    def close(self) -> None:
        self.log.close()


def session(number: int | str) -> LogHead:
    """The head of a log of another session."""
    return msgspec.structs.replace(WRITER, session=f"session {number}")


def logs(run: Path) -> list[Path]:
    """The logs of a run, in order."""
    return sorted((run / ANSWERS).glob("*.log"), key=lambda path: path.name)
