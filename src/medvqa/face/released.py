"""`medvqa.questions` and `medvqa.published`: the questions of a benchmark, and the published rows of its paper."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import benchmarks as known_benchmarks
from medvqa.benchmarks import published as rows
from medvqa.face import frames
from medvqa.face.known import Extras, known_with
from medvqa.items import Benchmark, Item, UsageError
from medvqa.session.options import data_folder

if TYPE_CHECKING:
    import pandas as pd


def questions(
    benchmark: str,
    *,
    data: str | os.PathLike[str] | None = None,
    benchmarks: Iterable[Benchmark] = (),
    plugins: Extras = (),
) -> tuple[Item, ...]:
    """Return the questions of a benchmark, or of a group with all of its splits that are found; sorted by id.

    `data` is the folder of the data sets (default: MEDVQA_DATA). `benchmarks` and `plugins` are as for `medvqa.load`.
    Raises UsageError for an unknown name and for data that are not found, and DataError for data that cannot be read.
    """
    registry = known_with(benchmarks=benchmarks, plugins=plugins)
    folder, typed = data_folder(None if data is None else os.fspath(data), Path.cwd())
    chosen = known_benchmarks.choose([benchmark], registry.benchmarks, folder, typed)
    places = {one.name: known_benchmarks.folder_of(one, folder) or folder or Path() for one in chosen}
    return tuple(item for one in chosen for item in known_benchmarks.load(one, places[one.name]))


def published(paper: str, table: int | str = "") -> pd.DataFrame:
    """Return the published rows of a table, in percent or as counts: `row`, and a column for each of the table.

    `paper` is a name as for `medvqa paper`, and `table` a number (default: the main table). UsageError for others.
    MedVQAError if pandas is not installed.
    """
    tables = rows.tables(known_with().benchmarks.values())
    if paper not in tables:
        raise UsageError(f"no paper '{paper}'; there are: {', '.join(tables)}")
    return frames.published(tables[paper].numbered(str(table)))
