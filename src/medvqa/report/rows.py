"""Rows of results, items, measures and comparisons, for data frames, CSV and Parquet.

Columns and types do not depend on the values (`fields`). A cell with several values joins them by `|`, the separator of
`Series.str.get_dummies()`. Texts are as in results.jsonl: they come from data and models, and are not escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeAlias

from medvqa import figures, printing
from medvqa.comparing import Compared, Flip, PairedPart
from medvqa.items import Item, MedVQAError, Result
from medvqa.report import comparison, fields
from medvqa.report.build import Report
from medvqa.report.fields import Field, Fields

SEPARATOR = "|"
"""Separator of several values in a cell."""

Row: TypeAlias = Sequence[object]


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns, and rows with a value, or None, for each column."""

    columns: Fields
    rows: Sequence[Row]

    @property
    def _written(self) -> Iterable[Row]:
        """The rows of a file, where a dict is a JSON text."""
        import json

        dicts = [field.kind == "object" for field in self.columns.values()]
        if not any(dicts):
            return self.rows
        return (
            [
                json.dumps(cell, ensure_ascii=False) if is_dict and cell is not None else cell
                for cell, is_dict in zip(row, dicts, strict=True)
            ]
            for row in self.rows
        )

    def csv(self) -> str:
        """Return the rows as CSV: no cell is a formula, and none longer than a spreadsheet's may be."""
        return figures.csv([printing.inert(name) for name in self.columns], self._written)

    def parquet(self) -> bytes:
        """Return the rows as a Parquet file, which pandas reads with the types of `columns`.

        MedVQAError if pyarrow is not installed.
        """
        import io
        import json

        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyarrow":
                raise
            raise MedVQAError("Parquet files need pyarrow: pip install 'pytest-medvqa[data]'") from None
        kinds = {"int64": pa.int64(), "Int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
        values = list(zip(*self._written, strict=True)) if self.rows else [()] * len(self.columns)
        arrays = [
            pa.array(list(map(_encodable, column)), kinds.get(field.kind, pa.string()))
            for column, field in zip(values, self.columns.values(), strict=True)
        ]
        table = pa.table(arrays, names=list(map(_encodable, self.columns)))
        # What pandas itself notes: without it, whole numbers with a missing one are read as float64.
        types = [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": kind, "metadata": None}
            for name, kind in zip(table.column_names, map(_file_kind, self.columns.values()), strict=True)
        ]
        noted = {"index_columns": [], "column_indexes": [], "columns": types, "pandas_version": "2.2.1"}
        file = io.BytesIO()
        parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(noted)}), file)
        return file.getvalue()


def _file_kind(field: Field) -> str:
    """Return the type of a column in files."""
    return "string" if field.kind == "object" else field.kind


def _encodable(cell: Any) -> Any:
    """Return a cell without lone surrogates, which UTF-8 does not have."""
    return cell.encode(errors="replace").decode() if isinstance(cell, str) else cell


def dictionary(files: Iterable[tuple[str, Rows]]) -> str:
    """Return a data dictionary as CSV: file, column, type and meaning of each column of files of rows."""
    described = [
        (name, column, _file_kind(field), f"{field.meaning}, as JSON" if field.kind == "object" else field.meaning)
        for name, rows in files
        for column, field in rows.columns.items()
    ]
    return figures.csv(("file", "column", "type", "meaning"), described)


def results(report: Report) -> Rows:
    """Return a row per result of a run, sorted by key; a column per tag dimension follows `fields.RESULT`."""
    rows = sorted((result for part in report.parts for result in part.results), key=lambda result: result.key)
    return _tagged(fields.RESULT, [_result(result) for result in rows], [result.item for result in rows])


def items(report: Report) -> Rows:
    """Return a row per item with a result, sorted by benchmark and id; a column per dimension follows `fields.ITEM`."""
    by_key = {(result.item.benchmark, result.item.id): result.item for part in report.parts for result in part.results}
    rows = [by_key[key] for key in sorted(by_key)]
    return _tagged(fields.ITEM, [_item(item) for item in rows], rows)


def errors(report: Report) -> Rows:
    """Return a row per classified wrong answer (`medvqa classify`), with the columns `fields.ERROR`."""
    labels = () if report.errors is None else report.errors.labels
    rows = [
        (
            label.benchmark,
            label.item,
            label.technique,
            label.variant,
            label.sample,
            label.outcome,
            label.kind or None,
            label.by,
            label.why,
            label.first or None,
            label.first_by,
        )
        for label in labels
    ]
    return Rows(fields.ERROR, rows)


