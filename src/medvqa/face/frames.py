"""Make pandas DataFrames of rows. Columns and types do not depend on the values; a missing value is `<NA>` or `NaN`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from medvqa.items import MedVQAError
from medvqa.paper_tables import PaperTable
from medvqa.report.fields import Field
from medvqa.report.rows import Rows

if TYPE_CHECKING:
    import pandas as pd


def pandas() -> Any:
    """Import pandas; MedVQAError if it is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise MedVQAError("DataFrames need pandas: pip install 'pytest-medvqa[pandas]'") from None
    return pd


def published(table: PaperTable) -> pd.DataFrame:
    """Return a row per published row: its name, and its figures by the titles of the table's columns."""
    columns = {
        "row": Field("string", "name of the row"),
        **{column.title: Field("float64", "in percent, or a count") for column in table.columns},
    }
    return frame(Rows(columns, [(row.shown, *row.values) for row in table.rows]))


def frame(rows: Rows) -> pd.DataFrame:
    """Return a DataFrame of these columns and types, even without rows. MedVQAError if pandas is not installed."""
    pd = pandas()
    values = list(zip(*rows.rows, strict=True)) if rows.rows else [()] * len(rows.columns)
    # Storage in Python objects: an answer may hold a lone surrogate, which Arrow refuses.
    text = pd.StringDtype("python")
    return pd.DataFrame(
        {
            name: pd.Series(list(column), dtype=text if field.kind == "string" else field.kind, name=name)
            for (name, field), column in zip(rows.columns.items(), values, strict=True)
        }
    )
