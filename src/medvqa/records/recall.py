"""Find stored answers: in the logs and results of a run, and of other runs or places that were named.

Nothing is copied. The own run comes before others; within a source, the log that began last counts. A line that turns
out to be damaged hides no older one.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, AnswerError, Prompt
from medvqa.records.answer_index import IndexedLogs
from medvqa.records.log import (
    ANSWERS,
    BLOCK,
    TORN,
    Log,
    LogHead,
    LogReader,
    Reuse,
    Role,
    Unwritable,
    answer_in,
    answer_key,
    head_at,
    logs,
    read_log,
    read_on,
    unwritable,
)
from medvqa.records.run_folder import MAX_LINE, RESULTS, decode
from medvqa.records.run_record import RunRecord

OWN = "this run"
"""The name of the own run among sources."""
REFRESH = 1.0
"""Seconds between two looks at other processes' answers."""
_UNKNOWN = (Prompt(""), "", 0)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A stored answer; `source`: where it was found, "" for this session."""

    answer: Answer
    source: str = ""

    @property
    def earlier(self) -> bool:
        """Whether it is from an earlier session, or from elsewhere."""
        return bool(self.source)


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A folder with logs of others, and its name for the user. `accepts`: which of them may be used.

    `typed`: the user named it; a log that cannot be read is an error there. Elsewhere it is named and left out.
    """

    name: str
    folder: Path
    accepts: frozenset[Reuse] = frozenset({"all", "here"})
    typed: bool = True


class Finder(Protocol):
    """Where stored answers are looked for; `name`: for the user."""

    name: str

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer to a prompt with its key, digest and sample; None without one (OSError, MedVQAError)."""
        ...


class FolderLogs(IndexedLogs):
    """The answers of one model in the logs of a folder, which are read as they grow."""

    def __init__(
        self, source: LogFolder, head: LogHead, broken: list[str], *, log: Log | None = None, fresh: bool = False
    ) -> None:
        """Read nothing yet. `head`, `log`, `fresh`: as in StoredAnswers; `broken` gets lines that cannot be read."""
        super().__init__(head.identity)
        self.name = source.name
        self.folder = source.folder
        self._accepts, self._typed = source.accepts, source.typed
        self._head, self._log, self._fresh = head, log, fresh
        self._broken = broken
        self._is_own = source.name == OWN
        # A log without its first line is read by its own run alone: who may use it is unknown.
        self._assumed = head.identity if self._is_own and not fresh else None
        # By the names of the logs; None for one that is not used.
        self._readers: dict[str, LogReader | None] = {}
        self._next_look = 0.0
        self._log_path: Path | None = None

    def refresh(self, *, now: bool = False) -> None:
        """Index what this process has written, and each second (or `now`) what others have (OSError)."""
        path = None if self._log is None else self._log.path
        if now or path != self._log_path or time.monotonic() >= self._next_look:
            if path is not None:
                os.stat(self.folder)
            for each in logs(self.folder):
                self._read_other(each)
            self._log_path, self._next_look = path, time.monotonic() + REFRESH
        elif path is not None:
            self._read(path)

    def _read_other(self, path: Path) -> None:
        """Read a log that may be another process's, or another run's, which may be removed meanwhile (OSError)."""
        try:
            self._read(path)
        except OSError as error:
            if self._is_own or (self._typed and not isinstance(error, FileNotFoundError)):
                raise
            self._readers[path.name] = None
            self._broken.append(f"{path}: {error.strerror}")

    def _read(self, path: Path) -> None:
        size = path.stat().st_size
        if path.name not in self._readers and size:
            self._readers[path.name] = LogReader(self._assumed) if self._is_wanted(path, head_at(path)) else None
        reader = self._readers.get(path.name)
        if reader is not None and not reader.whole and size > reader.size:
            known = len(reader.problems)
            self._add(path.name, read_on(path, reader))
            self._broken += [f"{path} line {line}: {why}" for line, why in reader.problems[known:]]
            if reader.torn and not self._is_own:
                self._broken.append(f"{path} line {reader.lines + 1}: {TORN}")

    def _is_wanted(self, path: Path, head: LogHead | None) -> bool:
        """Return whether a log with this first line is of this model, and may be used."""
        if head is None:
            if self._assumed is None:
                self._broken.append(f"{path} line 1: it does not say who wrote the log")
            return self._assumed is not None
        mine = not self._fresh or head.session == self._head.session
        # Without a fingerprint, only the name tells two models of a backend from each other.
        same = head.identity == self._identity and (head.fingerprint is not None or head.model == self._head.model)
        return mine and same and head.reuse in self._accepts

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer of a key, None without one (OSError)."""
        self.refresh()
        found = self._found(key)
        return None if found is None else found[1]

    def recall(self, key: str) -> Recalled | None:
        """Return the answer of a key as far as it is indexed, None without one (OSError)."""
        if (found := self._found(key)) is None:
            return None
        reader = self._readers[found[0]]
        mine = reader is not None and reader.head is not None and reader.head.session == self._head.session
        return Recalled(found[1], "" if mine else self.name)

    def _line(self, log: str, start: int, length: int) -> bytes:
        try:
            return files.part(self.folder / log, start, length)
        except FileNotFoundError:
            if self._is_own:
                raise
            return b""  # the other run was removed meanwhile

    def _note_line(self, log: str, start: int, why: str) -> None:
        number = files.part(self.folder / log, 0, start).count(b"\n") + 1
        self._broken.append(f"{self.folder / log} line {number}: {why}")

    @property
    def torn(self) -> tuple[str, ...]:
        """A line for each log whose last line is torn, in this moment."""
        readers = [(log, reader) for log, reader in self._readers.items() if reader is not None and reader.torn]
        return tuple(f"{self.folder / log} line {reader.lines + 1}: {TORN}" for log, reader in readers)


