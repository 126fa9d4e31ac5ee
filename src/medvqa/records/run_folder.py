"""A run folder: results.jsonl, with one appended line per result.

One `os.write` on a file opened for appending writes a result, so a killed process leaves whole lines. For an item
(and technique) the last line counts.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec

from medvqa import answers, files, memory
from medvqa.image import TextCell
from medvqa.items import (
    SCORED_OUTCOMES,
    UNDECLARED,
    Answer,
    DataError,
    Image,
    Item,
    QuestionKey,
    Result,
    UsageError,
    replace,
)
from medvqa.records.private import make_private
from medvqa.records.run_record import RunRecord, runs_beside

DISTRIBUTION = "pytest-medvqa"
RESULTS = "results.jsonl"
MAX_LINE = 2**26
"""Bytes of one result; a longer line is no result, and is not read to its end."""
END = 2**12
"""Bytes at the end of results.jsonl that tell whether it was changed since it was read."""
MAX_SAMPLE = 2**31
"""Samples are below it: pages hold them as whole numbers of 32 bits, data frames of 64."""

LATER = frozenset({"cell", "view", "allow_burned_in"})
"""Fields of images that earlier versions do not write."""


class Extent(msgspec.Struct, frozen=True):
    """How a line writes the place of an image: that of a TextCell as base64, else a whole file, or a field `cell`."""

    start: int = 0
    length: int | None = None
    encoding: Literal["raw", "base64"] = "raw"


class _ItemExtents(msgspec.Struct):
    images: tuple[Extent, ...] = ()


class _LineExtents(msgspec.Struct):
    item: _ItemExtents


_WHOLE = msgspec.structs.asdict(Extent())
_FIELDS = tuple(name for name in Image.__slots__ if name not in ("name", "path", "alteration"))
"""The fields of an image in a line; results have the images of the data set, without alterations."""
_fields = attrgetter(*_FIELDS)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Result)
_extents = msgspec.json.Decoder(_LineExtents)
_BASE64 = b'"encoding":"base64"'
_IMPOSSIBLE = f'"{answers.IMPOSSIBLE}"'.encode()
_IMAGES = b'"images":'
_SCORE = b'},"score":'
_NOT_ASKED, _NOT_NOTED = b',"confidence":null', b',"noted":null'
"""Fields of an answer that digests of earlier versions do not cover, at its end."""
_NO_VARIANT = b',"variant":""}'
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,119}")


def check_name(name: str, option: str) -> None:
    """UsageError if the value of an option is not a valid folder name on every system."""
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"{option}={name}: a run's name is a letter or digit, then at most 119 letters, digits and . _ + = @ -"
        )


def run_name(model: str, when: str, folder: Path, end: str = "") -> str:
    """A free name for a new run: the time, the model (the last part of a path), a number if needed, and an end."""
    backend, _, argument = model.partition(":")
    named = f"{backend}-{PurePath(argument).name}" if argument else backend
    name = f"{when}-{re.sub(r'[^A-Za-z0-9._-]+', '-', named).strip('-.')[:60]}"
    numbered = (f"{name}-{number}{end}" for number in count(2))
    return next(candidate for candidate in chain([f"{name}{end}"], numbered) if not (folder / candidate).exists())


def encode(result: Result) -> bytes:
    """One JSON line without its line end. Images keep name, extent and digest; absolute paths are dropped.

    Left out if they are empty: the last field `variant`, and the fields LATER of images.
    """
    answer: Any = None if result.answer is None else answers.to_json(result.answer)
    line = _line(replace(result, answer=answer), _image)
    return line if result.variant else line.removesuffix(_NO_VARIANT) + b"}"


def _line(result: Result, fields: Callable[[Image], dict[str, Any]]) -> bytes:
    """A result as JSON with these fields of its images."""
    line, images = _encoder.encode(result), result.item.images
    if not images:
        return line
    # Quotes within texts are escaped, so the first such list is the item's. Making another result takes twice the time.
    written = _encoder.encode([fields(image) for image in images])
    return line.replace(_IMAGES + _encoder.encode(images), _IMAGES + written, 1)


def _image(image: Image) -> dict[str, Any]:
    """The fields of an image in a line."""
    return {name: value for name, value in _published(image).items() if value or name not in LATER}


def _published(image: Image) -> dict[str, Any]:
    """All fields that a line may have."""
    extent = _WHOLE
    if isinstance(cell := image.cell, TextCell):
        extent, image = msgspec.structs.asdict(Extent(cell.start, cell.length, "base64")), replace(image, cell=None)
    return {"name": image.name, "path": "", **extent, **dict(zip(_FIELDS, _fields(image), strict=True))}


def decode(line: bytes) -> Result:
    """The result of one line. Raises msgspec.DecodeError (a ValueError).

    A path and an alteration of an image, which no run writes, are dropped: a stranger's run must not name files of
    this machine, nor say that a picture was changed.
    """
    try:
        if _IMPOSSIBLE not in line:
            result = _decoder.decode(line)
        else:
            content = msgspec.json.decode(line, type=dict[str, Any])
            result = msgspec.convert({**content, "answer": answers.from_json(content.get("answer"))}, Result)
        _check(result)
        return _placed(result, line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None


def _placed(result: Result, line: bytes) -> Result:
    """The result without paths and alterations, and with the cells of images in tables of text."""
    images = result.item.images
    if any(image.path or image.alteration is not None for image in images):
        images = tuple(replace(image, path="", alteration=None) for image in images)
    if _BASE64 in line:
        images = tuple(
            replace(image, cell=TextCell(extent.start, extent.length or 0)) if extent.encoding == "base64" else image
            for image, extent in zip(images, _extents.decode(line).item.images, strict=True)
        )
    return result if images is result.item.images else replace(result, item=replace(result.item, images=images))


def _check(result: Result) -> None:
    """Raise DecodeError for values that no run writes: they would count as they are."""
    value, outcome = result.score.value, result.score.outcome
    if not 0 <= result.sample < MAX_SAMPLE:
        raise msgspec.DecodeError(f"the sample is no number from 0 to {MAX_SAMPLE - 1:,}")
    if result.item.kind == UNDECLARED:
        raise msgspec.DecodeError("the item has no kind")
    if (value is not None) != (outcome in SCORED_OUTCOMES):
        raise msgspec.DecodeError(f"the score is {value} and the outcome '{outcome}'")
    noted = None if result.answer is None or result.answer.noted is None else result.answer.noted.score
    stated = None if result.answer is None else result.answer.confidence
    for name, number in (("score", value), ("score", noted), ("confidence", stated)):
        if number is not None and not 0 <= number <= 1:
            raise msgspec.DecodeError(f"the {name} is {number}; a number from 0 to 1 is expected")


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells cheaply whether results.jsonl has changed: its size in bytes, and a digest of its last END bytes.

    Times of files do not: `git clone` and `cp -r` make new ones, `rsync -a` keeps old ones.
    """

    bytes: int
    end: str

    @classmethod
    def of(cls, file: BinaryIO, size: int) -> Mark:
        """The mark of the first `size` bytes of an open file (OSError)."""
        start = max(0, size - END)
        end = os.pread(file.fileno(), size - start, start)
        return cls(size, hashlib.sha256(end).hexdigest()[:32])


