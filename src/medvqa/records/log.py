"""The log of one process: the answers that it got, and its calls in flight.

A run's folder `answers` holds the logs of its processes, and no other process writes there. A line is
`CHECKSUM KIND/KEY JSON`. The checksum (BLAKE2b, 64 bits) covers the rest of the line and is keyed by the identity of
the model, so that a line that was moved to the log of another model does not match.

    head             LogHead      the first line: who wrote the log, and whether other runs may use its answers
    begin/CALL       [KEY...]  a call of the model begins; its questions are in flight
    answer/KEY       Answer    written before anybody sees the answer
    end/CALL         []        the call has ended; those of its questions without an answer ended in errors
    closed           Closed    the last line: the process writes on in another file, or has ended

A process appends the lines of a batch with one `os.write`, so all lines before the last are whole. A log that is closed
and whole never changes again: it may be copied under its name, and is checked by the digest in its last line.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import threading
import time
from binascii import unhexlify
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, MedVQAError, Prompt
from medvqa.records.private import make_private

ANSWERS = "answers"
"""Folder in a run folder for the logs of its processes."""
SUFFIX = ".log"
FORMAT = 2
"""Format 1 are the files of earlier versions (`recall.EarlierAnswers`)."""
BLOCK = 2**26
"""Bytes that are read at once, and of the longest line: a file in a stranger's folder may be of any size."""
TORN = "the line is torn: its process was stopped while writing"
SYNC = 5.0
"""Seconds after which new lines are forced to the disk: a power cut costs no more."""

Role = Literal["candidate", "judge"]
"""One model may be both, with separate usage."""
Reuse = Literal["all", "here", "none"]
"""Who may use the answers of a log besides its own run. `all`: any run. `here`: any run that names this one, but no
place gets the log (data that are not declared public). `none`: no other run (`--fresh` on a part of the questions)."""

_CHECKSUM = 16
_KEY = _CHECKSUM + len(" answer/")
"""Where the key begins in the line of an answer."""
_IS_CALL = re.compile(rb"[0-9]{1,15}").fullmatch
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}-(?P<process>[A-Za-z0-9_]+)-[0-9a-f]{16}\.log")
_LAST = 512
"""Bytes that are enough for the last line."""
_encoder = msgspec.json.Encoder()


class Unwritable(MedVQAError):
    """Answers cannot be stored, so nothing more may be asked: the disk is full, read-only or gone."""


@contextmanager
def unwritable(what: str) -> Iterator[None]:
    """Raise an OSError of the block as Unwritable, whose message begins with `what`."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"{what}: {error.strerror or error}") from error


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a log. `fingerprint`: None if the model has none; `session` names one session of a run.

    `process`: the name of the process in its session, such as "main" or "gw0".
    """

    backend: str
    model: str
    fingerprint: str | None
    run: str
    session: str
    process: str = "main"
    role: Role = "candidate"
    reuse: Reuse = "here"
    started: str = ""
    format: int = FORMAT

    @property
    def identity(self) -> str:
        """Return the identity of the model in this role, which keys the checksums of its logs: 32 hex digits."""
        content = _encoder.encode((FORMAT, self.role, self.backend, self.fingerprint))
        return hashlib.sha256(content).hexdigest()[:32]


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a log. `digest` (BLAKE2b, 128 bits) covers all bytes before it.

    `died`: the process was killed, and another one has closed its log.
    """

    digest: str
    died: bool = False


_heads, _closed = msgspec.json.Decoder(LogHead), msgspec.json.Decoder(Closed)
_keys = msgspec.json.Decoder(tuple[str, ...])
JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def answer_key(prompt: Prompt, digest: str, sample: int = 0) -> str:
    """Return the key of an answer within the logs of a model: SHA-256 (hex) over the whole prompt.

    `digest` is `prompts.digest(prompt)`: technique, texts, shots and images. Benchmark, item, kind and options are
    added, so that questions that look alike keep separate answers; `sample` numbers the samples of one prompt. A token
    limit is added if the prompt has one: the model's own limit is part of its fingerprint. A variant is not added: it
    has its own prompt.
    """
    content: tuple[object, ...] = (digest, prompt.benchmark, prompt.item, prompt.kind, prompt.options, sample)
    if prompt.max_tokens is not None:
        content = (*content, prompt.max_tokens)
    return hashlib.sha256(_encoder.encode(content)).hexdigest()


# --- lines --------------------------------------------------------------------------------------------------


def checksum(identity: str, content: bytes) -> bytes:
    """Return 16 hex digits over the rest of a line."""
    return hashlib.blake2b(content, digest_size=_CHECKSUM // 2, key=identity.encode()).hexdigest().encode()


def _line(identity: str, name: str, content: bytes) -> bytes:
    rest = name.encode() + b" " + content
    return checksum(identity, rest) + b" " + rest + b"\n"


def _parsed(identity: str, line: bytes) -> tuple[bytes, bytes] | None:
    """Return name and JSON of a line without its line end, None if it is damaged."""
    rest = line[_CHECKSUM + 1 :]
    if line[_CHECKSUM : _CHECKSUM + 1] != b" " or checksum(identity, rest) != line[:_CHECKSUM]:
        return None
    name, _, content = rest.partition(b" ")
    return name, content


def _digest(identity: str) -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16, key=identity.encode())


def _head_of(line: bytes) -> LogHead | None:
    """Return the head that a first line holds, without its line end; None if it is damaged."""
    try:
        head = _heads.decode(line[_CHECKSUM + 1 :].partition(b" ")[2])
    except JSON_ERRORS:
        return None
    parsed = _parsed(head.identity, line)
    return head if parsed is not None and parsed[0] == b"head" else None


def answer_in(identity: str, line: bytes, key: str) -> Answer | None:
    """Return the answer in a line; None if the line is damaged or of another key. AnswerError if it is no answer."""
    parsed = _parsed(identity, line[:-1])
    return None if parsed is None or parsed[0] != f"answer/{key}".encode() else answers.decode(parsed[1])


# --- reading ------------------------------------------------------------------------------------------------


AnswerLine = tuple[bytes, int, int]
"""The key of an answer (32 bytes), where its line begins in its log, and its length, line end included.

