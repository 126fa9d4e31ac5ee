"""Make pandas DataFrames of results, items, measures and comparisons.

Columns and types do not depend on the values. Text is `string`, whole numbers that may be missing are `Int64`, other
numbers `float64`, and a missing value is `<NA>` or `NaN`. A cell with several values joins them by `|`, the separator
of `Series.str.get_dummies()`. Texts are as in results.jsonl: they come from data and models, and are not escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

from medvqa.comparing import Compared, Flip, PairedPart
from medvqa.items import Item, MedVQAError, Result
from medvqa.paper_tables import PaperTable
from medvqa.report import Report, comparison

if TYPE_CHECKING:
    import pandas as pd

SEPARATOR = "|"
"""Separator of several values in a cell."""

Row: TypeAlias = Sequence[object]

ITEM: Mapping[str, str] = {
    "benchmark": "string",
    "item": "string",
    "kind": "string",
    "question": "string",
    "options": "object",
    "expected": "string",
    "images": "string",
    "pair": "string",
    "cluster": "string",
}
"""Columns of `items`: name -> type. `options` holds dicts, letter -> text; `expected` is the answer key."""

RESULT: Mapping[str, str] = {
    "benchmark": "string",
    "item": "string",
    "technique": "string",
    "variant": "string",
    "sample": "int64",
    "kind": "string",
    "question": "string",
    "expected": "string",
    "answer": "string",
    "extracted": "string",
    "outcome": "string",
    "value": "float64",
    "why": "string",
    "finish": "string",
    "seconds": "float64",
    "input_tokens": "float64",
    "output_tokens": "float64",
    "cost": "float64",
    "judge": "string",
    "option_logprobs": "object",
    "pair": "string",
    "cluster": "string",
}
"""Columns of `results`: name -> type. `option_logprobs` holds dicts, option -> natural logarithm, or None."""

ERROR: Mapping[str, str] = {
    "benchmark": "string",
    "item": "string",
    "technique": "string",
    "variant": "string",
    "sample": "int64",
    "outcome": "string",
    "kind_of_error": "string",
    "by": "string",
    "why": "string",
    "first": "string",
    "first_by": "string",
}
"""Columns of `errors`: name -> type. `kind_of_error` is missing for an unclassified answer; `first` is the kind before
people's correction."""

MEASURE: Mapping[str, str] = {
    "benchmark": "string",
    "technique": "string",
    "measure": "string",
    "headline": "bool",
    "dimension": "string",
    "slice": "string",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "n": "float64",
    "count": "float64",
    "unit": "string",
    "units": "Int64",
    "groups": "Int64",
    "random": "float64",
    "majority": "float64",
    "image_blind": "float64",
    "selected": "Int64",
    "of": "Int64",
    "signature": "string",
}
"""Columns of `measures`: name -> type. For a whole benchmark, `dimension` and `slice` are empty."""

DIFFERENCE: Mapping[str, str] = {
    "benchmark": "string",
    "technique": "string",
    "measure": "string",
    "headline": "bool",
    "better": "string",
    "dimension": "string",
    "slice": "string",
    "baseline": "float64",
    "new": "float64",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "p": "float64",
    "adjusted": "float64",
    "units": "Int64",
    "groups": "Int64",
    "gained": "Int64",
    "lost": "Int64",
    "discordant_groups": "Int64",
    "worse": "float64",
    "deff": "float64",
    "df": "float64",
    "se": "float64",
    "detectable": "float64",
    "mcnemar": "float64",
    "method": "string",
    "bootstrap_low": "float64",
    "bootstrap_high": "float64",
}
"""Columns of `differences`: name -> type. For a whole benchmark, `dimension` and `slice` are empty."""

FLIP: Mapping[str, str] = {
    "benchmark": "string",
    "technique": "string",
    "measure": "string",
    "unit": "string",
    "better": "bool",
    "item": "string",
    "question": "string",
    "sample": "int64",
    "baseline_outcome": "string",
    "new_outcome": "string",
    "baseline_value": "float64",
    "new_value": "float64",
    "baseline_extracted": "string",
    "new_extracted": "string",
    "baseline_answer": "string",
    "new_answer": "string",
}
"""Columns of `flips`: name -> type."""

