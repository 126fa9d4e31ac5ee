"""Files as they are written and opened: replaced whole, never through a link, and regular files alone.

A run folder or a data folder may come from a stranger. A link in it must not lead a write elsewhere, and a pipe or a
file of terabytes must not stop a reader. No other module opens a file for writing.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

MODE = 0o666
"""Permissions of a new file, less the umask."""
PRIVATE = 0o700
"""Permissions of a folder for its owner alone."""


def replace(path: Path, content: bytes | Iterable[bytes], *, mode: int | None = None, sync: bool = True) -> None:
    """Replace a file whole: readers see the old one or the new one; see `replacing`."""
    with replacing(path, mode=mode, sync=sync) as file:
        file.writelines((content,) if isinstance(content, bytes) else content)


@contextmanager
def replacing(path: Path, *, mode: int | None = None, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file that takes the place of `path` at the end of the block, and is removed if the block fails.

    If `path` is a link, the link is replaced and its target stays. `mode` sets the permissions; without it, those of
    the file that is replaced stay, and a new file has the umask's. With `sync` the content is on the disk before the
    file has its name, so that a power cut leaves the old content or the new one. Raises OSError.
    """
    # O_EXCL refuses whatever has this name, links too; nobody can lay one there who does not know the name.
    temporary = path.with_name(f".medvqa-{secrets.token_hex(8)}.tmp")
    permissions = MODE if mode is None else mode
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, permissions)
    try:
        with open(descriptor, "wb") as file:
            if mode is None and (before := _permissions(path)) is not None:
                os.fchmod(descriptor, before)
            yield file
            file.flush()
            if sync:
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if sync:
        _sync_folder(path.parent)


def _permissions(path: Path) -> int | None:
    """The permissions of a regular file, without set-user-id and the like; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None


def _sync_folder(folder: Path) -> None:
    # Some network file systems cannot do that; the file is in place nevertheless.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def appending(path: Path, *, new: bool = False, readable: bool = False) -> int:
    """Open a file for appending and return its descriptor; it is made if it is missing, or must be if `new`.

    OSError for a link, and for what is no regular file.
    """
    access = os.O_RDWR if readable else os.O_WRONLY
    flags = access | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | (os.O_EXCL if new else 0), MODE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link(path) from error
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise _irregular(path) from error
        raise
    return _checked(descriptor, path)


def write_new(path: Path, content: bytes, *, mode: int = MODE) -> None:
    """Write a file that is not there yet; FileExistsError if it is, other OSErrors if it cannot be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(content)


def reading(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading; OSError for anything else, such as a pipe, which would wait for a writer.

    `follow` False refuses a link, too.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise _link(path) from error
        raise
    return open(_checked(descriptor, path), "rb")


def read(path: Path, limit: int) -> bytes:
    """The content of a regular file; OSError if it has more than `limit` bytes."""
    with reading(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {size(limit)}", str(path))
    return content


def lines(file: BinaryIO, path: Path, limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each line; OSError for one of more than `limit` bytes."""
    for number, line in enumerate(iter(lambda: file.readline(limit + 1), b""), 1):
        if len(line) > limit:
            raise OSError(errno.EFBIG, f"line {number} is longer than {size(limit)}", str(path))
        yield number, line


def size(limit: int) -> str:
    """A limit in MiB if it is a whole number of them, else in bytes."""
    return f"{limit // 2**20:,} MiB" if limit >= 2**20 and limit % 2**20 == 0 else f"{limit:,} bytes"


def private_folder(path: Path) -> None:
    """Make a folder, and missing ones above it, that their owner alone may enter; OSError if there is a file.

    A folder that is there keeps its mode.
    """
    for missing in reversed([above for above in path.parents if not above.exists()]):
        missing.mkdir(mode=PRIVATE, exist_ok=True)
    path.mkdir(mode=PRIVATE, exist_ok=True)


def subfolder(folder: Path, name: str) -> Path:
    """A folder in a folder, which is made if it is missing; OSError if it is a link or a file."""
    path = check_subfolder(folder, name)
    path.mkdir(exist_ok=True)
    return path


def check_subfolder(folder: Path, name: str) -> Path:
    """The path of a folder that may be missing; OSError if it is a link or a file."""
    path = folder / name
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return path
    if stat.S_ISLNK(mode):
        raise _link(path)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(path))
    return path


def _checked(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(path)
    return descriptor


def _link(path: Path) -> OSError:
    return OSError(errno.ELOOP, f"{path.name} is a symbolic link; remove it", str(path))


def _irregular(path: Path) -> OSError:
    return OSError(errno.EINVAL, f"{path.name} is no regular file", str(path))
