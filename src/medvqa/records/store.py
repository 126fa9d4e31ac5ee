"""The answer store: answers on disk until pruned (docs/decisions/0007-answer-store.md).

A folder holds one folder per model, and in it one file per process. A line is `CHECKSUM KEY JSON`: the checksum
(BLAKE2b, 64 bits, keyed by the model's folder) covers the rest of the line, the key identifies the prompt, and the
JSON is the answer. The first line, with the key `about`, describes the writer. A process appends only to its own file,
a batch with one `os.write`. So all lines before the last are whole, and no process waits for another.
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
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, AnswerError, MedVQAError, Prompt
from medvqa.records.private import make_private

STORE = ".answers"
"""Folder under reports/ of answers shared between runs."""
OWN_ANSWERS = "answers"
"""Folder in a run folder for answers of a model without a fingerprint."""
OWN_REPLIES = "judged"
"""Folder in a run folder for replies of a judge without a fingerprint."""
SUFFIX = ".answers"
FETCHED = f"-shared{SUFFIX}"
"""End of the names of files that hold answers from a shared store: parts of many processes' files."""
ABOUT = b"about"
FORMAT = 1
SEVERAL = "(several)"
"""In place of a run's name for a fetched file with answers of several runs."""
REFRESH = 1.0
"""Seconds between two looks at other processes' answers."""
MAX_LINE = 2**28
"""Bytes of one line; a file in a stranger's folder may be of any size."""
SYNC = 5.0
"""Seconds after which new lines are forced to the disk: a power cut costs no more."""

_CHECKSUM = 16
_IS_KEY = re.compile(rb"[0-9a-f]{64}").fullmatch
_encoder = msgspec.json.Encoder()