class StoredAnswers:
    """The stored answers of one model in one role. Threads may share it."""

    def __init__(
        self,
        run: Path,
        head: LogHead,
        sources: Sequence[LogFolder] = (),
        finders: Sequence[Finder] = (),
        *,
        log: Log | None = None,
        fresh: bool = False,
    ) -> None:
        """Read the logs of the run; with `fresh`, only those of this session. Unwritable if they cannot be read.

        `head`: of the logs that this process writes; `log`: its own, None if it writes none. `sources`, then `finders`,
        are asked for answers that the run lacks.
        """
        self.broken: list[str] = []
        """Lines that cannot be read, torn ones left out: its length is a quick look for news of `unread`."""
        own = LogFolder(OWN, run / ANSWERS, frozenset({"all", "here", "none"}))
        self._own = FolderLogs(own, head, self.broken, log=log, fresh=fresh)
        borrowed = [FolderLogs(source, head, self.broken) for source in sources]
        self._finders: list[Finder] = [] if fresh else [*borrowed, *finders]
        self._asked: dict[str, tuple[Prompt, str, int]] = {}
        self._lock = threading.Lock()
        self.recall((), look=True)

    def key(self, prompt: Prompt, digest: str, sample: int) -> str:
        """Return the key of an answer; `digest` is the prompt's."""
        key = answer_key(prompt, digest, sample)
        if self._finders:
            self._asked[key] = (prompt, digest, sample)
        return key

    def recall(self, keys: Sequence[str], *, look: bool = False) -> list[Recalled | None]:
        """Return the stored answer for each key, None without one; `look` first reads lines written just now.

        Without it, other processes' answers are seen after a second. Unwritable if a folder is gone.
        """
        with self._lock:
            with unwritable(f"answers cannot be stored in {self._own.folder}"):
                self._own.refresh(now=look)
                recalled = [self._own.recall(key) for key in keys]
            if self._finders:
                recalled = [one or self._borrowed(key) for key, one in zip(keys, recalled, strict=True)]
                for key in keys:
                    self._asked.pop(key, None)
            return recalled

    def _borrowed(self, key: str) -> Recalled | None:
        asked = self._asked.get(key, _UNKNOWN)
        for finder in self._finders:
            try:
                answer = finder.find(key, *asked)
            except OSError as error:
                where = finder.name if finder.name == OWN else f"--answers={finder.name}"
                raise Unwritable(f"{where} cannot be read: {error.strerror or error}") from error
            if answer is not None:
                return Recalled(answer, finder.name)
        return None

    @property
    def unread(self) -> tuple[str, ...]:
        """Unreadable lines; their questions are asked again."""
        with self._lock:
            return (*self.broken, *self._own.torn)


