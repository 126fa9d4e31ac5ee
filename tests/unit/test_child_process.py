"""A child that answers requests: what it says has limits, and it ends with them, its parent, or a broken reply."""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from medvqa.child_process import Child, ChildEnded

MODULE = """
import os, sys, time
import msgspec
from medvqa import child_process

class Asked(msgspec.Struct):
    do: str = ""

def answer(asked, content):
    print("a decoder prints")
    if asked.do:
        exec(asked.do)
    return Asked(str(os.getpid())), content[::-1]

def serve():
    child_process.answer_all(Asked, answer, most=10, memory=2**32, seconds=2)
"""


class Told(msgspec.Struct):
    do: str


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    (tmp_path / "answering.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return Child("answering")


def test_requests_are_answered_by_one_process(child: Child) -> None:
    first, content = child.ask(Told(""), Told, b"abc", most=3)
    assert content == b"cba"
    assert child.ask(Told(""), Told) == (first, b"")
    assert child.process is not None
    assert int(first.do) == child.process.pid


@pytest.mark.parametrize(
    ("do", "code"),
    [
        ("os.abort()", -signal.SIGABRT),
        ("time.sleep(60)", -signal.SIGALRM),
        ("os._exit(7)", 7),
        ("raise ValueError", 1),
    ],
)
def test_one_that_ends_costs_its_request_alone(child: Child, do: str, code: int) -> None:
    with pytest.raises(ChildEnded) as ended:
        child.ask(Told(do), Told)
    assert ended.value.code == code
    assert child.ask(Told(""), Told)[0].do


def test_a_reply_has_limits(child: Child) -> None:
    with pytest.raises(ChildEnded):
        child.ask(Told(""), Told, b"abc", most=2)
    with pytest.raises(ChildEnded):
        child.ask(Told(""), Told, b"longer than ten", most=100)

    class Other(msgspec.Struct):
        another: int

    with pytest.raises(ChildEnded):
        child.ask(Told(""), Other)
    assert child.ask(Told(""), Told, b"abc", most=3)[1] == b"cba"


def test_memory_has_a_limit(child: Child) -> None:
    with pytest.raises(ChildEnded):
        child.ask(Told("bytes(2**33)"), Told)


def test_it_ends_with_its_input_and_when_it_is_closed(child: Child) -> None:
    pid = int(child.ask(Told(""), Told)[0].do)
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ChildEnded):
        child.ask(Told(""), Told)


def test_its_input_ends_a_request_that_it_works_at(child: Child) -> None:
    child.ask(Told(""), Told)
    process = child.process
    assert process is not None
    assert process.stdin is not None
    line = msgspec.json.encode(Told("__import__('signal').alarm(0); time.sleep(60)"))
    process.stdin.write(b"%d 0\n" % len(line) + line)
    process.stdin.close()
    began = time.monotonic()
    assert process.wait(20) == 0
    assert time.monotonic() - began < 15