class Unwritable(MedVQAError):
    """Answers cannot be stored, so nothing more may be asked: the disk is full, read-only or gone."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a file. `fingerprint`: None if the model has none; `session` names one session of a run.

    `role`: candidate or judge. One model may be both, with separate usage.
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
    """The writer of a file, None if its first line is not readable."""
    try:
        return _writers.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Recalled:
    """A stored answer; `earlier`: from an earlier session or another run."""

    answer: Answer
    earlier: bool


def key(prompt: Prompt, digest: str, sample: int = 0) -> str:
    """The key of an answer, within its model's folder: SHA-256 (hex) over the whole prompt.

    `digest` is `prompts.digest(prompt)`: technique, texts, shots and images. Benchmark, item, kind and options are
    added, so that questions that look alike keep separate answers; `sample` numbers the samples of one prompt. A token
    limit is added if the prompt has one: the model's own limit is part of its fingerprint. A variant is not added: it
    has its own prompt.
    """
    content: tuple[object, ...] = (digest, prompt.benchmark, prompt.item, prompt.kind, prompt.options, sample)
    if prompt.max_tokens is not None:
        content = (*content, prompt.max_tokens)
    return hashlib.sha256(_encoder.encode(content)).hexdigest()


def checksum(folder: str, content: bytes) -> bytes:
    """16 hex digits over the rest of a line; keyed by the folder, so a moved line does not match."""
    return hashlib.blake2b(content, digest_size=_CHECKSUM // 2, key=folder.encode()).hexdigest().encode()


def _line(folder: str, name: bytes, content: bytes) -> bytes:
    rest = name + b" " + content
    return checksum(folder, rest) + b" " + rest + b"\n"


def _parsed(folder: str, line: bytes) -> tuple[bytes, bytes] | None:
    """Key and JSON of a line with its line end, None if it is damaged."""
    rest = line[_CHECKSUM + 1 : -1]
    if line[_CHECKSUM : _CHECKSUM + 1] != b" " or checksum(folder, rest) != line[:_CHECKSUM]:
        return None
    name, _, content = rest.partition(b" ")
    return (name, content) if name == ABOUT or _IS_KEY(name) else None


def _problem(folder: str, line: bytes) -> str | None:
    """The reason why a line cannot be used, None if it can."""
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
    """A partly read file; `size`: the bytes read, in whole lines."""

    path: Path
    size: int = 0
    lines: int = 0
    torn: bool = False
    section: int = -1
    """The number of its last part (`_Section`)."""

    def new_lines(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield unread whole lines and their starts; record a torn last line."""
        with files.reading(self.path) as file:
            file.seek(self.size)
            for _, line in files.lines(file, self.path, MAX_LINE):
                if not line.endswith(b"\n"):
                    break
                start, self.size, self.lines = self.size, self.size + len(line), self.lines + 1
                yield start, line
        self.torn = size > self.size


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of a file: the lines of one writer. A file that a process wrote has one, a fetched file many.

    `age`: of two answers to a question, the one with the greater age counts.
    """

    path: Path
    writer: Writer | None
    age: str


class Store:
    """The stored answers of one model. Each process reads all files and writes its own. Threads may share it."""

    def __init__(self, folder: Path, writer: Writer, *, fresh: bool = False) -> None:
        """Read the existing answers; with `fresh`, only those of this session. A missing folder is empty.

        Unwritable if the folder cannot be created or read.
        """
        self.folder = folder / writer.folder
        self._writer = replace(writer, started=datetime.now(UTC).isoformat(timespec="seconds"))
        self._fresh = fresh
        self._lock = threading.Lock()
        self._files: dict[str, _File] = {}
        self._sections: list[_Section] = []
        # Key -> section, start and length of its line, in one number: 26,000 answers of any length take 4 MB.
        self._index: dict[bytes, int] = {}
        self._broken: list[str] = []
        self._own: int | None = None
        self._own_name = ""
        self._own_section = -1
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
        """The answer stored last for each key; `look` first reads lines written just now.

        Without it, other processes' answers are seen after a second. Unwritable if the folder is gone.
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
            section = self._sections[number]
            earlier = self._is_earlier(number)
            with files.reading(section.path) as opened:
                for position, start, length in places:
                    line = os.pread(opened.fileno(), length, start)
                    parsed = _parsed(self.folder.name, line)
                    # A line that changed since is ignored: its question is asked again.
                    if parsed is None or parsed[0].decode() != keys[position]:
                        continue
                    try:
                        recalled[position] = Recalled(answers.decode(parsed[1]), earlier)
                    except AnswerError as error:
                        # An earlier version checked less before storing.
                        line_number = os.pread(opened.fileno(), start, 0).count(b"\n") + 1
                        self._broken.append(f"{section.path} line {line_number}: {error}")
                        self._index.pop(bytes.fromhex(keys[position]), None)
        return recalled

    def _look(self) -> None:
        """Index lines written since the last look."""
        with os.scandir(self.folder) as entries:
            sizes = sorted((entry.name, entry.stat().st_size) for entry in entries if entry.name.endswith(SUFFIX))
        for name, size in sizes:
            file = self._files.get(name) or self._files.setdefault(name, _File(self.folder / name))
            if size > file.size and (self._own is None or name != self._own_name):
                self._index_file(file, size)
        self._next_look = time.monotonic() + REFRESH

    def _index_file(self, file: _File, size: int) -> None:
        for start, line in file.new_lines(size):
            parsed = _parsed(self.folder.name, line)
            if parsed is None:
                self._broken.append(f"{file.path} line {file.lines}: the checksum does not match")
                continue
            if parsed[0] == ABOUT or file.section < 0:
                writer = _writer(parsed[1]) if parsed[0] == ABOUT else None
                file.section = self._begin(file.path, writer)
            if parsed[0] != ABOUT and not (self._fresh and self._is_earlier(file.section)):
                self._note(bytes.fromhex(parsed[0].decode()), file.section, start, len(line))

    def _begin(self, path: Path, writer: Writer | None) -> int:
        """Note a part of a file by one writer, and return its number."""
        # The names of processes' own files begin with the time; a fetched file has answers of many times.
        age = re.sub("[-:]", "", writer.started) if path.name.endswith(FETCHED) and writer is not None else path.name
        self._sections.append(_Section(path, writer, age))
        return len(self._sections) - 1

    def _is_earlier(self, number: int) -> bool:
        """Whether a part was written by another session, or nobody knows by which."""
        writer = self._sections[number].writer
        return writer is None or writer.session != self._writer.session

    def _note(self, name: bytes, number: int, start: int, length: int) -> None:
        indexed = self._index.get(name)
        if indexed is None or self._sections[indexed >> 80].age <= self._sections[number].age:
            self._index[name] = number << 80 | start << 32 | length

    @property
    def unread(self) -> tuple[str, ...]:
        """Unreadable lines; their questions are asked again."""
        with self._lock:
            torn = (
                f"{file.path} line {file.lines + 1}: the line is torn: its process was stopped while writing"
                for file in self._files.values()
                if file.torn
            )
            return (*self._broken, *torn)

    # --- writing ------------------------------------------------------------------------------------------

    def remember(self, keys: Sequence[str], replies: Sequence[Answer]) -> None:
        """Append answers with one write. Unwritable if the disk does not take them."""
        if not keys:
            return
        named = zip(keys, replies, strict=True)
        lines = [_line(self.folder.name, name.encode(), answers.encode(answer)) for name, answer in named]
        with self._lock:
            try:
                self._append(lines)
            except OSError as error:
                # Write nothing after half a line.
                self._end()
                raise self._unwritable(error) from error
            for name, line in zip(keys, lines, strict=True):
                self._note(bytes.fromhex(name), self._own_section, self._own_end, len(line))
                self._own_end += len(line)

    def _append(self, lines: Sequence[bytes]) -> None:
        own = self._begun() if self._own is None else self._own
        write_all(own, b"".join(lines))
        if time.monotonic() - self._synced > SYNC:
            os.fsync(own)
            self._synced = time.monotonic()

    def _begun(self) -> int:
        """Create this process's file, with its first line."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname())[:40]
        path = self.folder / f"{now}-{host}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._own = files.appending(path, new=True)
        self._own_name, self._own_section = path.name, self._begin(path, self._writer)
        self._files[path.name] = _File(path, section=self._own_section)
        head = _line(self.folder.name, ABOUT, _encoder.encode(self._writer))
        write_all(self._own, head)
        self._own_end = len(head)
        return self._own

    def _end(self) -> None:
        """Give up the current file; later answers go to a new one."""
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def close(self) -> None:
        """Sync and close the file; Unwritable if that fails."""
        with self._lock:
            try:
                if self._own is not None:
                    os.fsync(self._own)
            except OSError as error:
                raise self._unwritable(error) from error
            finally:
                self._end()


def own_folder(run: Path, name: str) -> Path:
    """The folder of a run's own answers or replies; it may not exist. Unwritable if it is a link or a file."""
    try:
        return files.check_subfolder(run, name)
    except OSError as error:
        raise Unwritable(f"answers cannot be stored in {run / name}: {error.strerror}") from error


