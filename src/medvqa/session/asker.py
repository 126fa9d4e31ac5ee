"""Ask, score and judge the questions of one process of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from medvqa import answers, engine, files, printing
from medvqa.backend import Backend, ModelFacts, said
from medvqa.engine import Judge, Limits, Pending, Reply, Stream, Streamed, Traffic
from medvqa.items import (
    OPTION_TECHNIQUES,
    Answer,
    AnswerError,
    MedVQAError,
    Model,
    Outcome,
    Prompt,
    Query,
    QuestionKey,
    Result,
    Score,
    UsageError,
)
from medvqa.protocols import rotation
from medvqa.records import run_folder, run_record
from medvqa.records.answer_places import PlaceReader
from medvqa.records.exchange import Exchange, left_beside
from medvqa.records.log import ANSWERS, Log, LogHead, Reuse, Unwritable, head_at, is_kept_apart, logs, unwritable
from medvqa.records.private import Pseudonyms
from medvqa.records.recall import OWN, EarlierAnswers, Finder, LogFolder, ResultAnswers, StoredAnswers
from medvqa.records.run_record import RUN
from medvqa.records.selected import select as select_keys
from medvqa.records.suspects import Suspects
from medvqa.session import answer_sources, checks, endpoints, uploads
from medvqa.session.chosen import Chosen
from medvqa.session.confirming import Confirming
from medvqa.session.delivery import Delivery, LeftOut, used
from medvqa.session.judging import Judging
from medvqa.session.memory import Memory
from medvqa.session.plan import Plan
from medvqa.session.ranking import Candidates, RankingAsker, SelectedAnswer

MAIN = "main"
"""The name of the only process, or of the controller."""
STOP = "stop"
"""File in the run folder that makes workers stop after their current question. Its text is the reason."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a run: the run's folder, the session of the run, and its name in it.

    `session`: the id of this session. `name`: a worker's id, or "main". `rescores`: the run may have begun with
    another judge. `sources`: what --answers names. `say` gets lines while places are read.
    """

    folder: Path
    session: str
    name: str
    rescores: bool = False
    sources: answer_sources.AnswerSources = answer_sources.NONE
    say: Callable[[str], None] = lambda line: printing.to_stderr(f"{printing.line(line)}\n")

    @property
    def continues(self) -> bool:
        """Whether an earlier session of the run has begun to ask (OSError)."""
        heads = [head_at(path) for path in logs(self.folder / ANSWERS)]
        return any(head is not None and head.session != self.session for head in heads)

    def identify(self, model: Backend, role: str, secrets: frozenset[str]) -> ModelFacts:
        """Return the facts of a loaded model without secrets. UsageError if the run began with another."""
        facts = model.facts.without(secrets)
        if not self.rescores and (self.folder / RUN).is_file():
            run = run_record.read_run(self.folder)
            before = run.model if role == "model" else run.judge
            if before is not None and before.name and before.fingerprint != facts.fingerprint:
                raise UsageError(
                    f"run '{self.folder.name}' cannot go on: the {role}'s fingerprint was {before.fingerprint!r} "
                    f"and is {facts.fingerprint!r}. Name another with --run=NAME"
                )
        return facts

    def remember(
        self,
        chosen: Chosen,
        facts: ModelFacts,
        log: Log,
        *,
        reuse: Reuse,
        signed: str = "",
        fresh: bool = False,
    ) -> Memory:
        """Open the stored answers of a model, or the replies of a judge, and begin their log (Unwritable).

        `reuse`: who may use the answers besides this run. No other run uses those of a model without a fingerprint, nor
        the later ones of a run that has asked a part of its questions with --fresh. `signed`: the judge's name in
        signatures, which separates judges without a fingerprint by their configs.
        """
        judges, nameless = chosen.role == "judge", facts.fingerprint is None
        answering = chosen.answering.backend
        head = LogHead(
            backend=f"{answering} {signed}" if judges and nameless else answering,
            model=facts.title,
            fingerprint=facts.fingerprint,
            run=self.folder.name,
            session=self.session,
            role="judge" if judges else "candidate",
            reuse="none" if nameless else reuse,
        )
        with unwritable(f"answers in {self.folder} cannot be read"):
            if is_kept_apart(self.folder / ANSWERS, head.identity):
                head = msgspec.structs.replace(head, reuse="none")
            finders = [] if fresh else [*self._own_answers(head, signed), *self.sources.finders(head, signed)]
            folders = [] if nameless else self.sources.folders
            places = () if nameless or fresh else self.sources.places
            for place in places:
                left = left_beside(self.folder, place)
                folders += [LogFolder(place.name, folder, frozenset({"all"}), typed=False) for folder in left]
        log.begin_as(head)
        readers = [PlaceReader(place, head.identity, self.session, self.folder) for place in places]
        for reader in readers:
            reader.read(self.say)
        stored = StoredAnswers(self.folder, head, folders, [*finders, *readers], log=log, fresh=fresh)
        return Memory(stored, log, Suspects(self.folder, self.session), readers)

    def exchange(self, *, puts: bool) -> Exchange:
        """Return what gives the run's logs to the places that --answers names; nothing is done before `start`."""
        return Exchange(self.folder, self.session, self.sources.places, puts=puts)

    def _own_answers(self, head: LogHead, signed: str) -> list[Finder]:
        """Return the answers of this run that are in no log: those in its results, and in files of earlier versions."""
        found: list[Finder] = [EarlierAnswers(self.folder, head)]
        if (self.folder / RUN).is_file():
            about = run_record.read_run(self.folder)
            if answer_sources.is_of(about, head, signed):
                found.append(ResultAnswers(self.folder, OWN, head.role, about))
        return found


