"""The line that says how far a run is."""

from collections import Counter

import pytest

from medvqa.items import Outcome
from medvqa.session import display, replicas
from medvqa.session.display import LineDisplay


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(display.time, "monotonic", lambda: clock.now)
    return clock


def shown(
    clock: Clock, moments: list[tuple[float, int]], total: int, *, isatty: bool = True, pause: float = 0.0
) -> list[str]:
    """The lines after each of some moments (seconds since the first, items so far)."""
    lines: list[str] = []

    def write(line: str) -> None:
        lines.append(line.strip())

    start, progress = clock.now, LineDisplay(write, write if isatty else None, pause=pause)
    for seconds, count in moments:
        clock.now = start + seconds
        counts: Counter[Outcome] = Counter({"correct": count})
        progress.show(counts, total)
    return lines


def test_in_its_first_second_no_rate_is_known(clock: Clock) -> None:
    """A batch of 32 comes at once."""
    lines = shown(clock, [(0.001 * n, n) for n in range(1, 33)] + [(0.5, 33), (2.0, 65)], 320, isatty=True)
    assert lines == ["33/320 items  10 %  correct 33", "65/320 items  20 %  32/s  0:08 left  correct 65"]


def test_the_rate_is_that_of_late(clock: Clock) -> None:
    """Ten thousand stored answers in five seconds, then one a second."""
    stored = [(n / 10, 200 * n) for n in range(1, 51)]
    asked = [(5.0 + n, 10_000 + n) for n in range(1, 101)]
    assert shown(clock, stored, 11_000)[-1].startswith("10000/11000 items  90 %  2000/s  0:00 left")
    assert shown(clock, stored + asked, 11_000)[-1].startswith("10100/11000 items  91 %  1/s  15:00 left")


def test_slow_batches_have_a_rate_below_one(clock: Clock) -> None:
    batches = [(60.0 * batch + n / 1000, 4 * batch + n) for batch in range(10) for n in range(1, 5)]
    assert shown(clock, batches, 400)[-1].startswith("37/400 items  9 %  0.0667/s  1:30:45 left")


def test_without_a_terminal_each_tenth_has_a_line(clock: Clock) -> None:
    lines = shown(clock, [(n / 10, n) for n in range(1, 41)], 40, isatty=False)
    assert [line.partition(" ")[0] for line in lines] == [f"{n}/40" for n in range(4, 41, 4)]


def test_a_quick_run_without_a_terminal_is_silent(clock: Clock) -> None:
    """`medvqa run` writes a line at most every ten seconds, so that a log shows that a long run lives."""
    quick = [(n / 10, n) for n in range(1, 41)]
    assert shown(clock, quick, 40, isatty=False, pause=10.0) == []
    slow = shown(clock, [(n, n) for n in range(1, 41)], 40, isatty=False, pause=10.0)
    assert [line.partition(" ")[0] for line in slow] == ["10/40", "20/40", "30/40", "40/40"]


def test_a_pool_that_is_smaller_than_asked_says_so() -> None:
    status = {"replicas": 2, "replicas_asked": 50, "rate": 3510.0, "queue": 1, "nodes": {"a": 2}}
    assert replicas.pool_state(status) == "2 of 50 replicas 3510/s each, queue 1"
    assert replicas.pool_lines(status) == ["pool: 2 of 50 replicas on 1 node at the end"]
    assert replicas.pool_state({"replicas": 1, "replicas_asked": 1}) == "1 replica, queue 0"
