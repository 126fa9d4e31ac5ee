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
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from medvqa import answers, files
from medvqa.items import Answer, AnswerError, Prompt
from medvqa.records.log import (
    ANSWERS,
    BLOCK,
    TORN,
    AnswerLine,
    Log,
    LogHead,
    LogReader,
    Reuse,
    Role,
    Unwritable,
    answer_in,
    answer_key,
    answers_of,
    head_at,
    logs,
    read_on,
)
from medvqa.records.run_folder import MAX_LINE, RESULTS, decode
from medvqa.records.run_record import RunRecord

OWN = "this run"
"""The name of the own run among sources."""
REFRESH = 1.0
"""Seconds between two looks at other processes' answers."""


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
    """A folder with logs of others, and its name for the user. `accepts`: which of them may be used."""

    name: str
    folder: Path
    accepts: frozenset[Reuse] = frozenset({"all", "here"})


class Finder(Protocol):
    """Answers that are not in logs of a folder on this machine."""

    name: str

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer to a prompt with its key, digest and sample; None without one (OSError, MedVQAError)."""
        ...


@dataclass(slots=True)
class _LogFile:
    """A log that is read as it grows. `number`: its place among those with answers, -1 without."""

    path: Path
    source: int
    reader: LogReader
    number: int = -1
    skipped: bool = False

    @property
    def order(self) -> tuple[int, str]:
        """Of two answers to a question, the one in the log of the greater order counts."""
        return -self.source, self.path.name


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
        """Read what is there; with `fresh`, only answers of this session. Unwritable if a folder cannot be read.

        `head`: of the logs that this process writes; `log`: its own, None if it writes none.
        """
        self._head = head
        self._fresh = fresh
        self._log = log
        own = LogFolder(OWN, run / ANSWERS, frozenset({"all", "here", "none"}))
        self._sources = (own,) if fresh else (own, *sources)
        self._finders = () if fresh else tuple(finders)
        self._asked: dict[str, tuple[Prompt, str, int]] = {}
        self._lock = threading.Lock()
        self._files: dict[Path, _LogFile] = {}
        self._numbered: list[_LogFile] = []
        # Key -> number of the log, start and length of the line, in one number: an answer takes 250 bytes.
        self._index: dict[str, int] = {}
        self.broken: list[str] = []
        """Lines that cannot be read, torn ones left out: its length is a quick look for news of `unread`."""
        self._waiting = deque[tuple[Path, int]]()
        self._next_look = 0.0
        self._own_path = None if log is None else log.path
        with self._lock:
            self._look()

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
            own = None if self._log is None else self._log.path
            if look or own != self._own_path or time.monotonic() >= self._next_look:
                self._own_path = own
                self._look()
            elif own is not None:
                self._read_own(own)
            try:
                recalled = self._read(keys)
            except OSError as error:
                raise _unreadable(self._sources[0], error) from error
        if not self._finders:
            return recalled
        return [self._found(key) if one is None else one for key, one in zip(keys, recalled, strict=True)]

    def _found(self, key: str) -> Recalled | None:
        """Ask the finders for the answer of a key."""
        if (asked := self._asked.pop(key, None)) is None:
            return None
        for finder in self._finders:
            try:
                answer = finder.find(key, *asked)
            except OSError as error:
                raise Unwritable(f"{finder.name} cannot be read: {error.strerror or error}") from error
            if answer is not None:
                return Recalled(answer, finder.name)
        return None

    # --- looking ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Index lines written since the last look; logs of others that are new wait until an answer is missing."""
        self._waiting.clear()
        for number, source in enumerate(self._sources):
            try:
                if number == 0 and self._log is not None:
                    os.stat(source.folder)
                for path in reversed(logs(source.folder)):
                    if number and path not in self._files:
                        self._waiting.append((path, number))
                    else:
                        self._read_file(path, number)
            except OSError as error:
                raise _unreadable(source, error) from error
        self._next_look = time.monotonic() + REFRESH

    def _read_waiting(self, keys: Sequence[str] | None = None) -> None:
        """Index logs that wait, in the order in which they count, until all keys are found; None: all logs."""
        missing = list(keys or ())
        while self._waiting:
            missing = [key for key in missing if key not in self._index]
            if keys is not None and not missing:
                return
            path, number = self._waiting.popleft()
            try:
                self._read_file(path, number)
            except OSError as error:
                raise _unreadable(self._sources[number], error) from error

    def _read_own(self, path: Path) -> None:
        try:
            self._read_file(path, 0)
        except OSError as error:
            raise _unreadable(self._sources[0], error) from error

    def _read_file(self, path: Path, source: int) -> None:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _LogFile(path, source, LogReader(None if source else self._head.identity))
        reader = file.reader
        if file.skipped or reader.whole or path.stat().st_size <= reader.size:
            return
        if not reader.lines and not self._is_wanted(file):
            return
        known = len(reader.problems)
        found = read_on(path, reader)
        self.broken += [f"{path} line {line}: {why}" for line, why in reader.problems[known:]]
        if not (self._fresh and self._is_earlier(file)):
            self._index_lines(file, found)

    def _is_wanted(self, file: _LogFile) -> bool:
        """Whether a log that was not read yet is of this model, and may be used."""
        head = head_at(file.path)
        if head is None:
            # Who may use it is unknown: only the own run does.
            file.skipped = file.source > 0
        else:
            accepted = head.reuse in self._sources[file.source].accepts
            file.skipped = head.identity != self._head.identity or not accepted
        return not file.skipped

    def _is_earlier(self, file: _LogFile) -> bool:
        """Whether a log was written by another session, or nobody knows by which."""
        head = file.reader.head
        return head is None or head.session != self._head.session

    def _index_lines(self, file: _LogFile, found: Sequence[AnswerLine]) -> None:
        if found and file.number < 0:
            file.number = len(self._numbered)
            self._numbered.append(file)
        index, number = self._index, file.number << 80
        replaced = [other.order <= file.order for other in self._numbered]
        for key, start, length in found:
            before = index.get(key)
            if before is None or replaced[before >> 80]:
                index[key] = number | start << 32 | length

    # --- reading ------------------------------------------------------------------------------------------

    def _read(self, keys: Sequence[str]) -> list[Recalled | None]:
        recalled: list[Recalled | None] = [None] * len(keys)
        self._read_waiting(keys)
        by_file: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for position, key in enumerate(keys):
            place = self._index.get(key)
            if place is not None:
                by_file[place >> 80].append((position, place >> 32 & (1 << 48) - 1, place & (1 << 32) - 1))
        for number, places in by_file.items():
            file = self._numbered[number]
            with files.reading(file.path, follow=False) as opened:
                for position, start, length in places:
                    line = os.pread(opened.fileno(), length, start)
                    answer = self._answer(file, line, start, keys[position])
                    recalled[position] = (
                        self._older(keys[position], file) if answer is None else self._recalled(answer, file)
                    )
        return recalled

    def _recalled(self, answer: Answer, file: _LogFile) -> Recalled:
        return Recalled(answer, self._sources[file.source].name if self._is_earlier(file) else "")

    def _answer(self, file: _LogFile, line: bytes, start: int, key: str) -> Answer | None:
        """Return the answer in a line; None if the line is damaged, changed since it was indexed, or holds none."""
        try:
            return answer_in(file.reader.identity or "", line, key)
        except AnswerError as error:
            # Another version checked less before storing.
            with files.reading(file.path, follow=False) as opened:
                number = opened.read(start).count(b"\n") + 1
            self.broken.append(f"{file.path} line {number}: {error}")
            return None

    def _older(self, key: str, last: _LogFile) -> Recalled | None:
        """Return the answer of the line before an unreadable one."""
        self._read_waiting()
        wanted = b" answer/" + key.encode() + b" "
        for file in sorted(self._numbered, key=lambda file: file.order, reverse=True):
            if file.order > last.order or (self._fresh and self._is_earlier(file)):
                continue
            with files.reading(file.path, follow=False) as opened:
                lines = [line for line in opened if wanted in line]
            for line in reversed(lines):
                with suppress(AnswerError):
                    if (answer := answer_in(file.reader.identity or "", line, key)) is not None:
                        return self._recalled(answer, file)
        return None

    @property
    def unread(self) -> tuple[str, ...]:
        """Unreadable lines; their questions are asked again."""
        with self._lock:
            torn = (
                f"{file.path} line {file.reader.lines + 1}: {TORN}"
                for file in self._files.values()
                if file.reader.torn and not file.skipped
            )
            return (*self.broken, *torn)


