"""The answers that people are to score, and the sheet in which they do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from medvqa.data import sheets
from medvqa.items import Result, UsageError
from medvqa.judging.agreement.ratings import Judged, answer_id, names_of

COLUMNS = ("id", "question", "reference", "response", "score", "remark")
"""Of a sheet; people fill in `score`, and `remark` is theirs."""


def sample(run: Judged, number: int, dimension: str | None, seed: int = 0) -> tuple[Result, ...]:
    """Draw judged answers, stratified by a dimension and the judge's score, in an order that tells nothing.

    All of them when there are no more than `number`. Every answer has the same chance, and of a stratum come as many as
    its share says, one more or one less: figures over the sample estimate those over the run without weights. It is a
    systematic sample with a random start of the answers sorted by stratum, in random order within
    (Cochran 1977, Sampling Techniques, chapter 8). `seed` decides, on every machine the same.
    """
    if number < 1:
        raise UsageError(f"--sample={number}: at least one answer has to be drawn")
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
        # Whole numbers: place i is (start + i * all) // number, with a start in [0, all).
        start = int.from_bytes(_random(seed, "start")) % len(answers)
        answers = [answers[(start + i * len(answers)) // number] for i in range(number)]
    return tuple(sorted(answers, key=lambda result: _random(seed, "order", *names_of(result))))


def _random(seed: int, *names: str) -> bytes:
    return hashlib.sha256(msgspec.json.encode([seed, *names])).digest()


def write_sheet(path: Path, results: Sequence[Result]) -> None:
    """Write the answers for people: XLSX or CSV by the file's ending, blind to the judge, with an empty column `score`.

    UsageError when there is such a file already, which may hold somebody's work.
    """
    if path.suffix.lower() not in (".csv", ".xlsx"):
        raise UsageError(f"--output={path}: a sheet is a .csv or an .xlsx file")
    if path.exists():
        raise UsageError(f"{path} exists and may hold scores already: name another file with --output")
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
    try:
        sheets.write(path, COLUMNS, rows)
    except OSError as error:
        raise UsageError(f"--output={path}: cannot be written: {error.strerror}") from error
