"""The index of a table (TSV) whose cells hold images as base64.

A table of 9 GB is read once, from front to back. What the index keeps is the text of all other cells, and for
every image where it lies and its digest; the images stay where they are.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from medvqa import files, printing
from medvqa.image import WHITESPACE
from medvqa.items import DataError, DataWarning, Image

FORMAT = 2
"""Version of the stored index; another one is made anew."""

SUFFIX = ".medvqa-index.jsonl"
SMALL = 4 * 2**20
"""Bytes; a smaller table is indexed at every start, in milliseconds, and leaves nothing beside it."""

MAX_COLUMNS = 1000
MAX_ROWS = 2**20
MAX_TEXTS = 2**30
"""Characters of all text cells, which are held in memory; GMAI-MMBench has 10 million in 26,000 rows."""

CHUNK = 2**20
MAX_TEXT = 2**20
"""Bytes of a text cell; more is a damaged file, not a question."""

REFERENCE = 64
"""An image cell of so many characters or fewer names the row that holds the image, by its `index`.
https://github.com/open-compass/VLMEvalKit/blob/895762d302b923d9d1f24ac16a7a2cbc461bb1cf/vlmeval/dataset/image_base.py
"""

BOM = b"\xef\xbb\xbf"

Progress = Callable[[int, int], None]
"""Is told the bytes done and the bytes in all."""


class Row(msgspec.Struct, frozen=True):
    """One row: `number` counts the data rows from 1, `line` the lines of the file, where the row begins.

    `cells` holds all columns but the image, under their names in lower case. The image lies in row `holder`,
    `length` bytes of base64 from byte `start`; `digest` is the SHA-256 (hex) of what they decode to, "" when
    they are not base64.
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
    rows: tuple[Row, ...]

    def where(self, row: Row) -> str:
        """How messages name a row."""
        return _where(self.name, row.number, row.line)

    def image(self, row: Row) -> Image:
        """The reference to a row's image."""
        name = f"{self.name} row {row.holder}"
        return Image(name, str(self.path), row.start, row.length, "base64", row.digest)


class _Stamp(msgspec.Struct, frozen=True):
    """Tells one state of a file from another: `sample` is the SHA-256 of its first and last CHUNK bytes.

    `ctime_ns` moves with every write, also if the time of the last change is set back.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    sample: str


class _Header(msgspec.Struct, frozen=True):
    """First line of a stored index. The last line is the SHA-256 (hex) of all lines before it."""

    format: int
    stamp: _Stamp
    columns: tuple[str, ...]
    rows: int


def index(path: Path, *, root: Path, needed: Sequence[str] = (), progress: Progress | None = None) -> Index:
    """The index of a table, read from where it was stored, or made and stored.

    It is stored in the user's cache directory, where nobody else may write (docs/decisions/0016). It is made again if
    the table has changed since, or the index itself. Of several processes one does the work and the others wait.
    `needed` names columns that must be there besides `index` and `image`, in any order and letter case. `progress` is
    called only while a large table is read.

    Raises DataError, which names file and row, for a file that cannot be read or is empty or above a limit, missing
    columns, a row
    with too few or too many cells (a truncated file), an open quote, text that is not UTF-8, an `index` that is
    missing or occurs twice, and a reference to a row that does not exist, or back to itself. An image that is not
    base64 is the error of its item alone, when it is read.
    """
    path = path.absolute()
    name = path.relative_to(root.absolute()).as_posix()
    if not path.is_file():
        raise DataError(f"{name}: no such file")
    stamp = _stamp(path)
    if stamp.size < SMALL:
        return _build(path, name, needed, None)
    found = _load(_place(path), path, name, stamp)
    if found is None:
        found = _build_once(path, name, stamp, needed, progress)
    _check(found.columns, needed, name)
    return found


def distinct(paths: Sequence[Path]) -> list[Path]:
    """The files without copies of earlier ones, as far as size, first and last bytes tell."""
    known: dict[tuple[int, str], Path] = {}
    for path in paths:
        stamp = _stamp(path)
        known.setdefault((stamp.size, stamp.sample), path)
    return list(known.values())


@contextmanager
def show_progress(path: Path) -> Iterator[Progress]:
    """What to pass as `progress`: a bar on stderr, or one line at start and end when that is no terminal.

    Shows nothing unless it is called.
    """
    with ExitStack() as stack:
        update: Callable[[int], None] | None = None

        def progress(done: int, total: int) -> None:
            nonlocal update
            if update is None:
                update = stack.enter_context(_display(path.name, total))
            update(done)

        yield progress


@contextmanager
def _display(name: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    name = printing.line(name)
    console = Console(stderr=True)
    if console.is_terminal:
        text = TextColumn("{task.description}", markup=False)
        with Progress(text, BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console) as bar:
            task = bar.add_task(f"indexing {name}", total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        start = time.monotonic()
        print(f"indexing {name}, {total / 1e9:.2f} GB, once ...", file=sys.stderr, flush=True)
        yield lambda done: None
        print(f"indexed {name} in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _where(name: str, number: int, line: int) -> str:
    return f"{name} row {number} (line {line})"


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _stamp(path: Path) -> _Stamp:
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        sample = hashlib.sha256(file.read(CHUNK))
        file.seek(max(0, status.st_size - CHUNK))
        sample.update(file.read(CHUNK))
    return _Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, sample.hexdigest())


def _place(path: Path) -> Path:
    """Where an index is stored: in the user's cache, under a digest of the table's path."""
    import platformdirs

    key = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    return platformdirs.user_cache_path("pytest-medvqa") / f"{path.name[:150]}-{key}{SUFFIX}"


def _build_once(path: Path, name: str, stamp: _Stamp, needed: Sequence[str], progress: Progress | None) -> Index:
    """Build and store an index, unless another process does so while this one waits for the lock."""
    from filelock import FileLock

    place = _place(path)
    with ExitStack() as stack:
        # Without a lock, the work is done twice.
        with suppress(OSError, NotImplementedError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(FileLock(place.with_suffix(".lock")))
        found = _load(place, path, name, stamp)
        if found is None:
            found = _build(path, name, needed, progress)
            if _stamp(path) != stamp:
                raise DataError(f"{name}: the file changed while it was read; start again when it is whole")
            try:
                _store(place, found, stamp)
            except OSError as error:
                message = f"the index of {name} could not be stored and is made again next time: {error}"
                warnings.warn(message, DataWarning, stacklevel=2)
    return found


def _store(place: Path, made: Index, stamp: _Stamp) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    encode = msgspec.json.Encoder().encode
    digest = hashlib.sha256()
    with files.replacing(place, mode=0o600) as file:
        for value in (_Header(FORMAT, stamp, made.columns, len(made.rows)), *made.rows):
            line = encode(value) + b"\n"
            digest.update(line)
            file.write(line)
        file.write(digest.hexdigest().encode() + b"\n")


def _load(place: Path, path: Path, name: str, stamp: _Stamp) -> Index | None:
    """The stored index; None if there is none for this state of the table, or one that is not as it was written."""
    decode = msgspec.json.Decoder(Row).decode
    rows = []
    try:
        with files.reading(place, follow=False) as file:
            if not _is_private(file):
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


def _is_private(file: BinaryIO) -> bool:
    """Whether a file is this user's, and nobody else may write it: question and answer key are read from it."""
    status = os.fstat(file.fileno())
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _build(path: Path, name: str, needed: Sequence[str], progress: Progress | None) -> Index:
    with _opened(path) as file:
        total = os.fstat(file.fileno()).st_size

        def advance(done: int) -> None:
            if progress is not None:
                progress(done, total)

        cells = _Cells(file, advance)
        columns = _columns(cells, needed, name)
        rows = tuple(_rows(cells, columns, name))
    if not rows:
        raise DataError(f"{name}: no rows")
    return Index(path, name, columns, rows)


