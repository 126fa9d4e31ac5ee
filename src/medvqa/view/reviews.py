"""The reviews of a run, kept in its folder: the one file that the server writes.

reviews.jsonl has the format that the page exports and `medvqa classify --human` and `medvqa agreement --human` read.
It is checked by the same code before it is written.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from medvqa import files
from medvqa.items import DataError, MedVQAError
from medvqa.judging import reviews
from medvqa.records.run_folder import RESULTS
from medvqa.tables import json_text
from medvqa.view.run_index import RunIndex

FILE = "reviews.jsonl"


class ReviewsChanged(MedVQAError):
    """Somebody else has changed the reviews since they were read."""


@dataclass(frozen=True)
class SavedReviews:
    """The reviews of a run as text, "" without any, and the tag of this state of the file.

    `earlier`: the number of reviews in the file that are of other answers, because the run went on or was answered
    again. They are not in the text; the next `save` keeps them in a file of their own.
    """

    text: str
    etag: str
    earlier: int = 0


def read(index: RunIndex) -> SavedReviews:
    """Read the reviews of a run folder. DataError if the file is damaged, a link, or too large."""
    content = content_of(index.folder / FILE)
    if not content:
        return SavedReviews("", tag(content))
    digest, number = _of(content)
    if digest != index.answers_digest():
        return SavedReviews("", tag(content), number)
    try:
        return SavedReviews(content.decode("utf-8-sig"), tag(content))
    except UnicodeDecodeError as error:
        raise DataError(f"{FILE} is no UTF-8 text: {error}") from None


def save(index: RunIndex, text: str, etag: str) -> str:
    """Write all reviews of a run, in place of those of state `etag`; return the tag of the new state.

    Reviews of earlier answers move to reviews-DIGEST.jsonl. ReviewsChanged if the file is in another state; DataError
    for a wrong file, and for reviews of another run; OSError if the folder cannot be written.
    """
    content = text.encode("utf-8", "replace")
    folder, digest = index.folder, index.answers_digest()
    reviews.parse(io.BytesIO(content), "reviews", digest, index)
    with alone(folder):
        before = content_of(folder / FILE)
        if tag(before) != etag:
            raise ReviewsChanged("The reviews of this run were changed meanwhile, in another tab or by somebody else.")
        if before and (earlier := _of(before)[0]) != digest:
            files.replace(folder / f"reviews-{_plain(earlier)}.jsonl", before, mode=_mode(folder))
        if content:
            files.replace(folder / FILE, content, mode=_mode(folder))
        else:
            (folder / FILE).unlink(missing_ok=True)
    return tag(content)


def content_of(path: Path) -> bytes:
    """Return what was saved, b"" for nothing (DataError)."""
    try:
        with files.reading(path, follow=False) as file:
            content = file.read(reviews.MAX_FILE + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > reviews.MAX_FILE:
        raise DataError(f"{path.name} is larger than {files.size(reviews.MAX_FILE)}, and was not saved here")
    return content


def tag(content: bytes) -> str:
    """Return the tag of a state of a file."""
    return sha256(content).hexdigest()[:32]


def _of(content: bytes) -> tuple[str, int]:
    """The digest of the run that a file is about, and its number of reviews (DataError)."""
    lines = [value for _, value in json_text.values(io.BytesIO(content), FILE)]
    first = lines[0].get("run") if lines and isinstance(lines[0], dict) else ""
    return first if isinstance(first, str) else "", len(lines)


def _plain(digest: str) -> str:
    """A digest as part of a file's name; a stranger's file may have any text there."""
    return digest[:12] if digest[:12].isalnum() and digest.isascii() else "earlier"


def _mode(folder: Path) -> int:
    """The permissions of the file: those that it has, else those of results.jsonl."""
    for name in (FILE, RESULTS):
        try:
            return stat.S_IMODE((folder / name).lstat().st_mode) & 0o666
        except FileNotFoundError:
            continue
    return 0o600


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other servers from saving within the block. The lock is on the folder itself: sessions do not use it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
