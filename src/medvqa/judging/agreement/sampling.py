"""Draw answers for people to score, and write the sheet for them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.items import Result, UsageError
from medvqa.judging.agreement.ratings import Judged, answer_id, names_of
from medvqa.tables import sheets

COLUMNS = ("id", "question", "reference", "response", "score", "remark")
"""Columns of a sheet; people fill in `score`, and `remark` if they like."""


def sample(run: Judged, number: int, dimension: str | None, seed: int = 0) -> tuple[Result, ...]:
    """Draw up to `number` judged answers, stratified by a dimension and the judge's score, in random order.

    All answers have the same chance, and strata get their share, rounded up or down: figures over the sample estimate
    those over the run without weights. The sample is systematic with a random start; answers are sorted by stratum, in
    random order within (Cochran 1977, Sampling Techniques, chapter 8). `seed` fixes the draw on every machine. Raises
    UsageError if `number` is below 1.
    """
    if number < 1:
        raise UsageError(f"--sample={number}: draw at least one answer")
    answers = list(run.scored.values())
    if number < len(answers):
        tags = {result.key: result.item.tags.get(dimension or "", ()) for result in answers}
        answers.sort(
            key=lambda result: (
                tags[result.key],
                result.score.value or 0.0,
                _random(seed, "draw", *names_of(result)),
            )
        )
        # In whole numbers: place i is (start + i * all) // number, with a start in [0, all).
        start = int.from_bytes(_random(seed, "start")) % len(answers)
        answers = [answers[(start + i * len(answers)) // number] for i in range(number)]
    return tuple(sorted(answers, key=lambda result: _random(seed, "order", *names_of(result))))


def _random(seed: int, *names: str) -> bytes:
    return hashlib.sha256(msgspec.json.encode([seed, *names])).digest()


def write_sheet(path: Path, results: Sequence[Result]) -> None:
    """Write the answers for people, without the judge's scores: XLSX or CSV by the file's ending.

    Raises UsageError for another ending, and if the file exists: it may contain scores.
    """
    if path.suffix.lower() not in (".csv", ".xlsx"):
        raise UsageError(f"--output={path}: a sheet is a .csv or an .xlsx file")
    if path.exists():
        raise UsageError(f"{path} exists and may contain scores: name another file with --output")
    rows = (
        (
            answer_id(result),
            result.item.question,
            " / ".join(result.item.answers),
            result.answer.text if result.answer else "",
            "",
            "",
        )
        for result in results
    )
    with files.writing(f"--output={path}:"):
        sheets.write(path, COLUMNS, rows)
