"""Answers on disk, for as long as nobody prunes them (docs/decisions/0007-answer-store.md).

A folder holds one folder for each model, and in it one file for each process that asked. A line is
`CHECKSUM KEY JSON`: the checksum (BLAKE2b, 64 bits, keyed by the model's folder) covers the rest of the line, the
key is what the answer was asked by, and the JSON is the answer. The first line, with `about` for a key, says who
wrote the file. A process appends to its own file alone, a batch with one `os.write`; so whatever happens to it, the
lines before the last are whole, and no process waits for another.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, AnswerError, MedVQAError, Prompt
from medvqa.records.private import make_private

STORE = ".answers"
"""Folder under reports/ of the answers that runs share."""
OWN_ANSWERS = "answers"
"""Folder in a run folder of the answers of a model that shares none."""
OWN_REPLIES = "judged"
"""Folder in a run folder of the replies of a judge that shares none."""
SUFFIX = ".answers"
ABOUT = b"about"
FORMAT = 1
REFRESH = 1.0
"""Seconds after which a reader looks again for what other processes have stored."""
MAX_LINE = 2**28
"""Bytes of one line; a file in a stranger's folder may claim to be terabytes."""
SYNC = 5.0
"""Seconds after which what was written is forced to the disk, so that a power cut costs no more."""

_CHECKSUM = 16
_IS_KEY = re.compile(rb"[0-9a-f]{64}").fullmatch
_encoder = msgspec.json.Encoder()


class Unwritable(MedVQAError):
    """Answers cannot be kept, so that nothing more may be asked: the disk is full, read-only or gone."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes a file. `fingerprint` is None for a model that has none; `session` names one session of a run.

    `role` is what the model was asked as: one model may be both, and what it used counts apart.
    """

    backend: str
    model: str
    fingerprint: str | None
    run: str
    session: str
    started: str = ""
    format: int = FORMAT
    role: Literal["candidate", "judge"] = "candidate"

    @property
    def folder(self) -> str:
        """The folder of the model's answers: 32 hex digits over backend and fingerprint, and the format."""
        return hashlib.sha256(_encoder.encode((FORMAT, self.backend, self.fingerprint))).hexdigest()[:32]


_writers = msgspec.json.Decoder(Writer)


