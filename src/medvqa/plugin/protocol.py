"""A shorter way to run tests that need nothing but the plugin's own fixtures (docs/decisions/0008-brief-tests.md).

pytest sets up the fixtures of each test anew, in the course of which it makes about ten objects for each, and reports
three phases. A test that takes an item and the plugin's `evaluate` needs neither: what it takes is there already, and
its setup and teardown have nothing to tell. All hooks of the three phases are called, but for pytest's own that makes
and ends fixtures.
"""

from __future__ import annotations

import unittest
from bdb import BdbQuit
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import pytest
from pluggy import HookCaller, HookImpl

from medvqa.plugin.ahead import SAMPLE, TECHNIQUE

_OWN = frozenset({"evaluate", "model"})
_PARAMETERS = frozenset({"item", TECHNIQUE, SAMPLE})
_CLOSURE = _OWN | _PARAMETERS | {"request"}
"""Fixtures that a test may use, directly or through these."""
_TESTS = tuple(f"pytest_runtest_{name}" for name in ("protocol", "setup", "call", "teardown", "makereport"))
"""Hooks by which others take part in tests: then pytest's own protocol runs them."""
_REPORTS = ("pytest_runtest_logreport", "pytest_runtest_makereport", "pytest_report_teststatus")
"""Hooks by which others may want to hear of every phase."""
_FAMILIAR = frozenset({"_pytest", "xdist", "medvqa"})
_WATCHING = ("setupshow", "setuponly", "setupplan", "usepdb", "trace")
"""Options of pytest that look at fixtures, or stop in a test."""


def _is_foreign(implementation: HookImpl) -> bool:
    # xdist's worker is sent over a wire, as a module of no package.
    module = implementation.function.__module__.partition(".")[0]
    return module not in _FAMILIAR and type(implementation.plugin).__name__ != "WorkerInteractor"


def _implementations(config: pytest.Config, hooks: Iterable[str]) -> list[HookImpl]:
    return [each for name in hooks for each in getattr(config.hook, name).get_hookimpls()]


def hears_every_phase(config: pytest.Config) -> bool:
    """Whether anybody in this process wants reports of setups and teardowns, keywords and properties.

    That is JUnit, `--durations`, and whatever is not pytest's, xdist's or the plugin's own.
    """
    listening = _implementations(config, _REPORTS)
    junit = any(each.function.__module__ == "_pytest.junitxml" for each in listening)
    return junit or any(map(_is_foreign, listening)) or config.getoption("durations", None) is not None


class BriefProtocol:
    """Runs tests, while it is registered: as long as the plugin's fixture `model` stands."""

    def __init__(self, config: pytest.Config, given: Mapping[str, object], *, every_phase: bool) -> None:
        """`given` are the values of the fixtures `evaluate` and `model`; `every_phase` asks for all reports."""
        self._given = given
        self._every_phase = every_phase
        self._config = config
        self._following: pytest.Item | None = None
        self._plain: dict[int, bool] = {}
        manager = config.pluginmanager
        fixtures = manager.get_plugin("runner")
        self._setup: HookCaller = manager.subset_hook_caller("pytest_runtest_setup", [fixtures])
        self._teardown: HookCaller = manager.subset_hook_caller("pytest_runtest_teardown", [fixtures])
        self._serves_any = not (
            fixtures is None
            or any(map(_is_foreign, _implementations(config, _TESTS)))
            or any(config.getoption(name, False) for name in _WATCHING)
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test that is plain, between two others of its module: nothing around it is set up or torn down."""
        stands, self._following = self._following is item, None
        if not self._serves_any or nextitem is None or nextitem.parent is not item.parent:
            return None
        # Whichever protocol runs it, it leaves all that the next one needs.
        self._following = nextitem
        if not (stands and isinstance(item, pytest.Function) and self._is_plain(item)):
            return None
        location = item.location
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=location)
        self._run(item, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=location)
        return True

    def _is_plain(self, item: pytest.Function) -> bool:
        """Whether a test takes what it takes from its parameters and the plugin's own fixtures alone."""
        # Shared by all cases of a test function.
        fixtures = item._fixtureinfo
        if id(fixtures) not in self._plain:
            used = [definitions[-1] for name in _OWN if (definitions := fixtures.name2fixturedefs.get(name))]
            self._plain[id(fixtures)] = (
                type(item) is pytest.Function
                and type(item.parent) is pytest.Module
                and item.ihook is self._config.hook
                and _CLOSURE.issuperset(item.fixturenames)
                and set(fixtures.argnames) <= _OWN | set(item.callspec.params)
                and all(used_by.func.__module__ == "medvqa.plugin" for used_by in used)
            )
        # One that ran before, and is run again, has no arguments any more.
        return self._plain[id(fixtures)] and item.funcargs is not None

    def _run(self, item: pytest.Function, nextitem: pytest.Item) -> None:
        item.funcargs = {**item.callspec.params, **self._given}
        try:
            if self._phase(item, "setup", lambda: self._setup(item=item)):
                self._phase(item, "call", lambda: item.ihook.pytest_runtest_call(item=item))
            session = item.session
            if session.shouldfail or session.shouldstop:
                # As pytest does it, so that what fails there is reported.
                teardown = item.ihook.pytest_runtest_teardown
                self._phase(item, "teardown", lambda: teardown(item=item, nextitem=None), loud=True)
            else:
                self._phase(item, "teardown", lambda: self._teardown(item=item, nextitem=nextitem))
        finally:
            item._request = False  # type: ignore[assignment]
            item.funcargs = None  # type: ignore[assignment]

    def _phase(
        self,
        item: pytest.Function,
        when: Literal["setup", "call", "teardown"],
        phase: Callable[[], object],
        *,
        loud: bool = False,
    ) -> bool:
        """Run one phase and report it where there is something to tell; whether it passed."""
        written = len(item._report_sections)
        call = pytest.CallInfo.from_call(phase, when, reraise=(pytest.exit.Exception, KeyboardInterrupt))
        said = when == "teardown" and len(item._report_sections) > written
        if when == "call" or call.excinfo is not None or said or loud or self._every_phase:
            report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
            if not self._every_phase:
                report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)
            if call.excinfo is not None and not _is_expected(call.excinfo.value, report):
                item.ihook.pytest_exception_interact(node=item, call=call, report=report)
        return call.excinfo is None


def _is_expected(raised: BaseException, report: pytest.TestReport) -> bool:
    """Whether a test raised what it was to raise: nothing to look at in a debugger."""
    skipped: tuple[Any, ...] = (pytest.skip.Exception, unittest.SkipTest, BdbQuit)
    return hasattr(report, "wasxfail") or isinstance(raised, skipped)