def check_folder(folder: Path) -> None:
    """Unwritable if a folder for answers could not be created or written; creates nothing."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} cannot be written")


def write_all(descriptor: int, data: bytes) -> None:
    """Write with one call; OSError if only a part was written, as on a full disk."""
    written = os.write(descriptor, data)
    if written != len(data):
        raise OSError(28, "No space left on device")


# --- the store as a whole, for `medvqa cache` ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contents:
    """One file of a store: its writer (None if the first line is damaged), size in bytes and content.

    `changed`: time of the last write, in seconds since 1970; `problems`: the unreadable lines.
    """

    path: Path
    writer: Writer | None
    size: int
    changed: float
    answers: int
    problems: tuple[str, ...]


def contents(folder: Path) -> Iterator[Contents]:
    """Yield the files of a store, oldest first, each read whole; none without a folder.

    A fetched file is described by its parts' first writer, if all of them wrote for one run.
    """
    for path in sorted(folder.glob(f"*/*{SUFFIX}"), key=lambda path: path.name):
        file, writer, whole, problems = _File(path), None, 0, []
        status = path.stat()
        for _, line in file.new_lines(status.st_size):
            if (problem := _problem(path.parent.name, line)) is not None:
                problems.append(f"{path} line {file.lines}: {problem}")
            elif (parsed := _parsed(path.parent.name, line)) is not None and parsed[0] == ABOUT:
                writer = _common(writer, _writer(parsed[1]))
            else:
                whole += 1
        if file.torn:
            problems.append(f"{path} line {file.lines + 1}: torn: its process was stopped while writing, or writes yet")
        yield Contents(path, writer, status.st_size, status.st_mtime, whole, tuple(problems))


def _common(first: Writer | None, second: Writer | None) -> Writer | None:
    """What two writers of one file have in common; the first one if there is no second."""
    if first is None or second is None or first.run == second.run:
        return first or second
    return replace(first, run=SEVERAL)


def writers(folder: Path) -> Iterator[Writer]:
    """Yield the writer of each file of a store; reads only first lines."""
    for path in folder.glob(f"*/*{SUFFIX}"):
        writer, _ = _opened(path)
        if writer is not None:
            yield writer


def asked(folder: Path, sessions: Collection[str]) -> Iterator[tuple[Writer, list[Answer]]]:
    """Yield writer and answers of each file of some sessions; reads only the first line of other processes' files."""
    for path in folder.glob(f"*/*{SUFFIX}"):
        writer, stored = _opened(path)
        if path.name.endswith(FETCHED):
            yield from _parts_of(stored, writer, sessions)
        elif writer is not None and writer.session in sessions:
            yield writer, list(_whole(content for name, content in stored if name != ABOUT))


