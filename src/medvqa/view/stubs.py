"""Stand-ins for the files that follow runs, until they are there (`app` names their signatures)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from medvqa.view.shapes import History, ItemPage, RunProgress, RunState
from medvqa.view.shelf import Shelf


@dataclass(frozen=True)
class Follower:
    """One run folder."""

    folder: Path


class Followers:
    """following.Followers."""

    def of(self, folder: Path) -> Follower:
        """The follower of a run folder, kept."""
        return Follower(folder)

    def state(self, folder: Path, selected: int) -> tuple[RunState, int]:
        """The state of a run folder and its number of results, for the shelf."""
        return "finished", selected


@dataclass(frozen=True)
class ItemQuery:
    """items.ItemQuery."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ItemQuery:
        """Read the parameters of an address (UsageError)."""
        return cls()


def page(follower: Follower, query: ItemQuery) -> ItemPage:
    """items.page."""
    return ItemPage([], 0, 0, 0)


def run_progress(follower: Follower, name: str) -> RunProgress:
    """progress.run_progress."""
    return RunProgress(name, "finished", 0, 0, [], None, None, "", "", 0)


def history(shelf: Shelf, followers: Followers, benchmark: str, id: str) -> History:
    """history.history."""
    return History(benchmark, id, [], [])


async def stream(shelf: Shelf, followers: Followers, ended: asyncio.Event) -> AsyncIterator[bytes]:
    """events.stream."""
    yield b"event: runs\ndata: {}\n\n"
    await ended.wait()
