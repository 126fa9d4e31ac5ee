"""Receive one file: into `NAME.part`, which a later call continues, and under its name once it is whole and right."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Self

from medvqa import files
from medvqa.fetching import manifest
from medvqa.fetching.web import SLOWEST, NotFetched, Stopped, Web, broken, shown

CHUNK = 2**18
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
    must be right. `token` goes to the address's own host alone.
    """

    url: str
    size: int | None = None
    digests: tuple[str, ...] = ()
    token: str = field(default="", repr=False)


class PartFile:
    """The bytes of a file that have arrived, in `NAME.part`; a context manager, which one process holds at a time."""

    def __init__(self, target: Path) -> None:
        """Stand for the part of a file that is to be `target`."""
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self._about = target.with_name(f"{target.name}.part.json")
        self._hashes = {"sha256": hashlib.sha256()}
        self._hashed = 0
        self.size = 0

    def __enter__(self) -> Self:
        """Open the part and lock it (NotFetched if another process holds it)."""
        self._descriptor = files.appending(self.path, readable=True)
        try:
            _lock(self._descriptor)
            # The process that held the lock may have moved the file to its place.
            if not os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path)):
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):
            os.close(self._descriptor)
            raise NotFetched("another medvqa fetch is receiving it") from None
        self.size = os.fstat(self._descriptor).st_size
        return self

    def __exit__(self, *_: object) -> None:
        """Release the part; an empty one is removed."""
        if self.size == 0:
            with suppress(OSError):
                os.unlink(self.path)
            with suppress(OSError):
                os.unlink(self._about)
        os.close(self._descriptor)

    def clear(self) -> None:
        """Forget all bytes."""
        os.ftruncate(self._descriptor, 0)
        self.size = self._hashed = 0
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in self._hashes}

    def write(self, content: bytes) -> None:
        """Append bytes."""
        if self._hashed == self.size:
            for one in self._hashes.values():
                one.update(content)
            self._hashed += len(content)
        view = memoryview(content)
        while view:
            written = os.write(self._descriptor, view)
            self.size += written
            view = view[written:]

    def digest(self, name: str, tick: Callable[[], None] = lambda: None) -> str:
        """Return a digest of all bytes, in hex: md5, sha256, or git's of a blob; `tick` is called now and then."""
        if name == "git":
            blob = hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)
            self._catch_up({name: blob}, 0, self.size, tick)
            return blob.hexdigest()
        if name not in self._hashes:
            self._hashes[name] = hashlib.new(name, usedforsecurity=False)
            self._catch_up({name: self._hashes[name]}, 0, self._hashed, tick)
        self._catch_up(self._hashes, self._hashed, self.size, tick)
        self._hashed = self.size
        return self._hashes[name].hexdigest()

    def want(self, digests: tuple[str, ...]) -> None:
        """Name the digests that will be asked for, so that they are computed while bytes arrive."""
        for digest in digests:
            name = digest.partition(":")[0]
            if name != "git" and name not in self._hashes and self._hashed == 0:
                self._hashes[name] = hashlib.new(name, usedforsecurity=False)

    def _catch_up(self, hashes: Mapping[str, hashlib._Hash], start: int, end: int, tick: Callable[[], None]) -> None:
        while start < end:
            tick()
            chunk = os.pread(self._descriptor, min(CHUNK * 4, end - start), start)
            if not chunk:
                raise NotFetched("its part was cut off by another program", again=True)
            for one in hashes.values():
                one.update(chunk)
            start += len(chunk)

    def starts(self) -> bytes:
        """Return the first bytes."""
        return os.pread(self._descriptor, 512, 0)

    def remember(self, url: str, validator: str, total: int | None) -> None:
        """Note the server's name of this version of the file, so that a later call continues the same version."""
        about = {"url": shown(url), "validator": validator, "total": total}
        files.replace(self._about, json.dumps(about).encode(), sync=False)

    def remembered(self, url: str) -> str:
        """Return the noted name of the version, "" if there is none for this address."""
        try:
            about = json.loads(files.read(self._about, 2**16))
            validator = about["validator"] if about["url"] == shown(url) else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        return validator if isinstance(validator, str) and validator.isprintable() and validator.isascii() else ""

    def finish(self) -> None:
        """Move the file to its place."""
        os.fsync(self._descriptor)
        files.move(self.path, self.target)
        with suppress(OSError):
            os.unlink(self._about)


