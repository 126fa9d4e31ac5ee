"""Lock a run folder for one session at a time. The lock ends with its process, however that dies."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from medvqa import files
from medvqa.items import UsageError
from medvqa.records.private import IGNORE, make_private

with suppress(ImportError):  # On Windows, `items.check_system` says what is missing.
    import fcntl

LOCK = ".lock"
"""File in a run folder while a session writes it. After `kill -9` it stays, but locks nothing."""

_HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_NOT_SUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
_MAX_HOLDER = 2**12
_open: set[int] = set()


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock. `since`: ISO 8601 with time zone."""

    pid: int
    host: str
    since: str

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine."""
        return self.host == socket.gethostname()


class Lock:
    """The lock of a run folder."""

    # Not filelock: it keeps no host and process of the holder, and its lowest version empties the file that names them.
    # On a disk without locks it raises, or takes the file itself as the lock, which outlives a killed process; here a
    # warning is enough.

    def __init__(self, run: Path) -> None:
        """Lock nothing before `acquire`."""
        self._run = run
        self._file = -1
        self._tried = False
        self._made_parent = False

    def acquire(self) -> str | None:
        """Lock the run folder, which is created if missing. Idempotent.

        Return a warning if the file system has no locks. UsageError names the holder of the lock. Raises OSError.
        """
        if self._tried:
            return None
        path = self._run / LOCK
        self._made_parent = not self._run.parent.exists()
        while True:
            make_private(self._run)
            try:
                file = files.appending(path, readable=True)
            except FileNotFoundError:
                continue  # an empty run has just ended, and its folder is gone
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(file)
                if error.errno in _HELD_BY_ANOTHER:
                    raise UsageError(self._refusal(path)) from None
                if error.errno not in _NOT_SUPPORTED:
                    raise
                self._tried = True
                return (
                    f"medvqa: {self._run} cannot be locked ({error.strerror}): make sure that no other session writes "
                    f"run '{self._run.absolute().name}' meanwhile"
                )
            if _is_at(file, path):
                break
            os.close(file)  # its session has just ended, and removed it
        self._file, self._tried = file, True
        _close_in_children()
        _open.add(file)
        holder = Holder(os.getpid(), socket.gethostname(), datetime.now().astimezone().isoformat(" ", "seconds"))
        os.ftruncate(file, 0)
        files.write_all(file, msgspec.json.encode(holder))
        return None

    def _refusal(self, path: Path) -> str:
        try:
            holder = msgspec.json.decode(files.read(path, _MAX_HOLDER), type=Holder)
            who = f"another process (pid {holder.pid} on {holder.host}, since {holder.since})"
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            who = "another process"
        return f"run '{self._run.absolute().name}' is being written by {who}: wait until it has ended"

    def release(self) -> None:
        """Remove the file, and folders that the session left empty. Idempotent."""
        if self._file < 0:
            return
        with suppress(OSError):
            (self._run / LOCK).unlink()
        _open.discard(self._file)
        os.close(self._file)
        self._file, self._tried = -1, False
        with suppress(OSError):
            self._run.rmdir()
            if self._made_parent and {path.name for path in self._run.parent.iterdir()} <= {IGNORE}:
                (self._run.parent / IGNORE).unlink(missing_ok=True)
                self._run.parent.rmdir()


def _is_at(file: int, path: Path) -> bool:
    """Whether the path still names this open file."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except FileNotFoundError:
        return False


@cache
def _close_in_children() -> None:
    """Let no forked child keep a lock: it may outlive the session."""
    os.register_at_fork(after_in_child=_close_all)


def _close_all() -> None:
    for file in _open:
        os.close(file)
    _open.clear()


def live_holder(run: Path) -> Holder | None:
    """Return the process on this host that holds a run folder, None if none is known to live.

    Only reads: a lock tried for a moment could refuse a session that starts then. A holder on another host is not
    known to live. The number of a dead process may belong to a younger one; Linux tells by its start.
    """
    holder = holder_of(run)
    if holder is None or not holder.is_here or not 0 < holder.pid < 2**31:
        return None
    with suppress(ValueError, OverflowError):
        return holder if _lives(holder.pid, datetime.fromisoformat(holder.since).timestamp()) else None
    return None


def holder_of(run: Path) -> Holder | None:
    """Return the process that a run folder's lock names, dead or alive; None without a lock that names one."""
    with suppress(OSError, ValueError, RecursionError), files.reading(run / LOCK, follow=False) as file:
        return msgspec.json.decode(file.read(_MAX_HOLDER), type=Holder)
    return None


def _lives(pid: int, since: float) -> bool:
    """Whether a process lives, is no zombie, and began before a time (seconds since 1970)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    try:
        # The name, in brackets, may hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        booted = next(
            int(line.split()[1]) for line in Path("/proc/stat").read_bytes().splitlines() if line.startswith(b"btime")
        )
        state, ticks = fields[0], int(fields[19])
    except (OSError, IndexError, ValueError, StopIteration):
        return True  # not Linux
    # Both times are rounded to seconds.
    return state not in (b"Z", b"X") and booted + ticks / os.sysconf("SC_CLK_TCK") <= since + 2
