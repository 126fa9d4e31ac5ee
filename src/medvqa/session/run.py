"""A run in the controller: its folder, its gate, its selected questions, and its end."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from medvqa import printing, usercode
from medvqa.comparing import gating
from medvqa.comparing.gating import Gate, Verdict
from medvqa.configs import ModelConfig
from medvqa.data.selection import Shard
from medvqa.items import Measure, MedVQAError, Outcome, QuestionKey, UsageError
from medvqa.records import configuration, log, run_folder, run_record, suspects
from medvqa.records.exchange import Exchange
from medvqa.records.lock import Lock
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RUN
from medvqa.records.selected import add_selected, remove_selected, selected_by
from medvqa.records.selected import select as select_keys
from medvqa.report import Report
from medvqa.session import answer_sources, checks, endpoints, gates, registry, shot_checks, uploads
from medvqa.session.about import about
from medvqa.session.asker import STOP
from medvqa.session.delivery import Delivery, LeftOut
from medvqa.session.opening import Process
from medvqa.session.options import Options, Setting
from medvqa.session.plan import Plan
from medvqa.session.recording import Recording
from medvqa.session.replicas import pool_lines


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run whose reports are written; hooks `pytest_medvqa_finished(run, verdict)` get it.

    `info` is the content of run.json. `complete`: all selected questions have a result, and none ended in error.
    """

    folder: Path
    info: Mapping[str, Any]
    measures: tuple[Measure, ...]
    complete: bool

    @property
    def name(self) -> str:
        """The run's name, as in `--run=NAME`."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run.

    `asked`: questions were asked, or workers died before. `problem`: why there is no report, in one line. `incomplete`:
    questions are missing or ended in error, so the run can be continued. `unselected`: the number of missing questions
    that only an earlier session selected. `failed_hooks`: a line for each hook `pytest_medvqa_finished` that raised an
    exception; the exit code does not depend on it.
    """

    asked: bool = False
    report: Report | None = None
    verdict: Verdict | None = None
    problem: str | None = None
    incomplete: bool = False
    unselected: int = 0
    failed_hooks: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if questions are missing or ended in error, or without a report; else the verdict's, or 0 without one."""
        if self.incomplete or self.problem is not None:
            return 1
        return self.verdict.exit_code if self.verdict is not None else 0


DIED = Finished(asked=True, problem="the workers died before anything was answered", incomplete=True)
"""The end of a run whose workers died before the first answer."""