# --- answers in results -------------------------------------------------------------------------------------


class _ItemName(msgspec.Struct):
    benchmark: str
    id: str


class _Asked(msgspec.Struct):
    asked: tuple[str, ...] = ()


class _Outcome(msgspec.Struct):
    outcome: str = ""


class _ResultName(msgspec.Struct):
    """The fields of a line of results.jsonl that tell what was asked."""

    item: _ItemName
    prompt: str
    score: _Outcome
    variant: str = ""
    sample: int = 0
    judgement: _Asked | None = None


_names = msgspec.json.Decoder(_ResultName)
_Question = tuple[str, str, str, str, int]
"""Benchmark, item, variant, the digest of a prompt (which covers its technique), and its sample."""


class ResultAnswers:
    """The answers in a run's results: those that it borrowed are in no log of its own.

    `role` judge: the replies of its judge. `name`: of the source, for the user. `about`: run.json, which has the limits
    of tokens. Results are read when an answer is first looked for.
    """

    def __init__(self, run: Path, name: str, role: Role, about: RunRecord) -> None:
        """Read nothing yet."""
        self.name = name
        self._path = run / RESULTS
        self._role = role
        self._about = about

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer to a prompt, None without one (OSError)."""
        judges = self._role == "judge"
        question = prompt.benchmark, prompt.item, "" if judges else prompt.variant, digest, sample
        found = self._lines.get(question)
        if found is None or not (judges or self._has_limit(prompt)):
            return None
        start, length, reply = found
        with files.reading(self._path) as file:
            line = os.pread(file.fileno(), length, start)
        with suppress(msgspec.DecodeError):
            result = decode(line)
            judgement = result.judgement
            # The file may have been written anew since, and a stranger's line may have fewer replies than prompts.
            if not judges:
                same = (result.item.benchmark, result.item.id, result.variant, result.prompt, result.sample) == question
                return result.answer if same else None
            if judgement is None or judgement.asked[reply : reply + 1] != (digest,) or reply >= len(judgement.replies):
                return None
            # Tokens and seconds are known for all replies together.
            first = reply == 0
            return Answer(
                judgement.replies[reply],
                seconds=judgement.seconds if first else None,
                usage=judgement.usage if first else None,
            )
        return None

    def _has_limit(self, prompt: Prompt) -> bool:
        """Whether a prompt has the limit of tokens that was in force in the run."""
        asked = self._about.benchmarks.get(prompt.benchmark)
        limits = {} if asked is None or asked.max_tokens is None else asked.max_tokens
        limit = limits.get(prompt.technique, {}).get(prompt.kind)
        if prompt.max_tokens is None:
            return limit in (None, self._about.config.own_max_tokens)
        return limit == prompt.max_tokens

    @cached_property
    def _lines(self) -> dict[_Question, tuple[int, int, int]]:
        """The start and length of a line, and the number of a judge's reply in it, for each question."""
        lines: dict[_Question, tuple[int, int, int]] = {}
        if not self._path.is_file():
            return lines
        start = 0
        with files.reading(self._path) as file:
            for _, line in files.lines(file, self._path, MAX_LINE):
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    for question, reply in self._questions(_names.decode(line)):
                        lines[question] = start, len(line), reply
                start += len(line)
        return lines

    def _questions(self, result: _ResultName) -> Iterator[tuple[_Question, int]]:
        """Yield what was asked for a result, and which of the judge's replies answers it."""
        benchmark, item = result.item.benchmark, result.item.id
        if self._role == "candidate":
            yield (benchmark, item, result.variant, result.prompt, result.sample), 0
            return
        # A reply that could not be read may have been cut off, which a result does not tell.
        asked = () if result.judgement is None or result.score.outcome == "error" else result.judgement.asked
        for place, digest in enumerate(asked):
            yield (benchmark, item, "", digest, asked[:place].count(digest)), place


