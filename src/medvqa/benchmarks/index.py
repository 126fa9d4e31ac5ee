"""The index of a table (TSV) whose cells hold images as base64.

A table of 9 GB is read once, from front to back. The index keeps the texts of all other cells, and place and digest of
every image; the images stay where they are.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.benchmarks import streamed
from medvqa.items import DataError, DataWarning, Image
from medvqa.tables import cached, limits
from medvqa.tables.progress import Progress, show
from medvqa.tags.selection import components

FORMAT = 2
"""Version of the stored index; an index of another version is built again."""

SUFFIX = ".medvqa-index.jsonl"


class IndexedRow(msgspec.Struct, frozen=True):
    """One row: `number` counts the data rows from 1, `line` the lines of the file, where the row begins.

    `cells` holds all columns but the image, under their names in lower case. The image lies in row `holder`,
    `length` bytes of base64 from byte `start`; `digest` is the SHA-256 (hex) of the decoded bytes, "" if they
    are not base64.
    """

    number: int
    line: int
    cells: dict[str, str]
    holder: int
    start: int
    length: int
    digest: str


@dataclass(frozen=True, slots=True)
class Index:
    """A table without its images. `name` is the path relative to the data folder."""

    path: Path
    name: str
    columns: tuple[str, ...]
    rows: tuple[IndexedRow, ...]

    def where(self, row: IndexedRow) -> str:
        """Return the name of a row in messages."""
        return _where(self.name, row.number, row.line)

    def image(self, row: IndexedRow) -> Image:
        """Return the reference to a row's image."""
        name = f"{self.name} row {row.holder}"
        return Image(name, str(self.path), row.start, row.length, "base64", row.digest)


class _Header(msgspec.Struct, frozen=True):
    """First line of a stored index. The last line is the SHA-256 (hex) of all lines before it."""

    format: int
    stamp: cached.Stamp
    columns: tuple[str, ...]
    rows: int


def read(path: Path, *, root: Path, needed: Sequence[str] = (), progress: Progress | None = None) -> Index:
    """Return the index of a table: the stored one, else a new one, which is stored.

    It is stored in the user's cache directory, where nobody else may write (docs/decisions/0016). It is built again if
    the table or the index has changed. Of several processes, one builds it and the others wait.
    `needed` names columns, in lower case, that must be there besides `index` and `image`. `progress` is called only
    while a large table is read (default: a bar, or lines, on stderr).

    Raises DataError, which names file and row, for a file that cannot be read or is empty or above a limit, missing
    columns, a row with too few or too many cells (a truncated file), an open quote, text that is not UTF-8, an `index`
    that is missing or occurs twice, and a reference to a row that does not exist, or back to itself. An image that is
    not base64 is the error of its item alone, when it is read.
    """
    path = path.absolute()
    name = path.relative_to(root.absolute()).as_posix()
    if not path.is_file():
        raise DataError(f"{name}: no such file")
    stamp = cached.stamp_of(path)
    if stamp.size < cached.SMALL:
        return _build(path, name, needed, None)
    stored = _load(cached.place_of(path), path, name, stamp)
    if stored is None:
        with show(path) as shown:
            stored = _build_once(path, name, stamp, needed, shown if progress is None else progress)
    _check_needed(stored.columns, needed, name)
    return stored


def clusters(tables: Sequence[Index]) -> dict[str, str]:
    """Return the cluster of each `index`: rows share one if their images have equal bytes, or are of one row.

    DataError for an `index` that two tables share.
    """
    places: dict[str, str] = {}
    sharing: defaultdict[str, list[str]] = defaultdict(list)
    for table in tables:
        for row in table.rows:
            name, where = row.cells["index"], table.where(row)
            if name in places:
                raise DataError(f"{where}: index '{name}' is also that of {places[name]}")
            places[name] = where
            sharing[row.digest or where].append(name)
    return components(sharing.values())


def distinct(paths: Sequence[Path]) -> list[Path]:
    """Return the files without copies of earlier ones, compared by size and by first and last bytes."""
    by_content: dict[tuple[int, str], Path] = {}
    for path in paths:
        stamp = cached.stamp_of(path)
        by_content.setdefault((stamp.size, stamp.sample), path)
    return list(by_content.values())


def _where(name: str, number: int, line: int) -> str:
    return f"{name} row {number} (line {line})"


