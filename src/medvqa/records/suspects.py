"""Questions during which a process died: the calls that its log has begun and not ended.

The controller closes the logs of dead processes and appends their questions in flight to the file `deaths` beside the
logs. These questions are asked one by one, so that the next death identifies the killing one. If a whole session died
with several calls in flight, they are asked together once more: most likely its user stopped it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.records.log import ANSWERS, JSON_ERRORS, close_dead, has_answers, is_closed, logs, process_of, read_log

EARLIER = "earlier"
"""Name of the session of processes that died with their controller."""
_DEATHS = "deaths"
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Death:
    """The keys in flight of a process that died, its session, and its number of calls in flight."""

    session: str
    keys: tuple[str, ...]
    calls: int = 1


def bury(run: Path, session: str = EARLIER, process: str = "*") -> tuple[str, ...] | None:
    """Close a dead process's logs, and record its questions in flight. Return the keys, None without a log.

    The defaults mean all processes of an earlier session. OSError if the folder, or a file in it, is a link.
    """
    folder, every = files.check_subfolder(run, ANSWERS), process == "*"
    dead: dict[str, dict[int, tuple[str, ...]]] = {}
    for path in logs(folder):
        if is_closed(path) if every else process_of(path) != process:
            continue
        reader, _ = read_log(path)
        if not reader.lines and not reader.torn:
            # Its process died while it loaded the model.
            path.unlink()
        elif reader.closed is None:
            close_dead(path, reader)
        elif reader.closed.died or reader.head is None or reader.head.session != session:
            continue
        dead.setdefault(process_of(path), {}).update(reader.calls if reader.closed is None else {})
    found: tuple[str, ...] = ()
    for calls in dead.values():
        keys = tuple(chain.from_iterable(calls.values()))
        # Record the death of an idle worker too: workers that take over its tests then look for answers that they
        # have not read.
        if keys or not every:
            files.append(folder / _DEATHS, _encoder.encode(Death(session, keys, len(calls))) + b"\n")
        found += keys
    return found if dead else None


def end_session(run: Path, *, complete: bool) -> None:
    """Close the logs of a session that ended in order, and remove those without an answer.

    Suspects are kept until a session completes the run. What cannot be written is left to the next session.
    """
    try:
        folder = files.check_subfolder(run, ANSWERS)
    except OSError:
        return  # a link, not this run's own folder: nothing is deleted
    with suppress(OSError):
        for path in logs(folder):
            if not has_answers(path):
                path.unlink()
            elif not is_closed(path):
                close_dead(path, read_log(path)[0])
        if complete:
            (folder / _DEATHS).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        # A session without a result leaves nothing.
        if not any(run.iterdir()):
            run.rmdir()


class Suspects:
    """Questions during which a process died."""

    def __init__(self, run: Path, session: str) -> None:
        """Read nothing before the first `refresh`."""
        self._path = run / ANSWERS / _DEATHS
        self._session = session
        self._size = 0
        self._deaths: dict[str, list[Death]] = {}

    def refresh(self) -> bool:
        """Read new deaths; return whether there were any."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        if size <= self._size:
            return False
        with suppress(OSError), files.reading(self._path, follow=False) as file:  # a link or a folder tells nothing
            file.seek(self._size)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._size += len(line)
                with suppress(*JSON_ERRORS):
                    death = msgspec.json.decode(line, type=Death)
                    for key in death.keys:
                        self._deaths.setdefault(key, []).append(death)
        return True

    def suspects(self, key: str) -> bool:
        """Whether a question must be asked alone, because a process died while it was in flight.

        If a whole session died with several calls in flight, it takes two deaths. Otherwise a run with 64 questions in
        flight would ask 64 one by one after every kill.
        """
        deaths = self._deaths.get(key)
        if deaths is None:
            return False
        return len(deaths) > 1 or any(death.session != EARLIER or death.calls <= 1 for death in deaths)

    def kills(self, key: str) -> bool:
        """Whether a question kills: a worker died on it, and another while it was asked alone.

        A whole session may have been stopped by its user, so over sessions it takes three deaths, two of them alone.
        """
        deaths = self._deaths.get(key)
        if deaths is None:
            return False
        alone = [death for death in deaths if len(death.keys) == 1]
        here = any(death.session == self._session for death in alone)
        return (len(deaths) >= 2 and here) or (len(deaths) >= 3 and len(alone) >= 2)
