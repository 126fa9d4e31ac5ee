"""Values of a benchmark file that are no columns: typed by `--set KEY=VALUE`, else guessed from the cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from medvqa import tables
from medvqa.benchmarks import own
from medvqa.benchmarks.table_declaration import TableDeclaration, words_of, wrong_keys
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


def split(typed: Iterable[str]) -> tuple[list[str], TableDeclaration]:
    """Return the typed roles of columns, and the keys among `KEY=VALUE` texts (UsageError)."""
    roles: list[str] = []
    keys = TableDeclaration(file="-")
    for text in typed:
        key, _, value = text.partition("=")
        key = key.strip().lower()
        if key not in KEYS and not (key == "kind" and value.strip() in KINDS):
            roles.append(text)
            continue
        keys = msgspec.structs.replace(keys, **{key: _value(text, key, value if key == "delimiter" else value.strip())})
        for wrong, why in wrong_keys(keys):
            if wrong == key:
                raise UsageError(f"--set={text}: {why}")
    return roles, keys


def _value(text: str, key: str, value: str) -> object:
    """The value of a key as its type (UsageError)."""
    if key == "allow_burned_in":
        if value.lower() not in ("true", "false"):
            raise UsageError(f"--set={text}: write true or false")
        return value.lower() == "true"
    if key == "numbers_from":
        return int(value) if value in ("0", "1") else -1
    if key != "window":
        return value
    try:
        low, high = map(float, value.split(","))
    except ValueError:
        raise UsageError(f"--set={text}: write the raw values for black and white, such as window=0,4095") from None
    return [low, high]


def guessed(sheet: Sheet, columns: RoleColumns, typed: TableDeclaration) -> TableDeclaration:
    """Return the typed keys, and for those not typed what the cells show."""
    return msgspec.structs.replace(
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
    words = words_of(_language(sheet, columns))
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
