"""Hold the state of a process that collects and runs vqa items."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from medvqa.items import Item, Model, Outcome, Query, QuestionKey, Result, UsageError, replace
from medvqa.plugin.ahead import Ahead, ask, query_of
from medvqa.plugin.process import (
    ENDING,
    STATE,
    check_spread,
    is_worker,
    names_of,
    print_safely,
    project_of,
    refusal,
    short_of,
)
from medvqa.plugin.signal_hooks import SignalHooks
from medvqa.records import run_folder
from medvqa.session import services
from medvqa.session.asker import Asker
from medvqa.session.delivery import Delivery, LeftOut
from medvqa.session.resolving import resolve
from medvqa.session.run import process_of

FAILING: frozenset[Outcome] = frozenset({"wrong", "refused", "abstained", "unparsed", "error"})
"""Outcomes that fail a test: `--lf` selects it again and JUnit counts it."""


class State:
    """The plan of this process, its asker, and the test that runs."""

    def __init__(self, config: pytest.Config) -> None:
        """Resolve the options (UsageError, DataError). The model is opened later, by its fixture."""
        # pytest would capture the progress line of indexing a large file.
        capture = config.pluginmanager.get_plugin("capturemanager")
        uncaptured = capture.global_and_fixture_disabled if capture is not None else nullcontext
        self.plan = resolve(project_of(config), uncaptured)
        self.process = process_of(self.plan, *names_of(config))
        if is_worker(config):
            # First of all: the key of a server is one of the plan's secrets.
            services.join(self.plan, config.workerinput["medvqa_services"])  # type: ignore[attr-defined]
        self.asker = Asker(self.plan, self.process)
        self.left_out: LeftOut = {}
        self.evaluates = False
        """Whether a collected test gets the plugin's `evaluate`."""
        self.empty_shard = False
        """Whether all selected questions are in other shards."""
        self._ahead: Ahead | None = None
        self._node: pytest.Item | None = None
        self._query: Query | None = None
        self._located: dict[int, tuple[str, int | None, str]] = {}
        self.values: dict[str, Any] = {}
        """The values of the plugin's fixtures while they are set up."""

    # Collection

    def query(self, node: pytest.Item) -> Query | None:
        """Return the question of a collected test; None for a test of another kind."""
        return query_of(node, self.plan.techniques[0])

    def select(self, session: pytest.Session) -> tuple[list[QuestionKey], LeftOut]:
        """Note the questions of the session's tests; return their keys in order, and the numbers of left-out ones."""
        keys = [query.key for node in session.items if (query := self.query(node)) is not None]
        self.evaluates = ask(session.items)
        self.asker.select(keys, self.left_out)
        return keys, self.left_out

    # The model, as a fixture

    def refusal(self, config: pytest.Config) -> str | None:
        """Return why no question may be asked: no model was named, or another plugin took its option; else None."""
        if (why := refusal(config)) is not None:
            return why
        try:
            self.plan.check_model_named()
        except UsageError as error:
            named = "--medvqa-model=" if "--model" in short_of(config).taken else "--model="
            return str(error).replace("--model=", named)
        return None

    def open(self, session: pytest.Session) -> Model:
        """Make the model of this process; if that fails, end the session after the first item."""
        try:
            return self.asker.open(self._look_ahead(session))
        finally:
            self._stop(session)

    def close(self, session: pytest.Session) -> Delivery | None:
        """Close the model; return the delivery that confirms the reused answers, if there is one."""
        self.asker.interrupted = session.config.stash[ENDING].interrupted
        try:
            return self.asker.confirm()
        finally:
            self.asker.close(session.config.stash[ENDING].calls_by())
            self._stop(session)

    def _stop(self, session: pytest.Session) -> None:
        """End the session if the asker says so."""
        if self.asker.stop is not None and not session.shouldstop:
            session.shouldstop = self.asker.stop

    def _look_ahead(self, session: pytest.Session) -> Ahead:
        if self._ahead is None:
            self._ahead = Ahead(session, self.plan.techniques[0])
        return self._ahead

    # A test

    def begin(self, node: pytest.Item, following: pytest.Item | None) -> None:
        """Note the test that begins, and the one that will follow."""
        self._node, self._query = node, self.query(node)
        ahead = self._look_ahead(node.session)
        ahead.at(node, following)
        if self._query is not None and type(node) is pytest.Function:
            self._fill(node, own=ahead.takes_own(node))

    def _fill(self, test: Any, *, own: bool) -> None:
        """Give a test what pytest found for the first case of its function, and would find anew for each case.

        That is its place in the source and, if it takes the plugin's `own` fixtures, their values. A test that sets up
        one of them itself, or is run again, gets them from pytest.
        """
        if own and test.funcargs == {} and self.values.keys().isdisjoint(test.callspec.params):
            test.funcargs.update(self.values)
        function = id(test._fixtureinfo)  # shared by all cases
        if function in self._located:
            file, line, parents = self._located[function]
            test.__dict__.setdefault("location", (file, line, parents + test.name))
        elif test.location[2].endswith(test.name):
            file, line, name = test.location
            self._located[function] = file, line, name.removesuffix(test.name)

    def evaluate(self, item: Item, model: Model) -> Result:
        """Ask and score one item by the technique of the test that runs.

        A model that is not the plugin's own (a test suite may have a fixture `model`) is asked at once.
        """
        query = self._query or Query(item, self.plan.techniques[0])
        if item is not query.item:
            query = replace(query, item=item)
        result = self.asker.evaluate(query, model)
        if self._node is not None:
            self._stop(self._node.session)
        return result

    def end(self) -> None:
        """Forget the question of the test, which has ended with all its phases."""
        if self._query is not None:
            self.asker.forget(self._query)

    def label(self, node: pytest.Item, report: pytest.TestReport) -> None:
        """Put the results of a test, and the outcome of its item, into its report.

        A test that failed by itself (an assertion after `evaluate`) keeps its failure. With several items in one test,
        the first that fails decides the outcome.
        """
        delivered = self.asker.deliver()
        if delivered is None:
            return
        self._stop(node.session)
        delivery, results = delivered
        report.medvqa = delivery.plain() if is_worker(node.config) else delivery  # type: ignore[attr-defined]
        shown = next((result for result in results if result.score.outcome in FAILING), results[0])
        # JUnit reads the properties of the teardown's report, which come from the node.
        node.user_properties.extend(run_folder.properties(shown))
        report.user_properties = list(node.user_properties)
        if report.outcome != "passed":
            return
        report.medvqa_outcome = shown.score.outcome  # type: ignore[attr-defined]
        if shown.score.outcome in FAILING:
            report.outcome = "failed"
            report.longrepr = f"{shown.score.outcome}: {shown.score.why}"


def state_of(config: pytest.Config) -> State:
    """Return the state of this process; make it on first use (UsageError, DataError)."""
    if STATE not in config.stash:
        check_spread(config)
        print_safely(config)
        if not config.pluginmanager.has_plugin("medvqa-signals"):
            config.pluginmanager.register(SignalHooks(config), "medvqa-signals")
        config.stash[STATE] = State(config)
    return config.stash[STATE]
