"""Find the format of a file of recorded answers by its content, and read it."""

from __future__ import annotations

import re
import zipfile
from itertools import chain
from pathlib import Path

import msgspec

from medvqa.backends.replay import answer_tables, inspect_logs, lmms_samples, pair_results, run_results
from medvqa.backends.replay.logged_json import decoded
from medvqa.backends.replay.recording import AnswerColumns, Recording, collected
from medvqa.items import DataError
from medvqa.tables import json_text, limits, workbooks

_DOCUMENT = re.compile(rb"\s*\{\s*\"(version|results|args|status)\"\s*:")
"""The start of one JSON object by a harness; MediConfusion's begins with the number of a pair."""
_LMMS = re.compile(rb"\s*\{\s*\"doc_id\"\s*:")
"""The start of a sample log of lmms-eval, whose first line may hold NaN."""
_PICKLE = b"\x80"


class _Top(msgspec.Struct):
    """The keys by which the JSON of harnesses is known."""

    eval: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    results: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    configs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read(path: Path, columns: AnswerColumns | None = None) -> Recording:
    """Read recorded answers in any of the formats.

    Raises DataError, with the row if there is one, for a file that is empty, truncated or in no known format, and for
    two answers to one item. In results.jsonl the last line for an item counts. `columns`: those that were typed.
    """
    columns = columns or AnswerColumns()
    with limits.opened(path, str(path)) as file:
        start = file.read(2**10)
        file.seek(0)
        if start.startswith(_PICKLE):
            raise DataError(
                f"{path}: a pickle of Python, which can run any code when it is read. Write it as a table where you "
                "trust it: python -c \"import pandas; pandas.read_pickle('FILE').to_csv('answers.csv')\""
            )
        if start.startswith(workbooks.START) and _is_inspect(path):
            return inspect_logs.read_archive(path, columns)
        first, more = json_text.first(file, str(path))
    if _DOCUMENT.match(start) and not more and (known := _document(path, columns)) is not None:
        return known
    if _LMMS.match(start) if first is None else first.keys() >= lmms_samples.NEEDED:
        return lmms_samples.read(path, columns)
    if first is not None and {"item", "answer"} <= first.keys() and not _is_table(first):
        return run_results.read(path)
    rows = answer_tables.rows(path, columns, pair_results.PAIR)
    head = next(rows)
    if head.unit == pair_results.PAIR:
        return pair_results.read(path, [head, *rows])
    return collected(answer_tables.entries(chain([head], rows), columns), answer_tables.harness(head.values))


def _is_table(names: dict[str, object]) -> bool:
    lower = {name.lower() for name in names}
    return any({*pair} <= lower for pair in answer_tables.PAIRS)


def _is_inspect(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return inspect_logs.is_archive(archive)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        # The reader of spreadsheets says what is wrong.
        return False


def _document(path: Path, columns: AnswerColumns) -> Recording | None:
    """The answers of one JSON object by a harness, None if it is none; DataError for results without answers."""
    with limits.opened(path, str(path)) as file:
        content = file.read(limits.MAX_DOCUMENT + 1)
    if len(content) > limits.MAX_DOCUMENT:
        raise limits.larger(str(path), limits.MAX_DOCUMENT, "; for a log of Inspect: inspect log convert --to eval")
    try:
        top = decoded(content, str(path), _Top)
    except DataError:
        # The reader of tables says what is wrong.
        return None
    if top.eval is not msgspec.UNSET:
        return inspect_logs.read_document(path, content, columns)
    if top.results is not msgspec.UNSET and top.configs is not msgspec.UNSET:
        samples = path.name.replace("_results.json", "_samples_TASK.jsonl")
        samples = samples if samples != path.name else "DATE_samples_TASK.jsonl"
        raise DataError(
            f"{path}: results of lmms-eval, which hold no answers. They are in {samples}, in the same folder, if it "
            "ran with --log_samples"
        )
    return None