A tuple without names: half a million are made within half a second."""


@dataclass(slots=True)
class LogReader:
    """Reads the bytes of one log as they come. `identity`: used if the head is damaged; None reads nothing then.

    `size` and `lines` count what was read, in whole lines; `problems` has a line number and a reason for each line that
    cannot be used. `calls`: keys of calls in flight. `closed`: the last line that was read says so, and `whole`, that
    its digest is right.
    """

    identity: str | None = None
    head: LogHead | None = None
    size: int = 0
    lines: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    calls: dict[int, tuple[str, ...]] = field(default_factory=dict)
    closed: Closed | None = None
    whole: bool = False
    torn: bool = False
    """Whether bytes follow the last whole line."""
    _hash: hashlib.blake2b | None = None

    def feed(self, content: bytes) -> list[AnswerLine]:
        """Read the bytes from `size` on, and return the answers in their order; the rest of a last line is left."""
        end = content.rfind(b"\n") + 1
        self.torn = end < len(content)
        lines = content[:end].split(b"\n")[:-1]
        if lines and not self.lines:
            self._read_head(lines[0])
        found: list[AnswerLine] = []
        if not lines or self.identity is None or self._hash is None:
            self.size, self.lines = self.size + end, self.lines + len(lines)
            return found
        last = end - len(lines[-1]) - 1
        self._hash.update(content[:last])
        self._read_end(self.identity, lines[-1], self._hash)
        self._hash.update(content[last:end])
        # No line of a log that is closed and whole needs a look of its own.
        sure = self.whole and self.closed is not None and not self.closed.died
        begin = self.size
        for number, line in enumerate(lines, self.lines + 1):
            start, begin = begin, begin + len(line) + 1
            is_answer = line[_CHECKSUM:_KEY] == b" answer/"
            if is_answer and (sure or checksum(self.identity, line[_CHECKSUM + 1 :]) == line[:_CHECKSUM]):
                try:
                    key = unhexlify(line[_KEY : _KEY + 64])
                except ValueError:
                    # Whoever wrote the log knew its digest: a key may be anything.
                    self.problems.append((number, "it holds an answer under no key"))
                    continue
                found.append((key, start, begin - start))
            elif not sure and number > 1:
                self._note(self.identity, number, line)
        self.size, self.lines = begin, self.lines + len(lines)
        if self.closed is not None and self.closed.died and self.problems and self.problems[-1][0] == self.lines - 1:
            self.problems[-1] = (self.lines - 1, TORN)
        return found

    def _read_head(self, line: bytes) -> None:
        head = _head_of(line)
        if head is not None and head.format == FORMAT:
            self.head, self.identity = head, head.identity
        else:
            why = "it does not say who wrote the log" if head is None else f"a later version wrote it ({head.format})"
            self.problems.append((1, why))
        self._hash = None if self.identity is None else _digest(self.identity)

    def _read_end(self, identity: str, line: bytes, before: hashlib.blake2b) -> None:
        """Read whether the last line closes the log; `before`: the digest of all bytes before it."""
        parsed, self.closed = _parsed(identity, line), None
        if parsed is not None and parsed[0] == b"closed":
            with suppress(*JSON_ERRORS):
                self.closed = _closed.decode(parsed[1])
        self.whole = self.closed is not None and self.closed.digest == before.hexdigest()

    def _note(self, identity: str, number: int, line: bytes) -> None:
        """Note that a call begins or ends, or that a line is damaged."""
        parsed = _parsed(identity, line)
        if parsed is None:
            self.problems.append((number, "the checksum does not match"))
            return
        kind, _, call = parsed[0].partition(b"/")
        if kind == b"begin" and _IS_CALL(call):
            with suppress(*JSON_ERRORS):
                self.calls[int(call)] = _keys.decode(parsed[1])
        elif kind == b"end" and _IS_CALL(call):
            self.calls.pop(int(call), None)

    def ending(self, rest: bytes) -> bytes:
        """Return what ends a log that its process has left open; `rest`: its bytes from `size` on. b"" if unknown."""
        if self.identity is None or self._hash is None:
            return b""
        line_end = b"\n" if rest else b""
        digest = self._hash.copy()
        digest.update(rest + line_end)
        closed = Closed(digest=digest.hexdigest(), died=True)
        return line_end + _line(self.identity, "closed", _encoder.encode(closed))


def is_log(name: str) -> bool:
    """Return whether a file name is that of a log."""
    return _NAME.fullmatch(name) is not None


def logs(folder: Path) -> list[Path]:
    """Return the logs of a folder, oldest first; [] without the folder. Links and foreign files are left out."""
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if is_log(e.name) and e.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return [folder / name for name in sorted(names)]


def read_on(path: Path, reader: LogReader) -> list[AnswerLine]:
    """Read what a log has beyond `reader.size`, and return the answers there (OSError).

    What lies behind a line that is too long is not read.
    """
    places: list[AnswerLine] = []
    with files.reading(path, follow=False) as file:
        while True:
            file.seek(reader.size)
            content, before = file.read(BLOCK), reader.size
            places += reader.feed(content)
            if len(content) < BLOCK:
                return places
            if reader.size == before:
                reader.problems.append((reader.lines + 1, f"longer than {files.size(BLOCK)}; no later line is read"))
                reader.size, reader.torn = os.fstat(file.fileno()).st_size, False
                return places


def read_log(path: Path) -> tuple[LogReader, list[AnswerLine]]:
    """Read a whole log, and return its reader and its answers (OSError)."""
    reader = LogReader()
    return reader, read_on(path, reader)


def scan(content: bytes) -> tuple[LogReader, list[AnswerLine]]:
    """Read the bytes of a whole log, and return its reader and its answers."""
    reader = LogReader()
    return reader, reader.feed(content)


def head_at(path: Path) -> LogHead | None:
    """Return the head of a log, None if it is not there yet or damaged (OSError)."""
    with files.reading(path, follow=False) as file:
        return _head_of(file.readline(BLOCK)[:-1])


def check_folder(run: Path) -> None:
    """Unwritable if logs could not be written in a run folder, which may be missing; creates nothing."""
    folder = run / ANSWERS
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Unwritable(f"answers cannot be stored in {folder}: {nearest} cannot be written")


# --- writing ------------------------------------------------------------------------------------------------


class Log:
    """The log that this process writes, for one model in one role. Threads may share it."""

    def __init__(self, run: Path, process: str) -> None:
        """Create an empty file in the run folder, before the model is loaded: so a dead process is known.

        `process` is the name of a worker, or "main". Raises Unwritable.
        """
        self._folder = run / ANSWERS
        self._process = re.sub(r"[^A-Za-z0-9_]", "_", process)
        self._head: LogHead | None = None
        self._lock = threading.Lock()
        self._calls: dict[int, tuple[str, ...]] = {}
        self._file = -1
        self._hash: hashlib.blake2b | None = None
        self._synced = time.monotonic()
        self._ended = False
        self.size = 0
        """Bytes of the current file."""
        self.first_answer: float | None = None
        """The moment (monotonic) of the first answer in the current file; None without one."""
        self.rotated = False
        """Whether an earlier file was closed."""
        self._problem = f"answers cannot be stored in {self._folder}"
        with unwritable(self._problem):
            make_private(run)
            files.private_folder(files.check_subfolder(run, ANSWERS))
            self.path = self._created()

    def begin_as(self, head: LogHead) -> None:
        """Say who writes, before the first call."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._head = msgspec.structs.replace(head, process=self._process, started=head.started or now)

    def _created(self) -> Path:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        path = self._folder / f"{now}-{self._process}-{secrets.token_hex(8)}{SUFFIX}"
        self._file = files.appending(path, new=True)
        self.size, self.first_answer, self._hash = 0, None, None
        return path

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Note that a call begins; its number is its own as long as it lasts (Unwritable)."""
        with self._lock:
            self._calls[call] = tuple(keys)
            self._append([(f"begin/{call}", _encoder.encode(keys))])

    def end(self, call: int, keys: Sequence[str], replies: Sequence[Answer]) -> None:
        """Store the answers of a call, and note that it has ended, with one write (Unwritable)."""
        named = [(f"answer/{key}", answers.encode(reply)) for key, reply in zip(keys, replies, strict=True)]
        with self._lock:
            self._calls.pop(call, None)
            self._append([*named, (f"end/{call}", b"[]")])
            if named and self.first_answer is None:
                self.first_answer = time.monotonic()
            if self._ended:
                # A call that came back late.
                self._finish()

    def _append(self, records: Sequence[tuple[str, bytes]]) -> None:
        if self._head is None:
            raise RuntimeError("begin_as was not called")
        with unwritable(self._problem):
            try:
                identity, records = self._head.identity, self._begun(self._head, records)
                self._write(b"".join([_line(identity, name, content) for name, content in records]))
                if not os.fstat(self._file).st_nlink:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                if time.monotonic() - self._synced > SYNC:
                    os.fsync(self._file)
                    self._synced = time.monotonic()
            except OSError:
                # Write nothing after half a line.
                self._give_up()
                raise

    def _begun(self, head: LogHead, records: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
        """Return the records, after those that begin a new file; make the file if there is none (OSError)."""
        if self._file < 0:
            # A call that began in an earlier file is in flight here, too: each file tells all about a death.
            own = {name for name, _ in records}
            begun = [(f"begin/{call}", _encoder.encode(keys)) for call, keys in self._calls.items()]
            self.path = self._created()
            records = [*(record for record in begun if record[0] not in own), *records]
        if self._hash is None:
            self._hash = _digest(head.identity)
            records = [("head", _encoder.encode(head)), *records]
        return records

    def _write(self, content: bytes) -> None:
        files.write_all(self._file, content)
        self.size += len(content)
        if self._hash is not None:
            self._hash.update(content)

    def _give_up(self) -> None:
        """Leave the current file; later records go to a new one."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._hash = -1, None

    def rotate(self) -> Path | None:
        """Close the current file, and return it; the next record begins another. None if it has no answer (Unwritable).

        Calls in flight are in both files.
        """
        with self._lock:
            if self._file < 0 or self.first_answer is None:
                return None
            self.rotated = True
            return self._finish()

    def _finish(self) -> Path:
        """Write the last line of the current file, and close it; with calls in flight, begin the next one before."""
        path, file, digest = self.path, self._file, self._hash
        if self._head is None or digest is None:
            raise RuntimeError("there is nothing to close")
        line = _line(self._head.identity, "closed", _encoder.encode(Closed(digest=digest.hexdigest())))
        self._file, self._hash = -1, None
        try:
            if self._calls:
                self._append([])
            with unwritable(self._problem):
                files.write_all(file, line)
                os.fsync(file)
        finally:
            os.close(file)
        return path

    def close(self) -> None:
        """Close the log, once (Unwritable). Calls in flight are marked as ended: the process ends in order."""
        with self._lock:
            calls, self._calls, self._ended = self._calls, {}, True
            if self._hash is None:
                # There is no file, or an empty one, which tells that the process was there.
                self._give_up()
                return
            with suppress(Unwritable):
                if calls:
                    self._append([(f"end/{call}", b"[]") for call in calls])
            if self._file >= 0:
                self._finish()


