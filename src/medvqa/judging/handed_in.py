"""Sheets for people about the answers of a run, and what they hand in: filled-in sheets, and reviews from the page."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from medvqa import files, tables
from medvqa.items import DataError, Result, UsageError
from medvqa.judging import reviews
from medvqa.tables import sheets

T = TypeVar("T")

CONSENSUS = "consensus"
"""The name of the consensus of several people, in place of a rater's."""


def answer_id(result: Result) -> str:
    """Return the id of an answer in a sheet: a digest of benchmark, item, technique and response.

    The response includes reasoning and explanations (`Answer.reply`).

    It does not reveal the score and is the same in every run and sample with this response. It begins with a letter, so
    that no spreadsheet reads it as a number or a date.
    """
    response = result.answer.reply if result.answer else ""
    content = msgspec.json.encode([*result.key.question.names, response])
    return f"k{hashlib.sha256(content).hexdigest()[:16]}"


def write_sheet(
    path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]], *, option: str, filled_in: str
) -> None:
    """Write a sheet for people: XLSX or CSV by the file's ending.

    Raises UsageError, which names the `option`, for another ending, and if the file exists: it may hold what people
    filled in.
    """
    if path.suffix.lower() not in (".csv", ".xlsx"):
        raise UsageError(f"{option}={path}: a sheet is a .csv or an .xlsx file")
    if path.exists():
        raise UsageError(f"{path} exists and may contain {filled_in}: name another file with {option}")
    with files.writing(f"{option}={path}:"):
        sheets.write(path, columns, rows)


def read(
    paths: Sequence[Path],
    judge: str,
    column: str,
    *,
    of_row: Callable[[tables.TableRow], tuple[str, T] | None],
    of_reviews: Callable[[Path], Iterable[tuple[str, T, str]]],
    note: Callable[[str], str] = lambda answer: "",
) -> dict[str, dict[str, T]]:
    """Return what people say of answers, by rater and `answer_id`, from tables (`column`: score) and files of reviews.

    The rater is in the column `rater`, else it is the file's name without ending. `of_row` returns an answer and what a
    row says of it, None for a row that is not filled in, and raises ValueError for a wrong one. `of_reviews` yields
    answer, content and place of each review; equal responses of several samples must get the same. `note` ends messages
    about an answer. Raises UsageError for a missing file; DataError, with file and row, for a rater named as the judge
    or the consensus, and for an answer that a rater gives two values.
    """
    formats = (
        f"; {column}s by people are a table (XLSX, or CSV or TSV in UTF-8) with the columns id and {column}; several "
        "raters have a file each (repeat --human), or a row each and a column rater"
    )
    stems = Counter(path.stem for path in paths)
    said: dict[str, dict[str, T]] = {}
    places: dict[tuple[str, str], str] = {}

    def add(rater: str, answer: str, content: T, where: str) -> None:
        if not rater:
            raise ValueError("rater is blank")
        if rater in (judge, CONSENSUS):
            raise ValueError(f"the rater has the same name as the judge or the consensus, '{rater}'; rename it")
        if before := places.get((rater, answer)):
            second = f"{rater} gives this answer a second {column}, after {before}; keep one of them"
            raise ValueError(f"{second}{note(answer)}")
        places[rater, answer] = where
        said.setdefault(rater, {})[answer] = content

    for path in paths:
        if not path.is_file():
            raise UsageError(f"--human={path}: no such file")
        rater_of_file = path.stem if stems[path.stem] == 1 else str(path)
        if not reviews.is_reviews(path):
            for row in tables.read(path, needed=[("id", column)], fold=True, hint=formats):
                try:
                    if (filled := of_row(row)) is not None:
                        rater = row.text("rater").strip() if "rater" in row.values else rater_of_file
                        add(rater, *filled, row.where)
                except ValueError as error:
                    raise row.error(str(error)) from None
            continue
        own: dict[str, tuple[T, str]] = {}
        for answer, content, where in of_reviews(path):
            first, before = own.setdefault(answer, (content, where))
            if first != content:
                another = f"{rater_of_file} gives this answer another {column} than in {before}"
                raise DataError(f"{where}: {another}{note(answer)}")
        for answer, (content, where) in own.items():
            try:
                add(rater_of_file, answer, content, where)
            except ValueError as error:
                raise DataError(f"{where}: {error}") from None
    return said
