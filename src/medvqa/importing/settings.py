"""Values of a benchmark file that are no columns: typed by `--set KEY=VALUE`, else guessed from the cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from medvqa import tables
from medvqa.benchmarks import languages, own
from medvqa.importing.roles import RoleColumns
from medvqa.importing.sheet import Sheet
from medvqa.items import KINDS, UsageError

KEYS = (
    *("language", "window", "numbers_from", "separator", "encoding", "delimiter", "sheet", "allow_burned_in"),
    *("name", "title", "licence"),
)
"""Keys of a benchmark file that --set takes beside roles of columns; also `kind`, if its value is a kind."""

_CHINESE = re.compile("[\u4e00-\u9fff]")
_GERMAN = frozenset(
    {
        *("der", "die", "das", "ist", "sind", "welche", "welcher", "welches", "und", "ein", "eine", "einen", "im"),
        *("auf", "zu", "sehen", "zeigt", "wird", "dem", "den", "bei", "was", "wie", "hier", "gibt", "es"),
    }
)
_ENGLISH = frozenset(
    {
        *("the", "is", "are", "which", "what", "of", "in", "and", "a", "an", "this", "that", "does", "shown", "how"),
        *("where", "on", "to", "there"),
    }
)
_NUMBERS = re.compile(r"\d{1,2}(?:[\s,;|/+&]+\d{1,2})*")
_SAMPLE = 500
"""Rows that are looked at for a guess."""
LEAST = 20
"""Answers without a 0 from which on numbers count from 1."""
MOST = 0.9
"""Share of answers that must be numbers of options, to be read so."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Keys of a benchmark file. `numbers_from`: answers are numbers of options, counted from 0 or 1; None: letters."""

    language: str = ""
    window: tuple[float, float] | None = None
    numbers_from: int | None = None
    separator: str = ""
    encoding: str = ""
    delimiter: str = ""
    sheet: str = ""
    allow_burned_in: bool = False
    kind: str = ""
    name: str = ""
    title: str = ""
    licence: str = ""


def split(typed: Iterable[str]) -> tuple[list[str], FileSettings]:
    """Return the typed roles of columns, and the settings among `KEY=VALUE` texts (UsageError)."""
    roles: list[str] = []
    settings = FileSettings()
    for text in typed:
        key, _, value = text.partition("=")
        key = key.strip().lower()
        if key == "kind" and value.strip() in KINDS:
            settings = replace(settings, kind=value.strip())
        elif key not in KEYS:
            roles.append(text)
        elif key == "window":
            settings = replace(settings, window=_window(text, value))
        elif key == "numbers_from":
            if value.strip() not in ("0", "1"):
                raise UsageError(f"--set={text}: options are counted from 0 or from 1")
            settings = replace(settings, numbers_from=int(value))
        elif key == "allow_burned_in":
            if value.strip().lower() not in ("true", "false"):
                raise UsageError(f"--set={text}: write true or false")
            settings = replace(settings, allow_burned_in=value.strip().lower() == "true")
        else:
            values: dict[str, Any] = {key: value if key == "delimiter" else value.strip()}
            settings = replace(settings, **values)
    return roles, settings


def _window(text: str, value: str) -> tuple[float, float]:
    parts = value.split(",")
    try:
        low, high = map(float, parts)
    except ValueError:
        raise UsageError(f"--set={text}: write the raw values for black and white, such as window=0,4095") from None
    if low == high or not abs(low) + abs(high) < float("inf"):
        raise UsageError(f"--set={text}: two different numbers are needed, such as window=0,4095")
    return low, high


def guessed(sheet: Sheet, columns: RoleColumns, typed: FileSettings) -> FileSettings:
    """Return the typed settings, and for those not typed what the cells show."""
    return replace(
        typed,
        language=typed.language or _language(sheet, columns),
        numbers_from=typed.numbers_from if typed.numbers_from is not None else _numbers(sheet, columns),
        separator=typed.separator or _separator(sheet, columns),
        encoding=typed.encoding or sheet.encoding,
        kind=typed.kind or _kind(sheet, columns),
    )


def _texts(sheet: Sheet, place: int | None) -> list[str]:
    values: Sequence[object] = [] if place is None else sheet.values(place)[:_SAMPLE]
    return [text.strip()[:2000] for text in map(tables.text_of, values) if text is not None]


def _kind(sheet: Sheet, columns: RoleColumns) -> str:
    """The kind judgment, if no column names kinds or options and all answers are yes or no; else ""."""
    if "kind" in columns.one or columns.options or "options" in columns.one:
        return ""
    words = languages.WORDS.get(_language(sheet, columns), own.YES_OR_NO)
    values = [] if "answer" not in columns.one else sheet.values(columns.one["answer"])
    return "judgment" if values and all(own.is_judgment(str(value), words) for value in values) else ""


def _language(sheet: Sheet, columns: RoleColumns) -> str:
    """The language of most questions: zh, de or en; "" if it cannot be told."""
    found: Counter[str] = Counter()
    for text in _texts(sheet, columns.one.get("question")):
        words = re.findall(r"[^\W\d_]+", text.casefold())
        german, english = sum(word in _GERMAN for word in words), sum(word in _ENGLISH for word in words)
        if len(_CHINESE.findall(text)) >= 2:
            found["zh"] += 1
        elif german > english:
            found["de"] += 1
        elif english > german:
            found["en"] += 1
    if not found:
        return ""
    language, count = found.most_common(1)[0]
    return language if 2 * count > found.total() else ""


def _numbers(sheet: Sheet, columns: RoleColumns) -> int | None:
    """Whether answers are numbers of options, and from which they count; None if not, or if it cannot be told."""
    letters = columns.options
    texts = _texts(sheet, columns.one.get("answer"))
    if len(letters) < 2 or not texts:
        return None
    fits = [text for text in texts if _NUMBERS.fullmatch(text)]
    if len(fits) < MOST * len(texts):
        return None
    # Options that are numbers themselves may be meant by their text.
    options = {text for place in letters.values() for text in _texts(sheet, place)}
    if options & set(fits):
        return None
    numbers = {int(number) for text in fits for number in re.findall(r"\d+", text)}
    if 0 in numbers:
        return 0 if max(numbers) < len(letters) else None
    if len(letters) in numbers or (max(numbers) < len(letters) and len(fits) >= LEAST):
        return 1
    return None


def _separator(sheet: Sheet, columns: RoleColumns) -> str:
    """The sign between options in one cell, if nearly all cells have it; "" for JSON lists."""
    texts = _texts(sheet, columns.one.get("options"))
    if not texts or sum(text.startswith(("[", "{")) for text in texts) > len(texts) / 2:
        return ""
    for sign in ("|", ";", "\n", "；", "/", ","):
        if sum(sign in text for text in texts) >= MOST * len(texts):
            return sign
    return ""