class LoadedJudge:
    """The judge of a process: its model, its stream, its memory."""

    def __init__(
        self,
        judging: Judging,
        process: Process,
        *,
        reuse: Reuse,
        fresh: bool = False,
        deadline: float | None = None,
        max_cost: float | None = None,
        ends: Callable[[], bool] = lambda: False,
        traffic: Traffic | None = None,
    ) -> None:
        """Load the judge (UsageError, Unwritable). `ends` returns True once the session is about to end."""
        self.model = judging.chosen.backend
        log = Log(process.folder, process.name)
        try:
            judging.chosen.load()
            facts = process.identify(self.model, "judge", judging.chosen.secrets)
            signed = judging.signed(facts)
            self.memory = process.remember(judging.chosen, facts, log, reuse=reuse, signed=signed, fresh=fresh)
            limits = Limits.of(self.model.facts, deadline=deadline, budget=inf if max_cost is None else max_cost)
        except BaseException:
            log.close()
            self.model.close()
            raise
        self.judge = Judge(
            self.model,
            judging.settings,
            limits,
            self.memory,
            ends=ends,
            traffic=traffic or Traffic(judging.chosen.secrets),
        )
        self.facts: dict[str, Any] = {
            **judging.loaded(facts),
            "batch_size": limits.batch_size,
            "concurrency": limits.concurrency,
        }
        """The judge's fields in run.json."""

    def close(self, by: float | None = None) -> None:
        """Close the stream (`Stream.close`), the memory (Unwritable) and the model."""
        self.judge.close(by)
        end(self.model, self.memory)


def end(model: Backend, memory: Memory | Log) -> None:
    """Close a memory, or the log of a model that was not loaded, and a model (Unwritable, once both are closed)."""
    try:
        memory.close()
    finally:
        model.close()


