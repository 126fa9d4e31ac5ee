"""Questions of the phantom and invented answers to them, for the scripts that let harnesses write logs."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "kept" / "harness_logs"
TABLE = ROOT / "fixtures" / "phantom" / "gmai-mmbench" / "PHANTOM_VAL.tsv"
COUNT = 12
REPLIES = (
    "ANSWER: {right}",
    "ANSWER: {wrong}",
    "{right}",
    "The answer is {wrong}.",
    "It could be {right} or {wrong}.",
    "I cannot tell from this image.",
    "{text}",
    "{right}. {text}",
    "({wrong})",
    "A fine question.",
    "Answer: {right}",
    "",
)


def rows() -> list[dict[str, str]]:
    """Return questions whose text and options no other question has, each with `reply`, the invented answer."""
    limit = csv.field_size_limit(sys.maxsize)
    with TABLE.open(newline="") as file:
        table = list(csv.DictReader(file, delimiter="\t"))
    csv.field_size_limit(limit)
    texts = Counter(map(_text, table))
    chosen = [row for row in table if texts[_text(row)] == 1][:COUNT]
    return [{**row, "reply": _reply(row, template)} for row, template in zip(chosen, REPLIES, strict=True)]


def letters(row: dict[str, str]) -> list[str]:
    """Return the letters of a question's options."""
    return [letter for letter in "ABCDE" if row[letter]]


def _text(row: dict[str, str]) -> tuple[str, ...]:
    return row["question"], *(row[letter] for letter in letters(row))


def _reply(row: dict[str, str], template: str) -> str:
    right = row["answer"]
    wrong = next(letter for letter in letters(row) if letter != right)
    return template.format(right=right, wrong=wrong, text=row[right])
