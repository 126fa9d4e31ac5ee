"""The state of a process that collects and runs vqa items: what it evaluates with, and what a test left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from medvqa import engine, records
from medvqa.items import Answer, AnswerError, Item, MedVQAError, Model, Outcome, Prompt, Result
from medvqa.plugin.ahead import Upcoming, item_of
from medvqa.plugin.options import Options
from medvqa.plugin.plan import Plan

FAILING: frozenset[Outcome] = frozenset({"wrong", "refused", "abstained", "unparsed", "error"})
"""Outcomes whose test fails: `--lf` selects it again and JUnit counts it."""


STOP = "stop"
"""File in the run folder by which the controller stops workers, each of which has a queue of items; it says why."""


def name_of(item: Item) -> str:
    """What names an item in lists of what is expected and missing."""
    return f"{item.benchmark}/{item.id}"


class State:
    """Evaluates items; keeps the results of the test that runs until its report is made."""

    def __init__(self, config: pytest.Config, options: Options, run: str) -> None:
        """Resolve what was asked for (UsageError, DataError)."""
        self.options = options
        self.plan = Plan(config, options)
        self._run = run
        self._stop = config.rootpath / "reports" / run / STOP
        self._session: pytest.Session | None = None
        self._pending: list[Result] = []
        self._about: dict[str, Any] = {}
        self._model: Model | None = None
        self._stream: engine.Stream | None = None
        self._upcoming: Upcoming | None = None
        self._errors = 0

    def make_model(self, session: pytest.Session) -> Model:
        """The model of this process; one that cannot be made ends the session after the first item."""
        self._session = session
        try:
            model = self.plan.make_model()
            limits = self.plan.limits(model)
        except MedVQAError as error:
            session.shouldstop = str(error)
            return engine.Unavailable(self.options.model, str(error))
        except Exception as error:
            session.shouldstop = f"model '{self.options.model}' could not be made: {type(error).__name__}: {error}"
            raise
        fingerprint = getattr(model, "fingerprint", None)
        about = getattr(model, "about", None)
        self._about = {
            "model": {
                "name": model.name,
                "fingerprint": fingerprint() if fingerprint is not None else None,
                **(about() if about is not None else {}),
            },
            "engine": {"batch_size": limits.batch_size, "concurrency": limits.concurrency},
        }
        self._stream = engine.Stream(model, self.plan.prompt, self._ahead(session), limits)
        self._model = engine.Streamed(model, self._stream)
        return self._model

    def close_model(self) -> None:
        """End what `make_model` started."""
        if self._stream is not None:
            self._stream.close()
        close: Callable[[], None] | None = getattr(self._model, "close", None)
        if close is not None:
            close()

    def evaluate(self, item: Item, model: Model) -> Result:
        """Ask and score one item, and keep the result for the report of the test that asked.

        A model that is not the plugin's own (a test suite may have a fixture of that name) is asked here and now.
        """
        try:
            prompt, answer = self._answer(item, model)
        except MedVQAError as error:
            # The prompt could not be made, of data that cannot be read: an error of this item alone.
            prompt, answer = Prompt(""), AnswerError(str(error))
        result = self.plan.result(item, prompt, answer, self._run)
        self._pending.append(result)
        if self.options.max_cost is not None and self._session is not None and self._stop.exists():
            self._session.shouldstop = self._stop.read_text("utf-8")
        return result

    def _answer(self, item: Item, model: Model) -> tuple[Prompt, Answer | AnswerError]:
        if self._stream is not None and model is self._model:
            return self._stream.answer(item)
        prompt = self.plan.prompt(item)
        (answer,) = engine.ask(model, [prompt])
        return prompt, answer

    def begin(self, node: pytest.Item, following: pytest.Item | None) -> None:
        """A test begins."""
        self._ahead(node.session).at(node, following)

    def _ahead(self, session: pytest.Session) -> Upcoming:
        if self._upcoming is None:
            self._upcoming = Upcoming(session)
        return self._upcoming

    def end(self, node: pytest.Item) -> None:
        """A test has ended, all its phases."""
        if self._stream is not None and (item := item_of(node)) is not None:
            self._stream.forget(item)

    def label(self, node: pytest.Item, report: pytest.TestReport) -> None:
        """Give the results of a test to its report, and to the report the outcome of the item.

        A test that failed on its own account (an assertion after `evaluate`) keeps its failure. With several
        items in one test the first that fails names the outcome.
        """
        results, self._pending = self._pending, []
        if not results:
            return
        report.medvqa_results = [records.encode(result).decode() for result in results]  # type: ignore[attr-defined]
        report.medvqa_outcomes = {name_of(result.item): result.score.outcome for result in results}  # type: ignore[attr-defined]
        report.medvqa_usage = usage(results)  # type: ignore[attr-defined]
        if self._about:
            report.medvqa_about, self._about = self._about, {}  # type: ignore[attr-defined]
        self._count_errors(node.session, results)
        shown = next((result for result in results if result.score.outcome in FAILING), results[0])
        # JUnit takes them from the report of the teardown, which has those of the node.
        node.user_properties.extend(records.properties(shown))
        report.user_properties = list(node.user_properties)
        if report.outcome != "passed":
            return
        report.medvqa_outcome = shown.score.outcome  # type: ignore[attr-defined]
        if shown.score.outcome in FAILING:
            report.outcome = "failed"
            report.longrepr = f"{shown.score.outcome}: {shown.score.why}"

    def _count_errors(self, session: pytest.Session, results: Sequence[Result]) -> None:
        for result in results:
            self._errors = self._errors + 1 if result.score.outcome == "error" else 0
        most = self.options.max_errors
        if 0 < most <= self._errors and not session.shouldstop:
            session.shouldstop = (
                f"{self._errors} errors in a row, the last: {results[-1].score.why} (--max-errors={most})"
            )


def usage(results: Sequence[Result]) -> dict[str, float]:
    """The sums of what the answers say they used."""
    total: Counter[str] = Counter()
    for result in results:
        if result.answer is not None and result.answer.usage is not None:
            total.update(result.answer.usage)
    return dict(total)


def expected(nodes: Sequence[pytest.Item]) -> list[str]:
    """Names of the items among collected tests."""
    return [name_of(item) for node in nodes if (item := item_of(node)) is not None]
