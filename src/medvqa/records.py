"""The run folder: run.json, and results.jsonl to which results are appended one line each.

A result is written with one `os.write` on a file that was opened for appending, so that a process that is
killed leaves whole lines. For an item (and technique) the last line counts.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

import msgspec

from medvqa.items import Item, Result, UsageError

DISTRIBUTION = "pytest-medvqa"
RESULTS = "results.jsonl"
RUN = "run.json"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Result)
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]{0,119}")


def check_new(name: str, folder: Path) -> None:
    """UsageError when `name` could not be a folder's name on every system, or is taken in the folder."""
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"--run={name}: a run's name is a letter or digit, then at most 119 letters, digits and . _ + = @ -"
        )
    if (folder / name / RESULTS).exists():
        raise UsageError(f"run '{name}' exists: {folder / name}. Name another with --run=NAME")


def run_name(model: str, when: str, folder: Path) -> str:
    """A name for a new run in a folder: the time, the model (of a path its last part), and a number if it is taken."""
    backend, _, argument = model.partition(":")
    named = f"{backend}-{PurePath(argument).name}" if argument else backend
    name = f"{when}-{re.sub(r'[^A-Za-z0-9._-]+', '-', named).strip('-.')[:60]}"
    numbered = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain([name], numbered) if not (folder / each).exists())


def encode(result: Result) -> bytes:
    """One JSON line without its line end. Images keep name, extent and digest; absolute paths are dropped."""
    images = tuple(replace(image, path="") for image in result.item.images)
    return _encoder.encode(replace(result, item=replace(result.item, images=images)))


def decode(line: bytes) -> Result:
    """The result of one line; msgspec.DecodeError (a ValueError) says what is wrong with it."""
    return _decoder.decode(line)


def key(result: Result) -> tuple[str, str, str]:
    """What identifies a result within a run: benchmark, item and technique."""
    return result.item.benchmark, result.item.id, result.technique


@dataclass(frozen=True, slots=True)
class Stored:
    """What results.jsonl holds: `results` sorted by key, the last of each; `unread` names broken lines."""

    results: tuple[Result, ...]
    unread: tuple[str, ...] = ()


def read(folder: Path) -> Stored:
    """All results of a run folder, in one pass. UsageError when it is none."""
    path = folder / RESULTS
    if not path.is_file():
        raise UsageError(f"{folder} is no run folder: it has no {RESULTS}")
    results: dict[tuple[str, str, str], Result] = {}
    unread: list[str] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                result = decode(line)
            except msgspec.DecodeError as error:
                torn = "" if line.endswith(b"\n") else " (the line is torn: its process was stopped while writing)"
                unread.append(f"{path} line {number}: {error}{torn}")
                continue
            results[key(result)] = result
    return Stored(tuple(results[k] for k in sorted(results)), tuple(unread))


class Recorder:
    """Appends results to a run folder, which it makes; closed by `close`."""

    def __init__(self, folder: Path) -> None:
        """Make the folder. UsageError when a run of that name exists or the folder cannot be made."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            self._file = os.open(folder / RESULTS, flags, 0o644)
        except FileExistsError:
            raise UsageError(f"run '{folder.name}' exists: {folder}. Name another with --run=NAME") from None
        except OSError as error:
            raise UsageError(f"run folder {folder} cannot be written: {error.strerror}") from error

    def append(self, line: bytes) -> None:
        """Write one line; OSError when the disk is full (what was written before stays whole)."""
        data = line + b"\n"
        written = os.write(self._file, data)
        if written != len(data):
            raise OSError(28, f"only {written} of {len(data)} bytes could be written to {self.folder / RESULTS}")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def write_atomic(path: Path, content: bytes) -> None:
    """Replace a file whole: readers see the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON; NaN and infinities become null."""
    write_atomic(path, msgspec.json.format(_encoder.encode(value), indent=2) + b"\n")


def read_run(folder: Path) -> dict[str, Any]:
    """run.json; UsageError when it is missing or no JSON object."""
    try:
        value: dict[str, Any] = msgspec.json.decode((folder / RUN).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{folder} is no run folder: {RUN} cannot be read ({error.strerror})") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{folder / RUN} is damaged: {error}") from error
    return value


def properties(result: Result) -> list[tuple[str, str]]:
    """What JUnit tells of an item beside its name: outcome, what was extracted, and its tags."""
    tags = result.item.tags.items()
    return [
        ("outcome", result.score.outcome),
        ("extracted", ",".join(result.score.extracted)),
        *(("tag." + dimension, ",".join(values)) for dimension, values in tags),
    ]


def data_digest(items: Iterable[Item]) -> str:
    """SHA-256 (hex) of what is asked, independent of files and order: ids, texts, keys and images."""
    total = hashlib.sha256()
    for item in sorted(items, key=lambda item: item.id):
        content: Sequence[Any] = (
            item.id,
            item.kind,
            item.question,
            tuple(item.options.items()),
            item.answers,
            tuple(image.digest or image.name for image in item.images),
        )
        total.update(_encoder.encode(content))
    return total.hexdigest()


def versions() -> Mapping[str, str]:
    """Versions of what a number may depend on: Python, this package, and those of its requirements that are there."""
    import platform
    from importlib.metadata import PackageNotFoundError, requires, version

    found = {"python": platform.python_version()}
    required = (re.split(r"[^A-Za-z0-9._-]", line)[0] for line in requires(DISTRIBUTION) or ())
    for name in (DISTRIBUTION, *sorted(set(required))):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            # A requirement of an extra that was not installed.
            continue
    return found
