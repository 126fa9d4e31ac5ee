"""Limits of data files: one list for all formats, far above real files.

Data files are not trusted: a hostile one must not take more memory or time than these limits allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from medvqa import files
from medvqa.items import DataError, are_withheld

MAX_BYTES = 2**30
"""Bytes of a file; a table whose images are indexed may be larger, as only its texts are held."""

MAX_DOCUMENT = 2**28
"""Bytes of a JSON document, which is held in memory; JSON lines are not."""

MAX_ROWS = 2**20
"""Rows, the limit of XLSX itself; a hostile sheet may claim billions."""

MAX_COLUMNS = 1000
"""Cells of a row; the widest real tables have about fifty."""

MAX_TEXT = 2**20
"""Bytes of a line of JSON lines or of a text cell of an indexed table, else characters of a cell."""

MAX_ROW = 2**24
"""Characters of a row of CSV or TSV."""

MAX_TEXTS = 2**30
"""Characters of all text cells of an indexed table, which are held; GMAI-MMBench has 10 million in 26,000 rows."""

MAX_IMAGES = 100
"""Images of one question."""

MAX_RESULT = 2**26
"""Bytes of a line of results.jsonl, which holds a question, an answer and the replies of a judge."""

MAX_CELLS = 2**22
"""Cells of a spreadsheet, blank ones before the last of a row included: 26,000 rows of 160."""

MAX_PARTS = 1000
"""Files in a spreadsheet; one with a sheet has about ten."""

MAX_UNPACKED = 2**28
"""Bytes of all parts of a spreadsheet, unpacked: 26,000 answers of 10,000 characters."""

MAX_ELEMENTS = 2**22
"""XML elements and attributes of all parts. openpyxl holds some parts as trees, 100 bytes and more for each."""

MAX_TOKEN = 2**20
"""Bytes of one tag or characters of one text of a spreadsheet, which a parser holds whole."""

OTHER_DATA = ". Is this the file of another data set?"
"""Ends errors of a benchmark's reader about a file of another kind."""


def place(name: str, unit: str, number: int | str, line: int = 0) -> str:
    """Return the name of a row in messages; `line` is added if it is another number.

    A key of a JSON object is data: if texts are withheld, the place of the key, `line`, is named instead.
    """
    if isinstance(number, str):
        return f"{name} record {line}" if are_withheld() else f"{name} {unit} {number}"
    return f"{name} {unit} {number} (line {line})" if line not in (0, number) else f"{name} {unit} {number}"


def above(where: str, limit: int, unit: str, advice: str = "") -> DataError:
    """Return the error for more than `limit` units; `unit` is a plural, `advice` ends the message."""
    return DataError(f"{where}: more than {limit:,} {unit}{advice}")


def longer(where: str, limit: int, unit: str = "bytes") -> DataError:
    """Return the error for a line or row above a limit."""
    return DataError(f"{where}: longer than {files.size(limit) if unit == 'bytes' else f'{limit:,} {unit}'}")


def long_text(where: str, column: str) -> DataError:
    """Return the error for a cell above MAX_TEXT."""
    return DataError(f"{where}, column '{column}': more than {files.size(MAX_TEXT)} of text")


def larger(where: str, limit: int, advice: str = "") -> DataError:
    """Return the error for a file above a limit in bytes."""
    return DataError(f"{where}: larger than {files.size(limit)}{advice}")


def width(where: str, found: str, wanted: int, *, at_end: bool) -> DataError:
    """Return the error for a row with too few or too many cells; `at_end`: nothing follows it."""
    end = "; the file ends here, it may be truncated" if at_end else ""
    return DataError(f"{where}: {found} cells where the first line has {wanted}{end}")


@contextmanager
def opened(path: Path, name: str) -> Iterator[BufferedReader]:
    """Open a regular file; DataError, which begins with `name`, if it is missing or cannot be read."""
    try:
        with files.reading(path) as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(f"{name}: no such file") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from error


def check_columns(columns: Sequence[str], where: str) -> None:
    """Raise DataError for too many columns, and for two of one name."""
    if len(columns) > MAX_COLUMNS:
        raise above(where, MAX_COLUMNS, "columns")
    if twice := sorted(column for column, count in Counter(columns).items() if count > 1):
        raise DataError(f"{where}: column '{twice[0]}' occurs twice")


def check_needed(columns: Collection[str], needed: Sequence[Sequence[str]], where: str, hint: str = "") -> None:
    """Raise DataError if columns are missing. `needed` lists alternatives; the message names the nearest one."""
    missing = [tuple(column for column in group if column not in columns) for group in needed]
    if missing and all(missing):
        present = ", ".join(columns)[:500] or "none"
        raise DataError(f"{where}: missing column {', '.join(sorted(missing, key=len)[0])}; found: {present}{hint}")
