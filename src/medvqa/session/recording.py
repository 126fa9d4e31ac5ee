"""The run folder of a session in progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import structs

from medvqa import judging, report
from medvqa.comparing.gating import Gate, Verdict
from medvqa.items import Benchmark, DataError, Item, Outcome, QuestionKey
from medvqa.records import coverage, identities, recall, run_folder, run_record, suspects
from medvqa.records.coverage import Coverage
from medvqa.records.recall import OWN
from medvqa.records.run_folder import Recorder
from medvqa.records.run_record import (
    RUN,
    RecordedEngine,
    RecordedIdentity,
    RecordedJudge,
    RecordedModel,
    RecordedSession,
    RunRecord,
    carrying,
    part_of,
)
from medvqa.report import html
from medvqa.session import endpoints, gates
from medvqa.session.about import about
from medvqa.session.delivery import Delivery, LeftOut, used
from medvqa.session.plan import Plan
from medvqa.session.replicas import pool_facts


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _begun(plan: Plan, before: RunRecord | None, name: str, session: str, workers: int) -> RunRecord:
    """Return the record of a run whose session begins now, behind those of `before`."""
    now, planned = _now(), about(plan)
    begun = RecordedSession(
        session=session,
        started=now,
        workers=workers,
        options=planned.options,
        shard_source=plan.options.shard_source,
    )
    if before is None:
        return structs.replace(planned, name=name, started=now, sessions=(begun,))
    # The results have the earlier names of a renamed run.
    names = {*before.names, *([before.name] if before.name else [])} - {name}
    anew = plan.reads_anew(before)
    planned = carrying(planned, before)
    return structs.replace(
        planned,
        name=name,
        names=tuple(sorted(names)),
        started=before.started or now,
        model=before.model,
        # A session without open questions needs no judge.
        judge=planned.judge or before.judge,
        benchmarks={**before.benchmarks, **planned.benchmarks},
        sessions=(*before.sessions, begun),
        # Results of earlier sessions keep their edition of the rules, and the run is called after the oldest.
        reading_rules=planned.reading_rules if anew else before.reading_rules,
        usage=before.usage,
        judge_usage=before.judge_usage,
        left_out=before.left_out,
        # Rules stored before the first answer, and the parts of a merged run.
        gate=before.gate,
        merged=before.merged,
        kind=before.kind,
    )


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


class Recording:
    """Appends results as they come, and writes the reports at the end."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        session: str,
        workers: int,
        selected: Collection[QuestionKey] = (),
        *,
        empty_shard: bool = False,
    ) -> None:
        """Begin a session of a run: open its folder (UsageError when it cannot be made) and write run.json.

        `selected`: the known keys of all sessions of the run. `empty_shard`: it is known that there are none.
        """
        self._plan = plan
        self._empty_shard = empty_shard
        before = run_record.read_run(folder) if (folder / RUN).is_file() else None
        self._recorder = Recorder(folder)
        # Stored results are not appended again, so that continuing a run does not grow its file.
        self._stored: dict[QuestionKey, bytes] = {}
        if before is not None:
            self._take_over(anew=plan.reads_anew(before))
        self._outcomes: dict[QuestionKey, Outcome] = {}
        self.counts: Counter[Outcome] = Counter()
        self.usage: Counter[str] = Counter()
        self.judge_usage: Counter[str] = Counter()
        self._served_by: set[str] = set()
        self.reused: Counter[str] = Counter()
        """The number of stored answers of this session by their source."""
        self.engine: Mapping[str, Any] = {}
        """The last state of a pool of models."""
        self.endpoints: endpoints.Endpoints = {}
        self.judge_endpoints: endpoints.Endpoints = {}
        """The numbers of the model's and the judge's endpoints in this session."""
        self._identities: list[RecordedIdentity] = []
        self._before = RunRecord() if before is None else self._with_killed(before)
        self._record = _begun(plan, None if before is None else self._before, folder.name, session, workers)
        self._session = self._record.sessions[-1]
        self._covered: Coverage | None = None
        self._select(selected)
        if before is not None:
            report.remove(folder)
        self.verdict: Verdict | None = None
        self._has_facts = False
        self._write()

    def _select(self, selected: Collection[QuestionKey]) -> None:
        """Note the selection of all sessions, this one included, in run.json."""
        if selected or self._empty_shard:
            before = self._before.selected
            how, chosen = (*before.how, *self._plan.setting.selects), self._plan.setting.by_outcome
            by_outcome = before.by_outcome or chosen
            every = self._plan.has_every_answer(selected)
            if before.benchmarks.keys() - self._plan.benchmarks.keys():
                # This session's plan does not know the questions of these benchmarks.
                every = every and before.every
            selection = coverage.select_from(selected, self._record, how, by_outcome=by_outcome, every=every)
            # Lost keys stay counted until as many questions are selected again.
            questions = max(before.questions, selection.questions)
            self._change(selection=structs.replace(selection, questions=questions))

    def _take_over(self, *, anew: bool) -> None:
        """Note the results of earlier sessions; score them again if they were read by other rules."""
        benchmarks = self._plan.registry.benchmarks
        for result in run_folder.read(self._recorder.folder).results:
            if anew and result.item.benchmark in benchmarks:
                judge = self._plan.judge
                result = judging.rescored(
                    result,
                    benchmark=benchmarks[result.item.benchmark],
                    extraction=self._plan.extraction,
                    settings=judge.settings if judge is not None else None,
                )
                self._recorder.append(run_folder.encode(result))
            if result.score.outcome != "error":
                self._stored[result.key] = _digest(run_folder.encode(result))

    def _with_killed(self, before: RunRecord) -> RunRecord:
        """Return the record with the stored answers of killed sessions counted: they were paid for."""
        sessions = [self._made_up(session) if session.killed else session for session in before.sessions]
        made_up = [now for now, was in zip(sessions, before.sessions, strict=True) if now is not was]
        usage, judge_usage = Counter(before.usage), Counter(before.judge_usage)
        for session in made_up:
            usage.update(session.usage)
            judge_usage.update(session.judge_usage)
        return structs.replace(before, sessions=tuple(sessions), usage=dict(usage), judge_usage=dict(judge_usage))

    def _made_up(self, killed: RecordedSession) -> RecordedSession:
        numbers, usage = Counter[str](), {"candidate": Counter[str](), "judge": Counter[str]()}
        for role, answers in recall.asked(self._recorder.folder, {killed.session}):
            numbers[role] += len(answers)
            usage[role].update(used(answers))
        made_up = {"asked": numbers["candidate"], "usage": dict(usage["candidate"])}
        if numbers["judge"]:
            made_up |= {"judge_asked": numbers["judge"], "judge_usage": dict(usage["judge"])}
        # Keep an empty usage: it says that the session was counted.
        return part_of(RecordedSession, killed.as_json() | made_up)

    def _change(self, **fields: Any) -> None:
        self._record = structs.replace(self._record, **fields)

    def _write(self) -> None:
        self._change(sessions=(*self._record.sessions[:-1], self._session))
        run_record.write_run(self._recorder.folder, self._record)

    def take(self, delivery: Delivery) -> None:
        """Append the results of a delivery.

        OSError if they cannot be written, DataError if a worker read other data than run.json describes.
        """
        for name, digest in delivery.data.items():
            if digest != (own := self._record.benchmarks[name].data_sha256):
                raise DataError(
                    f"benchmark {name}: its items differ between processes: their digest is {own[:12]} where the run "
                    f"began, and {digest[:12]} in a worker. Draw nothing in them, or draw with a fixed seed"
                )
        for line, (key, outcome) in zip(map(str.encode, delivery.lines), delivery.outcomes, strict=True):
            stored = self._stored.pop(key, None) if self._stored else None
            if stored is None or (stored != _digest(line) and outcome != "error"):
                # An error does not replace a score.
                self._recorder.append(line)
            if key in self._outcomes:
                self.counts[self._outcomes[key]] -= 1
            self._outcomes[key] = outcome
            self.counts[outcome] += 1
        session, reused = self._session, 0
        if delivery.reused:
            reused = sum(delivery.reused.values())
            self.reused.update(delivery.reused)
            borrowed = {name: number for name, number in self.reused.items() if name != OWN}
            session = structs.replace(session, reused=session.reused + reused, answers_from=borrowed)
        self._session = structs.replace(session, asked=session.asked + len(delivery.lines) - reused)
        if delivery.judge_asked or delivery.judge_reused:
            self._session = structs.replace(
                self._session,
                judge_asked=(session.judge_asked or 0) + delivery.judge_asked,
                judge_reused=(session.judge_reused or 0) + delivery.judge_reused,
            )
            self.judge_usage.update(delivery.judge_usage)
        self.usage.update(delivery.usage)
        if delivery.stopped:
            self.note_stop(delivery.stopped)
        if delivery.identity is not None:
            self._identities.append(part_of(RecordedIdentity, delivery.identity))
        self._served_by.update(delivery.served_by)
        if delivery.engine:
            self.engine = delivery.engine
        if delivery.endpoints:
            self.endpoints = endpoints.added(self.endpoints, delivery.endpoints)
        if delivery.judge_endpoints:
            self.judge_endpoints = endpoints.added(self.judge_endpoints, delivery.judge_endpoints)
        if delivery.facts and not self._has_facts:
            self._has_facts = True
            self._note_loaded(delivery.facts)
            self._write()

        self._note_unread(delivery.unread)

    def _note_unread(self, lines: Sequence[str]) -> None:
        """Note stored answers that cannot be read; their questions are asked again."""
        if lines:
            self._change(unread_answers=tuple(dict.fromkeys([*self._record.unread_answers, *lines])))

    def _note_loaded(self, facts: Mapping[str, Any]) -> None:
        """Note what is known of loaded models; the judge's identity enters the signatures of judged benchmarks."""
        self._change(
            model=part_of(RecordedModel, facts["model"]),
            engine=part_of(RecordedEngine, facts["engine"]),
        )
        self._note_unread(facts["unread_answers"])
        if "judge" in facts:
            before = {} if self._record.judge is None else self._record.judge.as_json()
            judge = part_of(RecordedJudge, before | facts["judge"])
            benchmarks = {
                name: structs.replace(fields, signature={**fields.signature, "judge": judge.identity})
                if fields.judged
                else fields
                for name, fields in self._record.benchmarks.items()
            }
            self._change(judge=judge, benchmarks=benchmarks)

    @property
    def complete(self) -> bool:
        """Whether every selected question of the run has a result, and none of this session ended in error."""
        return self._covered is not None and self._covered.finished and "error" not in self._outcomes.values()

    @property
    def missing(self) -> Sequence[str]:
        """Names of selected questions without a result, of all sessions; known after `finish`."""
        return self._covered.missing if self._covered is not None else ()

    def note_stop(self, why: str) -> None:
        """Note why this session stopped early; the first reason counts."""
        self._session = structs.replace(self._session, stopped=self._session.stopped or why)

    def note_unshared(self, number: int | None) -> None:
        """Note how many answers of this machine a place lacks; None without a place."""
        if number is not None:
            self._session = structs.replace(self._session, unshared_answers=number)
            self._change(unshared_answers=number)

    def finish(self, selected: Collection[QuestionKey], left_out: LeftOut, gate: Gate | None = None) -> report.Report:
        """Close the folder, find missing results, decide the gate, and write the reports.

        `selected` are the keys that all sessions of the run selected.
        """
        self._recorder.close()
        folder = self._recorder.folder
        self._select(selected)
        stored = run_folder.read(folder)
        self._covered = covered = coverage.coverage(folder, self._record, stored, selected)
        suspects.end_session(folder, complete=not covered.missing)
        self._end(covered, left_out)
        self._write()
        self.verdict = gates.settle(gate, folder, self._record, covered, stored)
        # An earlier session may have asked a benchmark whose file this one does not name.
        known = self._plan.registry.with_runs([folder]).benchmarks
        drawn = report.build(folder, known, stored, data=self._plan.options.data)
        # Thousands of images would take minutes: `medvqa report --images` draws them.
        return report.write(drawn, html.draw(drawn, self._items, many="none"))

    def _end(self, covered: Coverage, left_out: LeftOut) -> None:
        """Note the end of the session, and the sums of all sessions."""
        now, before, session = _now(), self._before, self._session
        reused = session.reused
        self._session = structs.replace(
            session,
            finished=now,
            identity=identities.joined(self._identities, reused) if reused else session.identity,
            usage=dict(self.usage),
            judge_usage=dict(self.judge_usage),
        )
        self._change(
            finished=now,
            missing=covered.missing,
            usage=dict(Counter(before.usage) + self.usage),
            judge_usage=dict(Counter(before.judge_usage) + self.judge_usage),
            left_out={**before.left_out, **left_out},
            served_by=tuple(sorted(self._served_by)),
        )
        engine = self._record.engine.as_json() | (pool_facts(self.engine) if self.engine else {})
        if asked := endpoints.added(before.engine.endpoints, self.endpoints):
            engine |= {"endpoints": asked}
        self._change(engine=part_of(RecordedEngine, engine))
        judge_before = {} if before.judge is None else before.judge.endpoints
        if (asked := endpoints.added(judge_before, self.judge_endpoints)) and self._record.judge is not None:
            self._change(judge=structs.replace(self._record.judge, endpoints=asked))

    def _items(self, benchmark: Benchmark) -> Sequence[Item] | None:
        return self._plan.items(benchmark.name) if benchmark.name in self._plan.benchmarks else None