@dataclass(slots=True)
class _Tally:
    """Results, answers and replies since the last delivery. `new_answers`: without stored ones, `reused`: their number
    by source."""

    results: list[Result] = field(default_factory=list)
    new_answers: list[Answer] = field(default_factory=list)
    reused: dict[str, int] = field(default_factory=dict)
    replies: list[Answer] = field(default_factory=list)
    replies_reused: int = 0


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
        self._pseudonyms: dict[str, Pseudonyms] = {}
        self._first: dict[str, Any] = {}
        self._selection: tuple[tuple[QuestionKey, ...], LeftOut] | None = None
        self._traffic = Traffic(plan.secrets)
        self._model: Streamed | None = None
        self._stream: Stream | None = None
        self._judge: LoadedJudge | None = None
        self._close: Callable[[], None] | None = None
        self._streaks = {"model": 0, "judge": 0}
        self._limits: Limits | None = None
        self._ahead: engine.Lookahead | None = None
        self._confirming = Confirming()
        self._ranking: RankingAsker | None = None
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
        making = f"model '{self.plan.options.model}'"
        try:
            checks.check_selected_votes(self.plan, self._selection[0] if self._selection else ())
            # Loading may kill the process: begin the log first, which identifies a dead worker.
            log = Log(self.process.folder, self.process.name)
            self._close = lambda: end(self.plan.model.backend, log)
            model = self.plan.make_model()
            limits = self.plan.limits(model)
            model_facts = self.process.identify(model, "model", self.plan.secrets)
            reuse: Reuse = "none" if self._asks_a_part_again() else self._reuse
            fresh = self.plan.options.fresh
            memory = self.process.remember(self.plan.model, model_facts, log, reuse=reuse, fresh=fresh)
            self._close = lambda: end(model, memory)
            making = f"judge '{self.plan.options.judge}'"
            if self.plan.judge is not None:
                self._judge = self._load_judge(self.plan.judge, ahead)
        except MedVQAError as error:
            self.stop, self.problem = self._line(error), error
            return engine.Unavailable(self.plan.options.model, self.stop)
        except Exception as error:
            self.stop = f"{making} could not be made: {type(error).__name__}: {self._line(error)}"
            self.close()
            raise
        self._memories = [memory, *([] if self._judge is None else [self._judge.memory])]
        named = {"name": model_facts.title, "fingerprint": model_facts.fingerprint}
        facts: dict[str, Any] = {
            "model": {**named, **{name: value for name, value in model_facts.about.items() if name not in named}},
            "engine": {"batch_size": limits.batch_size, "concurrency": limits.concurrency},
            "unread_answers": self._newly_unread(),
            **({"judge": self._judge.facts} if self._judge is not None else {}),
        }
        self._first["facts"] = facts
        models = {"endpoints": model, **({"judge_endpoints": self._judge.model} if self._judge is not None else {})}
        self._reporting = {name: each for name, each in models.items() if said(each, "status") and not each.pools}
        self._limits, self._ahead = limits, ahead
        follow: Callable[[Query, Answer], Any] | None = self._begin_judging if self._judge is not None else None
        if self.plan.ranks:
            number = self.plan.protocol.samples or 1
            self._ranking = RankingAsker(number, self.plan.prompt, self.plan.limited, self.plan.read, follow)
            follow, ahead = self._hear, Candidates(ahead, number)
        if self.process.sources.places:
            for own in self._memories:
                own.exchange_by(self._exchange)
            self._exchange.start()
        self._stream = Stream(model, self.plan.prompt, ahead, limits, memory, follow=follow, traffic=self._traffic)
        self._model = Streamed(model, self._stream, self.plan.limited)
        return self._model

    def _asks_a_part_again(self) -> bool:
        """Whether the session asks a part of its benchmarks that was asked before, and uses no answer from then.

        That is so with --fresh, and in a new run for questions chosen by their outcomes (--lf) if it names no run.
        """
        by_outcome = self.plan.setting.by_outcome and not self.process.sources and not self.process.continues
        if not (self.plan.options.fresh or by_outcome):
            return False
        keys, _ = self._selection or ((), {})
        selected = {(key.benchmark, key.item, key.technique) for key in keys}
        plan = self.plan
        queries = (
            Query(item, technique)
            for name in {key.benchmark for key in keys} & plan.benchmarks.keys()
            for item in plan.items(name)
            for technique in plan.techniques
        )
        return any(
            (query.item.benchmark, query.item.id, query.technique) not in selected
            for query in queries
            if plan.applies(query)
        )

    @property
    def _reuse(self) -> Reuse:
        """Who may use the answers of this session besides its run."""
        return uploads.reuse(self.process.sources, self.plan.benchmarks.values())

    def _load_judge(self, judging: Judging, ahead: engine.Lookahead) -> LoadedJudge:
        options = self.plan.options
        return LoadedJudge(
            judging,
            self.process,
            reuse=self._reuse,
            fresh=options.fresh,
            deadline=options.deadline,
            max_cost=options.max_cost,
            ends=ahead.stopped,
            traffic=self._traffic,
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
        judge, close_model = self._judge, self._close
        self._judge = self._close = None
        for close in (None if judge is None else lambda: judge.close(by), close_model):
            if close is not None:
                try:
                    close()
                except MedVQAError as error:
                    self.stop = self._line(error)

    def evaluate(self, query: Query, model: Model | None = None) -> Result:
        """Ask and score one question; the result waits for `deliver`.

        A model other than the one that `open` returned is called directly, outside of the stream.
        """
        if self._ranking is not None:
            return self._evaluate_ranked(self._ranking, query, model)
        try:
            self._store_selection()
            reply = self._reply(query, model)
        except MedVQAError as error:
            # The prompt needs data that cannot be read: this question alone ends in an error.
            prompt = Prompt("", technique=query.technique, sample=query.sample, variant=query.variant)
            reply = Reply(prompt, "", AnswerError(self._line(error)))
            if isinstance(error, Unwritable):
                self.stop = str(error)
        result = self._result(query, reply, reply.then)
        new = [reply.answer] if isinstance(reply.answer, Answer) and not reply.reused else []
        self._keep(query, result, new, reused=reply.reused)
        return result

    def _result(self, query: Query, reply: Reply, pending: Pending | None) -> Result:
        """Score the answer of a reply; `pending`: the judging that its answer's arrival began."""
        answer = self.plan.read(reply.answer) if isinstance(reply.answer, Answer) else reply.answer
        score = pending.score if pending is not None else None
        result = self.plan.result(query, reply.prompt, answer, self.process.folder.name, reply.digest, score)
        if isinstance(answer, Answer) and result.answer is not None:
            result = self._judged(result, pending or self._begin_judging(query, answer))
        return result

    def _evaluate_ranked(self, ranking: RankingAsker, query: Query, model: Model | None) -> Result:
        """Ask for the candidates of a question and for the selection, and score the selected one."""
        try:
            self._store_selection()
            selection = self._selected(ranking, query, model)
        except MedVQAError as error:
            prompt = Prompt("", technique=query.technique)
            selection = SelectedAnswer(prompt, "", AnswerError(self._line(error)))
            if isinstance(error, Unwritable):
                self.stop = str(error)
        answer, run = selection.answer, self.process.folder.name
        if selection.score is None:
            result = self._result(query, Reply(selection.prompt, selection.digest, answer), selection.then)
        else:
            result = self.plan.result(query, selection.prompt, answer, run, selection.digest, selection.score)
        result = replace(result, ranking=selection.ranking)
        self._keep(query, result, selection.new, reused=selection.reused)
        return result

    def _selected(self, ranking: RankingAsker, query: Query, model: Model | None) -> SelectedAnswer:
        if self._stream is not None and (model is None or model is self._model):
            return ranking.answer(self._stream, query)
        if model is None:
            raise UsageError(self.stop or "the model was not made")
        return ranking.ask(lambda prompts: engine.ask(model, prompts, self.plan.secrets), query)

    def _hear(self, query: Query, answer: Answer) -> engine.Ticket | None:
        if self._ranking is None or self._stream is None:
            return None
        return self._ranking.hear(self._stream, query, answer)

    def _keep(self, query: Query, result: Result, new: Sequence[Answer], *, reused: str) -> None:
        """Keep a result for the next delivery, with the answers that this session asked for."""
        self._tally.results.append(result)
        if reused:
            self._tally.reused[reused] = self._tally.reused.get(reused, 0) + 1
        self._tally.new_answers.extend(new)
        self._confirming.note(query, result, reused=bool(reused))
        if self.plan.options.max_cost is not None and (stop := self.process.folder / STOP).exists():
            self.stop = files.read(stop, 2**20).decode("utf-8", "replace")

    def confirm(self) -> Delivery | None:
        """Check that reused answers come from the model that answers now; call it after the last question.

        None if no answer was reused. If the model has no fingerprint and the run is gated, some questions are asked
        again; these answers are not stored.
        """
        if not self._confirming.reused or self._stream is None or self._model is None:
            return None
        identity = self._confirming.confirm(self._model.backend, self._again, self._unasked())
        tally, self._tally = self._tally, _Tally()
        return Delivery(
            lines=[],
            outcomes=[],
            usage=used(tally.new_answers),
            judge_asked=len(tally.replies),
            judge_reused=tally.replies_reused,
            judge_usage=used(tally.replies),
            identity=identity,
        )

    def _unasked(self) -> str | None:
        """Return why no question may be asked again; None if some may."""
        from medvqa.session import gates

        if not gates.rules_of(self.plan).active:
            return "nothing was gated, so that none of them was asked again"
        if self.interrupted or self.stop is not None or (self._ahead is not None and self._ahead.stopped()):
            return "the session ended before any of them was asked again"
        if self.plan.ranks:
            return "each answer was selected among several that are drawn, so that asking shows nothing"
        limit = self.plan.options.max_cost
        if limit is not None and (self._traffic.spent >= limit or (self.process.folder / STOP).exists()):
            return f"--max-cost={limit:g} was reached before any of them was asked again"
        return None

    def _again(self, queries: Sequence[Query]) -> list[tuple[Answer | AnswerError, Result]]:
        """Ask questions again, past the store, and score the answers."""
        if self._stream is None or self._model is None or self._limits is None:
            raise UsageError("the model was not made")
        self._stream.close()
        stream = Stream(self._model.backend, self.plan.prompt, engine.Submitted(), self._limits, traffic=self._traffic)
        prompts = [self.plan.prompt(query) for query in queries]
        try:
            answers_again = stream.generate(prompts)
        finally:
            stream.close()
        scored = []
        for query, prompt, answer in zip(queries, prompts, answers_again, strict=True):
            if isinstance(answer, Answer):
                self._tally.new_answers.append(answer)
            scored.append((answer, self._result(query, Reply(prompt, "", answer), None)))
        return scored

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

    def _reply(self, query: Query, model: Model | None) -> Reply:
        if self._stream is not None and (model is None or model is self._model):
            return self._stream.answer(query)
        prompt = self.plan.prompt(query)
        if model is None:
            raise UsageError(self.stop or "the model was not made")
        (answer,) = engine.ask(model, [prompt], self.plan.secrets)
        return Reply(prompt, "", answer)

    def _begin_judging(self, query: Query, answer: Answer) -> Pending | None:
        """Submit an answer to the judge, before a test waits for its score."""
        if self._judge is None or query.technique in OPTION_TECHNIQUES:
            return None
        answer = self.plan.read(answer)
        benchmark, item = self.plan.benchmarks[query.item.benchmark], rotation.as_shown(query.item, query.variant)
        return self._judge.judge.begin(benchmark, item, query.technique, answer, self.plan.by_rule(query, answer))

    def _judged(self, result: Result, pending: Pending | None) -> Result:
        """The result with the judge's score; unchanged if the judge is not asked about it."""
        if self._judge is None or pending is None:
            return result
        try:
            judged = self._judge.judge.finish(pending)
        except MedVQAError as error:
            if isinstance(error, Unwritable):
                self.stop = str(error)
            return replace(result, score=Score(None, "error", why=str(error)))
        self._tally.replies.extend(judged.new_replies)
        self._tally.replies_reused += judged.reused
        score = rotation.score_back(judged.score, result.item, result.variant)
        return replace(result, score=score, judgement=judged.judgement)

    def forget(self, query: Query) -> None:
        """Drop the answer to a question that will not be asked for again."""
        if self._stream is None:
            return
        if self._ranking is not None:
            self._ranking.forget(self._stream, query)
        else:
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
        outcomes: list[tuple[QuestionKey, Outcome]] = [(result.key, result.score.outcome) for result in tally.results]
        served = {result.answer.served_by for result in tally.results if result.answer is not None}
        delivery = Delivery(
            lines=[run_folder.encode(result).decode() for result in tally.results],
            outcomes=outcomes,
            usage=used(tally.new_answers),
            reused=tally.reused,
            judge_asked=len(tally.replies),
            judge_reused=tally.replies_reused,
            judge_usage=used(tally.replies),
            served_by=sorted(served - {""}),
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
        if self._stream is None or self._model is None or not self._model.backend.pools:
            return {}
        status = answers.redacted_value(self._model.backend.status(), self.plan.secrets)
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
        if self.plan.benchmarks[name].public:
            return result
        if name not in self._pseudonyms:
            digests = self.plan.model.backend.looks and self.plan.ablation != "text-only"
            self._pseudonyms[name] = Pseudonyms.of(self.plan.items(name), digests=digests)
        return self._pseudonyms[name].hidden(result)

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
