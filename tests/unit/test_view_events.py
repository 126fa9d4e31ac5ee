"""Events of running sessions: one watcher for all connections, which ends with them or with the server."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medvqa.items import Answer, Item, Result, Score
from medvqa.records import run_folder
from medvqa.records.lock import Lock
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.session.registry import Registry
from medvqa.view import events
from medvqa.view.events import Events
from medvqa.view.following import Followers
from medvqa.view.shelf import Shelf

SECONDS = 60


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at once; nothing below depends on how long it takes."""
    for name in ("POLL", "LIST", "AGAIN"):
        monkeypatch.setattr(events, name, 0.01)


def append(folder: Path, *ids: str) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / RESULTS).open("ab") as file:
        for item in ids:
            question = Item(item, "slake", "single_choice", "Which one?", {"A": "a", "B": "b"}, ("A",))
            one = Result("run", question, "", Answer("A"), Score(1.0, "correct", ("A",)))
            file.write(run_folder.encode(one) + b"\n")
    if not (folder / RUN).exists():
        run_folder.write_json(folder / RUN, {"name": folder.name, "benchmarks": {"slake": {}}})


class Connection:
    """One connection that reads when it is asked to."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self.stream = stream

    async def until(self, matches: Callable[[str, Any], bool]) -> Any:
        """The data of the first event that matches."""
        async with asyncio.timeout(SECONDS):
            async for event in self.stream:
                kind, _, rest = event.decode().partition("\n")
                assert event.endswith(b"\n\n")
                if kind.startswith("event: "):
                    data = msgspec.json.decode(rest.removeprefix("data: ").strip())
                    if matches(kind.removeprefix("event: "), data):
                        return data
        raise AssertionError("the stream ended")


def served(root: Path) -> Events:
    followers = Followers()
    return Events(Shelf(root, Registry.of([], installed=[]), followers), followers)


def run(test: Callable[[Events, asyncio.Event], Awaitable[None]], root: Path) -> None:
    async def body() -> None:
        await test(served(root), asyncio.Event())

    asyncio.run(body())


def answered(name: str, number: int, state: str) -> Callable[[str, Any], bool]:
    return lambda kind, data: (
        kind == "progress" and (data["name"], data["answered"], data["state"]) == (name, number, state)
    )


def test_a_session_is_told_from_its_start_to_its_end(tmp_path: Path) -> None:
    async def test(site: Events, ended: asyncio.Event) -> None:
        append(tmp_path / "old", "1")
        one, other = (Connection(site.stream(ended)) for _ in range(2))
        reading = asyncio.create_task(other.until(answered("new", 3, "running")))
        listed = asyncio.create_task(one.until(lambda kind, _: kind == "runs"))
        while not site.ready:
            await asyncio.sleep(0.01)
        lock = Lock(tmp_path / "new")
        lock.acquire()
        append(tmp_path / "new", "1")
        await listed
        append(tmp_path / "new", "2", "3")
        progress = await reading
        assert progress["parts"][0]["outcomes"] == {"correct": 3}
        # One that connects later learns at once how the session stands.
        await Connection(site.stream(ended)).until(answered("new", 3, "running"))
        lock.release()
        # The list and the run tell the end, in either order.
        told: set[str] = set()
        done = answered("new", 3, "unfinished")
        await one.until(
            lambda kind, data: told.update({kind} if kind == "runs" or done(kind, data) else ()) or len(told) == 2
        )
        # Results that change without a lock are told, too.
        append(tmp_path / "old", "2")
        await one.until(answered("old", 2, "unfinished"))

    run(test, tmp_path)


def test_a_slow_connection_gets_the_latest_alone(tmp_path: Path) -> None:
    async def test(site: Events, ended: asyncio.Event) -> None:
        lock = Lock(tmp_path / "run")
        lock.acquire()
        append(tmp_path / "run", "0")
        slow, quick = (Connection(site.stream(ended)) for _ in range(2))
        await slow.until(answered("run", 1, "running"))
        for number in range(1, 6):
            append(tmp_path / "run", str(number))
            await quick.until(answered("run", number + 1, "running"))
        numbers: list[int] = []
        await slow.until(lambda kind, data: numbers.append(data.get("answered")) or data.get("answered") == 6)
        assert len(numbers) <= 2, numbers
        lock.release()

    run(test, tmp_path)


def test_streams_end_with_the_server_and_the_watcher_with_the_last_of_them(tmp_path: Path) -> None:
    async def test(site: Events, ended: asyncio.Event) -> None:
        append(tmp_path / "run", "1")
        streams = [site.stream(ended) for _ in range(3)]
        for stream in streams:
            await anext(stream)
        assert site.watching
        waiting = [asyncio.create_task(anext(stream)) for stream in streams]  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        ended.set()
        done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 1)
        assert all(isinstance(one, StopAsyncIteration | bytes) for one in done)
        for stream in streams:
            assert [event async for event in stream] == []
        assert not site.watching

    run(test, tmp_path)


def test_a_silent_connection_hears_that_it_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.01)

    async def test(site: Events, ended: asyncio.Event) -> None:
        stream = site.stream(ended)
        assert [await anext(stream) for _ in range(2)] == [events.RETRY, events.SILENCE]

    run(test, tmp_path)


def test_nothing_is_read_of_runs_that_nobody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    looks = threading.Semaphore(0)
    of, look = Followers.of, Events._look

    def watched_of(self: Followers, folder: Path) -> Any:
        read.append(folder)
        return of(self, folder)

    def counted(self: Events) -> Any:
        try:
            return look(self)
        finally:
            looks.release()

    for number in range(5):
        append(tmp_path / f"run{number}", "1")

    async def test(site: Events, ended: asyncio.Event) -> None:
        # The list counts the results of runs without metrics.json, once.
        site._shelf.list()
        monkeypatch.setattr(Followers, "of", watched_of)
        monkeypatch.setattr(Events, "_look", counted)
        stream = site.stream(ended)
        await anext(stream)
        for _ in range(5):
            await asyncio.to_thread(looks.acquire)
        assert read == []

    run(test, tmp_path)
