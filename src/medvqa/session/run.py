"""A run in the controller, which alone writes results, run.json and reports: its questions, its gate, and its end."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import structs

from medvqa import judging, memory, printing, usercode
from medvqa import report as reports
from medvqa.comparing import Side, gating
from medvqa.comparing.gating import FAILED, Gate, Verdict, Watch
from medvqa.configs import ModelConfig
from medvqa.items import Benchmark, DataError, Item, Measure, MedVQAError, Outcome, QuestionKey, UsageError
from medvqa.records import configuration, coverage, log, private, run_folder, run_record, suspects
from medvqa.records.exchange import Exchange
from medvqa.records.lock import Lock
from medvqa.records.run_folder import RESULTS, Recorder, Stored
from medvqa.records.run_record import RUN, RecordedEngine, RecordedJudge, RecordedModel, RunRecord, part_of
from medvqa.records.selected import add_selected, remove_selected, selected_by
from medvqa.records.selected import select as select_keys
from medvqa.records.sent_prompts import PromptRecorder
from medvqa.report import Report, html
from medvqa.session import answer_sources, checks, endpoints, gates, registry, shot_checks, uploads
from medvqa.session.about import about, begun, now, with_killed
from medvqa.session.asker import STOP
from medvqa.session.delivery import Delivery, LeftOut
from medvqa.session.display import Display
from medvqa.session.opening import MAIN, Process
from medvqa.session.options import Options
from medvqa.session.plan import Plan
from medvqa.session.project import reports_of
from medvqa.session.replicas import pool_facts, pool_lines, pool_state
from medvqa.session.services import Services, Told
from medvqa.session.totals import Totals
from medvqa.tags.selection import Shard

NOTHING_SELECTED, INTERRUPTED = 5, 2
"""Exit codes, as pytest's."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a session of a run; hooks `pytest_medvqa_finished(run, verdict)` get it as `run`.

    `asked`: questions were asked, or workers died before. `questions`: the number of selected questions. `problem`: why
    there is no report, in one line. `incomplete`: questions are missing or ended in error, so the run can be continued.
    `unselected`: the number of missing questions that only an earlier session selected. `notes`: lines that follow the
    summary. `stopped`: the reason of an early end; `interrupted`: Ctrl-C or a signal was it, or came while reports were
    drawn. pytest itself knows these two.
    """

    folder: Path
    asked: bool = False
    questions: int = 0
    report: Report | None = None
    verdict: Verdict | None = None
    problem: str | None = None
    incomplete: bool = False
    unselected: int = 0
    notes: tuple[str, ...] = ()
    stopped: str | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """2 if the run was stopped, 5 if nothing was selected (in any shard), else that of the results.

        That is 1 if questions are missing or ended in error, or without a report; else the verdict's, or 0 without one.
        A run that --stop=early has stopped has failed.
        """
        if self.failed_early:
            return FAILED
        if self.stopped is not None:
            return INTERRUPTED
        if self.incomplete or self.problem is not None:
            return 1
        # An empty shard is recorded, and no mistake.
        if not (self.questions or self.asked):
            return NOTHING_SELECTED
        return self.verdict.exit_code if self.verdict is not None else 0

    @property
    def failed_early(self) -> bool:
        """Whether the gate stopped the run (--stop=early), and no signal came before the reports were drawn."""
        return self.verdict is not None and self.verdict.early and not self.interrupted and self.problem is None

    @property
    def name(self) -> str:
        """The run's name, as in `--run=NAME`."""
        return self.folder.name

    @property
    def info(self) -> Mapping[str, Any]:
        """The content of run.json; {} without a report."""
        return {} if self.report is None else self.report.run.as_json()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of all parts."""
        return () if self.report is None else tuple(one for part in self.report.parts for one in part.measures)

    @property
    def complete(self) -> bool:
        """Whether all selected questions have a result, and none ended in error."""
        return self.report is not None and not self.incomplete


class Run:
    """One session of a run, in the controller alone. Processes that ask have an Asker."""

    def __init__(self, plan: Plan, process: Process, display: Display | None = None) -> None:
        """`process` is the controller's; `display` shows messages and progress. Nothing is written before `open`."""
        self.plan = plan
        self.folder = process.folder
        self._process = process
        self.display = Display() if display is None else display
        self._selected: tuple[QuestionKey, ...] = ()
        self._left_out: LeftOut = {}
        self._evaluates = False
        self._empty_shard = False
        self._selected_before: frozenset[QuestionKey] = frozenset()
        """What earlier sessions of the run selected; known once it is open."""
        self._gate: Gate | None = None
        self._watch: Watch | None = None
        """With --stop=early, from the first delivery on."""
        self._prepared = False
        self._lock = Lock(self.folder)
        self._holds = False
        self._exchange: Exchange | None = None
        self._services = Services(plan)
        self._ended_services: Sequence[str] = ()
        self._told: endpoints.Endpoints = {}
        self.model_made = False
        """Whether a process of this session has made its model and its judge, and delivered a result."""
        # From the first delivery on:
        self._recorder: Recorder | None = None
        self._prompts: PromptRecorder | None = None
        self._before = self._record = RunRecord()
        self._totals = Totals()
        self._counts: Counter[Outcome] = Counter()
        self._outcomes: dict[QuestionKey, Outcome] = {}
        self._stored: dict[QuestionKey, bytes] = {}
        """Digests of stored results. These are not appended again, so that going on with a run grows no file."""

    # Before the first question

    def check(self) -> tuple[str, ...] | None:
        """Check options and data before anything is collected (UsageError, DataError, Unwritable).

        Return the devices that can each hold a copy of the models, None if they take none.
        """
        log.check_folder(self.folder)
        self._check_sources()
        places = checks.check(self.plan, answered=self._answered)
        if self._has_record:
            self._check_first_attempts()
            self._check_continues()
        self._prepare_gate()
        return places

    @property
    def _has_record(self) -> bool:
        return (self.folder / RUN).is_file()

    def _check_sources(self) -> None:
        """Check that places can be read, so that a wrong name or key is known before a model is loaded."""
        if not self.plan.project.collects_only:
            known = self.plan.registry.with_runs([self.folder] if self._has_record else [])
            uploads.check_held(self.plan.options, self.folder, known.benchmarks, self.plan.project.root)
            for place in self._process.sources.places:
                place.check(self._process.say)
                self._exchange = self._process.exchange(puts=True)

    def _answered(self, config: ModelConfig) -> bool:
        """Whether answers of a model may be stored: this run is continued, or --answers names others."""
        return self._has_record or bool(self._process.sources)

    def _check_first_attempts(self) -> None:
        """UsageError for --fresh in a run with results: asking chosen questions again could lift its score."""
        if self.plan.options.fresh and self._has_results:
            raise UsageError(
                f"--fresh: run '{self.folder.name}' has results, and the first answer to a question counts. Type the "
                "command without --fresh to go on with it, or name another run with --run=NAME"
            )

    @property
    def _has_results(self) -> bool:
        results = self.folder / RESULTS
        return results.is_file() and results.stat().st_size > 0

    def _check_continues(self) -> None:
        """UsageError if the run cannot be continued as planned."""
        plan, name = self.plan, self.folder.name
        before, planned = run_record.read_run(self.folder), about(plan)
        if differences := configuration.why_not_continued(before, planned):
            raise UsageError(f"run '{name}' cannot go on: {'; '.join(differences)}. Name another with --run=NAME")
        anew = plan.reads_anew(before)
        if anew and (before.judged_by_rule or planned.judged_by_rule):
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
        if not (self._prepared or self.plan.project.collects_only):
            self._prepared = True
            self._gate = gates.prepare(self.plan, self.folder)
            gates.check_stop(self.plan, self._gate)

    def open(self) -> None:
        """Begin the session; show a line for each server that data will be sent to.

        UsageError if another session writes the run; OSError, DataError.
        """
        # A new run is locked with its first write.
        if self.folder.exists():
            self._hold()
        try:
            # A killed session may have left its stop file.
            (self.folder / STOP).unlink(missing_ok=True)
            self._selected_before = frozenset(add_selected(self.folder))
            remove_selected(self.folder)
            suspects.bury(self.folder)
            gating.begin(self.folder, self._process.session)
        except BaseException:
            self.release()
            raise
        shard, source = self.plan.shard, self.plan.options.shard_source
        if shard is not None and source:
            self.display.say(f"medvqa: shard {shard.number:,} of {shard.of:,} ({source})")
        for line in checks.notices(self.plan):
            self.display.say(line)
        if self._services.needed:
            self._hold()
            self._services.start(self.folder)

    @property
    def services(self) -> Told:
        """What workers must know of the services that this session has started."""
        return self._services.told

    def _hold(self) -> None:
        """Lock the run for this session until `release`; show a line if the file system has no locks."""
        try:
            line = self._lock.acquire()
        except UsageError as error:
            raise UsageError(f"{error}, or name another run with --run=NAME") from None
        self._holds = True
        if line is not None:
            self.display.say(line)

    def release(self) -> None:
        """End services and unlock the run, as `finish` does."""
        self._services.close()
        if self._exchange is not None:
            self._exchange.give_up()
        self._lock.release()

    def select(
        self, keys: Sequence[QuestionKey], left_out: LeftOut, *, evaluates: bool = True, empty_shard: bool = False
    ) -> None:
        """Note the questions that must get a result, and how many were left out.

        `evaluates`: a test asks them. False for tests of the data alone. `empty_shard`: all selected questions are in
        other shards; `finish` then writes a run without results, so that `medvqa merge` does not miss the shard.
        """
        self._empty_shard = self._empty_shard or empty_shard
        if not self._selected:
            self._selected, self._left_out, self._evaluates = tuple(keys), left_out, evaluates
            for line in checks.perturbed_notices(self.plan, self._selected) if evaluates else ():
                self.display.say(line)

    def select_stored(self, left_out: LeftOut) -> None:
        """Read the selection that a worker stored, if this session has none yet (DataError, OSError)."""
        if not self._selected:
            self.select(selected_by(self.folder, self._process.session) or (), left_out)

    def promise(self) -> None:
        """Store the gate's rules and wait for services, before the first question (UsageError, DataError, OSError)."""
        self._promise_rules()
        self._services.wait(self.display.say)

    def _promise_rules(self) -> None:
        """Store the gate's rules: they are fixed before the first answer.

        UsageError also if another session writes the run, or a baseline lacks a selected question; DataError, OSError.
        """
        checks.check_selected_votes(self.plan, self._selected)
        shot_checks.check_selected(self.plan, self._selected)
        self._hold()
        if self._exchange is not None:
            self._exchange.start()
        self._prepare_gate()
        if self._gate is None:
            return
        # Workers deliver their selection with their first results, after this was called for each of them.
        if self._selected and (lacking := self._gate.lacking(self._planned())):
            self._withdraw()
            raise UsageError(lacking)
        if self._selected and self._has_results and self._selected_before:
            gates.check_same_questions(self.plan, self._selected_before, self._selected)
        before = run_record.read_run(self.folder) if self._has_record else None
        if not self._has_results and (before is None or before.gate is None):
            private.make_private(self.folder)
            run = before or structs.replace(about(self.plan), name=self.folder.name, started=now())
            run_record.write_run(self.folder, structs.replace(run, gate=self._gate.stored()))

    def _planned(self) -> set[QuestionKey]:
        """Return the selected questions of benchmarks; those that tests made do not count."""
        known = {(name, item.id) for name in self.plan.benchmarks for item in self.plan.items(name)}
        return {key.question for key in self._selected if (key.benchmark, key.item) in known}

    def _withdraw(self) -> None:
        """Remove the run.json of `promise` if no session has begun. Files of workers stay."""
        with suppress(OSError):
            if self._has_record and not run_record.read_run(self.folder).sessions:
                (self.folder / RUN).unlink()
                self.folder.rmdir()

    # While questions are asked

    def take(self, delivery: Delivery, workers: int = 0) -> str | None:
        """Write results at once, and show progress; return the reason to stop the session, or None.

        `workers` counts the asking processes, 0 for this one alone. OSError if results cannot be written, DataError if
        a worker read other data than run.json describes.
        """
        loaded = bool(delivery.facts) and not self.model_made
        self.model_made = self.model_made or loaded
        recorder = self._recorder or self._begin(workers, {*add_selected(self.folder), *self._selected})
        self._check_data(delivery.data)
        if delivery.prompts and self._prompts is not None:
            # Before their results: no result is there whose prompt is lost.
            self._prompts.append(delivery.prompts)
        for text, (key, outcome) in zip(delivery.lines, delivery.outcomes, strict=True):
            line = text.encode()
            stored = self._stored.pop(key, None) if self._stored else None
            # An error does not replace a score.
            if stored is None or (outcome != "error" and stored != _digest(line)):
                recorder.append(line)
            if (before := self._outcomes.get(key)) is not None:
                self._counts[before] -= 1
            self._outcomes[key] = outcome
            self._counts[outcome] += 1
        self._totals.add(delivery)
        if loaded:
            self._note_loaded(delivery.facts)
            self._write()
        if delivery.unread:
            self._note_unread(delivery.unread)
        if (stop := self._surely_worse(delivery) or self._over_budget()) is not None:
            self._totals.stopped = self._totals.stopped or stop
        self._show(delivery)
        return stop

    def _begin(self, workers: int, selected: set[QuestionKey]) -> Recorder:
        """Begin to write: make the folder (UsageError), take over what earlier sessions left, and write run.json."""
        self._hold()
        before = run_record.read_run(self.folder) if self._has_record else None
        recorder = Recorder(self.folder)
        if before is not None:
            self._take_over(recorder, anew=self.plan.reads_anew(before))
            self._before = with_killed(before, self.folder)
            reports.remove(self.folder)
        earlier = None if before is None else self._before
        self._record = begun(self.plan, earlier, self.folder.name, self._process.session, workers)
        self._note_selection(selected)
        self._write()
        self._prompts = PromptRecorder(self.folder)
        # A signal that comes before this leaves a session that has not begun.
        self._recorder = recorder
        return recorder

    def _take_over(self, recorder: Recorder, *, anew: bool) -> None:
        """Note the results of earlier sessions; score them again if they were read by other rules."""
        benchmarks = self.plan.registry.benchmarks
        for result in run_folder.read(self.folder).results:
            if anew and result.item.benchmark in benchmarks:
                judge = self.plan.judge
                result = judging.rescored(
                    result,
                    benchmark=benchmarks[result.item.benchmark],
                    extraction=self.plan.extraction,
                    settings=judge.settings if judge is not None else None,
                    perturb=self.plan.protocol.perturb,
                )
                recorder.append(run_folder.encode(result))
            if result.score.outcome != "error":
                self._stored[result.key] = _digest(run_folder.encode(result))

    def _note_selection(self, selected: set[QuestionKey]) -> None:
        """Note the selection of all sessions, this one included, for run.json."""
        if not (selected or self._empty_shard):
            return
        before = self._before.selected
        how = (*before.how, *self.plan.project.selects, *self.plan.chosen_by_options)
        chosen = self.plan.project.by_outcome
        every = self.plan.has_every_answer(selected)
        if self._before.benchmarks.keys() - self.plan.benchmarks.keys():
            # This session's plan does not know the questions of these benchmarks.
            every = every and before.every
        by_outcome = before.by_outcome or chosen
        selection = coverage.select_from(selected, self._record, how, by_outcome=by_outcome, every=every)
        # Lost keys stay counted until as many questions are selected again.
        self._change(selection=structs.replace(selection, questions=max(before.questions, selection.questions)))

    def _check_data(self, digests: Mapping[str, str]) -> None:
        for name, digest in digests.items():
            if digest != (own := self._record.benchmarks[name].data_sha256):
                raise DataError(
                    f"benchmark {name}: its items differ between processes: their digest is {own[:12]} where the run "
                    f"began, and {digest[:12]} in a worker. Draw nothing in them, or draw with a fixed seed"
                )

    def _note_unread(self, lines: Sequence[str]) -> None:
        """Note stored answers that cannot be read; their questions are asked again."""
        self._change(unread_answers=tuple(dict.fromkeys([*self._record.unread_answers, *lines])))

    def _note_loaded(self, facts: Mapping[str, Any]) -> None:
        """Note what is known of loaded models; the judge's identity enters the signatures of judged benchmarks."""
        self._change(model=part_of(RecordedModel, facts["model"]), engine=part_of(RecordedEngine, facts["engine"]))
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

    def _change(self, **fields: Any) -> None:
        self._record = structs.replace(self._record, **fields)

    def _write(self) -> None:
        run_record.write_run(self.folder, self._record)

    def _surely_worse(self, delivery: Delivery) -> str | None:
        """With --stop=early, return why the run ends if it is surely worse than a baseline."""
        if self.plan.options.stop is None or self._gate is None or not self._selected:
            return None
        if self._watch is None:
            names = {target.benchmark.name for target in self._gate.targets} & self.plan.benchmarks.keys()
            items = [item for name in names for item in self.plan.items(name)]
            self._watch = Watch(self._gate, self._selected, items, self.folder.name)
        self._watch.take([run_folder.decode(line.encode()) for line in delivery.lines], self._record)
        return "--stop=early: the run is surely worse than its baseline" if self._watch.stopped else None

    def _over_budget(self) -> str | None:
        limit = self.plan.options.max_cost
        if limit is None or self._totals.cost < limit:
            return None
        subject = "the answers and their judging have" if self._totals.judge_usage["cost"] else "the answers have"
        return f"{subject} cost {self._totals.cost:.4g}: --max-cost={limit:g} is reached"

    def _show(self, delivery: Delivery) -> None:
        """Show progress, and news of places and endpoints."""
        self._show_shared()
        if delivery.endpoints or delivery.judge_endpoints:
            asked = {**self._totals.endpoints, **self._totals.judge_endpoints}
            for line in endpoints.news(asked, self._told):
                self.display.say(line)
            self._told = asked
        # Tests may ask questions that nobody selected.
        total = max(len(self._selected), self._counts.total())
        self.display.show(self._counts, total, pool_state(self._totals.pool))

    def _show_shared(self) -> None:
        """Show lines about places, such as that answers cannot be put there."""
        for line in [] if self._exchange is None else self._exchange.take_lines():
            self.display.say(line)

    def stop(self, why: str) -> None:
        """Make workers stop after their current question (OSError)."""
        run_folder.write_atomic(self.folder / STOP, why.encode())

    # At the end

    def finish(
        self, *, skipped: bool = False, died: bool = False, ended: bool = True, shared_by: float | None = None
    ) -> End:
        """Put the last answers into places until `shared_by` (monotonic); write the reports, decide the gate.

        `skipped`: tests were skipped; `died`: workers died; `ended`: all tests have run. If no report can be made, the
        answers are on disk and can be reported later.
        """
        try:
            # They end while the reports are drawn; `release` waits for them.
            self._ended_services = self._services.stop()
            unshared = None if self._exchange is None else self._exchange.close(shared_by)
            if self._recorder is None and self._empty_shard and not (died or self._selected):
                self._begin(0, set())
            if self._recorder is not None:
                return self._reported(self._recorder, unshared)
            return died_of(self.folder) if died else self._unasked(skipped=skipped, ended=ended)
        finally:
            self._show_shared()
            self.release()

    def _unasked(self, *, skipped: bool, ended: bool) -> End:
        """Leave the folder as it was; say why nothing was asked if something should have been."""
        if self._holds:
            if not self._selected:
                gating.take_back(self.folder, self._process.session)
            suspects.end_session(self.folder, complete=False)
            if self._gate is not None:
                self._withdraw()
        number, problem = len(set(self._selected)), None
        if number and skipped:
            problem = f"nothing was asked: {number:,} questions were selected, and skipped"
        elif not ended or self.plan.project.collects_only:
            pass
        elif number and (self._gate is not None or (self.plan.options.model_typed and self._evaluates)):
            problem = f"nothing was asked: {number:,} questions were selected, and no test called evaluate(item)"
        elif self._gate is not None:
            problem = "gate: no verdict: no test asks a question of the benchmarks"
        return End(self.folder, questions=number, problem=problem)

    @memory.no_cycle_search()
    def _reported(self, recorder: Recorder, unshared: int | None) -> End:
        """Write run.json and the reports, decide the gate, and call the hooks of the project."""
        problem = None
        recorder.close()
        if self._prompts is not None:
            self._prompts.close()
            self._prompts = None
        keys = set(self._selected)
        try:
            (self.folder / STOP).unlink(missing_ok=True)
            if selected_by(self.folder, self._process.session) is None:
                # Workers on other machines have stored it there.
                select_keys(self.folder, self._process.session, self._selected)
            keys.update(add_selected(self.folder))
            remove_selected(self.folder, self._process.session)
        except (MedVQAError, OSError) as error:
            problem = f"the keys of the selected questions could not be stored: {error}"
        end = End(self.folder, asked=True, questions=len(self._selected), incomplete=True)
        try:
            end, stored = self._settled(end, keys, unshared)
            end = replace(end, report=self._drawn(stored))
        except (MedVQAError, OSError) as error:
            # A user's metric failed, or the disk is full.
            problem = f"the reports could not be made: {error}"
        end = replace(end, problem=problem)
        return replace(end, notes=(*self._notes(end), *self._call_hooks(end)))

    def _settled(self, end: End, keys: set[QuestionKey], unshared: int | None) -> tuple[End, Stored]:
        """Find missing results, write run.json, and decide the gate. `keys`: what all sessions selected."""
        self._note_selection(keys)
        held = (
            item
            for name in self._record.benchmarks.keys() & self.plan.benchmarks.keys()
            for item in self.plan.items(name)
        )
        stored = run_folder.read(self.folder, run_folder.SharedResults(held))
        covered = coverage.coverage(self.folder, self._record, stored, keys)
        suspects.end_session(self.folder, complete=not covered.missing)
        self._note_end(covered.missing, unshared)
        self._write()
        verdict = None
        if self._gate is not None and not self._gated_later:
            side = Side.of(self.folder.name, self._record, stored.results, covered)
            # If everything was asked meanwhile, the verdict is that on the whole run.
            early = () if self._watch is None or covered.complete else self._watch.stopped
            verdict = gating.settle(self._gate, self.folder, side, early)
        incomplete = not covered.finished or "error" in self._outcomes.values()
        unselected = set(covered.missing) - {self.plan.name_of(key) for key in self._selected}
        return replace(end, verdict=verdict, incomplete=incomplete, unselected=len(unselected)), stored

    def _drawn(self, stored: Stored) -> Report:
        """Write the reports."""
        # An earlier session may have asked a benchmark whose file this one does not name.
        known = self.plan.registry.with_runs([self.folder]).benchmarks
        report = reports.build(self.folder, known, stored, data=self.plan.options.data)
        # Thousands of images would take minutes: `medvqa report --images` draws them.
        return reports.write(report, html.draw(report, self._items, many="none"))

    def _note_end(self, missing: Sequence[str], unshared: int | None) -> None:
        """Note the end of the session in its entry, and the sums of all sessions; `unshared`: None without a place."""
        before, totals, finished = self._before, self._totals, now()
        own = structs.replace(totals.recorded(self._record.sessions[-1]), finished=finished)
        if unshared is not None:
            own = structs.replace(own, unshared_answers=unshared)
            self._change(unshared_answers=unshared)
        engine = self._record.engine.as_json() | pool_facts(totals.pool)
        if asked := endpoints.added(before.engine.endpoints, totals.endpoints):
            engine |= {"endpoints": asked}
        judge = self._record.judge
        if judge is not None:
            judged = endpoints.added({} if before.judge is None else before.judge.endpoints, totals.judge_endpoints)
            judge = structs.replace(judge, endpoints=judged) if judged else judge
        self._change(
            sessions=(*self._record.sessions[:-1], own),
            finished=finished,
            missing=missing,
            usage=dict(Counter(before.usage) + totals.usage),
            judge_usage=dict(Counter(before.judge_usage) + totals.judge_usage),
            left_out={**before.left_out, **self._left_out},
            served_by=tuple(sorted(totals.served_by)),
            engine=part_of(RecordedEngine, engine),
            judge=judge,
        )

    def _items(self, benchmark: Benchmark) -> Sequence[Item] | None:
        return self.plan.items(benchmark.name) if benchmark.name in self.plan.benchmarks else None

    @property
    def _gated_later(self) -> bool:
        """Whether the run is one share of --shard, so that the gate is decided after merging."""
        return self._gate is not None and self.plan.shard is not None

    def _notes(self, end: End) -> list[str]:
        """Return the lines that follow the summary, such as why there is no verdict, and where answers came from."""
        lines = []
        if self._empty_shard and self.plan.shard is not None:
            lines.append(
                f"shard {self.plan.shard} is empty: there are fewer groups of related questions than shards; "
                "medvqa merge needs its run folder all the same"
            )
        if end.report is not None:
            if self._gated_later:
                lines.append("gate: no verdict on one shard; run medvqa merge on all shards, then medvqa gate")
            elif unread := self._rules_unread():
                shown = "the verdict above is of an earlier session" if end.report.gate is not None else "none"
                lines.append(f"gate: {shown}; {unread}")
        totals, model = self._totals, self._record.model
        nameless = bool(model.name) and model.fingerprint is None
        used = answer_sources.line(totals.reused, self._counts.total(), self._process.sources, nameless=nameless)
        return [
            *lines,
            *([] if used is None else [used]),
            *endpoints.lines(totals.endpoints),
            *endpoints.lines(totals.judge_endpoints),
            *pool_lines(totals.pool),
            *self._ended_services,
        ]

    def _rules_unread(self) -> str | None:
        """Why existing rules do not gate the run, as a sentence; None if it is gated or without rules."""
        if self.plan.options.gate == gates.OFF:
            return f"--gate={gates.OFF} was typed: no rule was applied, and the run counts as no attempt"
        return None if self._gate is not None else gates.unread(self.plan)

    def _call_hooks(self, end: End) -> list[str]:
        """Call `pytest_medvqa_finished` of the project; return a line for each that raised an exception."""
        failed = []
        for hook in self.plan.registry.finished if end.report is not None else ():
            try:
                with usercode.guarded("pytest_medvqa_finished", function=hook):
                    registry.call_finished(hook, run=end, verdict=end.verdict)
            except MedVQAError as error:
                failed.append(f"! {error}")
        return failed


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=8).digest()


def died_of(folder: Path) -> End:
    """Return the end of a run whose workers died before the first answer."""
    return End(folder, asked=True, problem="the workers died before anything was answered", incomplete=True)


def cut_short(folder: Path, command: str) -> str:
    """Return the lines for a process that a signal ends before the reports of its run are drawn."""
    report = shlex.join(["medvqa", "report", str(folder)])
    return (
        f"! ended by a signal before the reports were drawn; the answers are stored. To draw them: "
        f"{printing.line(report)}\nto go on: {printing.line(command)}"
    )


def name_of(options: Options, root: Path) -> str:
    """Return the name of --run, else a free one made of the time and the model."""
    if options.run is not None:
        return options.run
    when = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    # Tasks of an array start in the same second: without the shard, they would all choose one name.
    end = "" if options.shard is None else Shard.parse(options.shard).suffix
    return run_folder.run_name(options.model, when, reports_of(root), end)


def process_of(plan: Plan, run: str, session: str, name: str = MAIN) -> Process:
    """Return the process of that name in a run. UsageError if the run's name cannot be a folder's."""
    run_folder.check_name(run, "--run")
    folder = plan.project.reports / run
    return Process(folder, session, name, sources=answer_sources.of(plan.options.answers, folder))
