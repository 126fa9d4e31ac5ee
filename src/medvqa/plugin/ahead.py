"""Which items lie ahead of the test that runs, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from medvqa.items import Item, Query, Technique
from medvqa.plugin.process import is_worker

ASKED = "_medvqa_asked"
"""Fixture of the plugin's `evaluate`; its parameter is (technique, sample) if there are several of either."""
PLUGIN = "medvqa.plugin"
"""Module of the plugin's fixtures."""
_MAY_NOT_RUN = frozenset({"skip", "skipif", "xfail"})
"""Marks of tests that may not get to ask."""


def item_of(node: pytest.Item) -> Item | None:
    """The benchmark item that a collected test is about, None for a test of another kind."""
    callspec = getattr(node, "callspec", None)
    value = callspec.params.get("item") if callspec is not None else None
    return value if isinstance(value, Item) else None


def query_of(node: pytest.Item, default: Technique) -> Query | None:
    """The query of a collected test; `default` is the technique of tests without one of their own."""
    item = item_of(node)
    if item is None:
        return None
    technique, sample = node.callspec.params.get(ASKED, (default, 0))  # type: ignore[attr-defined]
    return Query(item, technique, sample)


def asks(node: pytest.Function | pytest.Metafunc) -> bool:
    """Whether a test gets the plugin's `evaluate`, itself or wrapped by fixtures of that name.

    Before pytest 9 the names of a test's fixtures lack those that only an overridden fixture takes.
    """
    info = node.definition._fixtureinfo if isinstance(node, pytest.Metafunc) else node._fixtureinfo
    defined = list(info.name2fixturedefs.get("evaluate", ()))
    while defined and "evaluate" in defined[-1].argnames:
        defined.pop()
    return bool(defined) and defined[-1].func.__module__ == PLUGIN


class Ahead:
    """The tests of this process in their order, for `engine.Stream`; what is taken once is not given again.

    Serially these are the session's. An xdist worker knows those that it was handed: they are read from its
    queue, and where it has none that can be read, the next test is all that is known.
    """

    def __init__(self, session: pytest.Session, technique: Technique) -> None:
        """Before the first test; `technique` is that of tests that name none."""
        self._session = session
        self._technique = technique
        self._spread = is_worker(session.config)
        # xdist registers it without a name, from a module that was sent over a wire: known by its class's name alone.
        interactors = (p for p in session.config.pluginmanager.get_plugins() if type(p).__name__ == "WorkerInteractor")
        self._interactor: Any = next(interactors, None)
        self._current: pytest.Item | None = None
        self._following: pytest.Item | None = None
        self._begun = 0
        self._position = 0
        self._taken: set[int] = set()
        self._asking: dict[int, bool] = {}

    def at(self, node: pytest.Item, following: pytest.Item | None) -> None:
        """A test begins, and the one that will follow is known."""
        self._current, self._following = node, following
        self._begun += 1

    def take(self, count: int) -> list[Query]:
        """The next queries, at most `count`, of tests that will ask the plugin's model about them."""
        nodes = self._handed() if self._spread else self._collected()
        asked = (query for node in nodes if (query := query_of(node, self._technique)) and self._asks(node))
        return list(islice(asked, count))

    def exhausted(self) -> bool:
        """Whether no further test will come to this process."""
        if self._spread:
            return self._following is None or not all(isinstance(i, int) for i in _waiting(self._interactor))
        return self._position >= len(self._session.items)

    def stopped(self) -> bool:
        """Whether no further test will begin."""
        return bool(self._session.shouldstop or self._session.shouldfail)

    def _collected(self) -> Iterator[pytest.Item]:
        items = self._session.items
        self._position = max(self._position, self._begun - 1)
        while self._position < len(items):
            self._position += 1
            yield items[self._position - 1]

    def _handed(self) -> Iterator[pytest.Item]:
        items = self._session.items
        nodes = [items[index] for index in _waiting(self._interactor) if isinstance(index, int)]
        for node in [self._current, self._following, *nodes]:
            if node is not None and id(node) not in self._taken:
                self._taken.add(id(node))
                yield node

    def _asks(self, node: pytest.Item) -> bool:
        """Whether a test asks by the plugin's own fixtures, and no mark keeps it from running."""
        if any(mark.name in _MAY_NOT_RUN for mark in node.iter_markers()):
            return False
        # Shared by all cases of a test function.
        fixtures = node._fixtureinfo  # type: ignore[attr-defined]
        if id(fixtures) not in self._asking:
            defined = [fixtures.name2fixturedefs.get(name) for name in ("evaluate", "model")]
            self._asking[id(fixtures)] = all(d and d[-1].func.__module__ == PLUGIN for d in defined)
        return self._asking[id(fixtures)]


def _waiting(interactor: Any) -> list[object]:
    """The queue of an xdist worker: indices of tests, then a mark that ends it."""
    queue: Any = getattr(interactor, "torun", None)
    if hasattr(queue, "lock"):
        with queue.lock() as waiting:
            return list(waiting)
    if hasattr(queue, "mutex"):  # before xdist 3.7
        with queue.mutex:
            return list(queue.queue)
    return []