PART: Mapping[str, str] = {
    "benchmark": "string",
    "technique": "string",
    "matched": "int64",
    "scored": "int64",
    "new_alone": "int64",
    "baseline_alone": "int64",
    "new_errors": "int64",
    "baseline_errors": "int64",
    "unchanged": "bool",
}
"""Columns of `parts`: name -> type."""


def pandas() -> Any:
    """Import pandas; MedVQAError if it is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise MedVQAError("DataFrames need pandas: pip install 'pytest-medvqa[pandas]'") from None
    return pd


def results(report: Report) -> pd.DataFrame:
    """Return a row per result of a run, sorted by key; a column per tag dimension follows `RESULT`."""
    rows = sorted((result for part in report.parts for result in part.results), key=lambda result: result.key)
    return _tagged(RESULT, [_result(result) for result in rows], [result.item for result in rows])


def items(report: Report) -> pd.DataFrame:
    """Return a row per item with a result, sorted by benchmark and id; a column per tag dimension follows `ITEM`."""
    by_key = {(result.item.benchmark, result.item.id): result.item for part in report.parts for result in part.results}
    rows = [by_key[key] for key in sorted(by_key)]
    return _tagged(ITEM, [_item(item) for item in rows], rows)


def errors(report: Report) -> pd.DataFrame:
    """Return a row per classified wrong answer (`medvqa classify`); columns as in `ERROR`. Without rows if none is."""
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
    return _frame(ERROR, rows)


def measures(report: Report) -> pd.DataFrame:
    """Return a row per measure and slice, in the order of metrics.json; columns as in `MEASURE`."""
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
    return _frame(MEASURE, rows)


def differences(compared: Iterable[Compared]) -> pd.DataFrame:
    """Return a row per measure and slice of a comparison; columns as in `DIFFERENCE`."""
    full = comparison.in_full(compared)
    places = [full.names.index(name) for name in DIFFERENCE]
    return _frame(DIFFERENCE, [[row[place] for place in places] for row in full.rows])


def flips(flipped: Iterable[Flip]) -> pd.DataFrame:
    """Return a row per question and sample of each unit with a changed headline measure; columns as in `FLIP`."""
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
    return _frame(FLIP, rows)


def parts(compared: Iterable[PairedPart]) -> pd.DataFrame:
    """Return a row per benchmark and technique of a comparison, with counts of items; columns as in `PART`."""
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
    return _frame(PART, rows)


def published(table: PaperTable) -> pd.DataFrame:
    """Return a row per published row: its name, and its figures by the titles of the table's columns."""
    columns = {"row": "string", **dict.fromkeys((column.title for column in table.columns), "float64")}
    return _frame(columns, [(row.shown, *row.values) for row in table.rows])


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


def _tagged(columns: Mapping[str, str], rows: Sequence[Row], tagged: Sequence[Item]) -> pd.DataFrame:
    """Return a frame with a column per dimension of the items' tags; `tag.NAME` if the name is taken."""
    dimensions = sorted({dimension for item in tagged for dimension in item.tags})
    # A tag's name may equal that of a column, or the new name of another tag.
    names: dict[str, str] = {}
    for dimension in dimensions:
        name = dimension
        while name in columns or name in names.values() or (name != dimension and name in dimensions):
            name = f"tag.{name}"
        names[dimension] = name
    cells: Callable[[Item], Row] = lambda item: [joined(item.tags.get(name, ())) for name in dimensions]  # noqa: E731
    return _frame(
        {**columns, **dict.fromkeys(names.values(), "string")},
        [(*row, *cells(item)) for row, item in zip(rows, tagged, strict=True)],
    )


def _frame(columns: Mapping[str, str], rows: Sequence[Row]) -> pd.DataFrame:
    """Return a DataFrame of these columns and types, even without rows."""
    pd = pandas()
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    # Storage in Python objects: an answer may hold a lone surrogate, which Arrow refuses.
    text = pd.StringDtype("python")
    return pd.DataFrame(
        {
            name: pd.Series(list(column), dtype=text if kind == "string" else kind, name=name)
            for (name, kind), column in zip(columns.items(), values, strict=True)
        }
    )