class ResultLine(NamedTuple):
    """A line of results.jsonl: where it stands, in bytes, and its result, or why it is none."""

    number: int
    start: int
    length: int
    result: Result | None
    problem: str = ""


def lines(file: BinaryIO, path: Path, start: int = 0, before: int = 0) -> Iterator[ResultLine]:
    """Read results from an open file, line by line, without empty lines (OSError).

    The file is at byte `start`, after `before` lines. Each result is the caller's alone.
    """
    for number, content in files.lines(file, path, MAX_LINE, before):
        length = len(content)
        if content.strip():
            try:
                yield ResultLine(number, start, length, decode(content))
            except msgspec.DecodeError as error:
                torn = "" if content.endswith(b"\n") else " (the line is torn: its process was stopped while writing)"
                yield ResultLine(number, start, length, None, f"{path} line {number}: {error}{torn}")
        start += length


_ITEM = ("id", "benchmark", "kind", "question", "options", "answers", "tags", "pair_id", "cluster_id")
_item_fields, _image_fields = attrgetter(*_ITEM), attrgetter(*Image.__slots__)
_set: Callable[[Any, str, Any], None] = object.__setattr__


class SharedResults:
    """Results with equal parts as one object: 26,000 of them take half the memory, and less beside their items.

    It changes results that nobody else holds yet (`lines`).
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        """`items` are those that somebody holds: their results share what is equal with them."""
        self._pool, self._scores = memory.EqualValues(), memory.EqualValues()
        self._items = {(item.benchmark, item.id): item for item in items}
        # Runs ask the same prompts, but each question has its own: they would fill the pool.
        self._prompts: dict[str, str] = {}

    def __call__(self, result: Result) -> Result:
        """Return the result with shared parts."""
        hold, score, answer = self._pool.hold, result.score, result.answer
        _set(result, "item", self._item(result.item))
        _set(result, "run", hold(result.run, result.run))
        _set(result, "prompt", self._prompts.setdefault(result.prompt, result.prompt))
        _set(result, "variant", hold(result.variant, result.variant))
        _set(result, "score", self._scores.hold((str(score.value), score), score))
        if result.score is score:
            _set(score, "extracted", hold(score.extracted, score.extracted))
            _set(score, "why", hold(score.why, score.why))
        if type(answer) is Answer:
            _set(answer, "finish", hold(answer.finish, answer.finish))
            _set(answer, "served_by", hold(answer.served_by, answer.served_by))
            if answer.usage is not None:
                _set(answer, "usage", self._pool.mapping(answer.usage))
        return result

    def _item(self, item: Item) -> Item:
        known = self._items.setdefault((item.benchmark, item.id), item)
        if known is item:
            hold = self._pool.hold
            _set(item, "benchmark", hold(item.benchmark, item.benchmark))
            _set(item, "question", hold(item.question, item.question))
            _set(item, "options", self._pool.options(item.options))
            _set(item, "answers", hold(item.answers, item.answers))
            _set(item, "tags", self._pool.tags(item.tags))
            _set(item, "extra", self._pool.mapping(item.extra))
            return item
        alike = _share(item, known, _ITEM, _item_fields) and len(item.images) == len(known.images)
        for own, other in zip(item.images, known.images, strict=False):
            alike = _share(own, other, Image.__slots__, _image_fields) and alike
        if repr(item.extra) != repr(known.extra):
            return item
        _set(item, "extra", known.extra)
        return known if alike else item


def _share(own: Any, other: Any, names: Sequence[str], fields: Callable[[Any], tuple[Any, ...]]) -> bool:
    """Take equal values of fields from another record; return whether all are equal."""
    alike = True
    for name, value, known in zip(names, fields(own), fields(other), strict=True):
        if value is known:
            continue
        # The order of options and tags counts, which dicts do not compare.
        if type(value) is type(known) and value == known and (type(value) is not dict or [*value] == [*known]):
            _set(own, name, known)
        else:
            alike = False
    return alike


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of results.jsonl: `results`, the last of each key, sorted by key; `unread`: broken lines.

    `mark`: of the file as far as it was read.
    """

    results: tuple[Result, ...]
    unread: tuple[str, ...]
    mark: Mark


