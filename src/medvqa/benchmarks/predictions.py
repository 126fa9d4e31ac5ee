"""VLMEvalKit's prediction file, which owners score if they keep the key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from medvqa.benchmarks import folders
from medvqa.items import OPTION_TECHNIQUES, Result
from medvqa.tables import sheets
from medvqa.tags import lexicon


def write(path: Path, results: Sequence[Result], columns: Mapping[str, str]) -> Path:
    """Write the prediction file of some results, in natural order of their ids; return its path.

    XLSX as `infer_data_job` writes it in
    https://github.com/open-compass/VLMEvalKit/blob/0044c573821b996d6fe051a8804500bcf25d5a67/vlmeval/inference.py: the
    columns of the data without `image`, and `prediction` with the raw response (the letter if the technique gives no
    text; "" without a response). `columns` maps lexicon dimensions to the columns that hold them.
    """
    letters = sorted({letter for result in results for letter in result.item.options})
    names = ["index", "question", *letters, "category", *columns.values(), "prediction"]
    ordered = sorted(results, key=lambda result: folders.natural(result.item.id))
    sheets.write_values(path, names, (_row(result, letters, columns) for result in ordered))
    return path


def _row(result: Result, letters: Sequence[str], columns: Mapping[str, str]) -> list[str | int]:
    item = result.item
    # Write numbers as numbers: the owners' code joins on `index` as pandas reads it.
    name = int(item.id) if re.fullmatch(r"0|[1-9]\d{0,14}", item.id) else item.id
    options = (item.options.get(letter, "") for letter in letters)
    tags = (", ".join(lexicon.display(key, value) for value in item.tags.get(key, ())) for key in columns)
    response = result.answer.text if result.answer else ""
    if result.technique in OPTION_TECHNIQUES:
        response = ",".join(result.score.extracted)
    return [name, item.question, *options, str(item.extra.get("category", "")), *tags, response]