class Run:
    """One session of a run, in the controller alone. Processes that ask have an Asker."""

    def __init__(self, plan: Plan, process: Process) -> None:
        """`process` is the controller's. Nothing is written before `open`."""
        self.plan = plan
        self.folder = process.folder
        self._process = process
        self._selected: tuple[QuestionKey, ...] = ()
        self._evaluates = False
        self._empty_shard = False
        self._left_out: LeftOut = {}
        self._gate: Gate | None = None
        self._prepared = False
        self._lock = Lock(self.folder)
        self._holds = False
        self._recording: Recording | None = None
        self._endpoints: endpoints.Endpoints = {}
        self._exchange: Exchange | None = None
        self._unshared: int | None = None
        self.model_made = False
        """Whether a process of this session has made its model and its judge, and delivered a result."""

    # Before the first question

    def check(self) -> tuple[str, ...] | None:
        """Check options and data before anything is collected (UsageError, DataError, Unwritable).

        Return the devices that can each hold a copy of the models, None if they take none.
        """
        log.check_folder(self.folder)
        self._check_places()
        places = checks.check(self.plan, answered=self._answered)
        if (self.folder / RUN).is_file():
            self._check_first_attempts()
            self._check_continues()
        self._prepare_gate()
        return places

    def _check_places(self) -> None:
        """Check that places can be read, so that a wrong name or key is known before a model is loaded."""
        if not self.plan.setting.collects_only:
            known = self.plan.registry.with_runs([self.folder] if (self.folder / RUN).is_file() else [])
            uploads.check_held(self.plan.options, self.folder, known.benchmarks, self.plan.setting.root)
            for place in self._process.sources.places:
                place.check(self._process.say)
                self._exchange = self._process.exchange(puts=True)

    def _answered(self, config: ModelConfig) -> bool:
        """Whether answers of a model may be stored: this run is continued, or --answers names others."""
        return (self.folder / RUN).is_file() or bool(self._process.sources)

    def _check_first_attempts(self) -> None:
        """UsageError for --fresh in a run with results: asking chosen questions again could lift its score."""
        results, name = self.folder / RESULTS, self.folder.name
        if self.plan.options.fresh and results.is_file() and results.stat().st_size:
            raise UsageError(
                f"--fresh: run '{name}' has results, and the first answer to a question counts. Type the command "
                "without --fresh to go on with it, or name another run with --run=NAME"
            )

    def _check_continues(self) -> None:
        """UsageError if the run cannot be continued as planned."""
        plan, name = self.plan, self.folder.name
        before, now = run_record.read_run(self.folder), about(plan)
        if differences := configuration.why_not_continued(before, now):
            raise UsageError(f"run '{name}' cannot go on: {'; '.join(differences)}. Name another with --run=NAME")
        anew = plan.reads_anew(before)
        if anew and (before.judged_by_rule or now.judged_by_rule):
            raise UsageError(
                f"run '{name}' cannot go on with --extraction={plan.extraction}: by it other answers "
                f"would be left to the judge. Type medvqa rescore {self.folder} --judge=... --extract-with=judge "
                f"--extraction={plan.extraction}, or name another run with --run=NAME"
            )
        others = sorted(before.benchmarks.keys() - plan.benchmarks.keys())
        if others and anew:
            raise UsageError(
                f"run '{name}' cannot go on: its answers would be read by two rules. Add "
                f"{' '.join(f'--benchmark={name}' for name in others)}, so that all are read by "
                f"--extraction={plan.extraction}"
            )

    def _prepare_gate(self) -> None:
        """Prepare the gate, once (UsageError, DataError)."""
        if not (self._prepared or self.plan.setting.collects_only):
            self._prepared = True
            self._gate = gates.prepare(self.plan, self.folder)

    def open(self) -> list[str]:
        """Begin the session; return a line for each server that data will be sent to.

        UsageError if another session writes the run; OSError, DataError.
        """
        # A new run is locked with its first write.
        lines = self._hold() if self.folder.exists() else []
        try:
            # A killed session may have left its stop file.
            (self.folder / STOP).unlink(missing_ok=True)
            add_selected(self.folder)
            remove_selected(self.folder)
            suspects.bury(self.folder)
            gating.begin(self.folder, self._process.session)
        except BaseException:
            self.release()
            raise
        return [*lines, *self._shard_line(), *checks.notices(self.plan)]

    def _shard_line(self) -> list[str]:
        """Return the line that says which shard --shard=auto read, and from which variables."""
        shard, source = self.plan.shard, self.plan.options.shard_source
        return [] if shard is None or not source else [f"medvqa: shard {shard.number:,} of {shard.of:,} ({source})"]

    def _hold(self) -> list[str]:
        """Lock the run for this session until `release`. Returns a line if the file system has no locks."""
        try:
            line = self._lock.acquire()
        except UsageError as error:
            raise UsageError(f"{error}, or name another run with --run=NAME") from None
        self._holds = True
        return [] if line is None else [line]

    def release(self) -> None:
        """Unlock the run, as `finish` does."""
        if self._exchange is not None:
            self._exchange.give_up()
        self._lock.release()

    def select(self, keys: Sequence[QuestionKey], left_out: LeftOut, *, evaluates: bool = True) -> None:
        """Note the questions that must get a result, and how many were left out.

        `evaluates`: a test asks them. False for tests of the data alone.
        """
        self._selected, self._left_out, self._evaluates = tuple(keys), left_out, evaluates

    def select_empty_shard(self) -> None:
        """Note that all selected questions are in other shards: `finish` writes a run without results.

        So `medvqa merge` can tell an empty shard from a missing one.
        """
        self._empty_shard = True

    @property
    def has_selection(self) -> bool:
        """Whether this session has selected questions."""
        return bool(self._selected)

    def select_stored(self, left_out: LeftOut) -> None:
        """Read the selection that a worker stored, if this session has none yet (DataError, OSError)."""
        if not self._selected:
            self.select(selected_by(self.folder, self._process.session) or (), left_out)

    @property
    def gated(self) -> bool:
        """Whether the run has a gate."""
        return self._gate is not None

    @property
    def rules_unread(self) -> str | None:
        """Why existing rules do not gate the run, as a sentence; None if it is gated or without rules."""
        if self.plan.options.gate == gates.OFF:
            return f"--gate={gates.OFF} was typed: no rule was applied, and the run counts as no attempt"
        return None if self.gated else gates.unread(self.plan)

    @property
    def gated_later(self) -> bool:
        """Whether the run is one share of --shard, so that the gate is decided after merging."""
        return self.gated and self.plan.shard is not None

    def promise(self) -> list[str]:
        """Store the gate's rules before the first question; return lines for the user.

        UsageError also if another session writes the run; DataError, OSError.
        """
        checks.check_selected_votes(self.plan, self._selected)
        shot_checks.check_selected(self.plan, self._selected)
        lines = self._hold()
        if self._exchange is not None:
            self._exchange.start()
        self._prepare_gate()
        if self._gate is None:
            return lines
        if self._selected:
            # Workers deliver their selection with their first results.
            try:
                gates.check(self._gate, self.plan, self._selected)
            except UsageError:
                gates.withdraw(self.folder)
                raise
        gates.promise(self._gate, self.plan, self.folder)
        return lines

    # While questions are asked

    def take(self, delivery: Delivery, workers: int = 0) -> str | None:
        """Write results at once; return the reason to stop the session, or None (MedVQAError, OSError).

        `workers` counts the asking processes, 0 for this one alone.
        """
        self.model_made = self.model_made or "model" in delivery.facts
        if self._recording is None:
            self._hold()
            selected = {*add_selected(self.folder), *self._selected}
            self._recording = Recording(self.plan, self.folder, self._process.session, workers, selected)
            self._recording.take(delivery)
        else:
            self._recording.take(delivery)
        if (stop := self._over_budget(self._recording)) is not None:
            self._recording.note_stop(stop)
        return stop

    def shared_lines(self) -> list[str]:
        """Return lines about places since the last call, such as that answers cannot be put there."""
        return [] if self._exchange is None else self._exchange.take_lines()

    @property
    def counts(self) -> Counter[Outcome]:
        """The number of questions with each outcome so far."""
        return self._recording.counts if self._recording is not None else Counter()

    @property
    def state(self) -> Mapping[str, Any]:
        """The present state of a pool of models, as `medvqa.Backend.status`; {} for other models."""
        return self._recording.engine if self._recording is not None else {}

    def news(self) -> list[str]:
        """Return lines about endpoints that were left out, or are in use again, since the last call."""
        if self._recording is None:
            return []
        now = {**self._recording.endpoints, **self._recording.judge_endpoints}
        lines, self._endpoints = endpoints.news(now, self._endpoints), now
        return lines

    def _over_budget(self, recording: Recording) -> str | None:
        cost = recording.usage["cost"] + recording.judge_usage["cost"]
        limit = self.plan.options.max_cost
        if limit is None or cost < limit:
            return None
        subject = "the answers and their judging have" if recording.judge_usage["cost"] else "the answers have"
        return f"{subject} cost {cost:.4g}: --max-cost={limit:g} is reached"

    def stop(self, why: str) -> None:
        """Make workers stop after their current question (OSError)."""
        run_folder.write_atomic(self.folder / STOP, why.encode())

    # At the end

    def notes(self, finished: Finished) -> list[str]:
        """Lines that follow the summary: why there is no gate's verdict, and missing questions of earlier sessions."""
        lines = self.shared_lines()
        if self._empty_shard and finished.asked and self.plan.shard is not None:
            lines.append(
                f"shard {self.plan.shard} is empty: there are fewer groups of related questions than shards; "
                "medvqa merge needs its run folder all the same"
            )
        if finished.report is not None:
            if self.gated_later:
                lines.append("gate: no verdict on one shard; run medvqa merge on all shards, then medvqa gate")
            elif unread := self.rules_unread:
                shown = "the verdict above is of an earlier session" if finished.report.gate is not None else "none"
                lines.append(f"gate: {shown}; {unread}")
        if (recording := self._recording) is not None:
            loaded = None if finished.report is None else finished.report.run.model
            nameless = loaded is not None and bool(loaded.name) and loaded.fingerprint is None
            total = recording.counts.total()
            used = answer_sources.line(recording.reused, total, self._process.sources, nameless=nameless)
            lines += [] if used is None else [used]
            lines += [*endpoints.lines(recording.endpoints), *endpoints.lines(recording.judge_endpoints)]
        return [*lines, *pool_lines(self.state), *(f"! {line}" for line in finished.failed_hooks)]

    def finish(
        self, *, skipped: bool = False, died: bool = False, ended: bool = True, shared_by: float | None = None
    ) -> Finished:
        """Put the last answers into places until `shared_by` (monotonic); write the reports, decide the gate.

        `skipped`: tests were skipped; `died`: workers died; `ended`: all tests have run. If no report can be made, the
        answers are on disk and can be reported later.
        """
        try:
            if self._exchange is not None:
                self._unshared = self._exchange.close(shared_by)
            return self._finished(skipped=skipped, died=died, ended=ended)
        finally:
            self.release()

    def _finished(self, *, skipped: bool, died: bool, ended: bool) -> Finished:
        if self._recording is None and self._empty_shard and not (died or self._selected):
            self._hold()
            self._recording = Recording(self.plan, self.folder, self._process.session, 0, empty_shard=True)
        if self._recording is not None:
            return self._report(self._recording)
        if died:
            return DIED
        if self._holds:
            if not self._selected:
                gating.take_back(self.folder, self._process.session)
            suspects.end_session(self.folder, complete=False)
            if self.gated:
                gates.withdraw(self.folder)
        number = len(set(self._selected))
        if number and skipped:
            return Finished(problem=f"nothing was asked: {number:,} questions were selected, and skipped")
        if not ended or self.plan.setting.collects_only:
            return Finished()
        if number and (self.gated or (self.plan.options.model_typed and self._evaluates)):
            return Finished(
                problem=f"nothing was asked: {number:,} questions were selected, and no test called evaluate(item)"
            )
        if self.gated:
            return Finished(problem="gate: no verdict: no test asks a question of the benchmarks")
        return Finished()

    def _report(self, recording: Recording) -> Finished:
        problem, report, keys = None, None, set(self._selected)
        try:
            (self.folder / STOP).unlink(missing_ok=True)
            if selected_by(self.folder, self._process.session) is None:
                # Workers on other machines have stored it there.
                select_keys(self.folder, self._process.session, self._selected)
            keys.update(add_selected(self.folder))
            remove_selected(self.folder, self._process.session)
        except (MedVQAError, OSError) as error:
            problem = f"the keys of the selected questions could not be stored: {error}"
        try:
            # Shards are gated together, after merging.
            recording.note_unshared(self._unshared)
            report = recording.finish(keys, self._left_out, None if self.gated_later else self._gate)
        except (MedVQAError, OSError) as error:
            # A user's metric failed, or the disk is full.
            problem = f"the reports could not be made: {error}"
        selected = {self.plan.name_of(key) for key in self._selected}
        unselected = len(set(recording.missing) - selected)
        failed = () if report is None else self._call_hooks(report, recording)
        return Finished(True, report, recording.verdict, problem, not recording.complete, unselected, failed)

    def _call_hooks(self, report: Report, recording: Recording) -> tuple[str, ...]:
        """Call `pytest_medvqa_finished` of the project; return a line for each that raised an exception."""
        measures = tuple(measure for part in report.parts for measure in part.measures)
        run = FinishedRun(self.folder, report.run.as_json(), measures, recording.complete)
        failed = []
        for hook in self.plan.registry.finished:
            try:
                with usercode.guarded("pytest_medvqa_finished", function=hook):
                    registry.call_finished(hook, run=run, verdict=recording.verdict)
            except MedVQAError as error:
                failed.append(str(error))
        return tuple(failed)


def cut_short(folder: Path, command: str) -> str:
    """Return the lines for a process that a signal ends before the reports of its run are drawn."""
    report = shlex.join(["medvqa", "report", str(folder)])
    return (
        f"! ended by a signal before the reports were drawn; the answers are stored. To draw them: "
        f"{printing.line(report)}\nto go on: {printing.line(command)}"
    )


def name_of(options: Options, setting: Setting) -> str:
    """Return the name of --run, else a free one made of the time and the model."""
    if options.run is not None:
        return options.run
    when = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    # Tasks of an array start in the same second: without the shard, they would all choose one name.
    end = "" if options.shard is None else Shard.parse(options.shard).suffix
    return run_folder.run_name(options.model, when, setting.reports, end)


def process_of(plan: Plan, run: str, session: str, name: str = "main") -> Process:
    """Return the process of that name in a run. UsageError if the run's name cannot be a folder's."""
    run_folder.check_name(run, "--run")
    folder = plan.setting.reports / run
    return Process(folder, session, name, sources=answer_sources.of(plan.options.answers, folder))
