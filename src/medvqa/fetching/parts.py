"""Receive one file: into `NAME.part`, which a later call continues, and under its name once it is whole and right."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import partial
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from medvqa import decode, files
from medvqa.fetching import manifest
from medvqa.fetching.web import CHUNK, NotFetched, Web, number, shown

ROOM = 2**26
"""Bytes of the disk that are left free."""
STARTS: Mapping[str, tuple[bytes, ...]] = {
    ".jpg": (b"\xff\xd8\xff",),
    ".jpeg": (b"\xff\xd8\xff",),
    ".png": (b"\x89PNG\r\n\x1a\n",),
    ".gz": (b"\x1f\x8b",),
    ".parquet": (b"PAR1",),
    ".tgz": (b"\x1f\x8b",),
    ".zip": (b"PK\x03\x04", b"PK\x05\x06"),
}
"""First bytes of a file, by the ending of its name."""


@dataclass(frozen=True, slots=True)
class FileAddress:
    """An address of a file.

    `size` is in bytes, None if unknown. `digests` are texts such as "md5:HEX", "sha256:HEX" and "git:HEX", which all
    must be right. `token` goes to the address's own host alone. `described` returns the size (None if unknown) and the
    digest ("" if unknown) of the whole file from the headers of that host.
    """

    url: str
    size: int | None = None
    digests: tuple[str, ...] = ()
    token: str = field(default="", repr=False)
    described: Callable[[Message], tuple[int | None, str]] | None = None

    def agreeing(self, size: int | None, digest: str, where: str) -> FileAddress:
        """Return the address with what a server says about the file; NotFetched if the release is another file."""
        if self.size is not None and size not in (None, self.size):
            raise NotFetched(f"{where} has {size:,} bytes, and the release {self.size:,}")
        for one in self.digests:
            if one.partition(":")[0] == digest.partition(":")[0] and one != digest:
                raise NotFetched(f"{where} is another version: its {digest} is not {one.partition(':')[2]}")
        digests = dict.fromkeys((*self.digests, *([digest] if digest else [])))
        return replace(self, size=size if self.size is None else self.size, digests=tuple(digests))


class _Version(msgspec.Struct):
    """The server's name of the version of a file that has arrived in part."""

    url: str
    validator: str


class PartFile:
    """The bytes of a file that have arrived, in `NAME.part`; a context manager, which one process holds at a time."""

    def __init__(self, target: Path) -> None:
        """Stand for the part of a file that is to be `target`."""
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self._about = target.with_name(f"{target.name}.part.json")
        self.size = 0

    def __enter__(self) -> Self:
        """Open the part and lock it (NotFetched if another process holds it)."""
        self._file = open(files.appending(self.path, readable=True), "a+b", buffering=0)
        try:
            _lock(self._file)
            # The process that held the lock may have moved the file to its place.
            if not os.path.samestat(os.fstat(self._file.fileno()), os.lstat(self.path)):
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):
            self._file.close()
            raise NotFetched("another medvqa fetch is receiving it") from None
        self.size = self._file.seek(0, os.SEEK_END)
        return self

    def __exit__(self, *_: object) -> None:
        """Release the part; an empty one is removed."""
        if self.size == 0:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
                self._about.unlink(missing_ok=True)
        self._file.close()

    def clear(self) -> None:
        """Forget all bytes."""
        self._file.truncate(0)
        self.size = 0

    def write(self, content: bytes) -> None:
        """Append bytes."""
        view = memoryview(content)
        while view:
            written = self._file.write(view)
            self.size += written
            view = view[written:]

    def digest(self, kind: str) -> str:
        """Return a digest of all bytes, as `manifest.digest`."""
        return manifest.digest(self._file, kind)

    def problem(self, digests: tuple[str, ...], where: str) -> str:
        """Return the reason why a whole file from `where` is not the right one, "" if it is."""
        for kind, _, expected in (each.partition(":") for each in digests):
            if (have := self.digest(kind)) != expected:
                return f"{where} has the wrong content: its {kind} is {have}, expected {expected}"
        self._file.seek(0)
        return unlike(self.target.suffix, self._file.read(512), where)

    def remember(self, url: str, validator: str) -> None:
        """Note the server's name of this version of the file, so that a later call continues the same version."""
        files.replace(self._about, msgspec.json.encode(_Version(shown(url), validator)), sync=False)

    def remembered(self, url: str) -> str:
        """Return the noted name of the version, "" if there is none for this address."""
        try:
            about = msgspec.json.decode(files.read(self._about, 2**16), type=_Version)
        except (OSError, *decode.ERRORS):
            return ""
        return _strong(about.validator) if about.url == shown(url) else ""

    def finish(self) -> None:
        """Move the file to its place."""
        os.fsync(self._file.fileno())
        files.move(self.path, self.target)
        self._about.unlink(missing_ok=True)


def place(data: Path, to: str) -> Path:
    """Return the path of a file in the data folder, whose folders are made (NotFetched if it would leave it, OSError).

    A link in the place of a folder is refused: nothing is written outside.
    """
    *parents, name = names_of(to)
    folder = data
    for parent in parents:
        folder = files.subfolder(folder, parent)
    return folder / name


def names_of(to: str) -> list[str]:
    """Return the parts of a path in the data folder (NotFetched for a path that is none)."""
    names = to.split("/")
    if not to.isprintable() or "\\" in to or any(name in ("", ".", "..") for name in names):
        raise NotFetched(f"{to!r} is no path in the data folder")
    return names


