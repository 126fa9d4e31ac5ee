"""The keys of the questions that a run's sessions selected, written before the first question is asked.

Each process writes its session's keys to `.selected-SESSION.jsonl`; the files of one session are equal. The controller
adds them to `selected.jsonl`, which holds the keys of all sessions. So no death of a process loses them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.items import DataError, QuestionKey
from medvqa.records.private import make_private

SELECTED = "selected.jsonl"
MAX_SELECTED, MAX_KEY = 2**28, 2**20
"""Bytes of a file of keys, and of one key."""

_REMEDY = "remove it, and repeat the run's command: the file lists the selected questions, and holds no answers"
_decoder = msgspec.json.Decoder(QuestionKey)


def select(folder: Path, session: str, keys: Iterable[QuestionKey]) -> None:
    """Write the keys of a session, one JSON array per line; create the run folder if missing. Raises OSError."""
    make_private(folder)
    _write(_own(folder, session), keys)


def selected_by(folder: Path, session: str) -> tuple[QuestionKey, ...] | None:
    """The keys of one session, in the order of its tests; None without a file (DataError)."""
    path = _own(folder, session)
    return tuple(_each(path)) if path.exists() else None


def add_selected(folder: Path) -> tuple[QuestionKey, ...]:
    """Add the sessions' keys to the run's, keep the sessions' files, and return all, sorted (DataError, OSError)."""
    keys = selected(folder)
    if _sessions(folder):
        _write(folder / SELECTED, keys)
    return keys


def remove_selected(folder: Path, session: str = "*") -> None:
    """Remove the file of a session, or of all, once it was added (OSError)."""
    for path in folder.glob(_own(folder, session).name):
        path.unlink(missing_ok=True)


def selected(folder: Path) -> tuple[QuestionKey, ...]:
    """The keys selected by all sessions of a run, sorted; () for a run of an earlier version.

    Also reads the sessions' own files, because a killed session leaves only these. DataError if they cannot be read.
    """
    return tuple(sorted(set(each_selected(folder))))


def each_selected(folder: Path) -> Iterator[QuestionKey]:
    """Yield the keys of `selected` one by one, in the order of the files, most of them twice (DataError)."""
    for path in selected_files(folder):
        yield from _each(path)


def selected_files(folder: Path) -> list[Path]:
    """The files that hold a run's selected keys; the first may be missing."""
    return [folder / SELECTED, *_sessions(folder)]


def selected_bytes(folder: Path) -> int:
    """The size of a run's files of selected keys, which only grow; 0 without any."""
    sizes = 0
    for path in selected_files(folder):
        with suppress(OSError):
            sizes += os.lstat(path).st_size
    return sizes


def store_selected(folder: Path, keys: Iterable[QuestionKey]) -> None:
    """Write the keys of a run that was made from others (OSError)."""
    _write(folder / SELECTED, sorted(keys))


def _sessions(folder: Path) -> list[Path]:
    return sorted(folder.glob(".selected-*.jsonl"))


def _own(folder: Path, session: str) -> Path:
    return folder / f".selected-{session}.jsonl"


def _write(path: Path, keys: Iterable[QuestionKey]) -> None:
    files.replace(path, (msgspec.json.encode(key) + b"\n" for key in keys))


def _each(path: Path) -> Iterator[QuestionKey]:
    if not path.exists() and not path.is_symlink():
        return
    try:
        with files.reading(path, follow=False) as file:
            if os.fstat(file.fileno()).st_size > MAX_SELECTED:
                raise DataError(f"{path}: larger than {files.size(MAX_SELECTED)}; {_REMEDY}")
            for _, line in files.lines(file, path, MAX_KEY):
                yield _decoder.decode(line)
    except OSError as error:
        why = (error.strerror or str(error)).removesuffix("; remove it")
        raise DataError(f"{path} cannot be read: {why}; {_REMEDY}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path}: damaged: {error}; {_REMEDY}") from None