def _unreadable(source: LogFolder, error: OSError) -> Unwritable:
    if source.name == OWN:
        return Unwritable(f"answers cannot be stored in {source.folder}: {error.strerror or error}")
    return Unwritable(f"--answers={source.name} cannot be read: {error.strerror or error}")


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
    technique: str = "mc"
    variant: str = ""
    sample: int = 0
    judgement: _Asked | None = None
    ranking: dict[str, object] | None = None


_names = msgspec.json.Decoder(_ResultName)
_Question = tuple[str, str, str, str, str, int]
"""Benchmark, item, technique, variant, the digest of a prompt, and its sample."""


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
        self._lines: dict[_Question, tuple[int, int, int]] | None = None
        self._lock = threading.Lock()

    def find(self, key: str, prompt: Prompt, digest: str, sample: int) -> Answer | None:
        """Return the answer to a prompt, None without one (OSError)."""
        with self._lock:
            if self._lines is None:
                self._lines = self._indexed()
        judges = self._role == "judge"
        how = ("", "") if judges else (prompt.technique, prompt.variant)
        found = self._lines.get((prompt.benchmark, prompt.item, *how, digest, sample))
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
                same = (result.item.benchmark, result.item.id, result.prompt, result.sample)
                return result.answer if same == (prompt.benchmark, prompt.item, digest, sample) else None
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

    def _indexed(self) -> dict[_Question, tuple[int, int, int]]:
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
            if result.ranking is None:
                yield (benchmark, item, result.technique, result.variant, result.prompt, result.sample), 0
            return
        # A reply that could not be read may have been cut off, which a result does not tell.
        asked = () if result.judgement is None or result.score.outcome == "error" else result.judgement.asked
        for place, digest in enumerate(asked):
            yield (benchmark, item, "", "", digest, asked[:place].count(digest)), place


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
        try:
            for path in sorted(folder.glob("*.answers")):
                for _, key, answer in _earlier_lines(path):
                    self._found[key] = answer
        except OSError as error:
            raise Unwritable(f"answers in {folder} cannot be read: {error.strerror or error}") from error

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._found)

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


def asked(run: Path, sessions: Collection[str]) -> Iterator[tuple[Role, list[Answer]]]:
    """Yield the role and the answers of each log of some sessions of a run, also of an earlier version."""
    with suppress(OSError):
        for path in logs(run / ANSWERS):
            head = head_at(path)
            if head is not None and head.session in sessions:
                yield head.role, answers_of(path)[1]
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