def _lock(descriptor: int) -> None:
    """Lock a file, or raise BlockingIOError; some network file systems have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise


def receive(
    web: Web, source: FileAddress, target: Path, *, most: int, report: Callable[[int, int | None], None]
) -> str:
    """Receive a file to its place, continuing its part, and return its SHA-256 in hex (NotFetched, Stopped, OSError).

    `most` is the limit in bytes if the size is unknown. `report` takes the bytes that are there, and the size.
    """

    def tick() -> None:
        if web.stop.is_set():
            raise Stopped

    with PartFile(target) as part:
        part.want(source.digests)
        for last in (False, True):
            web.patiently(lambda: _attempt(web, source, part, most, report), lambda: part.size)
            problem = _problem(part, source, web.named(source.url), tick)
            if not problem:
                break
            part.clear()
            # A part of an earlier call may be to blame; one more try starts from nothing.
            if last:
                raise NotFetched(problem)
        digest = part.digest("sha256", tick)
        part.finish()
    return digest


def copy(web: Web, source: Path, target: Path, size: int, digest: str) -> str | None:
    """Copy a file to its place and return its SHA-256; None if it is not the file of this size and digest.

    Raises NotFetched, Stopped, OSError. `size` 0 and `digest` "" are unknown.
    """
    if size and source.stat().st_size != size:
        return None
    name, _, expected = digest.partition(":")
    if name and manifest.digests_of(source, {name})[name] != expected.lower():
        return None
    with files.reading(source) as file:
        if unlike(target.suffix, file.read(512), str(source)):
            return None
        file.seek(0)
        with PartFile(target) as part:
            part.clear()
            while chunk := file.read(CHUNK):
                if web.stop.is_set():
                    raise Stopped
                part.write(chunk)
            found = part.digest("sha256")
            part.finish()
    return found


def _problem(part: PartFile, source: FileAddress, where: str, tick: Callable[[], None]) -> str:
    """Return the reason why a whole file from `where` is not the right one, "" if it is."""
    for expected in source.digests:
        name, _, value = expected.partition(":")
        if (have := part.digest(name, tick)) != value.lower():
            return f"{where} has the wrong content: its {name} is {have}, expected {value}"
    return unlike(part.target.suffix, part.starts(), where)


def unlike(suffix: str, start: bytes, where: str) -> str:
    """Return the reason why the first bytes are not those of a file with this ending, "" if they may be."""
    allowed = STARTS.get(suffix.lower())
    if allowed is not None and not start.startswith(allowed):
        return f"{where} is not a {suffix[1:]} file" + (": it is a web page" if _is_page(start) else "")
    if suffix.lower() not in (".html", ".htm") and _is_page(start):
        return f"{where} is a web page, not the file"
    return ""


def _is_page(start: bytes) -> bool:
    return start.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))


def _attempt(
    web: Web, source: FileAddress, part: PartFile, most: int, report: Callable[[int, int | None], None]
) -> None:
    """Receive all bytes that are missing (NotFetched, whose `again` says whether another attempt may go on)."""
    validator = part.remembered(source.url)
    if part.size and (part.size > (source.size or part.size) or not (validator or source.digests)):
        part.clear()
    if part.size and part.size == source.size:
        return
    headers = {}
    if part.size:
        headers = {"Range": f"bytes={part.size}-"} | ({"If-Range": validator} if validator else {})
    where = web.named(source.url)
    with web.open(source.url, headers, token=source.token) as response:
        total = _begin(response, source, part, validator, where)
        if total is None and source.size is None and not response.chunked and not source.digests:
            raise NotFetched(f"{where}: the server does not say how long it is")
        expected = source.size if total is None else total
        limit = most if expected is None else expected
        if limit > most:
            raise NotFetched(f"{where} has {limit:,} bytes, and {most:,} are allowed")
        free = shutil.disk_usage(part.path.parent).free - ROOM
        if (expected or 0) - part.size > free:
            need = (expected or 0) - part.size
            raise NotFetched(f"it needs {need:,} bytes, and {max(free, 0):,} are free in {part.path.parent}")
        report(part.size, expected)
        if response.status != 416:
            part.remember(source.url, _validator(response), expected)
            _copy(web, response, source, part, limit, lambda: report(part.size, expected))
    if expected is not None and part.size < expected:
        raise NotFetched(f"{where}: the connection was cut after {part.size:,} of {expected:,} bytes", again=True)


def _begin(response: HTTPResponse, source: FileAddress, part: PartFile, validator: str, where: str) -> int | None:
    """Check the headers of an answer from `where`, and return the file's size by them.

    Clears the part if it starts from nothing.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotFetched(f"{where}: the server sends it compressed, which was not asked for")
    total: int | None
    if response.status == 200:
        part.clear()
        total = _number(response.headers.get("Content-Length", ""))
    else:
        words = response.headers.get("Content-Range", "").replace("/", " ").replace("-", " ").split()
        total = _number(words[-1]) if words else None
        if response.status == 416:
            whole = part.size and total == part.size
        else:
            same = not validator or _validator(response) in ("", validator)
            whole = same and len(words) == 4 and words[0] == "bytes" and words[1] == str(part.size) != "0"
        if not whole:
            part.clear()
            raise NotFetched(f"{where} changed while it was received", again=True)
    page = response.headers.get_content_type() == "text/html" and response.status != 416
    if page and part.target.suffix.lower() not in (".html", ".htm"):
        raise NotFetched(f"{where} is a web page, not the file: the server may ask for a login or block this address")
    if total is not None and source.size is not None and total != source.size:
        part.clear()
        raise NotFetched(f"{where} has {total:,} bytes, and the release {source.size:,}")
    return total


def _copy(
    web: Web, response: HTTPResponse, source: FileAddress, part: PartFile, limit: int, report: Callable[[], None]
) -> None:
    """Append the body of an answer to the part; NotFetched for more than `limit` bytes, or next to nothing a minute."""
    where = web.named(source.url)
    since, before = time.monotonic(), part.size
    while True:
        if web.stop.is_set():
            raise Stopped
        try:
            chunk = response.read1(CHUNK)
        except (OSError, HTTPException) as error:
            # One file's connection: the host itself may be well.
            raise NotFetched(str(broken(web.mirrored(source.url), error)), again=True) from None
        if not chunk:
            return
        if part.size + len(chunk) > limit:
            part.clear()
            raise NotFetched(f"{where} sends more than {limit:,} bytes")
        part.write(chunk)
        report()
        now = time.monotonic()
        if now - since >= web.manners.timeout:
            if part.size - before < SLOWEST * web.manners.timeout:
                raise NotFetched(f"{where}: the connection is too slow", again=True)
            since, before = now, part.size


def _validator(response: HTTPResponse) -> str:
    """Return a strong ETag, which names a version of a file; "" without one."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') and tag.isascii() and tag.isprintable() else ""


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
