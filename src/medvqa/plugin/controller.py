"""Hooks of the process that the user started: the run folder, progress, exit code and summary.

Registered in every session, so it imports nothing until the first item has ended.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Generator
from datetime import datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from medvqa.items import MedVQAError, UsageError
from medvqa.plugin import process
from medvqa.session import options as _options

if TYPE_CHECKING:
    from medvqa.comparing.gating import Gate
    from medvqa.plugin.collected import Collected
    from medvqa.plugin.collection import LeftOut
    from medvqa.plugin.crashes import Crashes
    from medvqa.plugin.spread import BatchScheduling
    from medvqa.plugin.terminal import Progress
    from medvqa.report import Report
    from medvqa.session.places import Leases
    from medvqa.session.run import Recording


class Controller:
    """Listens in the only process, or in the controller of xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing is made yet."""
        self._config = config
        self._session: pytest.Session | None = None
        self._failures = 0
        self._skipped = 0
        self._running: set[str] = set()
        self._expected: set[str] = set()
        self._collected: Collected | None = None
        self._left_out: LeftOut = {}
        self._recording: Recording | None = None
        self._progress: Progress | None = None
        self._report: Report | None = None
        self._problem: str | None = None
        self._incomplete = False
        self._scheduler: BatchScheduling | None = None
        self._leases: Leases | None = None
        self._crashes: Crashes | None = None
        self._gate: Gate | None = None
        self._prepared = False

    @cached_property
    def session(self) -> str:
        """What tells this session from others of the run, told to all workers."""
        return secrets.token_hex(4)

    @cached_property
    def run(self) -> str:
        """The run's name, told to all workers."""
        options = _options.read(self._config)
        if options.run is not None:
            return options.run
        from medvqa.records import run_name

        return run_name(options.model, datetime.now().astimezone().strftime("%Y%m%d-%H%M%S"), self._reports)

    @property
    def _reports(self) -> Path:
        return self._config.rootpath / "reports"

    @property
    def _folder(self) -> Path:
        return self._reports / self.run

    def check(self) -> None:
        """What can be found wrong before anything is collected (UsageError, DataError)."""
        from medvqa import records

        records.check_name(self.run, "--run")
        state = process.state_of(self._config)
        state.check()
        state.plan.check(answered=state.answered)
        if (self._folder / records.RUN).is_file():
            before = records.read_run(self._folder)
            if differences := records.differences(before, state.plan.about()):
                raise UsageError(
                    f"run '{self.run}' cannot go on: {'; '.join(differences)}. Name another with --run=NAME"
                )
            anew = state.plan.reads_anew(before)
            if anew and records.judged_by_rule(before, state.plan.about()):
                raise UsageError(
                    f"run '{self.run}' cannot go on with --extraction={state.plan.extraction}: by it other answers "
                    f"would be left to the judge. Type medvqa rescore {self._folder} --judge=... --extract-with=judge "
                    f"--extraction={state.plan.extraction}, or name another run with --run=NAME"
                )
            others = sorted(before.get("benchmarks", {}).keys() - state.plan.benchmarks.keys())
            if others and anew:
                raise UsageError(
                    f"run '{self.run}' cannot go on: its answers would be read by two rules. Add "
                    f"{' '.join(f'--benchmark={name}' for name in others)}, so that all are read by "
                    f"--extraction={state.plan.extraction}"
                )
        self._prepare_gate()
        if not self._config.option.collectonly and state.plan.places is not None:
            from medvqa.session import places as leases

            self._leases = leases.Leases(state.plan.places, state.plan.options.model)
            if not leases.workers_asked(self._config):
                process.occupy(self._config, state.plan.places[0])

    def _prepare_gate(self) -> None:
        """Find what is gated, once (UsageError, DataError)."""
        if self._prepared or self._config.option.collectonly:
            return
        from medvqa.session import gates

        self._prepared = True
        self._gate = gates.prepare(self._config, process.state_of(self._config).plan, self._folder)

    def promise(self) -> None:
        """Store the rules of the gate, after collection and before anything is asked."""
        try:
            self._prepare_gate()
            if self._gate is not None:
                from medvqa.session import gates

                plan = process.state_of(self._config).plan
                if self._collected is not None:
                    # Workers tell what they have collected with their first results.
                    try:
                        gates.check(self._gate, plan, self._collected)
                    except UsageError:
                        gates.withdraw(self._folder)
                        raise
                gates.promise(self._gate, plan, self._folder)
        except MedVQAError as error:
            raise process.usage_error(error) from error
        except OSError as error:
            self._give_up(error)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Workers have collected, and wait for what they are given."""
        if self._gate is not None:
            self.promise()

    def expect(self, collected: Collected, left_out: LeftOut) -> None:
        """Note what was selected and must end with a result, and what could not be; the same in every process."""
        if collected == self._collected:
            return
        from medvqa.plugin.collected import names

        self._collected = collected
        self._expected.update(names(collected, process.state_of(self._config).plan))
        self._left_out = left_out

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which knows how many tests there are; say what will leave this machine."""
        self._session = session
        if process.has_state(self._config):
            process.print_safely(self._config)
        if process.has_state(self._config) and not self._config.option.collectonly:
            from medvqa.records import bury
            from medvqa.session.asker import STOP

            # Whoever stopped an earlier session, what it was asking is asked with more care.
            try:
                # That of a session that was killed as it stopped.
                (self._folder / STOP).unlink(missing_ok=True)
                bury(self._folder, "earlier")
            except OSError as error:
                self._give_up(error)
            self._say(process.state_of(self._config).plan.upload_notice())
            self._say(process.state_of(self._config).plan.judge_notice())

    def _say(self, line: str | None) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if line is not None and reporter is not None:
            reporter.write_line(line)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker the run, its place on a GPU if it takes one, and whether anybody here hears of every phase."""
        from medvqa.plugin.protocol import hears_every_phase

        node.workerinput["medvqa_run"] = self.run
        node.workerinput["medvqa_every_phase"] = hears_every_phase(self._config)
        node.workerinput["medvqa_session"] = self.session
        if self._leases is not None:
            try:
                node.workerinput["medvqa_place"] = self._leases.take(node.gateway.id)
            except MedVQAError as error:
                raise process.usage_error(error) from error

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Generator[None, Any, Any]:
        """Keep workers in batches, where nobody asked for another way of spreading than xdist's own."""
        made = yield
        if type(made).__name__ != "LoadScheduling":
            return made
        from medvqa.plugin.spread import BatchScheduling

        self._scheduler = BatchScheduling(config, log)
        return self._scheduler

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Hear what a worker had collected that ended, note what one asked that died; its place is free again."""
        if self._leases is not None:
            self._leases.give_back(node.gateway.id)
        if (collected := getattr(node, "workeroutput", {}).get("medvqa_collected")) is not None:
            self.expect(*collected)
        if error and not hasattr(node, "workeroutput"):
            try:
                self._crashed.note(node.gateway.id)
            except OSError as problem:
                self._give_up(problem)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Let a test run again that xdist blames for the death of its worker."""
        # In a session that has nothing to do with vqa items xdist's word stands.
        began = crashitem in self._running or not process.has_state(self._config)
        self._crashed.requeue(crashitem, report.node.gateway.id, report, sched, began=began)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._running.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended; one whose worker died never does."""
        self._running.discard(nodeid)

    @property
    def _crashed(self) -> Crashes:
        if self._crashes is None:
            from medvqa.plugin.crashes import Crashes

            self._crashes = Crashes(self._folder, self.session)
        return self._crashes

    def _give_up(self, error: Exception) -> NoReturn:
        pytest.exit(f"the run folder cannot be written: {error}", returncode=pytest.ExitCode.INTERRUPTED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the results that came with a report, before anybody else can fail on it."""
        self._skipped += hasattr(report, "medvqa_skipped")
        told: dict[str, Any] | None = getattr(report, "medvqa", None)
        if told is None:
            return
        if (collected := told.pop("collected")) is not None:
            self.expect(*collected)
        # The terminal keeps all reports of a session. What is on disk, or counted, need not be kept with them.
        del report.medvqa
        try:
            recording = self._recorded()
            recording.take(**told)
        except (MedVQAError, OSError) as error:
            self._give_up(error)
        if self._scheduler is not None and (about := told["about"]):
            self._scheduler.batch = about["engine"]["batch_size"] * about["engine"]["concurrency"]
        if report.failed and hasattr(report, "medvqa_outcome"):
            self._failures += 1
        self._stop_at_cost(recording)
        if self._progress is not None and self._session is not None:
            self._progress.show(recording.counts, self._session.testscollected)

    def _stop_at_cost(self, recording: Recording) -> None:
        cost = recording.usage["cost"] + recording.judge_usage["cost"]
        limit = process.state_of(self._config).options.max_cost
        if limit is None or cost < limit or self._session is None or self._session.shouldstop:
            return
        what = "the answers and their judging have" if recording.judge_usage["cost"] else "the answers have"
        self._session.shouldstop = f"{what} cost {cost:.4g}: --max-cost={limit:g} is reached"
        if self._config.pluginmanager.has_plugin("dsession"):
            recording.stop(self._session.shouldstop)

    def _recorded(self) -> Recording:
        if self._recording is None:
            from medvqa.session.run import Recording

            workers = len(self._scheduler.nodes) if self._scheduler is not None else 0
            plan = process.state_of(self._config).plan
            # Where nothing was typed, it is not known before the first result that workers have questions to ask.
            self.promise()
            self._recording = Recording(plan, self._folder, self.session, workers)
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                from medvqa.plugin.terminal import Progress

                self._progress = Progress(reporter)
        return self._recording

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; a wrong answer is data, so it is not what makes an exit code of 1."""
        if self._progress is not None:
            self._progress.close()
        self._expected.update(self._unfinished())
        if self._recording is not None:
            try:
                self._report = self._recording.finish(self._expected, self._left_out, self._decided_now)
            except (MedVQAError, OSError) as error:
                # A metric of one's own that fails, or a full disk: the answers are there and can be reported later.
                self._problem = f"the reports could not be made: {error}"
            self._incomplete = not self._recording.is_complete(self._expected)
        elif self._crashes is not None and self._crashes.requeued:
            self._problem, self._incomplete = "the workers died before anything was answered", True
        else:
            if process.has_state(self._config) and not self._config.option.collectonly:
                from medvqa.records import close_journals

                close_journals(self._folder, complete=False)
                if self._gate is not None:
                    from medvqa.session import gates

                    gates.withdraw(self._folder)
            if self._expected and self._skipped:
                self._problem = f"nothing was asked: {len(self._expected)} questions were selected, and skipped"
                if session.exitstatus == pytest.ExitCode.OK and _options.read(self._config).typed:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            others = session.testsfailed > self._failures or self._problem is not None
            session.exitstatus = int(others or self._incomplete)
            verdict = self._recording.verdict if self._recording is not None else None
            if session.exitstatus == pytest.ExitCode.OK and verdict is not None:
                session.exitstatus = verdict.exit_code

    @property
    def _decided_now(self) -> Gate | None:
        """What is gated at the end of this session: a share is no run, and all shares are gated together."""
        return None if process.state_of(self._config).plan.shard is not None else self._gate

    def _unfinished(self) -> list[str]:
        """Tests that no worker ran to its end, where no worker could tell which items it had collected."""
        if self._scheduler is None or self._expected:
            return []
        left = [*self._scheduler.pending, *chain.from_iterable(self._scheduler.node2pending.values())]
        return [self._scheduler.collection[index] for index in left]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The headline measures, and where the rest lies."""
        if self._report is not None:
            from medvqa.plugin.terminal import summarise

            summarise(terminalreporter, self._report)
            if self._gate is not None and self._decided_now is None:
                terminalreporter.write_line("gate: decided on all shares, after medvqa merge, by medvqa gate")
        if self._problem is not None:
            terminalreporter.section("medvqa")
            terminalreporter.write_line(f"! {self._problem}")
            if self._folder.is_dir():
                terminalreporter.write_line(f"run folder: {self._folder}")
        if self._incomplete:
            terminalreporter.write_line(f"to go on: {self._command()}")

    def _command(self) -> str:
        """What the user types to go on with this run."""
        typed = [str(argument) for argument in self._config.invocation_params.args]
        kept = [argument for argument in typed if argument not in ("--fresh", "--medvqa-fresh")]
        named = _options.read(self._config).run is not None
        return shlex.join(["pytest", *kept, *([] if named else [f"--run={self.run}"])])
