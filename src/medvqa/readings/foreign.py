"""Readings in tables of other programs: spreadsheets, Label Studio and REDCap.

A table has a row for each reading: `id`, `reader`, and `response` or `score`, and columns of further roles (`NAMES`).

Label Studio, exports CSV, TSV and JSON_MIN (as exports/csv2.py of HumanSignal/label-studio-converter at 45aa0b6 writes
them): a row for each annotation, with the task's data, a column for each control of the labelling interface (several
choices are JSON, `{"choices": [...]}`), `annotator`, `lead_time` in seconds and `was_cancelled` (left out). `id` is
that of the data, or else Label Studio's number of the task: type --set id=COLUMN then.

REDCap, if a record is a question and a repeating instrument its readings (checked in REDCapTidieR's and universities'
descriptions of the export): a row for each instance, with `record_id` and `redcap_repeat_instance`, which is blank in
the row of the record itself. Export labels and no codes, and name the reader's column: --set reader=COLUMN.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from medvqa import decode, tables
from medvqa.importing.roles import known_column, usual_names
from medvqa.items import DataError, DataWarning, UsageError
from medvqa.readings import reading_file
from medvqa.readings.reading_file import Lines, ReaderAnswer, ReaderStudy, ReadingColumns
from medvqa.tables import TableRow, json_text, limits

HINT = (
    "; a table of readings has the columns id, reader, and response or score; type others: --set id=COLUMN "
    "--set reader=COLUMN --set response=COLUMN"
)
NAMES: Mapping[str, Collection[str]] = {
    "id": ("record id", *(usual_names("id") - {"number", "no"})),
    "reader": (
        "reader id",
        "reader code",
        "rater",
        "rater id",
        "annotator",
        "physician",
        "radiologist",
        "leser",
        "医生",
    ),
    "response": ("choice", "reading", "reader response", "reader answer", "selected option", "选择"),
    "score": ("points", "punkte", "评分"),
    "benchmark": (),
    "confidence": ("sicherheit", "信心"),
    "seconds": ("lead time", "reading time", "sekunden"),
    "comment": ("comments", "kommentar", "备注"),
    "arm": (),
    "cannot_tell": ("cannot tell", "cannot be determined"),
}
"""Names of columns by role beside the role's own, without letter case and punctuation."""
_NO_READING = {"redcap_repeat_instance": ("",), "was_cancelled": ("true", "1")}
"""Cells, in lower case, of rows that are no readings."""


def read_any(path: Path, columns: ReadingColumns | None = None) -> tuple[ReaderStudy, Lines]:
    """Return the study and the lines of a file of readings, or of a table of readings.

    `columns` are those that were typed for a table; a file of readings needs none. DataError, with file and row, for a
    wrong file; UsageError for a typed column that is missing, and if several could be meant. DataWarning for codes that
    look like names or addresses of people; they are not shown.
    """
    with limits.opened(path, str(path)) as file:
        first, _ = json_text.first(file, str(path))
        if first is not None and "readings" in first:
            file.seek(0)
            study, lines = reading_file.parse(file.read(reading_file.MAX_BYTES + 1), str(path))
        else:
            lines = reading_file.once(_rows(path, columns or ReadingColumns()))
            study = ReaderStudy(name=path.stem[: reading_file.MAX_NAME] or "readings")
    readers = sorted({line.reader for line in lines})
    if not lines:
        raise DataError(f"{path}: no readings{HINT}")
    if len(readers) > reading_file.MAX_READERS:
        raise limits.above(str(path), reading_file.MAX_READERS, "readers")
    if number := sum(map(reading_file.is_personal, readers)):
        what = "the code of 1 reader looks" if number == 1 else f"the codes of {number} readers look"
        message = f"{path}: {what} like a name or an address; reports show codes: write R1, R2 and so on instead"
        warnings.warn(message, DataWarning, stacklevel=2)
    return study if study.readers else msgspec.structs.replace(study, readers=tuple(readers)), lines


def _rows(path: Path, columns: ReadingColumns) -> Iterator[tuple[str, ReaderAnswer]]:
    names: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    for row in tables.read(path, fold=True, hint=HINT):
        if tuple(row.values) != names:
            names, roles = tuple(row.values), _roles(row, columns)
        left_out = any(row.text(name).strip().lower() in _NO_READING[name] for name in _NO_READING.keys() & {*names})
        if not left_out and (reading := _reading(row, roles)) is not None:
            yield row.where, reading


def _roles(row: TableRow, columns: ReadingColumns) -> Mapping[str, str]:
    """Return the columns by role: those typed, else those of known names (DataError, UsageError)."""
    roles: dict[str, str] = {}
    for role, known in NAMES.items():
        typed: str | None = getattr(columns, role)
        column = known_column(row, role, known) if typed is None else typed.strip().lower()
        if column and column not in row.values:
            there = decode.did_you_mean(column, row.values)
            raise UsageError(f"--set {role}={typed}: {row.file} has no such column{there}")
        if column:
            roles[role] = column
    for needed in (("id",), ("reader",), ("response", "score", "cannot_tell")):
        if not roles.keys() & {*needed}:
            raise DataError(f"{row.file}: missing column {needed[0]}; found: {', '.join(row.values)[:500]}{HINT}")
    return roles


def _reading(row: TableRow, roles: Mapping[str, str]) -> ReaderAnswer | None:
    """Return the reading of a row; None if the reader has not answered (DataError)."""
    cells = {role: tables.whole(_text(row, column)) for role, column in roles.items()}
    # A comma is the decimal sign of many spreadsheets; 1,234 may be a thousand.
    for role in {"score", "seconds"} & cells.keys():
        if re.fullmatch(r"0,\d+|\d+,\d{1,2}", cells[role]):
            cells[role] = cells[role].replace(",", ".")
    if not any(cells.get(role) for role in ("response", "score", "cannot_tell")):
        return None
    if not cells["reader"]:
        raise row.error("no reader: give the reader's code, such as R1", roles["reader"])
    told = {role: text for role, text in cells.items() if text and role != "id"}
    try:
        return msgspec.convert(
            {"benchmark": "", **told, "item": row.identifier(roles["id"])}, ReaderAnswer, strict=False
        )
    except msgspec.ValidationError as error:
        raise row.error(str(error).replace("`$.", "`")) from None


def _text(row: TableRow, column: str) -> str:
    """Return a cell as text; several choices as letters with commas, also in the JSON of Label Studio."""
    value = row.values[column]
    text = ",".join(map(str, value)) if isinstance(value, list) else row.text(column).strip()
    if not text.startswith('{"choices":'):
        return text
    try:
        return ",".join(msgspec.json.decode(text, type=dict[str, list[str]])["choices"])
    except decode.ERRORS:
        raise row.error("choices that cannot be read", column) from None
