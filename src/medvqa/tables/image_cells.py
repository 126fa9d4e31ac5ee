"""Read a table (TSV) whose cells hold images as base64, such as GMAI-MMBench's and others of VLMEvalKit.

A table of 9 GB is read once, in pieces, from front to back. Its index keeps the texts of all other cells, and place and
digest of every image; the images stay where they are.
"""

from __future__ import annotations

import binascii
import codecs
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from medvqa import memory
from medvqa.image import WHITESPACE, TextCell
from medvqa.items import DataError, DataWarning, Image
from medvqa.tables import TableRow, cached, limits
from medvqa.tables.progress import Progress, show

FORMAT = 3
"""Version of the stored index; an index of another version is built again."""

PIECE = 2**17
"""Bytes that are read at once."""

STEP = 2**20
"""Bytes between two calls of a progress."""

REFERENCE = 64
"""Maximum characters of an image cell that names, by its `index`, the row with the image.
https://github.com/open-compass/VLMEvalKit/blob/895762d302b923d9d1f24ac16a7a2cbc461bb1cf/vlmeval/dataset/image_base.py
"""

TAB, LINE_END, QUOTE = b"\t", b"\n", b'"'


class _IndexedRow(msgspec.Struct):
    """A row: `number` counts the data rows from 1, `line` the lines of the file, where the row begins.

    `cells` are the texts by column. The image lies in row `holder`, `length` bytes of base64 from byte `start`;
    `digest` is the SHA-256 (hex) of the decoded bytes, "" if they are not base64.
    """

    number: int
    line: int
    cells: dict[str, str]
    holder: int
    start: int
    length: int
    digest: str


