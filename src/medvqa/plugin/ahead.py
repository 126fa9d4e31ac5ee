"""Look up the items of the tests that follow in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from medvqa.items import ONE_WAY, Item, Query, Technique
from medvqa.plugin.process import ENDING, is_worker

ASKED = "_medvqa_asked"
"""Fixture of the plugin's `evaluate`; its parameter is (technique, variant, sample) if there are several."""
ITEM = ("medvqa_item", "item")
"""Arguments of a test that get its item; a repository may have a fixture called `item`."""
PLUGIN = "medvqa.plugin"
"""Module of the plugin's fixtures."""
_MAY_NOT_RUN = frozenset({"skip", "skipif", "xfail"})
"""Marks of tests that may end before they ask."""


def item_of(node: pytest.Item) -> Item | None:
    """Return the benchmark item of a collected test; None for a test of another kind."""
    callspec = getattr(node, "callspec", None)
    if callspec is not None:
        for name in ITEM:
            if isinstance(value := callspec.params.get(name), Item):
                return value
    return None


def query_of(node: Any, default: Technique) -> Query | None:
    """Return the query of a collected test, which is kept with it; None for a test of another kind.

    `default` is the technique of tests without one of their own.
    """
    if "medvqa_query" not in node.__dict__:
        node.medvqa_query = None
        if (item := item_of(node)) is not None:
            technique, variant, sample = node.callspec.params.get(ASKED, (default, ONE_WAY, 0))
            node.medvqa_query = Query(item, technique, sample, variant)
    query: Query | None = node.medvqa_query
    return query


def asks(node: pytest.Function | pytest.Metafunc) -> bool:
    """Return whether a test gets the plugin's `evaluate`, itself or wrapped by fixtures of that name.

    Before pytest 9, a test's list of fixture names lacks the arguments of overridden fixtures.
    """
    info = node.definition._fixtureinfo if isinstance(node, pytest.Metafunc) else node._fixtureinfo
    definitions = list(info.name2fixturedefs.get("evaluate", ()))
    while definitions and "evaluate" in definitions[-1].argnames:
        definitions.pop()
    return bool(definitions) and definitions[-1].func.__module__ == PLUGIN


def ask(nodes: Iterable[pytest.Item]) -> bool:
    """Return whether one of the collected tests has an item and asks about it."""
    return any(asks(node) for node in nodes if item_of(node) is not None)  # type: ignore[arg-type]


class Ahead:
    """The coming tests of this process in order, for `engine.Stream`. Each test is taken once.

    In a serial run they are the session's tests. An xdist worker reads them from its queue; if the queue cannot be
    read, only the next test is known.
    """

    def __init__(self, session: pytest.Session, technique: Technique) -> None:
        """Start before the first test; `technique` is that of tests that name none."""
        self._session = session
        self._technique = technique
        self._in_worker = is_worker(session.config)
        # Search by class name: xdist registers it without a name, from a module that was sent over a wire.
        interactors = (p for p in session.config.pluginmanager.get_plugins() if type(p).__name__ == "WorkerInteractor")
        self._interactor: Any = next(interactors, None)
        self._current: pytest.Item | None = None
        self._following: pytest.Item | None = None
        self._begun = 0
        self._position = 0
        self._taken: set[int] = set()
        self._asking: dict[int, bool] = {}
        self._may_end: dict[int, bool] = {}

    def at(self, node: pytest.Item, following: pytest.Item | None) -> None:
        """Note the test that begins, and the one that will follow."""
        self._current, self._following = node, following
        self._begun += 1

    def take(self, count: int) -> list[Query]:
        """Return at most `count` next queries, of tests that will ask the plugin's model."""
        nodes = self._assigned() if self._in_worker else self._collected()
        queries = (query for node in nodes if (query := query_of(node, self._technique)) and self._asks(node))
        return list(islice(queries, count))

    def exhausted(self) -> bool:
        """Return whether no further test will come to this process."""
        if self._in_worker:
            return self._following is None or not all(isinstance(i, int) for i in _waiting(self._interactor))
        return self._position >= len(self._session.items)

    def stopped(self) -> bool:
        """Return whether no further test will begin."""
        interrupted = self._session.config.stash[ENDING].interrupted
        return bool(interrupted or self._session.shouldstop or self._session.shouldfail)

    def _collected(self) -> Iterator[pytest.Item]:
        items = self._session.items
        self._position = max(self._position, self._begun - 1)
        while self._position < len(items):
            self._position += 1
            yield items[self._position - 1]

    def _assigned(self) -> Iterator[pytest.Item]:
        items = self._session.items
        nodes = [items[index] for index in _waiting(self._interactor) if isinstance(index, int)]
        for node in [self._current, self._following, *nodes]:
            if node is not None and id(node) not in self._taken:
                self._taken.add(id(node))
                yield node

    def _asks(self, node: pytest.Item) -> bool:
        """Return whether a test asks with the plugin's own fixtures and has no mark that may end it before."""
        parent = node.parent
        if id(parent) not in self._may_end:
            inherited = () if parent is None else parent.iter_markers()
            self._may_end[id(parent)] = any(mark.name in _MAY_NOT_RUN for mark in inherited)
        own = {mark.name for mark in node.own_markers}
        return not self._may_end[id(parent)] and own.isdisjoint(_MAY_NOT_RUN) and self.takes_own(node)

    def takes_own(self, node: pytest.Item) -> bool:
        """Return whether a test gets the plugin's own `evaluate` and `medvqa_model`."""
        # Shared by all cases of a test function.
        fixtures = node._fixtureinfo  # type: ignore[attr-defined]
        if id(fixtures) not in self._asking:
            both = [fixtures.name2fixturedefs.get(name) for name in ("evaluate", "medvqa_model")]
            self._asking[id(fixtures)] = all(defs and defs[-1].func.__module__ == PLUGIN for defs in both)
        return self._asking[id(fixtures)]


def _waiting(interactor: Any) -> list[object]:
    """Return the queue of an xdist worker: indices of tests, then an end mark."""
    queue: Any = getattr(interactor, "torun", None)
    if hasattr(queue, "lock"):
        with queue.lock() as waiting:
            return list(waiting)
    if hasattr(queue, "mutex"):  # before xdist 3.7
        with queue.mutex:
            return list(queue.queue)
    return []
