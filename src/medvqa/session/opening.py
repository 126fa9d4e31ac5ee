"""Load a model or a judge in a process of a run: its identity, its limits, its stored answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from medvqa import printing
from medvqa.backend import Backend, ModelFacts
from medvqa.engine import KILLS, AnswerMemory, Judge, Limits, Recollection, Ticket, Traffic
from medvqa.items import Answer, AnswerError, UsageError
from medvqa.records import run_record
from medvqa.records.answer_places import PlaceReader
from medvqa.records.exchange import Exchange, left_beside
from medvqa.records.log import ANSWERS, Log, LogHead, Reuse, head_at, is_kept_apart, logs, unwritable
from medvqa.records.recall import OWN, EarlierAnswers, Finder, LogFolder, Recalled, ResultAnswers, StoredAnswers
from medvqa.records.run_record import RUN
from medvqa.records.suspects import Suspects
from medvqa.session import answer_sources
from medvqa.session.chosen import Chosen
from medvqa.session.judging import Judging


class Memory(AnswerMemory):
    """The stored answers of one model, and the log of one process of a run."""

    def __init__(
        self,
        stored: StoredAnswers,
        log: Log,
        suspects: Suspects,
        readers: Sequence[PlaceReader] = (),
    ) -> None:
        """Use stored answers, a log and the `readers` of places, which `close` closes, and the suspects of a run."""
        self._stored = stored
        self._log = log
        self._readers = readers
        self._suspects = suspects

    def begin(self, call: int, keys: Sequence[str]) -> None:
        """Write the start of a call into the log."""
        self._log.begin(call, keys)

    def end(self, call: int, keys: Sequence[str], answers: Sequence[Answer]) -> None:
        """Write the answers of a call into the log."""
        self._log.end(call, keys, answers)

    def recall(self, tickets: Sequence[Ticket]) -> list[Recollection]:
        """Look up stored answers. A question that kills workers ends in an error; a suspected one is asked alone.

        A worker's death is noted before its tests go to another worker, which therefore sees its stored answers.
        """
        keys = [self._stored.key(ticket.prompt, ticket.digest, ticket.sample) for ticket in tickets]
        died = self._suspects.refresh()
        stored = self._stored.recall(keys, look=died)
        return [self._recollection(key, recalled) for key, recalled in zip(keys, stored, strict=True)]

    def _recollection(self, key: str, recalled: Recalled | None) -> Recollection:
        if recalled is not None:
            return Recollection(key, recalled.answer, recalled.source)
        if self._suspects.kills(key):
            return Recollection(key, AnswerError(KILLS))
        return Recollection(key, alone=self._suspects.suspects(key))

    @property
    def damaged(self) -> int:
        """The number of lines that cannot be read: a quick look for news of `unread`."""
        number = len(self._stored.broken)
        for reader in self._readers:
            number += reader.damaged
        return number

    @property
    def unread(self) -> tuple[str, ...]:
        """The lines of logs that cannot be read."""
        return (*self._stored.unread, *(line for reader in self._readers for line in reader.unread))

    def exchange_by(self, exchange: Exchange) -> None:
        """Let a thread close the log in time, and read places again."""
        exchange.add(self._log, self._readers)

    def close(self) -> None:
        """Close the log (Unwritable)."""
        for reader in self._readers:
            reader.close()
        self._log.close()


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


class LoadedModel:
    """A model or a judge that is loaded: its `facts` without keys, its `limits` and the `memory` of its answers."""

    def __init__(
        self,
        chosen: Chosen,
        process: Process,
        load: Callable[[], Backend],
        limits: Callable[[Backend], Limits],
        secrets: frozenset[str],
        *,
        reuse: Reuse,
        fresh: bool,
        signed: Callable[[ModelFacts], str] = lambda facts: "",
    ) -> None:
        """Load it (UsageError, Unwritable). `signed` is as in `Process.remember`."""
        # Loading may kill the process: begin the log first, which identifies a dead worker.
        log = Log(process.folder, process.name)
        self.model = chosen.backend
        try:
            self.model = load()
            self.limits = limits(self.model)
            self.facts = process.identify(self.model, chosen.role, secrets)
            self.memory = process.remember(chosen, self.facts, log, reuse=reuse, signed=signed(self.facts), fresh=fresh)
        except BaseException:
            log.close()
            self.model.close()
            raise

    @property
    def sizes(self) -> dict[str, int]:
        """The limits in run.json."""
        return {"batch_size": self.limits.batch_size, "concurrency": self.limits.concurrency}

    def close(self, by: float | None = None) -> None:
        """Close the memory and the model (Unwritable, once both are closed); calls may finish until `by`."""
        try:
            self.memory.close()
        finally:
            self.model.close()


class LoadedJudge(LoadedModel):
    """The judge of a process, with a stream of its own."""

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

        def limits(model: Backend) -> Limits:
            return Limits.of(model.facts, deadline=deadline, budget=inf if max_cost is None else max_cost)

        chosen = judging.chosen
        super().__init__(
            chosen, process, chosen.load, limits, chosen.secrets, reuse=reuse, fresh=fresh, signed=judging.signed
        )
        traffic = traffic or Traffic(chosen.secrets)
        self.judge = Judge(self.model, judging.settings, self.limits, self.memory, ends=ends, traffic=traffic)
        self.entry: dict[str, Any] = {**judging.loaded(self.facts), **self.sizes}
        """The judge's fields in run.json."""

    def close(self, by: float | None = None) -> None:
        """Close the stream (`Stream.close`), the memory (Unwritable) and the model."""
        self.judge.close(by)
        super().close()