def _columns(cells: _Cells, needed: Sequence[str], name: str) -> tuple[str, ...]:
    """The names of the columns, in lower case, from the first line."""
    cells.where = f"{name}, first line"
    columns = []
    more = True
    while more:
        text = _Text(cells.where)
        _, length, more = cells.cell(text.take)
        columns.append(text.value(length).strip().lower())
        if len(columns) > MAX_COLUMNS:
            raise DataError(f"{name}, first line: more than {MAX_COLUMNS:,} columns")
    if columns == [""]:
        raise DataError(f"{name}: empty file")
    if twice := sorted(column for column, count in Counter(columns).items() if count > 1):
        raise DataError(f"{name}: column '{twice[0]}' occurs twice")
    _check(columns, needed, name)
    return tuple(columns)


def _check(columns: Sequence[str], needed: Sequence[str], name: str) -> None:
    missing = [column for column in ("index", "image", *needed) if column.lower() not in columns]
    if missing:
        found = ", ".join(columns)
        raise DataError(
            f"{name}: missing column {', '.join(missing)}; found: {found[:500]}. Is this a file of another data set?"
        )


def _rows(cells: _Cells, columns: Sequence[str], name: str) -> Iterator[Row]:
    """All rows, in order, with references resolved."""
    rows: dict[str, Row] = {}
    references: dict[int, str] = {}
    number = characters = 0
    while cells.skip_blank():
        number += 1
        line = cells.line
        cells.where = where = _where(name, number, line)
        if number > MAX_ROWS:
            raise DataError(f"{where}: more than {MAX_ROWS:,} rows")
        row, reference = _row(cells, columns, number)
        characters += sum(map(len, row.cells.values()))
        if characters > MAX_TEXTS:
            raise DataError(f"{where}: more than {MAX_TEXTS:,} characters of text")
        key = row.cells["index"] = row.cells["index"].strip()
        if not key:
            raise DataError(f"{where}: 'index' is empty")
        if key in rows:
            raise DataError(f"{where}: index '{key}' is also that of row {rows[key].number}")
        rows[key] = row
        if reference:
            references[number] = reference
    # Where references lead that were followed already: a chain of references is followed once, not once for each row.
    ends: dict[int, Row] = {}
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