def _build_once(path: Path, name: str, stamp: cached.Stamp, needed: Sequence[str], progress: Progress) -> Index:
    """Build and store an index, unless another process does so while this one waits for the lock."""
    from filelock import FileLock

    place = cached.place_of(path)
    with ExitStack() as stack:
        # Without a lock, the work is done twice.
        with suppress(OSError, NotImplementedError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(FileLock(place.with_suffix(".lock")))
        index = _load(place, path, name, stamp)
        if index is None:
            index = _build(path, name, needed, progress)
            if cached.stamp_of(path) != stamp:
                raise DataError(f"{name}: the file changed while it was read; start again when it is whole")
            try:
                _store(place, index, stamp)
            except OSError as error:
                message = f"the index of {name} could not be stored and is made again next time: {error}"
                warnings.warn(message, DataWarning, stacklevel=2)
    return index


def _store(place: Path, index: Index, stamp: cached.Stamp) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    encode = msgspec.json.Encoder().encode
    digest = hashlib.sha256()
    with files.replacing(place, mode=0o600) as file:
        for value in (_Header(FORMAT, stamp, index.columns, len(index.rows)), *index.rows):
            line = encode(value) + b"\n"
            digest.update(line)
            file.write(line)
        file.write(digest.hexdigest().encode() + b"\n")


def _load(place: Path, path: Path, name: str, stamp: cached.Stamp) -> Index | None:
    """Return the stored index; None if it is missing, damaged, or of another state of the table."""
    decode = msgspec.json.Decoder(IndexedRow).decode
    rows = []
    try:
        with files.reading(place, follow=False) as file:
            if not cached.is_private(file):
                return None
            line = file.readline()
            digest = hashlib.sha256(line)
            header = msgspec.json.decode(line, type=_Header)
            if (header.format, header.stamp) != (FORMAT, stamp):
                return None
            for _ in range(header.rows):
                line = file.readline()
                digest.update(line)
                rows.append(decode(line))
            if file.read() != digest.hexdigest().encode() + b"\n":
                return None
    except (OSError, msgspec.DecodeError):
        return None
    return Index(path, name, header.columns, tuple(rows))


def _build(path: Path, name: str, needed: Sequence[str], progress: Progress | None) -> Index:
    with limits.opened(path, str(path)) as file:
        total = os.fstat(file.fileno()).st_size

        def advance(done: int) -> None:
            if progress is not None:
                progress(done, total)

        cells = streamed.Cells(file, advance)
        columns = _columns(cells, needed, name)
        rows = tuple(_rows(cells, columns, name))
    if not rows:
        raise DataError(f"{name}: no rows")
    return Index(path, name, columns, rows)


def _columns(cells: streamed.Cells, needed: Sequence[str], name: str) -> tuple[str, ...]:
    """The names of the columns, in lower case, from the first line."""
    cells.where = f"{name}, first line"
    columns = []
    more = True
    while more:
        text = streamed.Text(cells.where)
        _, length, more = cells.cell(text.take)
        columns.append(text.value(length).strip().lower())
        if len(columns) > limits.MAX_COLUMNS:
            break
    if columns == [""]:
        raise DataError(f"{name}: empty file")
    limits.check_columns(columns, cells.where)
    _check_needed(columns, needed, name)
    return tuple(columns)


def _check_needed(columns: Sequence[str], needed: Sequence[str], name: str) -> None:
    limits.check_needed(columns, [("index", "image", *needed)], name, limits.OTHER_DATA)


def _rows(cells: streamed.Cells, columns: Sequence[str], name: str) -> Iterator[IndexedRow]:
    """All rows, in order, with references resolved."""
    rows: dict[str, IndexedRow] = {}
    references: dict[int, str] = {}
    number = characters = 0
    while cells.skip_blank():
        number += 1
        line = cells.line
        cells.where = where = _where(name, number, line)
        if number > limits.MAX_ROWS:
            raise limits.above(where, limits.MAX_ROWS, "rows")
        row, reference = _row(cells, columns, number)
        characters += sum(map(len, row.cells.values()))
        if characters > limits.MAX_TEXTS:
            raise limits.above(where, limits.MAX_TEXTS, "characters of text")
        key = row.cells["index"] = row.cells["index"].strip()
        if not key:
            raise DataError(f"{where}: 'index' is empty")
        if key in rows:
            raise DataError(f"{where}: index '{key}' is also that of row {rows[key].number}")
        rows[key] = row
        if reference:
            references[number] = reference
    # The last row of each chain of references: each chain is followed once, not once per row.
    ends: dict[int, IndexedRow] = {}
    for row in rows.values():
        holder = row
        followed: set[int] = set()
        while holder.number in references and holder.number not in ends:
            reference = references[holder.number]
            where = _where(name, row.number, row.line)
            if reference not in rows:
                raise DataError(f"{where}: its image is that of index {reference!r}, which no row has")
            if holder.number in followed:
                raise DataError(f"{where}: its image is that of index {reference!r}, in a circle")
            followed.add(holder.number)
            holder = rows[reference]
        holder = ends.get(holder.number, holder)
        ends.update(dict.fromkeys(followed, holder))
        yield msgspec.structs.replace(
            row, holder=holder.number, start=holder.start, length=holder.length, digest=holder.digest
        )


def _row(cells: streamed.Cells, columns: Sequence[str], number: int) -> tuple[IndexedRow, str]:
    """The next row, and the index that its image cell refers to ("" when it holds an image)."""
    line = cells.line
    values: dict[str, str] = {}
    payload, start, length = streamed.Payload(), 0, 0
    for position, column in enumerate(columns, 1):
        if column == "image":
            start, length, more = cells.cell(payload.take)
        else:
            text = streamed.Text(cells.where, column)
            _, size, more = cells.cell(text.take)
            values[column] = text.value(size)
        if more != (position < len(columns)):
            count = "more" if more else f"only {position}"
            raise limits.width(cells.where, count, len(columns), at_end=cells.at_end())
    return IndexedRow(number, line, values, number, start, length, payload.digest()), payload.reference()
