"""Unpack zip and tar archives, which are not trusted: no name leads out, no link is made, and sizes are limited.

Python's own `extractall` is not used: `tarfile`'s data filter makes links and drops the `/` of a name, `zipfile` writes
through links that lie in the folder, and neither has a limit or checks all names before it writes the first file.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, cast

from medvqa import files, printing
from medvqa.fetching.parts import ROOM, place
from medvqa.fetching.web import CHUNK, NotFetched

MAX_FILES = 2**20
MAX_RATIO = 100
"""Bytes unpacked for each byte of the archive; images are packed already, so real archives stay below 20."""
SLACK = 2**26
"""Bytes that any archive may give."""
OURS = ".medvqa"
"""Start of the names of this project's own files, such as the list of received files."""
MAX_NAME = 255
MAX_DEPTH = 20
MAX_PIECE = 2**20
"""Bytes of a tar that are read at once, long headers included."""
MAX_PADDING = 2**20
"""Bytes of zeros that may follow the end of a tar; its writers fill up records of 10,240."""
MAX_LISTING = 2**28
"""Bytes of a zip that are read at once: its list of files, which is held, has some hundred bytes for each."""
PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
"""First bytes of a tar that is packed as a whole, and what opens it."""
DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError, MemoryError),
    *(NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError, struct.error),
)
"""Errors of the readers of archives. Encrypted ones raise RuntimeError."""


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """An entry of an archive. `plain`: it is a file or a folder, no link or device. A folder's name ends in "/"."""

    name: str
    size: int
    plain: bool
    open: Callable[[], IO[bytes] | None]