def _writer(content: bytes) -> Writer | None:
    """Who wrote a file, None where its first line does not say."""
    try:
        return _writers.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A stored answer; `earlier` says that an earlier session asked for it, or another run."""

    answer: Answer
    earlier: bool


def key(prompt: Prompt, digest: str, sample: int = 0) -> str:
    """What an answer is stored by, beside its model: SHA-256 (hex) over all that a model gets of a prompt.

    `digest` is `prompts.digest(prompt)`: technique, texts, shots and images. What a model may tell questions apart by
    is added, so that two that look alike keep an answer each; `sample` numbers those of one prompt. A limit of tokens
    is added where the prompt names one: the model's own limit is part of its fingerprint. A variant is not added: it
    has a prompt of its own.
    """
    content: tuple[object, ...] = (digest, prompt.benchmark, prompt.item, prompt.kind, prompt.options, sample)
    if prompt.max_tokens is not None:
        content = (*content, prompt.max_tokens)
    return hashlib.sha256(_encoder.encode(content)).hexdigest()


def checksum(folder: str, content: bytes) -> bytes:
    """16 hex digits over the rest of a line; one that was moved to another model's folder does not match."""
    return hashlib.blake2b(content, digest_size=_CHECKSUM // 2, key=folder.encode()).hexdigest().encode()


def _line(folder: str, name: bytes, content: bytes) -> bytes:
    rest = name + b" " + content
    return checksum(folder, rest) + b" " + rest + b"\n"


def _parsed(folder: str, line: bytes) -> tuple[bytes, bytes] | None:
    """Key and JSON of a line with its line end, None when it is not as it was written."""
    rest = line[_CHECKSUM + 1 : -1]
    if line[_CHECKSUM : _CHECKSUM + 1] != b" " or checksum(folder, rest) != line[:_CHECKSUM]:
        return None
    name, _, content = rest.partition(b" ")
    return (name, content) if name == ABOUT or _IS_KEY(name) else None


def _problem(folder: str, line: bytes) -> str | None:
    """Why a line cannot be used, None where it can."""
    parsed = _parsed(folder, line)
    if parsed is None:
        return "the checksum does not match"
    if parsed[0] == ABOUT:
        return None if _writer(parsed[1]) is not None else "it does not say who wrote the file"
    try:
        answers.decode(parsed[1])
    except AnswerError as error:
        return f"{error}; its question is asked again"
    return None


@dataclass(slots=True)
class _File:
    """A file as far as it was read: `size` bytes in whole lines."""

    path: Path
    writer: Writer | None = None
    size: int = 0
    lines: int = 0
    torn: bool = False

    def new_lines(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Whole lines that were not read yet and where each starts; notes what follows the last."""
        with files.reading(self.path) as file:
            file.seek(self.size)
            for _, line in files.lines(file, self.path, MAX_LINE):
                if not line.endswith(b"\n"):
                    break
                start, self.size, self.lines = self.size, self.size + len(line), self.lines + 1
                yield start, line
        self.torn = size > self.size


class Store:
    """The stored answers of one model: read by all processes, written each to its own file. Threads may share it."""

    def __init__(self, folder: Path, writer: Writer, *, fresh: bool = False) -> None:
        """Read what is there, which may be nothing; with `fresh` only what this session stores is known.

        Unwritable when the folder cannot be made or read.
        """
        self.folder = folder / writer.folder
        self._writer = replace(writer, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._fresh = fresh
        self._lock = threading.Lock()
        self._files: list[_File] = []
        self._numbers: dict[str, int] = {}
        # Key -> file, start and length of its line, in one number: 26,000 answers cost 4 MB however long they are.
        self._index: dict[bytes, int] = {}
        self._broken: list[str] = []
        self._own: int | None = None
        self._own_number = 0
        self._own_end = 0
        self._next_look = 0.0
        self._synced = time.monotonic()
        try:
            make_private(folder)
            files.subfolder(folder, writer.folder)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(13, "Permission denied")
            self._look()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> Unwritable:
        return Unwritable(f"answers cannot be stored in {self.folder}: {error.strerror or error}")

    # --- reading ------------------------------------------------------------------------------------------

    def recall(self, keys: Sequence[str], *, look: bool = False) -> list[Recalled | None]:
        """The answer stored last for each key; `look` first reads what was written this very moment.

        Without it what other processes write is known after a second. Unwritable when the folder is gone.
        """
        with self._lock:
            try:
                if look or time.monotonic() >= self._next_look:
                    self._look()
                return self._read(keys)
            except OSError as error:
                raise self._unwritable(error) from error

    def _read(self, keys: Sequence[str]) -> list[Recalled | None]:
        recalled: list[Recalled | None] = [None] * len(keys)
        by_file: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for position, key in enumerate(keys):
            place = self._index.get(bytes.fromhex(key))
            if place is not None:
                by_file[place >> 80].append((position, place >> 32 & (1 << 48) - 1, place & (1 << 32) - 1))
        for number, places in by_file.items():
            file = self._files[number]
            earlier = file.writer is None or file.writer.session != self._writer.session
            with files.reading(file.path) as opened:
                for position, start, length in places:
                    line = os.pread(opened.fileno(), length, start)
                    parsed = _parsed(self.folder.name, line)
                    # A line that is no longer what it was is as good as none: its question is asked again.
                    if parsed is None or parsed[0].decode() != keys[position]:
                        continue
                    try:
                        recalled[position] = Recalled(answers.decode(parsed[1]), earlier)
                    except AnswerError as error:
                        # A version stored it that checked less.
                        line_number = os.pread(opened.fileno(), start, 0).count(b"\n") + 1
                        self._broken.append(f"{file.path} line {line_number}: {error}")
                        self._index.pop(bytes.fromhex(keys[position]), None)
        return recalled

    def _look(self) -> None:
        """Index what was written since the last look."""
        with os.scandir(self.folder) as entries:
            sizes = sorted((entry.name, entry.stat().st_size) for entry in entries if entry.name.endswith(SUFFIX))
        for name, size in sizes:
            if name not in self._numbers:
                self._numbers[name] = len(self._files)
                self._files.append(_File(self.folder / name))
            number = self._numbers[name]
            if size > self._files[number].size and (self._own is None or number != self._own_number):
                self._index_file(number, size)
        self._next_look = time.monotonic() + REFRESH

    def _index_file(self, number: int, size: int) -> None:
        file = self._files[number]
        for start, line in file.new_lines(size):
            parsed = _parsed(self.folder.name, line)
            if parsed is None:
                self._broken.append(f"{file.path} line {file.lines}: the checksum does not match")
            elif parsed[0] == ABOUT:
                file.writer = _writer(parsed[1]) or file.writer
            elif not self._fresh or (file.writer is not None and file.writer.session == self._writer.session):
                self._note(bytes.fromhex(parsed[0].decode()), number, start, len(line))

    def _note(self, name: bytes, number: int, start: int, length: int) -> None:
        # Names of files begin with the time: of two answers, that of the younger file counts.
        indexed = self._index.get(name)
        if indexed is None or self._files[indexed >> 80].path.name <= self._files[number].path.name:
            self._index[name] = number << 80 | start << 32 | length

    @property
    def unread(self) -> tuple[str, ...]:
        """Lines that could not be read, so that their questions are asked again."""
        with self._lock:
            torn = (
                f"{file.path} line {file.lines + 1}: the line is torn: its process was stopped while writing"
                for file in self._files
                if file.torn
            )
            return (*self._broken, *torn)

    # --- writing ------------------------------------------------------------------------------------------

    def remember(self, keys: Sequence[str], replies: Sequence[Answer]) -> None:
        """Append answers with one write. Unwritable when the disk does not take them."""
        if not keys:
            return
        named = zip(keys, replies, strict=True)
        lines = [_line(self.folder.name, name.encode(), answers.encode(answer)) for name, answer in named]
        with self._lock:
            try:
                self._append(lines)
            except OSError as error:
                # Behind half a line nothing more may be written.
                self._end()
                raise self._unwritable(error) from error
            for name, line in zip(keys, lines, strict=True):
                self._note(bytes.fromhex(name), self._own_number, self._own_end, len(line))
                self._own_end += len(line)

    def _append(self, lines: Sequence[bytes]) -> None:
        own = self._begun() if self._own is None else self._own
        write_all(own, b"".join(lines))
        if time.monotonic() - self._synced > SYNC:
            os.fsync(own)
            self._synced = time.monotonic()

    def _begun(self) -> int:
        """A file of one's own, with its first line."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname())[:40]
        path = self.folder / f"{now}-{host}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._own = files.appending(path, new=True)
        self._own_number = self._numbers[path.name] = len(self._files)
        self._files.append(_File(path, self._writer))
        head = _line(self.folder.name, ABOUT, _encoder.encode(self._writer))
        write_all(self._own, head)
        self._own_end = len(head)
        return self._own

    def _end(self) -> None:
        """The own file is as it is; what is appended later goes to another."""
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def close(self) -> None:
        """Close the file, with all of it on the disk; Unwritable when it is not."""
        with self._lock:
            try:
                if self._own is not None:
                    os.fsync(self._own)
            except OSError as error:
                raise self._unwritable(error) from error
            finally:
                self._end()


def own_folder(run: Path, name: str) -> Path:
    """The folder of a run's own answers or replies, which may be missing; Unwritable if it is a link or a file."""
    try:
        return files.check_subfolder(run, name)
    except OSError as error:
        raise Unwritable(f"answers cannot be stored in {run / name}: {error.strerror}") from error


def check_folder(folder: Path) -> None:
    """Unwritable when a folder for answers could not be made or written; nothing is made."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} cannot be written")


def write_all(descriptor: int, data: bytes) -> None:
    """Write with one call; OSError when a part alone was taken, as a disk does that has just become full."""
    written = os.write(descriptor, data)
    if written != len(data):
        raise OSError(28, "No space left on device")


# --- the store as a whole, for `medvqa cache` ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contents:
    """One file: who wrote it (None when its first line is damaged), its size in bytes, and what is in it.

    `changed` is when it was last written to, in seconds since 1970; `problems` names the lines that cannot be read.
    """

    path: Path
    writer: Writer | None
    size: int
    changed: float
    answers: int
    problems: tuple[str, ...]


def contents(folder: Path) -> Iterator[Contents]:
    """The files of a store, oldest first, each read whole; none when there is no folder."""
    for path in sorted(folder.glob(f"*/*{SUFFIX}"), key=lambda path: path.name):
        file, writer, whole, problems = _File(path), None, 0, []
        status = path.stat()
        for _, line in file.new_lines(status.st_size):
            if (problem := _problem(path.parent.name, line)) is not None:
                problems.append(f"{path} line {file.lines}: {problem}")
            elif (parsed := _parsed(path.parent.name, line)) is not None and parsed[0] == ABOUT:
                writer = _writer(parsed[1])
            else:
                whole += 1
        if file.torn:
            problems.append(f"{path} line {file.lines + 1}: torn: its process was stopped while writing, or writes yet")
        yield Contents(path, writer, status.st_size, status.st_mtime, whole, tuple(problems))


def writers(folder: Path) -> Iterator[Writer]:
    """Yield who wrote each file of a store; only its first line is read."""
    for path in folder.glob(f"*/*{SUFFIX}"):
        writer, _ = _opened(path)
        if writer is not None:
            yield writer


def asked(folder: Path, sessions: Collection[str]) -> Iterator[tuple[Writer, list[Answer]]]:
    """Yield the answers of each file of some sessions, and who wrote it; of other files the first line is read."""
    for path in folder.glob(f"*/*{SUFFIX}"):
        writer, stored = _opened(path)
        if writer is not None and writer.session in sessions:
            yield writer, list(_whole(content for name, content in stored if name != ABOUT))


def _opened(path: Path) -> tuple[Writer | None, Iterator[tuple[bytes, bytes]]]:
    """Return who wrote a file, None where its first line is damaged, and an iterator over its other whole lines."""
    lines = _File(path).new_lines(path.stat().st_size)
    whole = (parsed for _, line in lines if (parsed := _parsed(path.parent.name, line)))
    head = next(whole, None)
    return (_writer(head[1]) if head is not None and head[0] == ABOUT else None), whole


def _whole(contents: Iterable[bytes]) -> Iterator[Answer]:
    for content in contents:
        with suppress(AnswerError):
            yield answers.decode(content)


def copy(source: Path, target: Path) -> None:
    """Copy the files of a store into another; none if there is no folder. Links, and what is no store's, stay behind.

    Raises OSError.
    """
    for path in sorted(source.glob(f"*/*{SUFFIX}")):
        if path.parent.is_symlink() or path.is_symlink():
            continue
        target.mkdir(exist_ok=True)
        with files.reading(path, follow=False) as file:
            files.replace(files.subfolder(target, path.parent.name) / path.name, iter(lambda: file.read(2**20), b""))


def remove_empty(folder: Path) -> None:
    """Delete a store into which nothing was written; no process may be about to write."""
    if folder.is_symlink():
        return
    for path in (*folder.glob("*"), folder):
        with suppress(OSError):
            path.rmdir()


def remove(chosen: Iterable[Contents]) -> None:
    """Delete files of a store, and the folders that are empty then."""
    for path in chosen:
        path.path.unlink(missing_ok=True)
        if not any(path.path.parent.iterdir()):
            path.path.parent.rmdir()
