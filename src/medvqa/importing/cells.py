"""Mistakes within one cell, whatever its role: formulas, wrong encodings, markup, dates that a spreadsheet made."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from medvqa.importing.mistakes import Mistake, RowNumber, clipped, quoted
from medvqa.importing.sheet import ERRORS, ErrorCell
from medvqa.items import are_withheld, of_data
from medvqa.tables import workbooks

PLACEHOLDERS = frozenset(
    {
        *("todo", "to do", "tbd", "tba", "n/a", "na", "n.a.", "k.a.", "?", "??", "???", "-", "--", "---", "xxx", "nan"),
        *("null", "#n/a", "fixme", "leer", "offen", "folgt", "fehlt", "待定", "待补", "缺失", "未填"),
    }
)
"""Cells that stand for a value which is still missing."""
UNFINISHED = PLACEHOLDERS - {"n/a", "na", "n.a.", "-", "--", "---", "?", "offen", "null"}
"""Those that are no option of a real question."""

_MARKUP = re.compile(
    r"</?(?:p|br|b|i|u|em|strong|sub|sup|span|div|font|table|tr|td|ul|ol|li|img|a|script|style)\b[^<>]{0,200}>"
    r"|&(?:nbsp|amp|lt|gt|quot|apos|[aou]uml|[AOU]uml|szlig|#\d{1,6});",
    re.I,
)
_MONTH = r"(?:jan|feb|m[aä]r|mrz|apr|ma[iy]|jun|jul|aug|sep|o[kc]t|nov|de[zc])(?:\.|[a-zä]{0,6})?"  # German and English
_DATE = re.compile(
    rf"\d{{1,2}}[.\-/ ]{{1,2}}{_MONTH}(?:[.\-/ ]{{1,2}}\d{{2,4}})?|{_MONTH}[.\-/ ]{{1,2}}\d{{1,4}}"
    r"|\d{1,2}月\d{1,2}日|(?:19|20)\d\d-\d\d-\d\d(?:[ T]00:00:00)?|\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d",
    re.I,
)
_SCIENTIFIC = re.compile(r"[+-]?\d(?:[.,]\d+)?[eE][+-]?\d{1,3}")
_DECIMAL = re.compile(r"-?\d+[.,]0+")
_BIG = 2**53


def checked(value: Any, row: RowNumber, column: str, *, role: str, printed: bool) -> Iterator[Mistake]:
    """Yield the mistakes of a cell.

    `role` is that of its column. `printed`: its text may stand in a message; False for a patient's column.
    """

    def mistake(kind: str, what: str, do: str, *, refused: bool = False) -> Mistake:
        return Mistake(kind, row, column, what, do, refused)

    if isinstance(value, workbooks.Formula):
        yield mistake("formula", "a formula", "copy the column and paste it as values", refused=True)
        return
    if isinstance(value, ErrorCell) or (isinstance(value, str) and value.strip().upper() in ERRORS):
        yield mistake(
            "error_cell", f"the spreadsheet's error {value.strip()[:10]}", "write its value in its place", refused=True
        )
        return
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        what = "a date: a spreadsheet may have made it from text such as 1-2"
        yield mistake("date", what, "format the column as text, and type the value again", refused=True)
        return
    if isinstance(value, int | float) and not isinstance(value, bool) and role == "id" and abs(value) >= _BIG:
        what = "a number of more than 15 digits, which a spreadsheet rounds"
        yield mistake("scientific", what, "format the column as text, and type the id again")
    if isinstance(value, str):
        yield from _of_text(value, role, printed, mistake)


def _of_text(value: str, role: str, printed: bool, mistake: Any) -> Iterator[Mistake]:
    text = value.strip()
    if not text:
        if value:
            yield mistake("white_space", "only white space", "delete it")
        return
    if hidden := next((c for c in value if _is_control(c)), None):
        shown = f"U+{ord(hidden):04X}"
        yield mistake("control", f"the invisible character {shown}", "delete it; it may come from a copied document")
    if (garbled := _garbled(text)) is not None:
        before, after = garbled
        shown = f" {quoted(before)} in place of {quoted(after)}" if printed and after and not are_withheld() else ""
        yield mistake("mojibake", f"a wrong encoding{shown}", "export the table again as UTF-8, and correct the text")
    if found := _MARKUP.search(text):
        yield mistake("html", f"HTML: {of_data(clipped(found[0]))}", "write plain text: models read the marks as text")
    is_short = role in ("option", "answer", "id", "pair", "patient", "case", "cluster")
    if is_short and len(text) <= 30:
        if role in ("option", "answer") and _DATE.fullmatch(text):
            shown = f"{quoted(text)} looks like a date that a spreadsheet made from text such as 1-2"
            yield mistake("date", shown, "format the column as text, and type the value again")
        elif _SCIENTIFIC.fullmatch(text):
            what = "a number in scientific notation, of which a spreadsheet keeps 15 digits"
            yield mistake("scientific", what, "format the column as text, and type the value again")
        elif _DECIMAL.fullmatch(text) and not (role == "option" and "," in text):
            shown = quoted(text) if printed else "a number with decimals"
            yield mistake(
                "number", f"{shown} looks like a whole number with added decimals", "write it without decimals"
            )


def is_placeholder(text: str, role: str) -> bool:
    """Return whether a cell stands for a missing value: in an option, N/A and ? may be meant."""
    word = " ".join(text.split()).casefold()
    return word in (UNFINISHED if role == "option" else PLACEHOLDERS)


def _is_control(character: str) -> bool:
    if character in "\t\r\n\u200c\u200d":  # joiners belong to some scripts and to emoji
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")


def _garbled(text: str) -> tuple[str, str] | None:
    """Return a word that was decoded wrongly, and the word that was meant ("" if it cannot be told)."""
    if text.isascii():
        return None
    if "\ufffd" in text or "锟斤拷" in text:
        return "", ""
    for word in text.split():
        if word.isascii():
            continue
        try:
            meant = word.encode("cp1252").decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            continue
        if meant != word:
            return word, meant
    return None