def _row(cells: _Cells, columns: Sequence[str], number: int) -> tuple[Row, str]:
    """The next row, and the index that its image cell refers to ("" when it holds an image)."""
    line = cells.line
    values: dict[str, str] = {}
    payload, start, length = _Payload(), 0, 0
    for position, column in enumerate(columns, 1):
        if column == "image":
            start, length, more = cells.cell(payload.take)
        else:
            text = _Text(f"{cells.where}, column '{column}'")
            _, size, more = cells.cell(text.take)
            values[column] = text.value(size)
        if more != (position < len(columns)):
            count = "more" if more else f"only {position}"
            end = "; the file ends here, it may be truncated" if cells.at_end() else ""
            raise DataError(f"{cells.where}: {count} cells where the first line has {len(columns)}{end}")
    return Row(number, line, values, number, start, length, payload.digest()), payload.reference()


class _Text:
    """Collects a text cell."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._pieces: list[bytes] = []
        self._left = MAX_TEXT

    def take(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise DataError(f"{self._where}: more than {MAX_TEXT // 2**20} MiB of text")
        self._pieces.append(piece)

    def value(self, length: int) -> str:
        try:
            return b"".join(self._pieces)[:length].decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self._where}: not UTF-8: {error.reason}") from error


class _Payload:
    """Digests what the base64 of an image cell decodes to, without keeping it."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self._size = 0
        self._head = b""
        self._rest = b""
        self._valid = True

    def take(self, piece: bytes) -> None:
        self._size += len(piece)
        if len(self._head) <= REFERENCE:
            self._head += piece[: REFERENCE + 1]
        # The last four characters wait for the end: only they may hold padding.
        text = self._rest + piece.translate(None, WHITESPACE)
        cut = max(0, len(text) - 1) // 4 * 4
        self._rest = text[cut:]
        self._decode(text[:cut])
        self._valid = self._valid and b"=" not in text[:cut]

    def _decode(self, text: bytes) -> None:
        if self._valid:
            try:
                self._sha.update(binascii.a2b_base64(text, strict_mode=True))
            except binascii.Error:
                self._valid = False

    def reference(self) -> str:
        return self._head.decode(errors="replace").strip() if self._size <= REFERENCE else ""

    def digest(self) -> str:
        self._decode(self._rest)
        return self._sha.hexdigest() if self._valid and self._size > REFERENCE else ""


class _Cells:
    """Cuts a table into cells, with one chunk in memory.

    Cells are quoted as `csv` and pandas do it: a cell that begins with a quote ends at the next one that is
    not doubled, and may hold tabs and line ends. Lines end in LF or CRLF.
    """

    def __init__(self, file: BinaryIO, advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance
        self._chunk = b""
        self._base = len(BOM) if file.read(len(BOM)) == BOM else file.seek(0)
        self._at = 0
        self._last = b""
        self.line = 1
        self.where = ""

    def cell(self, take: Callable[[bytes], None]) -> tuple[int, int, bool]:
        """Hand over the next cell in pieces; return its first byte, its length and whether its row goes on."""
        if self._peek() == b'"':
            start, end = self._quoted(take)
            if self._peek() == b"\r":
                self._at += 1
            if self._peek() not in (b"\t", b"\n", b""):
                raise DataError(f"{self.where}: text follows a closing quote")
        else:
            start = self._offset
            self._last = b""
            self._until(b"\t\n", take)
            end = self._offset
            if self._peek() != b"\t" and self._last == b"\r":
                end -= 1
        stop = self._peek()
        self._at += len(stop)
        self.line += stop == b"\n"
        return start, end - start, stop == b"\t"

    def skip_blank(self) -> bool:
        """Pass over blank lines; return whether something follows."""
        while self._peek() in (b"\r", b"\n"):
            self.line += self._peek() == b"\n"
            self._at += 1
        return not self.at_end()

    def at_end(self) -> bool:
        """Whether nothing follows."""
        return not self._peek()

    @property
    def _offset(self) -> int:
        return self._base + self._at

    def _peek(self) -> bytes:
        """The next byte, b"" at the end of the file."""
        if self._at == len(self._chunk):
            self._base += self._at
            self._at = 0
            self._chunk = self._file.read(CHUNK)
            self._advance(self._base)
        return self._chunk[self._at : self._at + 1]

    def _until(self, stops: bytes, take: Callable[[bytes], None]) -> None:
        """Hand over everything before the next of these bytes, or before the end of the file."""
        while self._peek():
            end = len(self._chunk)
            for stop in stops:
                found = self._chunk.find(stop, self._at, end)
                end = end if found < 0 else found
            piece = self._chunk[self._at : end]
            self._at = end
            if piece:
                self._last = piece[-1:]
                take(piece)
            if end < len(self._chunk):
                return

    def _quoted(self, take: Callable[[bytes], None]) -> tuple[int, int]:
        def count_lines(piece: bytes) -> None:
            self.line += piece.count(b"\n")
            take(piece)

        self._at += 1
        start = self._offset
        while True:
            self._until(b'"', count_lines)
            if not self._peek():
                raise DataError(f"{self.where}: a quote is never closed, the file may be truncated")
            end = self._offset
            self._at += 1
            if self._peek() != b'"':
                return start, end
            take(b'"')
            self._at += 1
