"""Ask, score and judge the questions of one process of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from medvqa import answers, engine, files
from medvqa.backend import Backend, said
from medvqa.engine import Judge, Pending, Reply, Stream, Streamed, Traffic
from medvqa.items import (
    Answer,
    AnswerError,
    Item,
    MedVQAError,
    Model,
    Prompt,
    Query,
    QuestionKey,
    Result,
    Score,
    UsageError,
    replace,
)
from medvqa.protocols import prompts, rotation
from medvqa.records import run_folder, sent_prompts
from medvqa.records.log import Reuse, Unwritable, unwritable
from medvqa.records.private import Pseudonyms
from medvqa.records.selected import select as select_keys
from medvqa.session import checks, endpoints, uploads
from medvqa.session.confirming import Confirming
from medvqa.session.delivery import Delivery, LeftOut, used
from medvqa.session.opening import MAIN, LoadedJudge, LoadedModel, Memory, Process
from medvqa.session.plan import Plan

STOP = "stop"
"""File in the run folder that makes workers stop after their current question. Its text is the reason."""


@dataclass(slots=True)
class _Tally:
    """Results, lines of their prompts, answers and replies since the last delivery.

    `new_answers`: those that were asked for. `reused`: the number of stored ones by their source.
    """

    results: list[Result] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    new_answers: list[Answer] = field(default_factory=list)
    reused: dict[str, int] = field(default_factory=dict)
    replies: list[Answer] = field(default_factory=list)
    replies_reused: int = 0

    def delivery(self, **more: Any) -> Delivery:
        """Return them in plain values, with the fields that are no sums."""
        served = {result.answer.served_by for result in self.results if result.answer is not None}
        return Delivery(
            lines=[run_folder.encode(result).decode() for result in self.results],
            outcomes=[(result.key, result.score.outcome) for result in self.results],
            prompts=self.prompts,
            usage=used(self.new_answers),
            reused=self.reused,
            judge_asked=len(self.replies),
            judge_reused=self.replies_reused,
            judge_usage=used(self.replies),
            served_by=sorted(served - {""}),
            **more,
        )


class Asker:
    """Asks the plan's model, in one process of a run; results wait for `deliver`.

    `stop` is the reason to end the session; None while it goes on.
    """

    def __init__(self, plan: Plan, process: Process) -> None:
        """The model is loaded by `open`."""
        self.plan = plan
        self.process = process
        self.stop: str | None = None
        self.problem: MedVQAError | None = None
        """The error that made `open` return a stand-in for the model."""
        self._tally = _Tally()
        self._sent: set[str] = set()
        """The digests of prompts whose lines were delivered."""
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._first: dict[str, Any] = {}
        self._selection: tuple[tuple[QuestionKey, ...], LeftOut] | None = None
        self._traffic = Traffic(plan.secrets)
        self._loaded: LoadedModel | None = None
        self._judge: LoadedJudge | None = None
        self._model: Streamed | None = None
        self._stream: Stream | None = None
        self._streaks = {"model": 0, "judge": 0}
        self._ahead: engine.Lookahead | None = None
        self._confirming = Confirming()
        self._counted: dict[str, endpoints.Endpoints] = {}
        self._reporting: dict[str, Backend] = {}
        """The model and the judge, if they tell the numbers of their endpoints."""
        self._exchange = process.exchange(puts=False)
        self._memories: list[Memory] = []
        self._damaged = -1
        self._unread: set[str] = set()
        self.interrupted = False
        """Whether Ctrl-C or a signal ended the session: nothing is asked any more."""

    def select(self, keys: Sequence[QuestionKey], left_out: LeftOut) -> None:
        """Note the selected questions. Their keys are stored before the first question is asked."""
        self._selection = tuple(keys), left_out
        self._confirming.choose(keys)

    def open(self, ahead: engine.Lookahead) -> Model:
        """Load the model and the judge.

        After a MedVQAError, `stop` has its message, and the returned model answers with errors. Other exceptions are
        raised.
        """
        plan, options = self.plan, self.plan.options
        making = f"model '{options.model}'"
        try:
            checks.check_selected_votes(plan, self._selection[0] if self._selection else ())
            reuse: Reuse = uploads.reuse(self.process.sources, plan.benchmarks.values())
            own_reuse: Reuse = "none" if self._asks_a_part_again() else reuse
            self._loaded = loaded = LoadedModel(
                plan.model,
                self.process,
                plan.make_model,
                plan.limits,
                plan.secrets,
                reuse=own_reuse,
                fresh=options.fresh,
            )
            making = f"judge '{options.judge}'"
            if plan.judge is not None:
                self._judge = LoadedJudge(
                    plan.judge,
                    self.process,
                    reuse=reuse,
                    fresh=options.fresh,
                    deadline=options.deadline,
                    max_cost=options.max_cost,
                    ends=ahead.stopped,
                    traffic=self._traffic,
                )
        except MedVQAError as error:
            self.stop, self.problem = self._line(error), error
            return engine.Unavailable(options.model, self.stop)
        except Exception as error:
            self.stop = f"{making} could not be made: {type(error).__name__}: {self._line(error)}"
            self.close()
            raise
        self._memories = [loaded.memory, *([] if self._judge is None else [self._judge.memory])]
        facts = loaded.facts
        self._first["facts"] = {
            "model": {**facts.about, "name": facts.title, "fingerprint": facts.fingerprint},
            "engine": loaded.sizes,
            "unread_answers": self._newly_unread(),
            **({"judge": self._judge.entry} if self._judge is not None else {}),
        }
        models = {"endpoints": loaded.model, **({} if self._judge is None else {"judge_endpoints": self._judge.model})}
        self._reporting = {name: each for name, each in models.items() if said(each, "status") and not each.pools}
        self._ahead = ahead
        follow: Callable[[Query, Answer, Reply], Any] | None = None if self._judge is None else self._begin
        if self.process.sources.places:
            for own in self._memories:
                own.exchange_by(self._exchange)
            self._exchange.start()
        self._stream = Stream(
            loaded.model, plan.prompt, ahead, loaded.limits, loaded.memory, follow=follow, traffic=self._traffic
        )
        self._model = Streamed(loaded.model, self._stream, plan.limited)
        return self._model

    def _asks_a_part_again(self) -> bool:
        """Whether the session asks a part of its benchmarks that was asked before, and uses no answer from then.

        That is so with --fresh, and in a new run for questions chosen by their outcomes (--lf) if it names no run.
        """
        by_outcome = self.plan.project.by_outcome and not self.process.sources and not self.process.continues
        if not (self.plan.options.fresh or by_outcome):
            return False
        keys, _ = self._selection or ((), {})
        selected, plan = {(key.benchmark, key.item, key.technique) for key in keys}, self.plan
        return any(
            (name, item.id, technique) not in selected and plan.applies(Query(item, technique))
            for name in {key.benchmark for key in keys} & plan.benchmarks.keys()
            for item in plan.items(name)
            for technique in plan.techniques
        )

    def _line(self, error: Exception) -> str:
        """An error's message, without keys."""
        return answers.redacted(answers.line_of(error), self.plan.secrets)

    def close(self, by: float | None = None) -> None:
        """Close the streams and models, once. Calls in flight may finish until `by`, in seconds of `time.monotonic`.

        By default they share `FAREWELL` seconds.
        """
        by = time.monotonic() + engine.FAREWELL if by is None else by
        self._exchange.give_up()
        if self._stream is not None:
            self._stream.close(by)
        # The reports that follow need the memory of what is known of prompts and stored answers.
        self._sent, self._stream, self._model = set(), None, None
        loaded, self._judge, self._loaded = (self._judge, self._loaded), None, None
        for model in filter(None, loaded):
            try:
                model.close(by)
            except MedVQAError as error:
                self.stop = self._line(error)

    # One question: ask it, read its answer, score it, wait for the judge, undo its rotation, keep its result

    def evaluate(self, query: Query, model: Model | None = None) -> Result:
        """Ask and score one question; the result waits for `deliver`.

        A model other than the one that `open` returned is called directly, outside of the stream.
        """
        try:
            self._store_selection()
            reply = self._reply(query, model)
        except MedVQAError as error:
            # The prompt needs data that cannot be read: this question alone ends in an error.
            prompt = Prompt("", technique=query.technique)
            reply = Reply(prompt, prompts.digest(prompt), AnswerError(self._line(error)))
            if isinstance(error, Unwritable):
                self.stop = str(error)
        result = self._result(query, reply)
        self._keep(query, result, reply)
        return result

    def _reply(self, query: Query, model: Model | None) -> Reply:
        """Ask: wait for the stream, which works ahead; another model is asked at once."""
        if self._stream is not None and (model is None or model is self._model):
            return self._stream.answer(query)
        if model is None:
            raise UsageError(self.stop or "the model was not made")
        prompt = self.plan.prompt(query)
        (answer,) = engine.ask(model, [prompt], secrets=self.plan.secrets)
        return Reply(prompt, prompts.digest(prompt), answer)

    def _result(self, query: Query, reply: Reply) -> Result:
        """Return the result of a reply. With a judge, a lane has begun it when the answer arrived."""
        result, pending = reply.then or self._begin(query, reply.answer, reply)
        if pending is not None and self._judge is not None:
            result = self._judged(self._judge.judge, result, pending)
        return rotation.result_back(result, query.item, query.variant.rotation)

    def _begin(self, query: Query, answer: Answer | AnswerError, reply: Reply) -> tuple[Result, Pending | None]:
        """Read an answer, score it by rule as its question was shown, and submit it to the judge if it needs one."""
        result = self.plan.result(query, reply.prompt, reply.digest, answer, self.process.folder.name)
        if self._judge is None or result.answer is None:
            return result, None
        judge, benchmark = self._judge.judge, self.plan.benchmarks[query.item.benchmark]
        return result, judge.begin(benchmark, result.item, query.technique, result.answer, result.score)

    def _judged(self, judge: Judge, result: Result, pending: Pending) -> Result:
        """Wait for the judge's score."""
        try:
            judged = judge.finish(pending)
        except MedVQAError as error:
            if isinstance(error, Unwritable):
                self.stop = str(error)
            return replace(result, score=Score(None, "error", why=str(error)))
        self._tally.replies.extend(judged.new_replies)
        self._tally.replies_reused += judged.reused
        return replace(result, score=judged.score, judgement=judged.judgement)

    def _keep(self, query: Query, result: Result, reply: Reply) -> None:
        """Keep a result for the next delivery, with the answers that this session asked for."""
        self._tally.results.append(result)
        if reply.digest not in self._sent and reply.prompt.text:
            self._sent.add(reply.digest)
            self._tally.prompts.append(self._prompt_line(query.item, reply))
        if reply.reused:
            self._tally.reused[reply.reused] = self._tally.reused.get(reply.reused, 0) + 1
        self._tally.new_answers += reply.new
        self._confirming.note(query, result, reused=bool(reply.reused))
        limited = self.plan.options.max_cost is not None or self.plan.options.stop is not None
        if limited and (stop := self.process.folder / STOP).exists():
            self.stop = files.read(stop, 2**20).decode("utf-8", "replace")

    def _prompt_line(self, item: Item, reply: Reply) -> str:
        """Return the line of a prompt, without names of files and patients if its data are not declared public."""
        public, prompt = self.plan.benchmarks[item.benchmark].public, reply.prompt
        if not public and (item.images or item.extra):
            prompt = replace(prompt, text=self._pseudonyms_of(item.benchmark).hidden_text(item, prompt.text))
        keeps_shots = not prompt.shots or self.plan.chooser(item.benchmark).pool.public
        return sent_prompts.line_of(prompt, reply.digest, item, public=public, keeps_shots=keeps_shots)

    def confirm(self) -> Delivery | None:
        """Check that reused answers come from the model that answers now; call it after the last question.

        None if no answer was reused. If the model has no fingerprint and the run is gated, some questions are asked
        again; these answers are not stored.
        """
        if not self._confirming.reused or self._stream is None or self._loaded is None:
            return None
        identity = self._confirming.confirm(self._loaded.model, self._again, self._unasked())
        tally, self._tally = self._tally, _Tally()
        return tally.delivery(identity=identity)

    def _unasked(self) -> str | None:
        """Return why no question may be asked again; None if some may."""
        from medvqa.session import gates

        if not gates.rules_of(self.plan).active:
            return "nothing was gated, so that none of them was asked again"
        if self.interrupted or self.stop is not None or (self._ahead is not None and self._ahead.stopped()):
            return "the session ended before any of them was asked again"
        limit = self.plan.options.max_cost
        if limit is not None and (self._traffic.spent >= limit or (self.process.folder / STOP).exists()):
            return f"--max-cost={limit:g} was reached before any of them was asked again"
        return None

    def _again(self, queries: Sequence[Query]) -> list[tuple[Answer | AnswerError, Result]]:
        """Ask questions again, past the store, and score the answers."""
        if self._stream is None or self._loaded is None:
            raise UsageError("the model was not made")
        self._stream.close()
        model, limits = self._loaded.model, self._loaded.limits
        stream = Stream(model, self.plan.prompt, engine.Submitted(), limits, traffic=self._traffic)
        asked = [self.plan.prompt(query) for query in queries]
        try:
            answers_again = stream.generate(asked)
        finally:
            stream.close()
        replies = [Reply(prompt, prompts.digest(prompt), got) for prompt, got in zip(asked, answers_again, strict=True)]
        self._tally.new_answers += [answer for reply in replies for answer in reply.new]
        return [(reply.answer, self._result(query, reply)) for query, reply in zip(queries, replies, strict=True)]

    def _store_selection(self) -> None:
        """Store the keys of the selected questions, once (Unwritable)."""
        if self._selection is not None:
            (keys, left_out), self._selection = self._selection, None
            with unwritable("the run folder cannot be written"):
                select_keys(self.process.folder, self.process.session, keys)
            self._first["left_out"] = left_out
            if self.process.name != MAIN:
                # A benchmark may draw its items in each process: the controller compares the digests.
                names = sorted({key.benchmark for key in keys} & self.plan.benchmarks.keys())
                self._first["data"] = {name: run_folder.data_digest(self.plan.items(name)) for name in names}

    def forget(self, query: Query) -> None:
        """Drop the answer to a question that will not be asked for again."""
        if self._stream is not None:
            self._stream.forget(query)

    def deliver(self) -> tuple[Delivery, Sequence[Result]] | None:
        """Return the results since the last delivery, also as a Delivery for the controller; None without results.

        Sets `stop` after --max-errors errors in a row.
        """
        tally, self._tally = self._tally, _Tally()
        if not tally.results:
            return None
        tally.results = list(map(self._hidden, tally.results))
        self._count_errors(tally.results)
        first, self._first = self._first, {}
        delivery = tally.delivery(
            engine=self._engine(),
            stopped=self.stop or "",
            unread=self._newly_unread(),
            **self._endpoints(),
            **first,
        )
        return delivery, tally.results

    def _newly_unread(self) -> list[str]:
        """Return the stored lines that turned out to be unreadable since the last call."""
        damaged = 0
        for memory in self._memories:
            damaged += memory.damaged
        if damaged == self._damaged:
            return []
        self._damaged = damaged
        lines = dict.fromkeys(line for memory in self._memories for line in memory.unread)
        new = [line for line in lines if line not in self._unread]
        self._unread.update(new)
        return new

    def _engine(self) -> dict[str, Any]:
        """The present state of a pool of models, and the batches that were asked again; {} for other models."""
        if self._stream is None or self._loaded is None or not self._loaded.model.pools:
            return {}
        status = answers.redacted_value(self._loaded.model.status(), self.plan.secrets)
        return {**status, "asked_again": self._stream.asked_again}

    def _endpoints(self) -> dict[str, dict[str, Any]]:
        """The numbers of the model's and the judge's endpoints since the last delivery; {} for models without."""
        changes = {}
        for name, model in self._reporting.items():
            if now := answers.redacted_value(model.status().get("endpoints"), self.plan.secrets):
                changes[name] = endpoints.since(now, self._counted.get(name, {}))
                self._counted[name] = now
        return changes

    def _hidden(self, result: Result) -> Result:
        """The result without names of files and patients, if its data are not declared public."""
        name = result.item.benchmark
        return result if self.plan.benchmarks[name].public else self._pseudonyms_of(name).hidden(result)

    def _pseudonyms_of(self, name: str) -> Pseudonyms:
        if name not in self._pseudonyms:
            digests = self.plan.model.backend.looks and self.plan.ablation != "text-only"
            self._pseudonyms[name] = Pseudonyms.of(self.plan.items(name), digests=digests)
        return self._pseudonyms[name]

    def _count_errors(self, results: Sequence[Result]) -> None:
        most, streaks = self.plan.options.max_errors, self._streaks
        for result in results:
            failed = result.score.outcome == "error"
            streaks["model"] = streaks["model"] + 1 if result.answer is None else 0
            if result.judgement is not None:
                # The judge is not asked about every answer: the others do not break its streak.
                streaks["judge"] = streaks["judge"] + 1 if failed else 0
            errors = max(streaks.values())
            if 0 < most <= errors and failed and self.stop is None:
                # The reason may name images, and this line reaches the terminal.
                public = self.plan.benchmarks[result.item.benchmark].public
                last = f", the last: {result.score.why}" if public else ""
                self.stop = f"{errors} errors in a row{last} (--max-errors={most})"