# --- files of earlier versions ------------------------------------------------------------------------------

EARLIER_REPLIES = "judged"
"""Folder in run folders of earlier versions for replies of a judge; those of a model were in folders of `answers`."""
_EARLIER = re.compile(rb"^([0-9a-f]{16}) (([0-9a-f]{64}) (.*))\n")
_ABOUT = re.compile(rb"^([0-9a-f]{16}) (about (.*))\n")
_heads = msgspec.json.Decoder(LogHead)


class EarlierAnswers:
    """The answers in a run's own folders of earlier versions: `answers/MODEL/*.answers` and `judged/MODEL/*.answers`.

    A line is `CHECKSUM KEY JSON`, and MODEL keys the checksum.
    """

    name = OWN

    def __init__(self, run: Path, head: LogHead) -> None:
        """Read the answers of a model (Unwritable)."""
        folder = _earlier_folder(run, head)
        self._found: dict[str, Answer] = {}
        with unwritable(f"answers in {folder} cannot be read"):
            for path in sorted(folder.glob("*.answers")):
                self._found |= {key: answer for _, key, answer in _earlier_lines(path)}

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer of a key, None without one."""
        return self._found.get(key)


def _earlier_folder(run: Path, head: LogHead) -> Path:
    own = files.check_subfolder(run, EARLIER_REPLIES if head.role == "judge" else ANSWERS)
    model = hashlib.sha256(msgspec.json.encode((1, head.backend, head.fingerprint))).hexdigest()[:32]
    return files.check_subfolder(own, model)


def _earlier_lines(path: Path) -> Iterator[tuple[LogHead | None, str, Answer]]:
    """Yield the head of a file, and the key and the answer of each whole line (OSError)."""
    model = path.parent.name.encode()
    head: LogHead | None = None
    with files.reading(path) as file:
        for number, line in files.lines(file, path, BLOCK):
            if number == 1 and (about := _ABOUT.match(line)) is not None:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    head = _heads.decode(about[3])
            match = _EARLIER.match(line)
            if match and hashlib.blake2b(match[2], digest_size=8, key=model).hexdigest().encode() == match[1]:
                with suppress(AnswerError):
                    yield head, match[3].decode(), answers.decode(match[4])


def _answers_in(path: Path) -> Iterator[Answer]:
    """Yield all answers of a log that can be read (OSError)."""
    reader, lines = read_log(path)
    for key, start, length in lines:
        with suppress(AnswerError):
            answer = answer_in(reader.identity or "", files.part(path, start, length), key.hex())
            if answer is not None:
                yield answer


def asked(run: Path, sessions: Collection[str]) -> Iterator[tuple[Role, list[Answer]]]:
    """Yield the role and the answers of each log of some sessions of a run, also of an earlier version."""
    with suppress(OSError):
        for path in logs(run / ANSWERS):
            head = head_at(path)
            if head is not None and head.session in sessions:
                yield head.role, list(_answers_in(path))
        for own in (ANSWERS, EARLIER_REPLIES):
            for path in sorted(run.glob(f"{own}/*/*.answers")):
                found = [(head, answer) for head, _, answer in _earlier_lines(path)]
                if found and found[0][0] is not None and found[0][0].session in sessions:
                    yield found[0][0].role, [answer for _, answer in found]


def copy_answers(source: Path, target: Path) -> None:
    """Copy the logs of a run into another, with the files of earlier versions (OSError). Links are skipped."""
    folders = [files.check_subfolder(source, ANSWERS), files.check_subfolder(source, EARLIER_REPLIES)]
    paths = [*logs(folders[0]), *(path for folder in folders for path in sorted(folder.glob("*/*.answers")))]
    for path in paths:
        if path.is_symlink() or path.parent.is_symlink():
            continue
        folder = target
        for part in path.relative_to(source).parts[:-1]:
            folder = files.subfolder(folder, part)
        with files.reading(path, follow=False) as file:
            files.replace(folder / path.name, iter(lambda: file.read(2**20), b""))
