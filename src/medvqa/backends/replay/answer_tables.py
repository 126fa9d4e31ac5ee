"""Tables and JSON (lines) of ids and answers: VLMEvalKit's, MedEvalKit's, and any other with such columns.

VLMEvalKit: https://github.com/open-compass/VLMEvalKit/blob/e8e78f05f3080fe28154f2130321f17951c3be94/vlmeval/inference.py
writes `index` and `prediction` (TSV, CSV, XLSX, JSON); `image_mcq.py` adds `hit`, its own score, in another file.
MedEvalKit: https://github.com/alibaba-damo-academy/MedEvalKit/blob/9b12e3b34232a8779cc1275417bf4f72f03d28e0/utils/base_dataset.py
writes results.json, the samples of a data set with `response`, and `correct`, its own score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from medvqa import decode, tables
from medvqa.backends.replay.logged_json import decoded
from medvqa.backends.replay.recording import (
    FORMATS,
    UNKNOWN,
    AnswerColumns,
    Entry,
    Harness,
    listed_in,
    missing,
    score_of,
)
from medvqa.items import TECHNIQUES, Answer, DataError
from medvqa.tables import TableRow, limits

PAIRS = (("index", "prediction"), ("id", "response"))
"""Column names of an item's id and its answer."""
RESPONSES = (
    *("response", "prediction", "pred", "model answer", "model response", "model output", "model prediction"),
    *("output", "completion", "generated text", "generated answer", "generation", "reply"),
    *("modellantwort", "antwort des modells", "模型回答", "模型答案", "预测"),
)
"""Names of columns of a model's answers; `answer` is the key of a question."""
HARNESSES: Mapping[str, tuple[str, Collection[str]]] = {
    "hit": ("VLMEvalKit", ("index", "prediction", "log")),
    "correct": ("MedEvalKit", ("question", "response", "answer")),
}
"""The column of a harness's own score, its name, and further columns that it writes."""

_FAILED = "Failed to obtain answer"  # what VLMEvalKit records as the prediction when a request failed
_LETTERS = "abcdefghijklmnopqrstuvwxy"


def rows(path: Path, columns: AnswerColumns, key: str) -> Iterator[TableRow]:
    """Yield the rows of a table with lower-case names of columns; an object of objects has its keys as column `key`.

    DataError for a file that is no table, or without the columns of an id and an answer: it names those that are there.
    """
    usual = (*PAIRS, (key, "answer"))
    typed = columns != AnswerColumns()
    named = tables.read(path, needed=() if typed else usual, fold=True, key=key, hint=f"; {FORMATS}")
    try:
        head = next(named)
    except DataError:
        if (array := _with_nan(path)) is not None:
            return array
        if typed or (other := _head(path)) is None or not roles(other, columns):
            raise
        named = tables.read(path, fold=True, hint=f"; {FORMATS}")
        head = next(named)
    return chain([head], named)


def _with_nan(path: Path) -> Iterator[TableRow] | None:
    """The rows of a JSON array that holds NaN, as VLMEvalKit writes an empty cell; None for any other file."""
    with limits.opened(path, str(path)) as file:
        content = file.read(limits.MAX_DOCUMENT + 1)
    if len(content) > limits.MAX_DOCUMENT or not content.lstrip().startswith(b"[") or b"NaN" not in content:
        return None
    try:
        records = decoded(content, str(path), list[dict[str, Any]])
    except DataError:
        return None
    return (_lower(str(path), number, record) for number, record in enumerate(records, 1))


def _lower(file: str, number: int, record: Mapping[str, object]) -> TableRow:
    """Return a record as a row with lower-case names of columns (DataError for two of one name)."""
    row = TableRow(file, "record", number, 0, {name.strip().lower(): value for name, value in record.items()})
    if len(row.values) < len(record):
        raise row.error("two columns have the same name, but for letter case")
    return row


def _head(path: Path) -> TableRow | None:
    """The first row of a table whatever its columns, None if there is none."""
    try:
        return next(tables.read(path, fold=True))
    except DataError:
        return None


def harness(names: Collection[str]) -> Harness:
    """Return the harness that writes such columns, one without a name if it is unknown."""
    for score, (name, others) in HARNESSES.items():
        if {score, *others} <= {*names}:
            return Harness(name, scoring=score)
    return Harness("VLMEvalKit" if {"question", *PAIRS[0]} <= {*names} else "")