def receive(
    web: Web, source: FileAddress, target: Path, *, most: int, report: Callable[[int, int | None], None]
) -> str:
    """Receive a file to its place, continuing its part, and return its SHA-256 in hex (NotFetched, Stopped, OSError).

    `most` is the limit in bytes if the size is unknown. `report` takes the bytes that are there, and the size.
    """
    with PartFile(target) as part:
        for last in (False, True):
            known = web.patiently(lambda: _attempt(web, source, part, most, report), lambda: part.size)
            problem = part.problem(known.digests, web.named(source.url))
            if not problem:
                break
            part.clear()
            # A part of an earlier call may be to blame; one more try starts from nothing.
            if last:
                raise NotFetched(problem)
        digest = part.digest("sha256")
        part.finish()
    return digest


def copy(source: Path, target: Path, size: int, digest: str) -> str | None:
    """Copy a file to its place and return its SHA-256; None if it is not the file of this size and digest.

    Raises NotFetched, OSError. `size` 0 and `digest` "" are unknown.
    """
    kind, _, expected = digest.partition(":")
    with files.reading(source) as file:
        if size and os.fstat(file.fileno()).st_size != size:
            return None
        if kind and manifest.digest(file, kind) != expected:
            return None
        file.seek(0)
        if unlike(target.suffix, file.read(512), str(source)):
            return None
        file.seek(0)
        with PartFile(target) as part:
            part.clear()
            for chunk in iter(partial(file.read, CHUNK), b""):
                part.write(chunk)
            found = part.digest("sha256")
            part.finish()
    return found


def unlike(suffix: str, start: bytes, where: str) -> str:
    """Return the reason why the first bytes are not those of a file with this ending, "" if they may be."""
    allowed = STARTS.get(suffix.lower())
    is_page = start.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))
    if allowed is not None and not start.startswith(allowed):
        return f"{where} is not a {suffix[1:]} file" + (": it is a web page" if is_page else "")
    return f"{where} is a web page, not the file" if is_page and suffix.lower() not in (".html", ".htm") else ""


def _attempt(
    web: Web, source: FileAddress, part: PartFile, most: int, report: Callable[[int, int | None], None]
) -> FileAddress:
    """Receive all bytes that are missing, and return the address with what the server says about the file.

    NotFetched, whose `again` says whether another attempt may go on.
    """
    version = part.remembered(source.url)
    if part.size and (part.size > (source.size or part.size) or not (version or source.digests or source.described)):
        part.clear()
    if part.size and part.size == source.size:
        return source
    where = web.named(source.url)
    headers = {"Range": f"bytes={part.size}-"} | ({"If-Range": version} if version else {}) if part.size else {}
    response, own = web.open(source.url, headers, token=source.token)
    with response:
        source = source if source.described is None else source.agreeing(*source.described(own), where)
        total = _begun(response, source, part, version, where)
        source = source.agreeing(total, "", where)
        if total is None and source.size is None and not response.chunked and not source.digests:
            raise NotFetched(f"{where}: the server does not say how long it is")
        limit = most if source.size is None else source.size
        if limit > most:
            raise NotFetched(f"{where} has {limit:,} bytes, and {most:,} are allowed")
        free = shutil.disk_usage(part.path.parent).free - ROOM
        if (need := (source.size or 0) - part.size) > free:
            raise NotFetched(f"it needs {need:,} bytes, and {max(free, 0):,} are free in {part.path.parent}")
        report(part.size, source.size)
        if response.status == 416:
            return source
        part.remember(source.url, _strong(response.headers.get("ETag", "")))
        for chunk in web.chunks(response, source.url):
            if part.size + len(chunk) > limit:
                part.clear()
                raise NotFetched(f"{where} sends more than {limit:,} bytes")
            part.write(chunk)
            report(part.size, source.size)
    if source.size is not None and part.size < source.size:
        raise NotFetched(f"{where}: the connection was cut after {part.size:,} of {source.size:,} bytes", again=True)
    return source


def _begun(response: HTTPResponse, source: FileAddress, part: PartFile, version: str, where: str) -> int | None:
    """Check the headers of an answer from `where`, and return the file's size by them.

    Clears the part if it starts from nothing.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotFetched(f"{where}: the server sends it compressed, which was not asked for")
    page = response.headers.get_content_type() == "text/html" and response.status != 416
    if page and part.target.suffix.lower() not in (".html", ".htm"):
        raise NotFetched(f"{where} is a web page, not the file: the server may ask for a login or block this address")
    if response.status == 200:
        part.clear()
        total = number(response.headers.get("Content-Length", ""))
    else:
        words = response.headers.get("Content-Range", "").replace("/", " ").replace("-", " ").split()
        total = number(words[-1]) if words else None
        same = (version or source.digests) and (source.size is None or total in (None, source.size))
        if response.status == 416:
            whole = part.size and total == part.size
        else:
            same = same and (not version or _strong(response.headers.get("ETag", "")) in ("", version))
            whole = len(words) == 4 and words[0] == "bytes" and words[1] == str(part.size) != "0"
        if not (whole and same):
            part.clear()
            raise NotFetched(f"{where} changed while it was received", again=True)
    return total


def _strong(tag: str) -> str:
    """Return a strong ETag, which names a version of a file; "" for anything else."""
    return tag if tag.startswith('"') and tag.isascii() and tag.isprintable() else ""


def _lock(file: BinaryIO) -> None:
    """Lock a file, or raise BlockingIOError; some network file systems have no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise
