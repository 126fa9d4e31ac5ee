"""The lock of a run folder: held by one process, gone with it, and misleading nobody."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from medvqa.cli import main
from medvqa.items import UsageError
from medvqa.records.lock import LOCK, Lock
from medvqa.records.run_record import RUN

HOLD = """
import sys, time
from pathlib import Path
from medvqa.records import lock
lock.Lock(Path(sys.argv[1])).acquire()
{then}
print("held", flush=True)
time.sleep(60)
"""


def holding(run: Path, then: str = "", cwd: Path | None = None) -> subprocess.Popen[str]:
    """A process that holds the lock of a run folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(then=then), str(run)], cwd=cwd, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_the_second_is_told_who_holds_the_lock_until_he_dies(tmp_path: Path) -> None:
    run = tmp_path / "night"
    process = holding(run)
    told = rf"^run 'night' is being written by another process \(pid {process.pid} on {socket.gethostname()}, since "
    try:
        for _ in range(2):
            with pytest.raises(UsageError, match=told):
                Lock(run).acquire()
    finally:
        kill(process)
    assert (run / LOCK).exists()
    lock = Lock(run)
    assert lock.acquire() is None
    with pytest.raises(UsageError, match=rf"\(pid {os.getpid()} on"):
        Lock(run).acquire()
    lock.release()


def test_a_child_that_outlives_its_parent_holds_nothing(tmp_path: Path) -> None:
    note_child = (
        "import os; child = os.fork(); child or (Path('forked').touch(), time.sleep(60)); "
        # A child gives the lock back when it first runs.
        "any(time.sleep(0.01) for _ in iter(Path('forked').exists, True)); Path('child').write_text(str(child))"
    )
    process = holding(tmp_path / "run", note_child, cwd=tmp_path)
    kill(process)
    lock = Lock(tmp_path / "run")
    assert lock.acquire() is None
    lock.release()
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "reports/run")
    lock.acquire()
    lock.acquire()
    lock.release()
    lock.release()
    assert list(tmp_path.iterdir()) == []
    lock = Lock(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/results.jsonl").touch()
    lock.acquire()
    lock.release()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["results.jsonl"]


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session before has ended between the opening and the locking."""
    flock, removed = fcntl.flock, []

    def late(file: int, operation: int) -> None:
        if not removed:
            removed.append((tmp_path / LOCK).unlink())
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = Lock(tmp_path)
    lock.acquire()
    monkeypatch.undo()
    with pytest.raises(UsageError):
        Lock(tmp_path).acquire()
    lock.release()


def test_a_file_system_without_locks_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(file: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    lock = Lock(tmp_path)
    assert lock.acquire() == (
        f"medvqa: {tmp_path} cannot be locked (Function not implemented): make sure that no other session writes run "
        f"'{tmp_path.name}' meanwhile"
    )
    assert lock.acquire() is None, "told once"
    lock.release()


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a symbolic link"):
        Lock(tmp_path).acquire()


def test_what_a_lock_says_of_its_holder_may_be_damaged(tmp_path: Path) -> None:
    process = holding(tmp_path)
    try:
        (tmp_path / LOCK).write_bytes(b'{"pid": "\xff')
        with pytest.raises(UsageError, match="by another process: wait"):
            Lock(tmp_path).acquire()
    finally:
        kill(process)


def test_a_run_that_is_being_written_is_not_scored_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RUN).write_text("{}")
    process = holding(tmp_path / "run")
    try:
        assert main(["rescore", str(tmp_path / "run")]) == 4
    finally:
        kill(process)
    assert re.fullmatch(r"medvqa: run 'run' is being written by .*: wait until it has ended\n", capsys.readouterr().err)
