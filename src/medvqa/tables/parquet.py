"""Rows of Parquet files; the images in them stay in the file until a model looks at them."""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from medvqa.image import ParquetCell, bytes_of_images
from medvqa.items import DataError, Image
from medvqa.tables import cached, limits

START = b"PAR1"
"""The first bytes of a Parquet file."""
BATCH = 32
"""Rows that are held at a time."""
MAX_BATCH = 2**29
"""Bytes of the texts of BATCH rows, and of images in lists of bytes."""
MAX_VALUES = 2**26
"""Values of a row group, those of lists included: a file of a kilobyte may repeat one value two billion times."""


def rows(path: Path, name: str, *, digests: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file by column, with values as in JSON.

    A column of images (binary, or a struct with `bytes`, as the hub writes them) holds an `Image` or None, a list of
    them a list of images. With `digests`, images have their SHA-256: the first time, the whole file is read. Other
    binary values are left out. DataError, which begins with `name`, for a damaged file and without pyarrow.
    """
    with _opened(path, name) as file:
        if file.metadata.num_rows > limits.MAX_ROWS:
            raise limits.above(name, limits.MAX_ROWS, "rows")
        columns = list(file.schema_arrow.names)
        limits.check_columns(columns, f"{name}, columns")
        pictured = {field.name for field in file.schema_arrow if _is_image(field.type)}
        known = _digests(path, name, sorted(pictured)) if digests and pictured else {}
        wanted = _leaves(file, pictured)
        number = -1
        for batch in _batches(path, name, wanted, pictured):
            for values in batch:
                number += 1
                yield {
                    column: _images(values[column], ParquetCell(column, number), path, name, known, len(pictured) > 1)
                    if column in pictured
                    else _plain(values[column])
                    for column in columns
                    if column in values
                }


def _batches(path: Path, name: str, columns: Sequence[str], pictured: set[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows by pieces of a file (DataError); an image of a column of bytes is a number.

    Texts stay encoded until their length is known: a dictionary of one value of 100 MB may stand in every row.
    """
    from pyarrow import RecordBatch, types

    with _opened(path, name, encoded=True) as file:
        for batch in file.iter_batches(batch_size=BATCH, columns=list(columns)):
            arrays = {
                column: array.indices if column in pictured and types.is_dictionary(array.type) else array
                for column, array in zip(batch.schema.names, batch.columns, strict=True)
            }
            if sum(map(_length, arrays.values())) > MAX_BATCH:
                raise limits.above(name, MAX_BATCH, f"bytes in {BATCH} rows")
            yield RecordBatch.from_arrays(list(arrays.values()), list(arrays)).to_pylist()


def _length(array: Any) -> int:
    """The bytes of the decoded values of a column, those of lists and structs included."""
    from pyarrow import compute, types

    if types.is_dictionary(array.type):
        lengths = compute.binary_length(array.dictionary).take(array.indices)
        return (compute.sum(lengths).as_py() or 0) + len(array)
    if types.is_list(array.type) or types.is_large_list(array.type):
        return len(array) + _length(array.flatten())
    if types.is_struct(array.type):
        return sum(map(_length, array.flatten()))
    return int(array.nbytes) + len(array)


def _images(
    value: Any, cell: ParquetCell, path: Path, name: str, known: Mapping[str, Sequence[Any]], several: bool
) -> Image | list[Image] | None:
    """The references to the images of a cell."""
    if value is None:
        return None
    stored = known[cell.column][cell.row] if known else ""
    where = f"{name} record {cell.row + 1}" + (f" {cell.column}" if several else "")
    if isinstance(value, list):
        return [
            Image(
                f"{where} {place + 1}",
                str(path),
                digest=stored[place] if stored else "",
                cell=ParquetCell(cell.column, cell.row, place),
            )
            for place in range(len(value))
        ]
    return Image(where, str(path), digest=stored or "", cell=cell)


def _plain(value: Any) -> Any:
    """A value as JSON has it; bytes, which no text column holds, are left out."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if not isinstance(inner, bytes)}
    if isinstance(value, list):
        return [_plain(inner) for inner in value if not isinstance(inner, bytes)]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal | datetime.timedelta):
        return str(value)
    return None if isinstance(value, bytes) else value


def _is_image(kind: Any) -> bool:
    """Whether a type is that of images: bytes, a struct with `bytes`, or a list of these."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _is_image(kind.value_type)
    if types.is_struct(kind):
        return any(
            field.name == "bytes" and (types.is_binary(field.type) or types.is_large_binary(field.type))
            for field in kind
        )
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _leaves(file: Any, pictured: set[str]) -> list[str]:
    """The columns to read for rows without the bytes of images: beside them, `path` tells which cells are empty."""
    paths = [file.schema.column(i).path for i in range(len(file.schema))]
    kept = [path for path in paths if not (path.split(".")[0] in pictured and path.endswith(".bytes"))]
    told = {path.split(".")[0] for path in kept}
    return kept + [path for path in paths if path.split(".")[0] in pictured - told]


def _digests(path: Path, name: str, columns: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """The SHA-256 of each image by column and row: None for an empty cell, a list for a list of images.

    Those of a large file are stored in the user's cache directory.
    """
    state = cached.stamp_of(path)
    place, stamp = cached.place_of(path, "images"), (state, columns)
    stored = cached.load(place, stamp, list[Any])
    if stored is None:
        stored = [list(_hashed(path, name, column)) for column in columns]
        if state.size >= cached.SMALL:
            # Without a cache, they are computed again next time.
            with suppress(OSError):
                cached.store(place, stamp, stored)
    return dict(zip(columns, stored, strict=True))


def _hashed(path: Path, name: str, column: str) -> Iterator[Any]:
    with _opened(path, name) as file:
        # One at a time: an image may be large, and the same one may stand in every row.
        for batch in file.iter_batches(batch_size=1, columns=list(bytes_of_images(file, column))):
            for value in batch.column(0):
                yield _hash(value.as_py())


def _hash(value: Any) -> Any:
    if isinstance(value, list):
        return [_hash(inner) for inner in value]
    if isinstance(value, Mapping):
        value = value.get("bytes")
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else None


@contextmanager
def _opened(path: Path, name: str, *, encoded: bool = False) -> Iterator[Any]:
    """Open a Parquet file; `encoded`: columns of texts and bytes are dictionaries (DataError)."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{name}: Parquet files need pyarrow: pip install 'pytest-medvqa[data]'") from None
    try:
        with parquet.ParquetFile(os.fspath(path)) as file:
            schema = file.schema
            leaves = [schema.column(i) for i in range(len(schema))]
            if len(leaves) > limits.MAX_COLUMNS:
                raise limits.above(f"{name}, columns", limits.MAX_COLUMNS, "columns")
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if sum(group.column(i).num_values for i in range(group.num_columns)) > MAX_VALUES:
                    raise limits.above(name, MAX_VALUES, "values in a row group")
            if not encoded:
                yield file
                return
        # pyarrow cannot keep dictionaries within lists and structs of several pieces.
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and "." not in leaf.path]
        with parquet.ParquetFile(os.fspath(path), read_dictionary=texts) as file:
            yield file
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        problem = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise DataError(f"{name}: damaged, or no Parquet file: {problem}") from error