@memory.no_cycle_search()
def read(
    folder: Path,
    shared: SharedResults | None = None,
    *,
    later: Callable[[BinaryIO], Callable[[ResultLine], Answer | None]] | None = None,
) -> Stored:
    """All results of a run folder, in one pass. UsageError if it is no run folder.

    `shared`: what its results share with those of other folders, or with items that the caller holds. `later` returns,
    for the open file, what makes the answer of each line.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise UsageError(f"{folder} is no run folder: it has no {RESULTS}{runs_beside(folder)}")
    results: dict[QuestionKey, Result] = {}
    unread, shared = list[str](), shared or SharedResults()
    try:
        with files.reading(path) as file:
            answer_of = later(file) if later is not None else None
            for line in lines(file, path):
                if line.result is None:
                    unread.append(line.problem)
                    continue
                if answer_of is not None:
                    _set(line.result, "answer", answer_of(line))
                results[line.result.key] = shared(line.result)
            mark = Mark.of(file, file.tell())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return Stored(tuple(results[k] for k in sorted(results)), tuple(unread), mark)


def present_mark(folder: Path) -> Mark | None:
    """The mark of results.jsonl as it is now, None if it is missing, a link or cannot be read."""
    try:
        with files.reading(folder / RESULTS, follow=False) as file:
            return Mark.of(file, os.fstat(file.fileno()).st_size)
    except OSError:
        return None


class Recorder:
    """Appends results, or the lines of another file, to a run folder, which it creates if missing."""

    def __init__(self, folder: Path, name: str = RESULTS) -> None:
        """Open the file. UsageError if it cannot be created."""
        self.folder = folder
        path = folder / name
        with files.writing(f"run folder {folder}"):
            make_private(folder)
            self._file = files.appending(path, readable=True)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                # End a torn line, so that it does not spoil the next one.
                os.write(self._file, b"\n")

    def append(self, line: bytes) -> None:
        """Write one line; OSError if the disk is full (earlier lines stay whole)."""
        files.write_all(self._file, line + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def write_atomic(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace a whole file: readers see the old or the new content. A link is replaced, not followed."""
    files.replace(path, content)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON; NaN and infinities become null."""
    write_atomic(path, msgspec.json.format(_encoder.encode(value), indent=2) + b"\n")


def check_scored(path: Path, run: RunRecord) -> None:
    """UsageError if `medvqa rescore` was stopped while writing, so that scores of two kinds are mixed."""
    if run.rescoring:
        folder = path if path.is_dir() else f"reports/{run.name or 'RUN'}"
        raise UsageError(
            f"{path}: its run was being scored again, and that was stopped: type medvqa rescore {folder} once more"
        )


def properties(result: Result) -> list[tuple[str, str]]:
    """Properties of an item for JUnit: outcome, extracted options, and tags."""
    tags = result.item.tags.items()
    return [
        ("outcome", result.score.outcome),
        ("extracted", ",".join(result.score.extracted)),
        *(("tag." + dimension, ",".join(values)) for dimension, values in tags),
    ]


def _digest(values: Iterable[Any]) -> str:
    total = hashlib.sha256()
    for value in values:
        total.update(_encoder.encode(value))
    return total.hexdigest()


def data_digest(items: Iterable[Item]) -> str:
    """SHA-256 (hex) of the questions, independent of files and order: ids, texts, keys and images."""
    ordered = sorted(items, key=lambda item: item.id)
    return _digest((item.id, *texts_of(item), tuple(image.key for image in item.images)) for item in ordered)


def texts_of(item: Item) -> tuple[Any, ...]:
    """The content of a question without its id and images."""
    return item.kind, item.question, tuple(item.options.items()), item.answers


def decisive_digest(results: Iterable[Result]) -> tuple[str, int]:
    """Return the SHA-256 (hex) of results, the last of each key, in the order of keys; and their number.

    Whatever a number is computed from changes it, and neither replaced lines nor their order in the file do.
    """
    last, total = {result.key: result for result in results}, hashlib.sha256()
    for key in sorted(last):
        line = _line(last[key], _published)
        if (answer := last[key].answer) is not None and answer.confidence is None:
            before, after = line.rsplit(_NOT_ASKED + _SCORE, 1)
            line = (before.removesuffix(_NOT_NOTED) if answer.noted is None else before) + _SCORE + after
        # They cover a field that results no longer have.
        total.update(line[:-1] + b',"ranking":null}\n')
    return total.hexdigest(), len(last)


def answers_digest(results: Iterable[Result]) -> str:
    """Return a digest (32 hexadecimal digits) of a run's answers: keys and replies, in the order of keys.

    It stays the same if the answers are scored again, and changes if an answer is added or replaced.
    """
    ordered = sorted(results, key=lambda result: result.key)
    return replies_digest((result.key, result.answer.reply if result.answer else None) for result in ordered)


def replies_digest(replies: Iterable[tuple[QuestionKey, str | None]]) -> str:
    """Return `answers_digest` of keys, in their order, with their replies; None for a result without an answer."""
    return _digest((*key, reply) for key, reply in replies)[:32]


def versions() -> Mapping[str, str]:
    """Versions of Python, this package and its installed requirements."""
    import platform
    from importlib.metadata import PackageNotFoundError, distribution, requires, version

    versions = {"python": platform.python_version()}
    required = (re.split(r"[^A-Za-z0-9._-]", line)[0] for line in requires(DISTRIBUTION) or ())
    for name in (DISTRIBUTION, *sorted(set(required))):
        try:
            # `version` parses all of the text, which may be long.
            _, _, found = (distribution(name).read_text("METADATA") or "").partition("\nVersion: ")
            versions[name] = found.partition("\n")[0].strip() or version(name)
        except PackageNotFoundError:
            # A requirement of an extra that is not installed.
            continue
    return versions
