"""Readings in tables of other programs: spreadsheets, Label Studio and REDCap.

A table has a row for each reading: `id`, `reader`, and `response` or `score`; `benchmark`, `confidence`, `seconds`,
`comment`, `arm` and `cannot_tell` if there are such columns. Other names are known too (`NAMES`), and any can be typed.

Label Studio, exports CSV, TSV and JSON_MIN (as exports/csv2.py of HumanSignal/label-studio-converter at 45aa0b6 writes
them): a row for each annotation, with the columns of the task's data, one for each control of the labelling interface
under its own name (several choices are JSON, `{"choices": [...]}`), and `annotator`, `annotation_id`, `created_at`,
`updated_at`, `lead_time` (seconds) and `was_cancelled` (a skipped task: left out). `id` is that of the task's data, or
else Label Studio's own number of the task: type --set id=COLUMN then.

REDCap, raw export of a project in which a record is a question and a repeating instrument its readings (checked in
REDCapTidieR's and universities' descriptions of the export): a row for each instance, named by `record_id`,
`redcap_repeat_instrument` and `redcap_repeat_instance`; the row of the record itself has a blank instance, and no
reading. Which column names the reader is the project's: `reader`, or --set reader=COLUMN. Cells hold codes of choices:
--set codes=1:A,2:B says what they mean.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from medvqa import decode, tables
from medvqa.importing.roles import plain, usual_names
from medvqa.items import DataError, DataWarning, UsageError, of_data
from medvqa.readings import reading_file
from medvqa.readings.reading_file import Lines, ReaderAnswer, ReaderStudy, ReadingColumns
from medvqa.tables import TableRow, json_text, limits, people

HINT = (
    "; a table of readings has the columns id, reader, and response or score; type others: --set id=COLUMN "
    "--set reader=COLUMN --set response=COLUMN"
)
NAMES: Mapping[str, Collection[str]] = {
    "id": ("record id",),
    "reader": (
        *("reader", "reader id", "reader code", "rater", "rater id", "annotator", "physician", "radiologist", "doctor"),
        *("leser", "arzt", "befunder", "untersucher", "阅片者", "医生"),
    ),
    "response": ("response", "choice", "reading", "reader response", "reader answer", "selected option", "选择"),
    "score": ("score", "points", "punkte", "评分", "分数"),
    "benchmark": ("benchmark",),
    "confidence": ("confidence", "sicherheit", "信心"),
    "seconds": ("seconds", "lead time", "reading time", "sekunden"),
    "comment": ("comment", "comments", "kommentar", "备注"),
    "arm": ("arm",),
    "cannot_tell": ("cannot tell", "cannot be determined"),
}
"""Names of columns by role, without letter case and punctuation; ids also have those of questions' tables."""
_YES, _NO = frozenset({"1", "true", "yes", "ja", "x"}), frozenset({"", "0", "false", "no", "nein"})
_PLACES_OF_TASK = frozenset({"annotator", "annotation_id", "lead_time"})
_INSTANCE = "redcap_repeat_instance"


def read_any(path: Path, columns: ReadingColumns | None = None) -> tuple[ReaderStudy, Lines]:
    """Return the study and the lines of a file of readings, or of a table of readings.

    `columns` are those that were typed for a table; a file of readings needs none. DataError, with file and row, for a
    wrong file; UsageError for a typed column that is missing, and if several could be meant.
    """
    columns = columns or ReadingColumns()
    with limits.opened(path, str(path)) as file:
        first, _ = json_text.first(file, str(path))
        if first is not None and "readings" in first:
            file.seek(0)
            study, lines = reading_file.parse(file.read(reading_file.MAX_BYTES + 1), str(path))
        else:
            lines = reading_file.once(_rows(path, columns))
            readers = tuple(sorted({line.reader for line in lines}))
            if len(readers) > reading_file.MAX_READERS:
                raise limits.above(str(path), reading_file.MAX_READERS, "readers")
            study = ReaderStudy(name=path.stem[: reading_file.MAX_NAME] or "readings", readers=readers)
    if not lines:
        raise DataError(f"{path}: no readings{HINT}")
    _warn_of_names(path, {line.reader for line in lines})
    return study, lines


def _warn_of_names(path: Path, readers: Collection[str]) -> None:
    """Warn (DataWarning) of codes that look like names or addresses of people; they are not shown."""
    number = sum("@" in code or people.addressed(code) or _is_name(code) for code in readers)
    if number:
        what = "the code of 1 reader looks" if number == 1 else f"the codes of {number} readers look"
        message = f"{path}: {what} like a name or an address; reports show codes: write R1, R2 and so on instead"
        warnings.warn(message, DataWarning, stacklevel=4)


def _is_name(code: str) -> bool:
    words = code.replace("/", " ").replace(",", " ").split()
    named = [word for word in words if len(word) >= people.LEAST and word[0].isupper() and word[1:].islower()]
    return "^" in code or (len(named) > 1 and not any(sign.isdigit() for sign in code))


