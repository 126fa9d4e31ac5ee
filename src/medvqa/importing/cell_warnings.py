"""Warnings about one cell: wrong encodings, markup, dates and numbers that a spreadsheet made."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from medvqa.benchmarks.table import parts_of
from medvqa.items import are_withheld, of_data
from medvqa.printing import clipped
from medvqa.tables import TableRow, workbooks
from medvqa.tables.limits import MAX_IMAGES
from medvqa.tables.problems import TableProblem, quoted

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


def warnings(row: TableRow, column: str, role: str) -> Iterator[TableProblem]:
    """Yield the warnings of a cell; `role` is that of its column."""
    for value in parts_of(row.values.get(column))[:MAX_IMAGES]:
        if isinstance(value, workbooks.Formula | workbooks.MergedCell) or workbooks.is_error(value):
            continue
        for kind, what, do in _wrong(value, role):
            yield row.problem(kind, column, what, do, refused=False)


def _wrong(value: object, role: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, int | float) and not isinstance(value, bool) and role == "id" and abs(value) >= _BIG:
        what = "a number of more than 15 digits, which a spreadsheet rounds"
        yield "scientific", what, "format the column as text, and type the id again"
    if isinstance(value, str):
        yield from _of_text(value, role)


def _of_text(value: str, role: str) -> Iterator[tuple[str, str, str]]:
    # Texts of patients, ids and pairs stand in no message.
    printed = role not in ("patient", "case", "cluster", "id", "pair")
    text = value.strip()
    if not text:
        if value:
            yield "white_space", "only white space", "delete it"
        return
    if hidden := next((c for c in value if _is_control(c)), None):
        shown = f"U+{ord(hidden):04X}"
        yield "control", f"the invisible character {shown}", "delete it; it may come from a copied document"
    if (garbled := _garbled(text)) is not None:
        before, after = garbled
        shown = f" {quoted(before)} in place of {quoted(after)}" if printed and after and not are_withheld() else ""
        yield "mojibake", f"a wrong encoding{shown}", "export the table again as UTF-8, and correct the text"
    if found := _MARKUP.search(text):
        yield "html", f"HTML: {of_data(clipped(found[0]))}", "write plain text: models read the marks as text"
    is_short = role in ("option", "answer", "id", "pair", "patient", "case", "cluster")
    if is_short and len(text) <= 30:
        if role in ("option", "answer") and _DATE.fullmatch(text):
            shown = f"{quoted(text)} looks like a date that a spreadsheet made from text such as 1-2"
            yield "date", shown, "format the column as text, and type the value again"
        elif _SCIENTIFIC.fullmatch(text):
            what = "a number in scientific notation, of which a spreadsheet keeps 15 digits"
            yield "scientific", what, "format the column as text, and type the value again"
        elif _DECIMAL.fullmatch(text) and not (role == "option" and "," in text):
            shown = quoted(text) if printed else "a number with decimals"
            yield "number", f"{shown} looks like a whole number with added decimals", "write it without decimals"


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
