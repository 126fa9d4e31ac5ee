"""Read the reviews that a person wrote on the page of a run and exported: tags, comments and scores (JSON lines)."""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec

from medvqa import decode, files
from medvqa.items import DataError, QuestionKey
from medvqa.judging.templates import SCALE, SHOWN_SCALE
from medvqa.tables import json_text, limits

Tag = Literal["wrong_key", "perception", "knowledge", "laterality", "extraction", "image_quality"]
TAGS: Mapping[Tag, str] = {
    "wrong_key": "The reference answer is wrong or arguable.",
    "perception": "The model overlooks or mistakes something in the image.",
    "knowledge": "The model sees the content of the image, but lacks the medical knowledge.",
    "laterality": "The model confuses sides or places: left and right, upper and lower.",
    "extraction": "The response was read or scored wrongly.",
    "image_quality": "The image does not show the content that the question needs.",
}
"""The tags of a review, with their meanings."""
VERSION = 1
"""Value of `review` in each line."""
MAX_FILE, MAX_REVIEWS, MAX_COMMENT, MAX_NAME = 2**26, 200_000, 4000, 4000
"""Most bytes of a file, reviews of a file, and characters of a comment and of each part of a key."""
FORMAT = "; a file of reviews is exported by the page of the run"

_Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


@dataclass(frozen=True, slots=True)
class Review:
    """The review of one result. `score` is the person's own score, None without one; `where`: file and line."""

    key: QuestionKey
    tags: tuple[Tag, ...]
    comment: str
    score: float | None
    where: str


class _Line(msgspec.Struct, frozen=True):
    review: int
    run: _Name
    benchmark: _Name
    item: _Name
    technique: _Name
    variant: _Name = ""
    sample: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 0
    tags: Annotated[tuple[Tag, ...], msgspec.Meta(max_length=len(TAGS))] = ()
    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)] = ""
    score: float | None = None


def is_reviews(path: Path) -> bool:
    """Return whether a file begins with a review: an object of JSON with the key `review`."""
    try:
        with files.reading(path) as file:
            if not file.read(64).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{"):
                return False
            file.seek(0)
            value, _ = json_text.first(file, str(path))
    except OSError:
        return False
    return value is not None and "review" in value


def read(path: Path, digest: str, keys: Container[QuestionKey]) -> list[Review]:
    """Return the reviews of a file about the run with this digest and these keys of results.

    Raises DataError, with file and line, for a review of another run or of a result that the run does not have, for a
    second review of a result, for an unknown tag, field or score, and above one of the limits.
    """
    with limits.opened(path, str(path)) as file:
        return parse(file, str(path), digest, keys)


def parse(file: BinaryIO, name: str, digest: str, keys: Container[QuestionKey]) -> list[Review]:
    """Return the reviews of an open file, as `read`; `name` is that of the file in errors (DataError)."""
    found: dict[QuestionKey, Review] = {}
    if file.seek(0, os.SEEK_END) > MAX_FILE:
        raise limits.larger(name, MAX_FILE, FORMAT)
    file.seek(0)
    for number, value in json_text.values(file, name):
        where = f"{name} line {number}"
        if len(found) == MAX_REVIEWS:
            raise limits.above(where, MAX_REVIEWS, "reviews", FORMAT)
        review = _review(value, where, digest)
        if review.key not in keys:
            raise DataError(f"{where}: the run has no result {_name(review.key)}")
        if before := found.get(review.key):
            raise DataError(f"{where}: a second review of {_name(review.key)}, after {before.where}; keep one")
        found[review.key] = review
    return list(found.values())


def _review(value: object, where: str, digest: str) -> Review:
    if isinstance(value, dict) and value.get("review") != VERSION:
        raise DataError(f"{where}: 'review' is {value.get('review')!r:.40}; this version reads {VERSION}{FORMAT}")
    line = decode.converted(value, _Line, where, error=DataError, hint=FORMAT)
    if line.run != digest:
        raise DataError(
            f"{where}: the review is of another run: its digest is {line.run[:40]!r}, that of this run {digest!r}. A "
            "run that goes on or is answered again is another run"
        )
    if line.score is not None and line.score not in SCALE:
        raise DataError(f"{where}: score {line.score:g} is not on the scale {SHOWN_SCALE}")
    key = QuestionKey(line.benchmark, line.item, line.technique, line.variant, line.sample)
    return Review(key, tuple(dict.fromkeys(line.tags)), line.comment, line.score, where)


def _name(key: QuestionKey) -> str:
    return f"'{' '.join(key.names)[:120]}'"


def counts(reviews: Sequence[Review]) -> dict[Tag, int]:
    """Return the number of reviews with each tag, without tags that nobody gave."""
    found = Counter(tag for review in reviews for tag in review.tags)
    return {tag: found[tag] for tag in TAGS if found[tag]}
