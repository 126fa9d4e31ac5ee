"""Signals that end a session: raised once, never over somebody else's handler, and put back."""

import ctypes
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from types import FrameType, SimpleNamespace
from typing import cast

import pytest

from medvqa.session.ending import LIMIT, Ending, interruptible

SENT = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*SENT, signal.SIGINT)}
    for number in SENT:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SENT)
def test_the_first_signal_interrupts_and_others_are_ignored(number: signal.Signals) -> None:
    ending = Ending()
    ending.listen()
    with pytest.raises(KeyboardInterrupt, match=f"ended by {number.name}"):
        os.kill(os.getpid(), number)
    ending.begin()
    for again in SENT:
        os.kill(os.getpid(), again)
    assert ending.signal == number
    ending.restore()
    assert [signal.getsignal(each) for each in SENT] == [signal.SIG_DFL] * 2


def test_an_instruction_without_a_line_is_not_interrupted() -> None:
    ending = Ending()
    ending.listen()
    with pytest.raises(KeyboardInterrupt, match="ended by SIGTERM"):  # noqa: PT012 - it comes soon after
        ending._interrupt(signal.SIGTERM, cast(FrameType, SimpleNamespace(f_lineno=None)))
        time.sleep(60)
    ending.begin()
    ending.restore()


class Finalized:
    """Python drops what is raised while this runs."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_that_python_drops_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending()
    ending.listen()
    Finalized()
    assert ending.signal == signal.SIGTERM
    with pytest.raises(KeyboardInterrupt):
        ending.check()
    os.kill(os.getpid(), signal.SIGTERM)
    monkeypatch.setattr("medvqa.session.ending.AGAIN", 0)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    ending.begin()
    ending.check()
    ending.restore()


def test_a_session_that_ends_by_itself_is_not_interrupted() -> None:
    ending = Ending()
    ending.listen()
    ending.begin()
    os.kill(os.getpid(), signal.SIGTERM)
    assert ending.signal is None
    ending.restore()


@pytest.mark.parametrize("number", SENT)
def test_a_signal_while_a_session_ends_is_told(number: signal.Signals) -> None:
    ending = Ending()
    ending.listen()
    ending.begin()
    assert not ending.heard
    os.kill(os.getpid(), number)
    assert ending.heard
    assert ending.signal is None
    ending.check()
    ending.restore()


def test_what_is_ignored_or_handled_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """nohup has SIGHUP ignored."""
    heard = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    with interruptible():
        for number in SENT:
            os.kill(os.getpid(), number)
    assert heard == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_handler_that_came_later_stays() -> None:
    ending = Ending()
    ending.listen()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ending.restore()
    assert [signal.getsignal(each) for each in SENT] == [signal.SIG_IGN, signal.SIG_DFL]


def test_a_second_ctrl_c_ends_the_waiting_and_no_report() -> None:
    ending = Ending()
    ending.listen()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    ending.begin()
    os.kill(os.getpid(), signal.SIGINT)
    ending.waits = True
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    ending.restore()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_change_nothing() -> None:
    thread = threading.Thread(target=Ending().listen)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_calls_and_puts_leave_time_for_the_rest_of_the_end() -> None:
    ending = Ending()
    assert ending.puts_by() is None
    now = time.monotonic()
    ending.interrupted = True
    assert ending.calls_by() >= now + 4, "Ctrl-C ends no process"
    assert (ending.puts_by() or 0) >= now + 3
    ending.deadline = now + 4.5
    assert (ending.calls_by(), ending.puts_by()) == (now - 0.5, now + 2.5)


def test_seconds_count_in_which_native_code_holds_the_lock() -> None:
    """SIGTERM comes when native code begins to hold the lock, and is heard of when the code returns."""
    ending = Ending()
    ending.listen()
    time.sleep(0.1)
    kill = ctypes.PyDLL(None).kill
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        deque(chain(map(kill, [os.getpid()], [signal.SIGTERM]), range(5 * 10**7)), maxlen=0)
    held = time.monotonic() - begun
    end = begun + LIMIT + held / 2
    while ending.deadline >= end and time.monotonic() < begun + held + 5:
        time.sleep(0.01)
    ending.restore()
    assert ending.deadline < end, f"{held:.1f} s were not counted"