def read(
    path: Path, *, root: Path, needed: Sequence[str] = (), progress: Progress | None = None
) -> tuple[TableRow, ...]:
    """Return the rows of a table: texts by column, in lower case, and under `image` a reference to the image.

    They come from the stored index, else from a new one, which is stored in the user's cache directory, where nobody
    else may write (docs/decisions/0002-data.md). It is built again if the table or the index has changed. Of several
    processes, one builds it and the others wait.
    `root` is the data folder. `needed` names columns, in lower case, that must be there besides `index` and `image`.
    `progress` is called only while a large table is read (default: a bar, or lines, on stderr).

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
        rows: Sequence[_IndexedRow] = _indexed(path, name, needed, None)
    else:
        stored = cached.load(cached.place_of(path), (FORMAT, stamp), _IndexedRow, _sharing())
        if stored is None:
            with show(path) as shown:
                stored = _index_once(path, name, stamp, needed, shown if progress is None else progress)
        rows = stored
        _check_needed([*rows[0].cells, "image"], needed, name)

    def placed(row: _IndexedRow) -> TableRow:
        cell = TextCell(row.start, row.length)
        # Not a copy: the texts of all rows are held.
        values: dict[str, Any] = row.cells
        values["image"] = Image(f"{name} row {row.holder}", str(path), digest=row.digest, cell=cell)
        return TableRow(name, "row", row.number, row.line, values)

    return tuple(map(placed, rows))


def distinct(paths: Sequence[Path]) -> list[Path]:
    """Return the files without copies of earlier ones, compared by size and by first and last bytes."""
    by_content: dict[tuple[int, str], Path] = {}
    for path in paths:
        stamp = cached.stamp_of(path)
        by_content.setdefault((stamp.size, stamp.sample), path)
    return list(by_content.values())


def _sharing() -> Callable[[_IndexedRow], _IndexedRow]:
    pool = memory.EqualValues()

    def share(row: _IndexedRow) -> _IndexedRow:
        for column, text in row.cells.items():
            row.cells[column] = pool.one(text)
        return row

    return share


def _index_once(
    path: Path, name: str, stamp: cached.Stamp, needed: Sequence[str], progress: Progress
) -> list[_IndexedRow]:
    """Build and store an index, unless another process does so while this one waits for the lock."""
    from filelock import FileLock

    place = cached.place_of(path)
    with ExitStack() as stack:
        # Without a lock, the work is done twice.
        with suppress(OSError, NotImplementedError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(FileLock(place.with_suffix(".lock")))
        rows = cached.load(place, (FORMAT, stamp), _IndexedRow)
        if rows is None:
            rows = _indexed(path, name, needed, progress)
            if cached.stamp_of(path) != stamp:
                raise DataError(f"{name}: the file changed while it was read; start again when it is whole")
            try:
                cached.store(place, (FORMAT, stamp), rows)
            except OSError as error:
                message = f"the index of {name} could not be stored and is made again next time: {error}"
                warnings.warn(message, DataWarning, stacklevel=2)
    return rows


def _indexed(path: Path, name: str, needed: Sequence[str], progress: Progress | None) -> list[_IndexedRow]:
    """Read a table from front to back."""
    with limits.opened(path, str(path)) as file:
        cells = _Cells(file, progress)
        columns = _columns(cells, f"{name}, first line")
        if columns == [""]:
            raise DataError(f"{name}: empty file")
        limits.check_columns(columns, f"{name}, first line")
        _check_needed(columns, needed, name)
        rows = list(_rows(cells, columns, name))
    if not rows:
        raise DataError(f"{name}: no rows")
    return rows


def _check_needed(columns: Sequence[str], needed: Sequence[str], name: str) -> None:
    limits.check_needed(columns, [("index", "image", *needed)], name, limits.OTHER_DATA)


def _columns(cells: _Cells, where: str) -> list[str]:
    columns: list[str] = []
    while len(columns) <= limits.MAX_COLUMNS and (not columns or cells.mark == TAB):
        text = _Text(where, "")
        cells.cell(where, text.take)
        columns.append(text.value(cells.quoted).strip().lower())
    return columns


def _rows(cells: _Cells, columns: Sequence[str], name: str) -> Iterator[_IndexedRow]:
    """Yield all rows, in order, with references resolved."""
    rows: dict[str, _IndexedRow] = {}
    references: dict[int, str] = {}
    characters = 0
    while not cells.ended:
        where = limits.place(name, "row", len(rows) + 1, cells.line)
        indexed = _row(cells, columns, where, len(rows) + 1)
        if indexed is None:
            continue
        row, reference = indexed
        if row.number > limits.MAX_ROWS:
            raise limits.above(where, limits.MAX_ROWS, "rows")
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
            references[row.number] = reference
    for row in rows.values():
        holder, followed = row, set[int]()
        while wanted := references.get(holder.number):
            where = limits.place(name, "row", row.number, row.line)
            if wanted not in rows:
                raise DataError(f"{where}: its image is that of index {wanted!r}, which no row has")
            if holder.number in followed:
                raise DataError(f"{where}: its image is that of index {wanted!r}, in a circle")
            followed.add(holder.number)
            holder = rows[wanted]
        # Each chain of references is followed once, not once per row.
        references.update(dict.fromkeys(followed, holder.cells["index"]))
        row.holder, row.start, row.length, row.digest = holder.number, holder.start, holder.length, holder.digest
        yield row


def _row(cells: _Cells, columns: Sequence[str], where: str, number: int) -> tuple[_IndexedRow, str] | None:
    """Return the next row and the index that its image cell refers to, "" without one; None for a blank line."""
    row = _IndexedRow(number, cells.line, {}, number, 0, 0, "")
    payload = _Payload()
    for position, column in enumerate(columns, 1):
        if column == "image":
            row.start, row.length = cells.cell(where, payload.take)
            row.digest = payload.digest()
        else:
            text = _Text(where, column)
            cells.cell(where, text.take)
            row.cells[column] = text.value(cells.quoted)
        if position == 1 and cells.is_blank:
            return None
        if (cells.mark == TAB) != (position < len(columns)):
            count = "more" if cells.mark == TAB else f"only {position}"
            raise limits.width(where, count, len(columns), at_end=cells.at_end)
    return row, payload.reference()


class _Cells:
    """Cuts a table into cells, with one piece of a line in memory.

    Quotes are read as by `csv` and pandas: a cell that begins with a quote ends at the next one that is not
    doubled, and may hold tabs and line ends. Lines end in LF or CRLF.

    `line` is the number of the line where the next cell begins. Of the last cell, `mark` is the TAB or LINE_END behind
    it, and `quoted` whether it stood in quotes. `ended`: no row follows.
    """

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        """`progress` gets the bytes that were read, and all bytes."""
        self.line = 1
        self.mark = LINE_END
        self.quoted = self.is_blank = self.ended = False
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        mark = codecs.BOM_UTF8
        self._next = len(mark) if file.read(len(mark)) == mark else file.seek(0)
        self._progress = progress
        self._parts = self._cut()

    @property
    def at_end(self) -> bool:
        """Whether the last cell ends the file."""
        return self.mark == LINE_END and self._next == self._size

    def cell(self, where: str, take: Callable[[bytes], None]) -> tuple[int, int]:
        """Pass the next cell to `take` in pieces; return its first byte and its length (DataError, with `where`)."""
        start, part, mark = next(self._parts)
        self.quoted = part.startswith(QUOTE)
        self.is_blank = mark == LINE_END and part in (b"", b"\r")
        if self.quoted:
            start, part = start + 1, part[1:]
        # The last two bytes wait until the cell ends: they may be the closing quote and CR.
        length = quotes = 0
        rest = b""
        while True:
            if self.quoted:
                quotes += part.count(QUOTE)
                if quotes % 2 == 0:
                    part, mark = part + mark, b""
            length += len(part)
            rest += part
            if mark:
                break
            take(rest[:-2])
            rest = rest[-2:]
            following = next(self._parts, None)
            if following is None:
                raise DataError(f"{where}: a quote is never closed, the file may be truncated")
            _, part, mark = following
        last = rest.removesuffix(b"\r") if mark == LINE_END else rest
        if self.quoted:
            if not last.endswith(QUOTE):
                raise _follows(where)
            last = last[:-1]
        take(last)
        self.mark = mark
        return start, length - len(rest) + len(last)

    def _cut(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield what stands between tabs and line ends: its first byte, its bytes, and the TAB or LINE_END behind them.

        What the end of a piece cuts comes in parts, all but the last with b"" behind. The file ends with a LINE_END.
        """
        told = 0
        while piece := self._file.read(PIECE):
            done = self._next + len(piece)
            if self._progress is not None and (done - told >= STEP or done == self._size):
                told = done
                self._progress(done, self._size)
            *lines, rest = piece.split(LINE_END)
            for line, end in [*((line, LINE_END) for line in lines), (rest, b"")]:
                *parts, last = line.split(TAB)
                for part, mark in [*((part, TAB) for part in parts), (last, end)]:
                    start, self._next = self._next, self._next + len(part) + len(mark)
                    self.line += mark == LINE_END
                    if part or mark:
                        yield start, part, mark
        self.ended = True
        yield self._next, b"", LINE_END