def measures(report: Report) -> Rows:
    """Return a row per measure and slice, in the order of metrics.json; columns as in `fields.MEASURE`."""
    rows = []
    for part in report.parts:
        portion = report.selection.portion(part.benchmark.name, part.technique)
        headline = {id(measure) for measure in part.headline}
        for measure in part.measures:
            dimension, value = next(iter(measure.slice.items()), ("", ""))
            rows.append(
                (
                    measure.benchmark,
                    measure.technique,
                    measure.name,
                    id(measure) in headline,
                    dimension,
                    value,
                    measure.value,
                    measure.low,
                    measure.high,
                    measure.n,
                    measure.count,
                    measure.unit,
                    measure.units,
                    measure.groups,
                    *(measure.references.get(name) for name in ("random", "majority", "image_blind")),
                    *((None, None) if portion is None else (portion.chosen, portion.of)),
                    measure.signature,
                )
            )
    return Rows(fields.MEASURE, rows)


def differences(compared: Iterable[Compared]) -> Rows:
    """Return a row per measure and slice of a comparison; columns as in `fields.DIFFERENCE`."""
    full = comparison.in_full(compared, alike=True)
    places = [full.names.index(name) for name in fields.DIFFERENCE]
    return Rows(fields.DIFFERENCE, [[row[place] for place in places] for row in full.rows])


def flips(flipped: Iterable[Flip]) -> Rows:
    """Return a row per question and sample of each unit with a changed headline measure, as in `fields.FLIP`."""
    rows = []
    for flip in flipped:
        about = (flip.benchmark, flip.technique, flip.metric, flip.unit, flip.better)
        sides = [{(result.item.id, result.sample): result for result in side} for side in (flip.baseline, flip.new)]
        for key in sorted(sides[0].keys() | sides[1].keys()):
            before, after = (side.get(key) for side in sides)
            either = after or before
            question = either.item.question if either is not None else None
            both = zip_longest(_cells(before), _cells(after))
            rows.append((*about, key[0], question, key[1], *(cell for pair in both for cell in pair)))
    return Rows(fields.FLIP, rows)


def parts(compared: Iterable[PairedPart]) -> Rows:
    """Return a row per benchmark and technique of a comparison, with counts of items; columns as in `fields.PART`."""
    rows = [
        (
            part.benchmark,
            part.technique,
            part.matched,
            part.scored,
            len(part.unmatched_new),
            len(part.unmatched_baseline),
            len(part.errors_new),
            len(part.errors_baseline),
            part.unchanged,
        )
        for part in compared
    ]
    return Rows(fields.PART, rows)


def _cells(result: Result | None) -> tuple[object, ...]:
    """Return outcome, value, extracted options and answer of one side of a flip."""
    if result is None:
        return (None,) * 4
    answer = None if result.answer is None else result.answer.text
    return result.score.outcome, result.score.value, joined(result.score.extracted), answer


def _item(item: Item) -> Row:
    return (
        item.benchmark,
        item.id,
        item.kind,
        item.question,
        dict(item.options),
        joined(item.answers),
        joined(image.name for image in item.images),
        item.pair_id,
        item.cluster_id,
    )


def _result(result: Result) -> Row:
    item, answer, score = result.item, result.answer, result.score
    usage = (answer.usage if answer is not None else None) or {}
    logprobs = answer.option_logprobs if answer is not None else None
    return (
        item.benchmark,
        item.id,
        result.technique,
        result.variant,
        result.sample,
        item.kind,
        item.question,
        joined(item.answers),
        None if answer is None else answer.text,
        joined(score.extracted),
        score.outcome,
        score.value,
        score.why,
        None if answer is None else answer.confidence,
        None if answer is None else answer.finish,
        None if answer is None else answer.seconds,
        usage.get("input"),
        usage.get("output"),
        usage.get("cost"),
        None if result.judgement is None else result.judgement.judge,
        None if logprobs is None else dict(logprobs),
        item.pair_id,
        item.cluster_id,
    )


def joined(values: Iterable[str]) -> str | None:
    """Join several values to one cell; None for no value."""
    return SEPARATOR.join(values) or None


def _tagged(columns: Fields, rows: Sequence[Row], tagged: Sequence[Item]) -> Rows:
    """Return rows with a column per dimension of the items' tags; `tag.NAME` if the name is taken."""
    dimensions = sorted({dimension for item in tagged for dimension in item.tags})
    # A tag's name may equal that of a column, or the new name of another tag.
    names: dict[str, str] = {}
    for dimension in dimensions:
        name = dimension
        while name in columns or name in names.values() or (name != dimension and name in dimensions):
            name = f"tag.{name}"
        names[dimension] = name
    cells: Callable[[Item], Row] = lambda item: [joined(item.tags.get(name, ())) for name in dimensions]  # noqa: E731
    return Rows(
        {**columns, **{name: Field("string", f"tags of {dimension}") for dimension, name in names.items()}},
        [(*row, *cells(item)) for row, item in zip(rows, tagged, strict=True)],
    )