def _parts_of(
    stored: Iterator[tuple[bytes, bytes]], writer: Writer | None, sessions: Collection[str]
) -> Iterator[tuple[Writer, list[Answer]]]:
    """Yield writer and answers of each part of a fetched file that one of the sessions wrote."""
    part: list[bytes] = []
    for name, content in chain(stored, [(ABOUT, b"")]):
        if name != ABOUT:
            part.append(content)
            continue
        if writer is not None and writer.session in sessions:
            yield writer, list(_whole(part))
        writer, part = _writer(content), []


def head_of(path: Path) -> bytes | None:
    """Return the first line of a file, None if it is not there yet or damaged (OSError)."""
    _, line = next(_File(path).new_lines(path.stat().st_size), (0, b""))
    return line if is_about(path.parent.name, line) else None


def is_about(folder: str, line: bytes) -> bool:
    """Whether a line of a model's folder says who wrote the lines that follow."""
    parsed = _parsed(folder, line)
    return parsed is not None and parsed[0] == ABOUT and _writer(parsed[1]) is not None


def _opened(path: Path) -> tuple[Writer | None, Iterator[tuple[bytes, bytes]]]:
    """Return the writer of a file, None if its first line is damaged, and an iterator over its other whole lines."""
    lines = _File(path).new_lines(path.stat().st_size)
    whole = (parsed for _, line in lines if (parsed := _parsed(path.parent.name, line)))
    head = next(whole, None)
    return (_writer(head[1]) if head is not None and head[0] == ABOUT else None), whole


def _whole(contents: Iterable[bytes]) -> Iterator[Answer]:
    for content in contents:
        with suppress(AnswerError):
            yield answers.decode(content)


def copy(source: Path, target: Path) -> None:
    """Copy the files of a store into another; none without a folder. Links and foreign files are skipped.

    Raises OSError.
    """
    for path in sorted(source.glob(f"*/*{SUFFIX}")):
        if path.parent.is_symlink() or path.is_symlink():
            continue
        target.mkdir(exist_ok=True)
        with files.reading(path, follow=False) as file:
            files.replace(files.subfolder(target, path.parent.name) / path.name, iter(lambda: file.read(2**20), b""))


def remove_empty(folder: Path) -> None:
    """Delete a store without answers; no process may be about to write."""
    if folder.is_symlink():
        return
    for path in (*folder.glob("*"), folder):
        with suppress(OSError):
            path.rmdir()


def remove(chosen: Iterable[Contents]) -> None:
    """Delete files of a store, and folders left empty."""
    for path in chosen:
        path.path.unlink(missing_ok=True)
        if not any(path.path.parent.iterdir()):
            path.path.parent.rmdir()