class _Text:
    """Collects a text cell; `where` and `column` name it in errors."""

    def __init__(self, where: str, column: str) -> None:
        self._where = where
        self._column = column
        self._text = b""

    def take(self, piece: bytes) -> None:
        """Keep a piece of the cell; DataError above MAX_TEXT."""
        self._text += piece
        if len(self._text) > limits.MAX_TEXT:
            raise limits.long_text(self._where, self._column)

    def value(self, quoted: bool) -> str:
        """Return the text, with doubled quotes undone if it stood in quotes (DataError)."""
        try:
            text = self._text.decode()
        except UnicodeDecodeError as error:
            column = f", column '{self._column}'" if self._column else ""
            raise DataError(f"{self._where}{column}: not UTF-8: {error.reason}") from error
        if quoted and '"' in text:
            if '"' in text.replace('""', ""):
                raise _follows(self._where)
            text = text.replace('""', '"')
        return text


def _follows(where: str) -> DataError:
    return DataError(f"{where}: text follows a closing quote")


class _Payload:
    """Digests the decoded base64 of an image cell without keeping it."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self._size = 0
        self._head = b""
        self._rest = b""
        self._valid = True

    def take(self, piece: bytes) -> None:
        """Digest a piece of the cell."""
        self._size += len(piece)
        if len(self._head) <= REFERENCE:
            self._head += piece[: REFERENCE + 1]
        # The last four characters wait for the end: only they may hold padding.
        if any(blank in piece for blank in (b" ", b"\t", b"\r", b"\n")):  # Looking is ten times as fast.
            piece = piece.translate(None, WHITESPACE)
        text = self._rest + piece
        cut = max(0, len(text) - 1) // 4 * 4
        whole, self._rest = text[:cut], text[cut:]
        self._decode(whole)
        self._valid = self._valid and b"=" not in whole

    def _decode(self, text: bytes) -> None:
        if self._valid:
            try:
                self._sha.update(binascii.a2b_base64(text, strict_mode=True))
            except binascii.Error:
                self._valid = False

    def reference(self) -> str:
        """Return the index that a short cell refers to, "" for an image."""
        return self._head.decode(errors="replace").strip() if self._size <= REFERENCE else ""

    def digest(self) -> str:
        """Return the SHA-256 (hex) of the image; "" for a reference, and if the cell is not base64."""
        self._decode(self._rest)
        return self._sha.hexdigest() if self._valid and self._size > REFERENCE else ""