class _Bounded:
    """A stream that refuses to be read in large pieces: headers are held in memory."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self._stream, self._most = stream, most
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(min(self._most + 1, size if size >= 0 else self._most + 1))
        if len(content) > self._most:
            raise tarfile.ReadError("a header is too long")
        return content


def unpack(archive: Path, folder: Path, tick: Callable[[int, int], None]) -> int:
    """Unpack an archive into a folder, and return the number of its files (NotFetched, OSError).

    A file that is there already with the same content is left alone, so that a second call continues; any other file in
    the way is an error. `tick` takes the bytes done and the bytes in total.
    """
    shown = printing.line(archive.name)
    try:
        with _members(archive) as listed:
            members = list(_checked(listed, archive, shown))
            if not members:
                raise NotFetched(f"{shown} is damaged or no archive: no file is in it")
            total = sum(member.size for member in members)
            folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(folder).free - ROOM
            if total > free:
                raise NotFetched(f"{shown} needs {total:,} bytes unpacked, and {max(free, 0):,} are free in {folder}")
            done = 0
            for member in members:
                _extract(member, folder, shown)
                done += member.size
                tick(done, total)
    except (*DAMAGED, OSError) as error:
        # A damaged bzip2 is an OSError without number, a place outside of the file is EINVAL; any other is the disk's.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise NotFetched(f"{shown} is damaged or no archive: {printing.line(str(error))[:200]}") from None
    return len(members)


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[ArchiveMember]]:
    """Yield the entries of an archive, unchecked."""
    with files.reading(archive) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(cast(IO[bytes], _Bounded(file, MAX_LISTING))) as opened:
                yield (
                    ArchiveMember(
                        info.filename,
                        info.file_size,
                        info.is_dir() or not stat.S_IFMT(info.external_attr >> 16) & ~stat.S_IFREG,
                        partial(opened.open, info),
                    )
                    for info in opened.infolist()
                )
            return
        file.seek(0)
        start = file.read(6)
        file.seek(0)
        stream = next((cast(IO[bytes], opening(file)) for magic, opening in PACKED if start.startswith(magic)), file)
        with stream, tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream, MAX_PIECE)), mode="r:") as tape:
            yield _taped(tape, stream)


def _taped(tape: tarfile.TarFile, stream: IO[bytes]) -> Iterator[ArchiveMember]:
    """Yield the entries of a tar; ReadError after the last one unless it ends as a tar does.

    Python's reader takes a damaged header for the end, and an archive that was cut between two files for a whole one.
    """
    for info in tape:
        # A long list of entries would keep their further headers in memory.
        info.pax_headers, info.linkname, info.uname, info.gname = {}, "", "", ""
        name = f"{info.name}/" if info.isdir() else info.name
        yield ArchiveMember(name, info.size, info.isdir() or info.isreg(), partial(tape.extractfile, info))
    stream.seek(tape.offset)
    end = stream.read(2 * tarfile.BLOCKSIZE)
    if len(end) < tarfile.BLOCKSIZE or any(end):
        raise tarfile.ReadError("it is cut off, or a header in it is damaged: the end of a tar is missing")
    padding = stream.read(MAX_PADDING + 1)
    if any(padding) or len(padding) > MAX_PADDING:
        raise tarfile.ReadError("it has a hole: something follows the end of the tar")


def _checked(listed: Iterable[ArchiveMember], archive: Path, shown: str) -> Iterator[ArchiveMember]:
    """Yield the files of an archive with clean names; NotFetched for one that no data set has."""
    allowed = archive.stat().st_size * MAX_RATIO + SLACK
    total = 0
    seen: set[str] = set()
    for number, member in enumerate(listed, 1):
        where = f"{shown}: {printing.line(member.name)[:100]!r}"
        if number > MAX_FILES:
            raise NotFetched(f"{shown} has more than {MAX_FILES:,} entries")
        if not member.plain:
            raise NotFetched(f"{where} is a link or a device; nothing was unpacked")
        path = _path(member.name)
        if path is None:
            raise NotFetched(f"{where} leads out of the folder or is no name of a file; nothing was unpacked")
        if member.name.endswith("/"):
            continue
        # Some file systems ignore case and Unicode forms: two such files would overwrite each other.
        folded = unicodedata.normalize("NFC", path).lower()
        if folded in seen:
            raise NotFetched(f"{where} occurs twice; nothing was unpacked")
        seen.add(folded)
        total += member.size
        if total > allowed:
            raise NotFetched(f"{shown} would have more than {allowed:,} bytes unpacked, {MAX_RATIO} times its size")
        yield replace(member, name=path)


def _path(name: str) -> str | None:
    """Return a member's path below the folder, None for one that is not allowed."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    fine = (
        parts
        and not name.startswith("/")
        and len(parts) <= MAX_DEPTH
        and name.isprintable()
        and "\\" not in name
        and ":" not in parts[0]
        and not any(part == ".." or part.startswith(OURS) or len(os.fsencode(part)) > MAX_NAME for part in parts)
    )
    return "/".join(parts) if fine else None


def _extract(member: ArchiveMember, folder: Path, shown: str) -> None:
    """Write one file, whole or not at all; one that is there already must have the same content."""
    target = place(folder, member.name)
    opened = member.open()
    if opened is None:
        raise NotFetched(f"{shown}: {member.name} cannot be read")
    with opened:
        content = _pieces(opened, member, shown)
        if not os.path.lexists(target):
            with files.replacing(target, sync=False) as file:
                file.writelines(content)
            return
        same = not target.is_symlink() and target.is_file() and target.stat().st_size == member.size
        if same:
            with files.reading(target, follow=False) as file:
                same = all(file.read(len(piece)) == piece for piece in content)
        if not same:
            raise NotFetched(f"{target} is in the way: it is not the {member.name} of {shown}; move it away")


def _pieces(opened: IO[bytes], member: ArchiveMember, shown: str) -> Iterator[bytes]:
    """Yield the content of a file; NotFetched if it has not the size that it claims."""
    left = member.size
    while chunk := opened.read(min(CHUNK, left + 1)):
        left -= len(chunk)
        if left < 0:
            raise NotFetched(f"{shown}: {member.name} has more than the {member.size:,} bytes that it claims")
        yield chunk
    if left:
        raise NotFetched(f"{shown}: {member.name} has {left:,} bytes less than it claims")