def entries(rows: Iterable[TableRow], columns: AnswerColumns) -> Iterator[Entry]:
    """Yield the entries of rows (DataError; UsageError for a typed column that is missing)."""
    names: tuple[str, ...] = ()
    found: Mapping[str, str] = {}
    for row in rows:
        if tuple(row.values) != names:
            names = tuple(row.values)
            found = roles(row, columns)
            if not found:
                limits.check_needed(names, PAIRS, row.file if row.unit == "row" else row.where, f"; {FORMATS}")
                raise row.error("neither an id nor a question; type --set id=COLUMN or --set question=COLUMN")
        yield entry(row, found)


def roles(row: TableRow, columns: AnswerColumns) -> Mapping[str, str]:
    """Return the columns of a row by role: typed ones, the usual names, then names that `medvqa import` knows.

    {} without an answer, or without both an id and a question. UsageError for a typed column that is missing, and if
    several could be the id or the answer.
    """
    found = {}
    for role in AnswerColumns.__dataclass_fields__:
        if (typed := getattr(columns, role)) is not None:
            found[role] = typed and _typed(row, role, typed)
    pair = next((pair for pair in PAIRS if {*pair} <= row.values.keys()), ("", ""))
    if not found.keys() & {"id", "response"} and pair[0]:
        found |= {"id": pair[0], "response": pair[1]}
    if pair == PAIRS[1]:
        found = {name: name for name in ("benchmark", "technique") if name in row.values} | found
    # Import lazily: other formats need no names of columns.
    from medvqa.importing.roles import known_column, usual_names

    ids, questions = usual_names("id") - {"number", "no"}, usual_names("question") - {"prompt"}
    for role, known in (("id", ids), ("response", RESPONSES), ("question", questions)):
        if role not in found:
            found[role] = known_column(row, role, known, several=role == "question")
    return found if found["response"] and (found["id"] or found["question"]) else {}


def _typed(row: TableRow, role: str, typed: str) -> str:
    """The column that was typed for a role; UsageError if the file has none of this name."""
    name = typed.strip().lower()
    if name not in row.values:
        raise missing(role, typed, row.file, row.values)
    return name


def entry(row: TableRow, columns: Mapping[str, str]) -> Entry:
    """Return the entry of one row, given the columns by role; "" for none (DataError)."""
    text_name = columns["response"]
    text = None if row.values[text_name] is None else row.text(text_name)
    finish = UNKNOWN
    if "finish" in columns:
        finish = row.text(columns["finish"])
    elif "finish" in row.values or "finish_reason" in row.values:
        finish = row.text("finish") or row.text("finish_reason")
    if text is not None and text_name == "prediction" and text.startswith(_FAILED):
        text = None
    technique = row.text(columns["technique"]) if columns.get("technique") else ""
    if technique and technique not in TECHNIQUES:
        raise row.error(f"no technique {technique!r}; known: {', '.join(TECHNIQUES)}", columns["technique"])
    of_harness = harness(row.values)
    return Entry(
        row.where,
        f"{row.unit} {row.number}",
        row.identifier(columns["id"]) if columns["id"] else "",
        None if text is None else Answer(text, finish=finish),
        row.text(columns["benchmark"]) if columns.get("benchmark") else "",
        technique,
        row.text("variant") if text_name == "response" else "",
        0,
        row.text(columns["question"]) if columns["question"] else "",
        options(row.values),
        their_score=score_of(row.values[of_harness.scoring]) if of_harness.scoring else None,
    )


def options(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the texts of options in a row: the list `choices` or `options`, or the columns a, b ...

    In a cell of text, the list is JSON, or lines that begin with letters. Letters before all options are left out.
    """
    listed = values.get("choices") or values.get("options")
    if isinstance(listed, str):
        try:
            listed = msgspec.json.decode(listed, type=list[str] | dict[str, str])
        except decode.ERRORS:
            listed = listed_in(str(listed))
    if isinstance(listed, Mapping):
        letters = all(len(str(key)) == 1 for key in listed)
        listed = [listed[key] for key in (sorted(listed) if letters else listed)]
    if listed and isinstance(listed, Sequence):
        shown = [str(option) for option in listed]
        lettered = listed_in("\n".join(shown))
        return lettered if len(lettered) == len(shown) else tuple(shown)
    cells = [str(values[letter]) for letter in _LETTERS if not tables.is_blank(values.get(letter))]
    return tuple(cells)
