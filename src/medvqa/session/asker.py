"""The state of a process that collects and runs vqa items: what it evaluates with, and what a test left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from medvqa import answers, engine, files, records
from medvqa.backend import Backend
from medvqa.configs import ModelConfig
from medvqa.items import (
    OPTION_TECHNIQUES,
    Answer,
    AnswerError,
    Item,
    MedVQAError,
    Model,
    Outcome,
    Prompt,
    Query,
    Result,
    Score,
    UsageError,
)
from medvqa.plugin.ahead import Upcoming, query_of
from medvqa.plugin.collected import Collected, pack
from medvqa.plugin.collection import LeftOut
from medvqa.plugin.protocol import BriefProtocol, hears_every_phase
from medvqa.session.memory import Memory
from medvqa.session.options import Options
from medvqa.session.plan import Plan

FAILING: frozenset[Outcome] = frozenset({"wrong", "refused", "abstained", "unparsed", "error"})
"""Outcomes whose test fails: `--lf` selects it again and JUnit counts it."""


STOP = "stop"
"""File in the run folder by which the controller stops workers, each of which has a queue of items; it says why."""


class State:
    """Evaluates items; keeps the results of the test that runs until its report is made."""

    def __init__(self, config: pytest.Config, options: Options, run: str, session: str, process: str) -> None:
        """Resolve what was asked for (UsageError, DataError).

        `session` is one from the start of the run, or from where it went on; `process` is a worker's name, or "main".
        """
        self.options = options
        self.plan = Plan(config, options)
        self._run = run
        self._names = session, process
        self._folder = config.rootpath / "reports" / run
        self._store_folder = options.answers or config.rootpath / "reports" / records.STORE
        self._stop = self._folder / STOP
        self._session: pytest.Session | None = None
        self._node: pytest.Item | None = None
        self._pending: list[Result] = []
        self._about: dict[str, Any] = {}
        self._model: Model | None = None
        self._backend: Backend | None = None
        self._stream: engine.Stream | None = None
        self._judge: engine.Judge | None = None
        self._close_judge: Callable[[], None] | None = None
        self._traffic = engine.Traffic(self.plan.secrets)
        self._replies: list[Answer] = []
        self._replies_reused = 0
        self.left_out: LeftOut = {}
        self._memory: Memory | None = None
        self._upcoming: Upcoming | None = None
        self._reused = 0
        self._usage: list[Answer] = []
        self._errors = self._judge_errors = 0
        self._listened = True
        self.collected: tuple[Collected, LeftOut] | None = None
        """What a worker must tell the controller with its first report: it may not live to tell it at its end."""

    def expected(self, nodes: Sequence[pytest.Item]) -> Collected:
        """What must end with a result among collected tests."""
        return pack((query for node in nodes if (query := self._query(node)) is not None), self.plan)

    def make_model(self, session: pytest.Session) -> Model:
        """The model of this process; one that cannot be made ends the session after the first item."""
        self._session = session
        making = f"model '{self.options.model}'"
        try:
            # Before the model is made, which may kill: a worker with a journal was one of this run's.
            journal = records.Journal(self._folder, self._names[1])
            model = self._backend = self.plan.make_model()
            limits = self.plan.limits(model)
            identity = self._identity(model, "model")
            self._memory = self._remembering(identity, journal)
            making = f"judge '{self.options.judge}'"
            about_judge = self._make_judge(session, journal)
        except MedVQAError as error:
            session.shouldstop = self._line(error)
            return engine.Unavailable(self.options.model, self._line(error))
        except Exception as error:
            session.shouldstop = f"{making} could not be made: {type(error).__name__}: {self._line(error)}"
            raise
        told = {"name": identity.name, "fingerprint": identity.fingerprint}
        self._about = {
            "model": {**told, **{name: each for name, each in identity.about.items() if name not in told}},
            "engine": {"batch_size": limits.batch_size, "concurrency": limits.concurrency},
            "unread_answers": self._memory.unread,
            **({"judge": about_judge} if about_judge is not None else {}),
        }
        follow = self._begin_judging if self._judge is not None else None
        self._stream = engine.Stream(
            model, self.plan.prompt, self._ahead(session), limits, self._memory, follow=follow, traffic=self._traffic
        )
        self._model = engine.Streamed(model, self._stream, self.plan.limited)
        return self._model

    def _line(self, error: Exception) -> str:
        """What an error says, without keys."""
        return answers.redacted(answers.line_of(error), self.plan.secrets)

    def _make_judge(self, session: pytest.Session, journal: records.Journal) -> dict[str, Any] | None:
        """Make the judge of this process, beside its model; what run.json says of it, None where there is none."""
        judging = self.plan.judge
        if judging is None:
            return None
        model = judging.make()
        self._identity(model, "judge")
        fresh = self.options.fresh
        store = judging.store(model, self._store_folder, self._folder, self._names[0], fresh=fresh)
        memory = Memory(store, journal, records.Suspects(self._folder, self._names[0]))
        limits = self.plan.judge_limits(model)
        ends = self._ahead(session).stopped
        self._judge = engine.Judge(model, judging.settings, limits, memory, ends=ends, traffic=self._traffic)
        self._close_judge = lambda: self._end(model, memory)
        return {**judging.told(model), "batch_size": limits.batch_size, "concurrency": limits.concurrency}

    def _begin_judging(self, query: Query, answer: Answer) -> engine.Pending | None:
        """Hand an answer to the judge before any test gets it."""
        if self._judge is None or query.technique in OPTION_TECHNIQUES:
            return None
        benchmark = self.plan.benchmarks[query.item.benchmark]
        return self._judge.begin(benchmark, query.item, query.technique, answer, self.plan.by_rule(query, answer))

    def _identity(self, model: Backend, role: str) -> engine.Identity:
        """What a model says of itself; UsageError where the run began with another, and for wrong types."""
        found = engine.identify(model, self.plan.secrets)
        if (self._folder / records.RUN).is_file():
            before = records.read_run(self._folder).get(role) or {}
            if before.get("fingerprint", found.fingerprint) != found.fingerprint:
                raise UsageError(
                    f"run '{self._run}' cannot go on: the {role}'s fingerprint was {before['fingerprint']!r} and is "
                    f"{found.fingerprint!r}. Name another with --run=NAME"
                )
        return found

    def _remembering(self, identity: engine.Identity, journal: records.Journal) -> Memory:
        """Answers of a model without a fingerprint lie in the run's own folder, where no other run finds them."""
        session, fingerprint = self._names[0], identity.fingerprint
        writer = records.Writer(self.plan.config.backend, identity.name, fingerprint, self._run, session)
        own = fingerprint is None
        folder = records.own_folder(self._folder, records.OWN_ANSWERS) if own else self._store_folder
        store = records.Store(folder, writer, fresh=self.options.fresh)
        return Memory(store, journal, records.Suspects(self._folder, session))

    def check(self) -> None:
        """What can be found wrong with the answer store before anything is collected (Unwritable)."""
        records.check_folder(self._store_folder)

    def answered(self, config: ModelConfig) -> bool:
        """Whether answers of a model may be stored: this run goes on, or an earlier one asked the same model."""
        if (self._folder / records.RUN).is_file():
            return True
        asked = config.backend, f"{config.backend}:{config.argument}"
        return any((writer.backend, writer.model) == asked for writer in records.answer_writers(self._store_folder))

    def close_model(self) -> None:
        """End what `make_model` started."""
        if self._stream is not None:
            self._stream.close()
        if self._judge is not None:
            self._judge.close()
        if self._close_judge is not None:
            self._close_judge()
        self._end(self._backend, self._memory)

    def _end(self, model: Backend | None, memory: Memory | None) -> None:
        if memory is not None:
            try:
                memory.close()
            except records.Unwritable as error:
                if self._session is not None:
                    self._session.shouldstop = str(error)
        if model is not None:
            model.close()

    @contextmanager
    def brief(self, config: pytest.Config, model: Model) -> Iterator[None]:
        """While the model stands, tests that need nothing else run without pytest's setting up of fixtures."""
        # Not before the first test: plugins that listen may be registered late.
        told: dict[str, bool] = getattr(config, "workerinput", {})
        self._listened = hears_every_phase(config) or told.get("medvqa_every_phase", False)
        given = {"model": model, "evaluate": self.evaluator(model)}
        protocol = BriefProtocol(config, given, every_phase=self._listened)
        config.pluginmanager.register(protocol, "medvqa-brief")
        yield
        config.pluginmanager.unregister(protocol)

    def evaluator(self, model: Model) -> Callable[[Item], Result]:
        """What the fixture `evaluate` gives to tests."""
        return lambda item: self.evaluate(item, model)

    def evaluate(self, item: Item, model: Model) -> Result:
        """Ask and score one item, and keep the result for the report of the test that asked.

        A model that is not the plugin's own (a test suite may have a fixture of that name) is asked here and now.
        """
        try:
            reply = self._reply(self._asked(item), model)
        except MedVQAError as error:
            # The prompt could not be made, of data that cannot be read: an error of this item alone.
            asked = self._asked(item)
            prompt = Prompt("", technique=asked.technique, sample=asked.sample)
            reply = engine.Reply(prompt, "", AnswerError(self._line(error)))
            if isinstance(error, records.Unwritable) and self._session is not None:
                self._session.shouldstop = str(error)
        pending: engine.Pending | None = reply.then
        score = pending.score if pending is not None else None
        result = self.plan.result(item, reply.prompt, reply.answer, self._run, reply.digest, score)
        if isinstance(reply.answer, Answer) and result.answer is not None:
            result = self._judged(result, pending or self._begin_judging(self._asked(item), reply.answer))
        self._pending.append(result)
        self._reused += reply.reused
        if isinstance(reply.answer, Answer) and not reply.reused:
            self._usage.append(reply.answer)
        if self.options.max_cost is not None and self._session is not None and self._stop.exists():
            self._session.shouldstop = files.read(self._stop, 2**20).decode("utf-8", "replace")
        return result

    def _judged(self, result: Result, pending: engine.Pending | None) -> Result:
        """The result as the judge has it; the score by rule stands where there is nothing for a judge."""
        if self._judge is None or pending is None:
            return result
        try:
            judged = self._judge.finish(pending)
        except MedVQAError as error:
            if isinstance(error, records.Unwritable) and self._session is not None:
                self._session.shouldstop = str(error)
            return replace(result, score=Score(None, "error", why=str(error)))
        self._replies.extend(judged.asked)
        self._replies_reused += judged.reused
        return replace(result, score=judged.score, judgement=judged.judgement)

    def _asked(self, item: Item) -> Query:
        """The item with the technique of the test that runs."""
        running = self._query(self._node) if self._node is not None else None
        if running is None:
            return Query(item, self.plan.techniques[0])
        return Query(item, running.technique, running.sample)

    def _query(self, node: pytest.Item) -> Query | None:
        return query_of(node, self.plan.techniques[0])

    def _reply(self, query: Query, model: Model) -> engine.Reply:
        if self._stream is not None and model is self._model:
            return self._stream.answer(query)
        prompt = self.plan.prompt(query)
        (answer,) = engine.ask(model, [prompt], self.plan.secrets)
        return engine.Reply(prompt, "", answer)

    def begin(self, node: pytest.Item, following: pytest.Item | None) -> None:
        """A test begins."""
        self._node = node
        self._ahead(node.session).at(node, following)

    def _ahead(self, session: pytest.Session) -> Upcoming:
        if self._upcoming is None:
            self._upcoming = Upcoming(session, self.plan.techniques[0])
        return self._upcoming

    def end(self, node: pytest.Item) -> None:
        """A test has ended, all its phases."""
        if self._stream is not None and (query := self._query(node)) is not None:
            self._stream.forget(query)

    def label(self, node: pytest.Item, report: pytest.TestReport) -> None:
        """Give the results of a test to its report, and to the report the outcome of the item.

        A test that failed on its own account (an assertion after `evaluate`) keeps its failure. With several
        items in one test the first that fails names the outcome.
        """
        results, self._pending = self._pending, []
        if not results:
            return
        served = {result.answer.served_by for result in results if result.answer is not None}
        # What `Recording.take` takes, as values that xdist can send.
        report.medvqa = {  # type: ignore[attr-defined]
            "lines": [records.encode(result).decode() for result in results],
            "outcomes": {self.plan.name_of(Query(r.item, r.technique, r.sample)): r.score.outcome for r in results},
            "about": self._about,
            "usage": usage(self._usage),
            "reused": self._reused,
            "judged": {
                "asked": len(self._replies),
                "reused": self._replies_reused,
                "usage": usage(self._replies),
            },
            "served_by": sorted(served - {""}),
            "collected": self.collected,
        }
        self._about, self._usage, self._reused, self.collected = {}, [], 0, None
        self._replies, self._replies_reused = [], 0
        self._count_errors(node.session, results)
        shown = next((result for result in results if result.score.outcome in FAILING), results[0])
        if self._listened:
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
        most = self.options.max_errors
        for result in results:
            self._errors = self._errors + 1 if result.answer is None else 0
            if result.judgement is not None:
                # Between two that a judge is to score may be many that it is not asked about.
                self._judge_errors = self._judge_errors + 1 if result.score.outcome == "error" else 0
            errors = max(self._errors, self._judge_errors)
            if 0 < most <= errors and result.score.outcome == "error" and not session.shouldstop:
                session.shouldstop = f"{errors} errors in a row, the last: {result.score.why} (--max-errors={most})"


def usage(answers: Sequence[Answer]) -> dict[str, float]:
    """The sums of what answers say they used."""
    total: Counter[str] = Counter()
    for answer in answers:
        if answer.usage is not None:
            total.update(answer.usage)
    return dict(total)
