"""Open and write files safely: replace them whole, never write through a link, open only regular files.

Run folders and data folders are untrusted. A link there must not redirect a write; a pipe or a file of terabytes must
not stop a reader. No other module opens a file for writing.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from medvqa.image import UsageError

MODE = 0o666
"""Permissions of a new file, less the umask."""
PRIVATE = 0o700
"""Permissions of a folder that only its owner may enter."""


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Convert an OSError to a UsageError, whose message begins with `what`, such as "reports/RUN"."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what} cannot be written: {error.strerror or error}") from error


def replace(path: Path, content: bytes | Iterable[bytes], *, mode: int | None = None, sync: bool = True) -> None:
    """Replace a file whole: readers see the old one or the new one; see `replacing`."""
    with replacing(path, mode=mode, sync=sync) as file:
        file.writelines((content,) if isinstance(content, bytes) else content)


@contextmanager
def replacing(path: Path, *, mode: int | None = None, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` at the end of the block, or is removed if the block fails.

    If `path` is a link, the link is replaced and its target stays. `mode` sets the permissions; None keeps those of the
    replaced file, or applies the umask to a new one. `sync` flushes the content to disk before the rename, so that
    a power cut leaves the old content or the new one. Raises OSError.
    """
    # O_EXCL refuses an existing file or link; the random name keeps others from placing a link there.
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


def move(path: Path, target: Path) -> None:
    """Give a whole file its name within its folder, in place of a file or link of that name (OSError)."""
    os.replace(path, target)
    _sync_folder(target.parent)


@contextmanager
def making(folder: Path, hidden: Path) -> Iterator[Path]:
    """Yield a place within the folder `hidden`, where the block makes a folder; then give it the name `folder`.

    It replaces a folder of that name, which is there again after an error. What a killed process left is removed first.
    """
    new, old = hidden / "new", hidden / "old"
    place, left = new / folder.name, (new, old) if hidden.exists() else (hidden,)
    remove_folders(new, old)
    new.mkdir(mode=PRIVATE, parents=True)
    try:
        yield place
        if folder.exists():
            folder.rename(old)
        place.rename(folder)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        remove_folders(*left)


def remove_folders(*folders: Path) -> None:
    """Remove the folders that are there, with all that is in them (OSError)."""
    for folder in folders:
        if os.path.lexists(folder):
            shutil.rmtree(folder)


def _permissions(path: Path) -> int | None:
    """Return the permissions of a regular file, without set-user-id and the like; None for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None


def _sync_folder(folder: Path) -> None:
    # Some network file systems cannot sync a folder; the file is in place nevertheless.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def appending(path: Path, *, new: bool = False, readable: bool = False) -> int:
    """Open a file for appending, create it if missing, and return its descriptor.

    Raises OSError for a link or anything but a regular file, and with `new` for an existing file.
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


def write_all(descriptor: int, data: bytes) -> None:
    """Write with one call; OSError if only a part was written, as on a full disk."""
    written = os.write(descriptor, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, "No space left on device")


def append(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Append to a file with one write, and create it if missing (OSError)."""
    descriptor = appending(path)
    try:
        write_all(descriptor, content)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes, *, mode: int = MODE, sync: bool = False) -> None:
    """Write a new file; FileExistsError if it exists, other OSErrors if it cannot be written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_once(path: Path, content: bytes, mode: int) -> None:
    """Write a new file whole or not at all; FileExistsError if it exists, other OSErrors if it cannot be written.

    On a disk without links, a process that is killed leaves half a file.
    """
    temporary = path.parent / f".medvqa-{secrets.token_hex(8)}.tmp"
    try:
        write_new(temporary, content, sync=True)
        temporary.chmod(mode)
        # A link never replaces a file.
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        write_new(path, content, sync=True)
    finally:
        temporary.unlink(missing_ok=True)


def unnamed(folder: Path) -> BinaryIO:
    """Return a new file that only this process can read, and that is gone once it is closed (OSError)."""
    return tempfile.TemporaryFile(dir=folder)


def reading(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading; OSError for anything else, such as a pipe, which would block.

    `follow` False refuses links, too.
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
    """Return the content of a regular file; OSError if it has more than `limit` bytes."""
    with reading(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {size(limit)}", str(path))
    return content


def part(path: Path, start: int, length: int) -> bytes:
    """Return so many bytes of a regular file, fewer at its end; OSError also for a link."""
    descriptor = _checked(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW), path)
    try:
        return os.pread(descriptor, length, start)
    finally:
        os.close(descriptor)


def lines(file: BinaryIO, path: Path, limit: int, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of every line; OSError for a line of more than `limit` bytes.

    `before` lines precede them.
    """
    for number, line in enumerate(iter(partial(file.readline, limit + 1), b""), before + 1):
        if len(line) > limit:
            raise OSError(errno.EFBIG, f"line {number} is longer than {size(limit)}", str(path))
        yield number, line


def size(limit: int) -> str:
    """Return a limit as text, in MiB if that is a whole number, else in bytes."""
    return f"{limit // 2**20:,} MiB" if limit >= 2**20 and limit % 2**20 == 0 else f"{limit:,} bytes"


def private_folder(path: Path) -> None:
    """Create a folder and its missing parents for their owner alone; OSError if a file is in the way.

    An existing folder keeps its mode.
    """
    for missing in reversed([parent for parent in path.parents if not parent.exists()]):
        missing.mkdir(mode=PRIVATE, exist_ok=True)
    path.mkdir(mode=PRIVATE, exist_ok=True)


def subfolder(folder: Path, name: str) -> Path:
    """Return the path of a subfolder, created if missing; OSError if it is a link or a file."""
    path = check_subfolder(folder, name)
    path.mkdir(exist_ok=True)
    return path


def check_subfolder(folder: Path, name: str) -> Path:
    """Return the path of a subfolder, which may be missing; OSError if it is a link or a file."""
    path = folder / name
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return path
    if stat.S_ISLNK(mode):
        raise _link(path)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(path))
    return path


def _checked(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _irregular(path)
    return descriptor


def _link(path: Path) -> OSError:
    return OSError(errno.ELOOP, f"{path.name} is a symbolic link; remove it", str(path))


def _irregular(path: Path) -> OSError:
    return OSError(errno.EINVAL, f"{path.name or path} is not a regular file", str(path))