def is_closed(path: Path) -> bool:
    """Return whether the last line of a log closes it; the digest is not checked (OSError)."""
    with files.reading(path, follow=False) as file:
        size = os.fstat(file.fileno()).st_size
        end = os.pread(file.fileno(), _LAST, max(0, size - _LAST))
    return end.endswith(b"\n") and end[:-1].rpartition(b"\n")[2][_CHECKSUM:].startswith(b" closed ")


def has_answers(path: Path) -> bool:
    """Return whether a log has an answer (OSError)."""
    with files.reading(path, follow=False) as file:
        return any(b" answer/" in line for line in file)


def close_dead(path: Path, reader: LogReader) -> None:
    """Write the last line of a log that its process has left open; `reader` has read it (OSError)."""
    with files.reading(path, follow=False) as file:
        file.seek(reader.size)
        files.append(path, reader.ending(file.read()), sync=True)


def is_kept_apart(folder: Path, identity: str) -> bool:
    """Return whether a folder has a log of this model whose answers no other run may use (OSError)."""
    heads = (head_at(path) for path in logs(folder))
    return any(head is not None and head.reuse == "none" and head.identity == identity for head in heads)


def process_of(path: Path) -> str:
    """Return the name of the process that wrote a log."""
    match = _NAME.fullmatch(path.name)
    return "" if match is None else match["process"]