def _rows(path: Path, columns: ReadingColumns) -> Iterator[tuple[str, ReaderAnswer]]:
    codes = _codes(columns.codes)
    names: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    for row in tables.read(path, fold=True, hint=HINT):
        if tuple(row.values) != names:
            names = tuple(row.values)
            roles = _roles(row, columns)
        if _INSTANCE in row.values and not row.text(_INSTANCE).strip():
            continue
        if row.values.keys() >= _PLACES_OF_TASK and _flag(row, "was_cancelled"):
            continue
        if (reading := _reading(row, roles, codes)) is not None:
            yield row.where, reading


def _codes(typed: str | None) -> Mapping[str, str]:
    """Return what codes mean, of `1:A,2:B` (UsageError)."""
    pairs = [part.partition(":") for part in (typed or "").split(",") if part.strip()]
    if not all(code.strip() and colon and meaning.strip() for code, colon, meaning in pairs):
        raise UsageError(f"--set codes={typed}: write each code with what it means, such as --set codes=1:A,2:B")
    return {code.strip(): meaning.strip() for code, _, meaning in pairs}


def _roles(row: TableRow, columns: ReadingColumns) -> Mapping[str, str]:
    """Return the columns by role: those typed, else those of known names, "" for none (DataError, UsageError)."""
    roles = {}
    for role, known in NAMES.items():
        typed: str | None = getattr(columns, role)
        if typed:
            name = typed.strip().lower()
            if name not in row.values:
                there = decode.did_you_mean(name, row.values)
                raise UsageError(f"--set {role}={typed}: {row.file} has no such column{there}")
            roles[role] = name
        else:
            roles[role] = _named(row, role, known) if typed is None else ""
    where = row.file if row.unit == "row" else row.where
    for role, lacking in (("id", not roles["id"]), ("reader", not roles["reader"])):
        if lacking:
            limits.check_needed(row.values, [(role,)], where, HINT)
    if not (roles["response"] or roles["score"] or roles["cannot_tell"]):
        limits.check_needed(row.values, [("response",), ("score",)], where, HINT)
    return roles


def _named(row: TableRow, role: str, known: Collection[str]) -> str:
    if role in row.values:
        return role
    names = {*known, *(usual_names("id") - {"number", "no"} if role == "id" else ())}
    found = [name for name in row.values if plain(name) in names]
    if len(found) > 1:
        listed = ", ".join(f"'{name}'" for name in found)
        raise UsageError(f"{row.file}: {len(found)} columns could be the {role} ({listed}). Type --set {role}=COLUMN")
    return found[0] if found else ""


def _reading(row: TableRow, roles: Mapping[str, str], codes: Mapping[str, str]) -> ReaderAnswer | None:
    """Return the reading of a row; None if the reader has not answered (DataError)."""
    texts = {role: row.text(roles[role]).strip() for role in ("benchmark", "comment", "arm") if roles[role]}
    response = _response(row, roles["response"], codes) if roles["response"] else ""
    score = _number(row, roles["score"]) if roles["score"] else None
    cannot_tell = bool(roles["cannot_tell"]) and _flag(row, roles["cannot_tell"])
    if not response and score is None and not cannot_tell:
        return None
    reader = tables.whole(row.text(roles["reader"]).strip())
    if not reader:
        raise row.error("no reader: give the reader's code, such as R1", roles["reader"])
    values = {
        "reader": reader,
        "benchmark": "",
        "item": row.identifier(roles["id"]),
        "response": response,
        "cannot_tell": cannot_tell,
        "score": score,
        "seconds": _number(row, roles["seconds"]) if roles["seconds"] else None,
        "confidence": _number(row, roles["confidence"]) if roles["confidence"] else None,
        **texts,
    }
    try:
        return msgspec.convert(values, ReaderAnswer)
    except msgspec.ValidationError as error:
        raise row.error(str(error).replace("`$.", "`")) from None


def _response(row: TableRow, column: str, codes: Mapping[str, str]) -> str:
    """Return a response; several choices as letters with commas, also in the JSON of Label Studio."""
    value = row.values[column]
    text = ",".join(map(str, value)) if isinstance(value, list) else row.text(column).strip()
    if text.startswith('{"choices":'):
        try:
            text = ",".join(msgspec.json.decode(text, type=dict[str, list[str]])["choices"])
        except decode.ERRORS:
            raise row.error("choices that cannot be read", column) from None
    if not codes or not text:
        return text
    parts = [tables.whole(part.strip()) for part in text.split(",")]
    if unknown := [part for part in parts if part not in codes]:
        raise row.error(f"the code {of_data(repr(unknown[0]))} is none of --set codes ({', '.join(codes)})", column)
    return ",".join(codes[part] for part in parts)


def _number(row: TableRow, column: str) -> float | int | None:
    text = tables.whole(row.text(column).strip())
    try:
        number = None if not text else int(text) if text.isdecimal() and len(text) < 10 else float(text)
    except ValueError:
        raise row.error(f"no number: {of_data(repr(text[:80]))}", column) from None
    if number is not None and not math.isfinite(number):
        raise row.error(f"no number: {of_data(repr(text[:80]))}", column)
    return number


def _flag(row: TableRow, column: str) -> bool:
    text = row.text(column).strip().casefold()
    if text not in _YES | _NO:
        raise row.error(f"neither yes nor no: {of_data(repr(text[:80]))}", column)
    return text in _YES
