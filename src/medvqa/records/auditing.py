"""Look for names of people, patients and files in every file of a folder, and report lines and counts alone."""

from __future__ import annotations

import base64
import codecs
import html
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from medvqa import benchmarks, importing
from medvqa.benchmarks import table_files
from medvqa.benchmarks.table_declaration import TableDeclaration
from medvqa.items import Benchmark, DataError, Item, UsageError
from medvqa.records.private import source_texts
from medvqa.tables import people
from medvqa.tables.people import Names
from medvqa.tables.problems import row_list

MAX_UNPACKED = 2**30
"""Bytes of a packed file that are looked through."""
LEAST = 4
"""Characters of a patient's number or of a file's name that is looked for: shorter ones occur by chance."""
_ADVICE = "They have the names: name them by --benchmark=FILE.toml, --data=DIR or --table=FILE"
_PACKED = re.compile(rb">([A-Za-z0-9+/=\s]{64,})<")
"""Data of a page: zlib in base64, in an element of its own."""
MAX_ESCAPED = 3
"""Times that a text may be escaped."""
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_TOKEN = re.compile(r"[^\s\"'`<>,;|(){}\[\]=:]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The texts to look for: names of people, and by kind ("patient", "path") others in lower case."""

    names: Names = field(default_factory=Names)
    patients: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()

    def __or__(self, other: Wanted) -> Wanted:
        """Return the texts of both."""
        mine, others = self.names, other.names
        names = Names(mine.parts | others.parts, mine.wholes | others.wholes, mine.signs | others.signs)
        return Wanted(names, self.patients | other.patients, self.paths | other.paths)

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.names or self.patients or self.paths)

    @property
    def counted(self) -> str:
        """How much is looked for, for people."""
        words = len(self.names.parts) + len(self.names.signs)
        return (
            f"{words:,} words of names, {len(self.patients):,} numbers of patients or cases and {len(self.paths):,} "
            "parts of paths"
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Texts of one kind in a file: the numbers of the lines, and how often they occur."""

    file: str
    kind: str
    lines: tuple[int, ...]
    count: int

    @property
    def text(self) -> str:
        """The place and the kind, without what was found."""
        rows = [line for line in self.lines if line]
        where = f", line{'s' * (len(self.lines) > 1)} {row_list(rows)}" if rows else ""
        return f"{self.file}: {self.kind}, {self.count:,} time{'s' * (self.count != 1)}{where}"


def wanted_of_benchmark(benchmark: Benchmark, data: Path | None) -> Wanted:
    """Return the texts that no file should have of the data of a benchmark (UsageError if these are not here)."""
    try:
        items = benchmarks.load_found(benchmark, data)
    except DataError as error:
        raise UsageError(f"{error}. {_ADVICE}") from None
    if items is None:
        raise UsageError(f"benchmark '{benchmark.name}': its data are not here. {_ADVICE}")
    source = table_files.source_of(benchmark)
    if source is None:
        return wanted_of(items)
    return wanted_of(items, _private_cells(source.file, source.declaration))


def wanted_of_table(file: Path) -> Wanted:
    """Return the texts that no file should have of a table: of its private columns, and of that of its patients."""
    return wanted_of((), _private_cells(file))


def _private_cells(file: Path, declaration: TableDeclaration | None = None) -> list[object]:
    """Return the cells of a table's private columns and of that of its patients (DataError)."""
    keys = declaration or TableDeclaration()
    found = importing.read(file, file.name, encoding=keys.encoding, delimiter=keys.delimiter, sheet=keys.sheet)
    columns = importing.guess(found).columns
    places = {*columns.private, *([columns.one["patient"]] if "patient" in columns.one else [])}
    return [cell for place in sorted(places) for cell in found.values(place)]


def wanted_of(items: Iterable[Item], private: Iterable[object] = ()) -> Wanted:
    """Return the texts that no file should have of items, and of the cells of private columns.

    Patients and cases are texts of at least LEAST characters with a digit, names are those without one. Of a path, the
    whole is looked for, and each part that has a digit or may hold a name.
    """
    cells = [text for cell in private for text in people.texts_of(cell if isinstance(cell, list | str) else str(cell))]
    paths = set[str]()
    for item in items:
        cells += source_texts(item.extra)
        for image in item.images:
            # A cell of a table, and a digest in place of a name, are no files.
            if image.path and image.cell is None:
                paths |= _parts(image.file)
    numbers = {text.strip().casefold() for text in cells if re.search(r"\d", text) and len(text.strip()) >= LEAST}
    return Wanted(Names.of(cells), frozenset(numbers), frozenset(paths))


def _parts(file: str) -> set[str]:
    path = PurePosixPath(file)
    names = {part for part in path.parts for part in (part, part.split(".")[0])}
    telling = {name for name in names if len(name) >= LEAST and not name.isdecimal()}
    named = {name for name in telling if people.suspected(name) or (re.search(r"\d", name) and "." in name)}
    return {name.casefold() for name in (named | ({file} if len(path.parts) > 1 else set()))}


def audited(folder: Path, wanted: Wanted) -> tuple[int, list[Found]]:
    """Return the number of files in a folder, or 1 for a file, and what was found in them (UsageError).

    A link is not followed. Packed files (gzip, ZIP, XLSX) and the packed data of pages are looked through too.
    """
    paths = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    found: list[Found] = []
    for place, path in enumerate(paths, 1):
        if path.is_symlink():
            continue
        name = path.name if path == folder else path.relative_to(folder).as_posix()
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
        places: dict[str, list[int]] = {"name": [], "patient": [], "path": []}
        for number, text in enumerate(_lines(content), 1):
            for kind, count in _counts(text, wanted):
                places[kind] += [number] * count
        named = list(_counts(_plain(name), wanted))
        for kind, count in named:
            places[kind] += [0] * count
        name = f"file {place} in the order of names (its name holds one)" if named else name
        found += [Found(name, kind, tuple(dict.fromkeys(lines)), len(lines)) for kind, lines in places.items() if lines]
    return len(paths), found


def _lines(content: bytes) -> Iterator[str]:
    """Yield the lines of a file, and after them those of its packed parts."""
    if content.startswith(b"\x1f\x8b"):
        content = _unpacked(zlib.MAX_WBITS | 16, content)
    elif content.startswith(b"PK\x03\x04"):
        # Spreadsheets are ZIP files, too.
        yield from _zipped(content)
        return
    yield from map(_plain, _text(content).split("\n"))
    for match in _PACKED.finditer(content):
        try:
            packed = base64.b64decode(match[1], validate=False)
        except ValueError:
            continue
        yield from map(_plain, _unpacked(zlib.MAX_WBITS, packed).decode("utf-8", "replace").split("\n"))


def _zipped(content: bytes) -> Iterator[str]:
    """Yield the names and lines of the files of a ZIP file, up to the first that cannot be read."""
    with (
        suppress(zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        for entry in archive.infolist():
            with archive.open(entry) as file:
                yield from map(_plain, f"{entry.filename}\n{_text(file.read(MAX_UNPACKED))}".split("\n"))


def _text(content: bytes) -> str:
    """The text of a file: UTF-16 with a mark, else UTF-8, and a line that is not also as Windows-1252."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(
            f"{line.decode('utf-8', 'replace')} {line.decode('cp1252', 'replace')}" for line in content.split(b"\n")
        )


def _unpacked(bits: int, packed: bytes) -> bytes:
    """The unpacked bytes, up to MAX_UNPACKED; those before an error if they are damaged."""
    unpacker, content = zlib.decompressobj(bits), b""
    try:
        content = unpacker.decompress(packed, MAX_UNPACKED)
    except zlib.error:
        return content
    return content


def _plain(text: str) -> str:
    """A line without the escapes of JSON, Python, HTML and URLs, also if it is escaped twice."""
    for _ in range(MAX_ESCAPED):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
        text = html.unescape(text) if "&" in text else text
        text = unquote(text) if "%" in text else text
        if text == before:
            break
    return text


def _counts(text: str, wanted: Wanted) -> Iterator[tuple[str, int]]:
    if count := wanted.names.count(text):
        yield "name", count
    tokens = [token.strip(".:?!=\\") for token in _TOKEN.findall(text.casefold())]
    for kind, texts in (("patient", wanted.patients), ("path", wanted.paths)):
        whole = sum(token in texts for token in tokens)
        parts = sum(part in texts for token in tokens if "/" in token and token not in texts for part in _split(token))
        spaced = sum(text.casefold().count(one) for one in texts if " " in one)
        if count := whole + parts + spaced:
            yield kind, count


def _split(token: str) -> set[str]:
    parts = token.split("/")
    return {*parts, *(part.split(".")[0] for part in parts)}
