"""Hooks of the process that the user started: the run, progress, exit code and summary.

The controller is registered in every session, so it imports lazily: most sessions have no vqa item.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from medvqa import printing
from medvqa.items import MedVQAError, QuestionKey, UsageError
from medvqa.plugin import options, process

if TYPE_CHECKING:
    from medvqa.plugin.batch_scheduling import BatchScheduling
    from medvqa.plugin.crashes import Crashes
    from medvqa.session.delivery import Delivery, LeftOut
    from medvqa.session.display import Display
    from medvqa.session.places import Leases
    from medvqa.session.run import End, Run

SHIPPED_TESTS = "medvqa.suite.benchmark_tests"
"""The module of the shipped tests, one per shipped benchmark, for pytest's --pyargs."""


class Controller:
    """Hooks of the only process, or of the controller of xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        """Start without a run."""
        self._config = config
        self._session: pytest.Session | None = None
        self._failures = self._skipped = 0
        self._running: set[str] = set()
        self._scheduler: BatchScheduling | None = None
        self._leases: Leases | None = None
        self._end: End | None = None
        self._workers: dict[str, int] = {}
        self._tracebacks: list[str] = []
        self._interrupted = False
        self._refusal: str | None = None
        """Why the workers asked nothing, in a message for the user."""

    @cached_property
    def _run(self) -> Run:
        """The run (pytest.UsageError)."""
        from medvqa.plugin.process_state import state_of
        from medvqa.session.run import Run

        try:
            state = state_of(self._config)
        except MedVQAError as error:
            raise process.usage_error(error, self._config) from error
        run = Run(state.plan, state.process, self._display())
        self._config.add_cleanup(run.release)
        return run

    @cached_property
    def _crashed(self) -> Crashes:
        from medvqa.plugin.crashes import Crashes

        return Crashes(process.run_folder_of(self._config), process.names_of(self._config)[1])

    def _display(self) -> Display:
        from medvqa.plugin.terminal_output import TerminalDisplay
        from medvqa.session.display import Display

        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        progress = self._config.get_verbosity() == 0
        return Display() if reporter is None else TerminalDisplay(reporter, self._session, progress=progress)

    @property
    def _asks(self) -> bool:
        """Whether this session asks about vqa items, more than only collecting them."""
        return process.has_state(self._config) and not process.collects_only(self._config)

    # Before the first question

    def check(self) -> None:
        """Check options, data and model before collection (UsageError, DataError)."""
        places = self._run.check()
        if places is not None:
            from medvqa.session.places import Leases

            self._leases = Leases(places, self._run.plan.options.model)
            if not self._run.plan.project.workers:
                process.occupy(self._config, places[0])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which counts the tests; print the data that will leave this machine."""
        self._session = session
        if process.has_state(self._config):
            process.print_safely(self._config)
        if self._asks:
            # The reporter is not there while options are checked.
            self._run.display = self._display()
            for line in options.notice(process.short_of(self._config)):
                self._run.display.say(line)
            try:
                self._write(self._run.open)
            except MedVQAError as error:
                raise process.usage_error(error, self._config) from error

    def select(
        self, keys: Sequence[QuestionKey], left_out: LeftOut, *, evaluates: bool, empty_shard: bool = False
    ) -> None:
        """Note the questions that must end with a result, after collection in this process (pytest.UsageError)."""
        if evaluates and (refusal := self._config.stash[process.STATE].refusal(self._config)) is not None:
            raise process.usage_error(UsageError(refusal), self._config)
        self._run.select(keys, left_out, evaluates=evaluates, empty_shard=empty_shard)
        self.promise()

    def _select_stored(self, left_out: LeftOut) -> None:
        """Note the selection that a worker stored before its first question."""
        try:
            self._run.select_stored(left_out)
        except (MedVQAError, OSError) as error:
            self._give_up(error)
        self.promise()

    def promise(self) -> None:
        """Store the rules of the gate, after collection and before the first question."""
        try:
            self._write(self._run.promise)
        except MedVQAError as error:
            raise process.usage_error(error, self._config) from error

    def _write(self, write: Callable[[], Any]) -> Any:
        """Call `write`, which writes to the run folder, and return its value; end the session if it fails."""
        try:
            return write()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> NoReturn:
        why = f"the run folder cannot be written: {error}" if isinstance(error, OSError) else str(error)
        pytest.exit(why, returncode=pytest.ExitCode.INTERRUPTED)

    # Workers

    def workers(self) -> list[int]:
        """Return the processes of living workers on this machine."""
        living = []
        for pid in list(self._workers.values()):
            with suppress(ChildProcessError):
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    living.append(pid)
        return living

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker the run, the value of --dist, and its GPU place if the model takes one."""
        if node.gateway.spec.popen:
            self._workers[node.gateway.id] = node.gateway._rinfo().pid
        node.workerinput["medvqa_dist"] = process.spread_of(self._config)
        # A worker on another machine has other variables.
        node.workerinput["medvqa_shard"] = options.read(self._config).shard
        node.workerinput["medvqa_refusal"] = process.refusal(self._config)
        node.workerinput["medvqa_run"], node.workerinput["medvqa_session"], _ = process.names_of(self._config)
        node.workerinput["medvqa_services"] = services = self._run.services if self._asks else {}
        if services and not node.gateway.spec.popen:
            raise pytest.UsageError(
                f"{', '.join(services)}: its servers listen on this machine alone, and --tx names workers on another"
            )
        if self._leases is not None:
            try:
                node.workerinput["medvqa_place"] = self._leases.take(node.gateway.id)
            except MedVQAError as error:
                raise process.usage_error(error, self._config) from error

    @pytest.hookimpl(optionalhook=True, wrapper=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Generator[None, Any, Any]:
        """Send workers whole batches, unless the user chose another --dist than `load`."""
        scheduler = yield
        if type(scheduler).__name__ != "LoadScheduling":
            return scheduler
        from medvqa.plugin.batch_scheduling import BatchScheduling

        self._scheduler = BatchScheduling(config, log)
        return self._scheduler

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self) -> None:
        """Store the gate's rules: the workers have collected, and wait for tests."""
        if self._asks:
            self.promise()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Free the worker's place, take its selection if none is stored, and note a dead worker's open questions."""
        self._workers.pop(node.gateway.id, None)
        if self._leases is not None:
            self._leases.give_back(node.gateway.id)
        marked = getattr(node, "workeroutput", {}).get("medvqa_marked", ())
        self._config.stash.setdefault(process.MARKED, set()).update(marked)
        self._refusal = getattr(node, "workeroutput", {}).get("medvqa_refusal", self._refusal)
        if (selection := getattr(node, "workeroutput", {}).get("medvqa_selected")) is not None:
            # Workers on other machines have another run folder; workers that asked nothing stored no selection.
            keys, left_out, evaluates, empty_shard = selection
            selected = [QuestionKey(*key) for key in keys]
            self._run.select(selected, left_out, evaluates=evaluates, empty_shard=empty_shard)
        self._tracebacks.append(getattr(node, "workeroutput", {}).get("medvqa_tracebacks", ""))
        if (last_delivery := getattr(node, "workeroutput", {}).get("medvqa_last")) is not None:
            from medvqa.session.delivery import Delivery

            self.take_last(Delivery.of(last_delivery))
        if error and not hasattr(node, "workeroutput"):
            self._write(lambda: self._crashed.note(node.gateway.id))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Requeue the test that xdist blames for the death of its worker."""
        # In a session without vqa items, trust xdist.
        began = crashitem in self._running or not process.has_state(self._config)
        self._crashed.requeue(crashitem, report.node.gateway.id, report, sched, began=began)

    def take_last(self, delivery: Delivery) -> None:
        """Note the last delivery of a process, after all its tests; skip it if the run cannot be written."""
        with suppress(MedVQAError, OSError):
            self._run.take(delivery)

    # While tests run

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._running.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that a test has ended. It is never called for a test whose worker died."""
        self._running.discard(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the results of a report, before another plugin can fail on it."""
        self._skipped += "medvqa_skipped" in report.__dict__
        if "medvqa" not in report.__dict__:
            return
        from medvqa.session.delivery import Delivery

        # The terminal keeps all reports of a session: drop results that are stored or counted.
        sent = report.__dict__.pop("medvqa")
        delivery = sent if isinstance(sent, Delivery) else Delivery.of(sent)
        if delivery.left_out is not None:
            # If no option was typed, this is the first sign that workers have questions.
            self._select_stored(delivery.left_out)
        try:
            stop = self._run.take(delivery, len(self._scheduler.nodes) if self._scheduler is not None else 0)
        except (MedVQAError, OSError) as error:
            self._give_up(error)
        if self._scheduler is not None and (engine := delivery.facts.get("engine")):
            self._scheduler.batch = engine["batch_size"] * engine["concurrency"]
        # pytest's testsfailed leaves out xfail tests.
        if report.outcome == "failed" and "medvqa_outcome" in report.__dict__ and not hasattr(report, "wasxfail"):
            self._failures += 1
        if self._session is not None and stop is not None and not self._session.shouldstop:
            self._session.shouldstop = stop
            if self._config.pluginmanager.has_plugin("dsession"):
                self._write(lambda: self._run.stop(stop))

    # At the end

    def last_words(self) -> str:
        """Return the lines for a session that a signal ends before its reports are drawn."""
        from medvqa.session.run import cut_short

        return cut_short(process.run_folder_of(self._config), self._command())

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """End the workers now: xdist would let them go on for five seconds, and wait ten more."""
        self._interrupted = True
        if self._session is None and options.read(self._config).typed:
            # pytest's terminal reporter comes later, and says nothing about an end before the session's start.
            os.write(self._config.stash[process.TERMINAL], b"interrupted before anything was asked\n")
        if not self._workers or not process.has_state(self._config):
            return
        from medvqa.engine import FAREWELL

        dsession: Any = self._config.pluginmanager.get_plugin("dsession")
        dsession.nodemanager.EXIT_TIMEOUT = FAREWELL + 2
        for pid in self.workers():
            os.kill(pid, signal.SIGTERM)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Write the reports, even if a second Ctrl-C ends the wait for models and workers."""
        try:
            result = yield
        except KeyboardInterrupt:
            result = None
        self._finish(session)
        return result

    def _finish(self, session: pytest.Session) -> None:
        """Finish the run and set the exit code: wrong answers alone do not make it 1."""
        if self._refusal is not None:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        died = "_crashed" in self.__dict__ and self._crashed.requeued
        if process.has_state(self._config):
            self._run.display.close()
            ended = session.exitstatus == pytest.ExitCode.OK and self._refusal is None
            puts_by = self._config.stash[process.ENDING].puts_by()
            end = self._run.finish(skipped=self._skipped > 0, died=died, ended=ended, shared_by=puts_by)
        elif died:
            from medvqa.session.run import died_of

            end = died_of(process.run_folder_of(self._config))
        else:
            return
        self._end = end
        if process.ENDING in self._config.stash:
            # Other plugins may take long for their summaries.
            self._config.stash[process.ENDING].last_words = f"to go on: {printing.line(self._command())}"
        stopped_early = end.failed_early and not self._config.stash[process.ENDING].heard
        if not end.asked:
            failed = end.problem is not None and options.read(self._config).typed
            if session.exitstatus == pytest.ExitCode.OK and failed:
                session.exitstatus = end.exit_code
        elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            # An empty shard is recorded, and no mistake.
            session.exitstatus = end.exit_code
        elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or stopped_early:
            session.exitstatus = 1 if session.testsfailed > self._failures else end.exit_code
        elif session.exitstatus == pytest.ExitCode.INTERRUPTED and self._has_no_model(session):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _has_no_model(self, session: pytest.Session) -> bool:
        """Whether the session stopped because no process could make the model or the judge, as in `medvqa run`."""
        return bool(session.shouldstop) and not self._run.model_made

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print the headline measures and the path of the reports."""
        self._show_tracebacks(terminalreporter)
        if self._refusal is not None:
            terminalreporter.write_line(f"ERROR: {printing.lines(self._refusal)}", red=True)
        self._print_untested(terminalreporter, exitstatus)
        if process.collects_only(self._config) and options.read(self._config).gate == "required":
            terminalreporter.write_line("gate: no verdict: tests were collected, and nothing was asked")
        end = self._end
        if end is None:
            return
        if end.report is not None:
            from medvqa.plugin.terminal_output import summarise

            summarise(terminalreporter, end.report)
            for line in end.notes:
                terminalreporter.write_line(line)
        if end.problem is not None:
            terminalreporter.section("medvqa")
            terminalreporter.write_line(f"! {end.problem}")
            if process.run_folder_of(self._config).is_dir():
                terminalreporter.write_line(f"run folder: {process.run_folder_of(self._config)}")
        if end.incomplete or (self._interrupted and not end.asked):
            terminalreporter.write_line(f"to go on: {self._command()}")
        if end.unselected:
            terminalreporter.write_line(
                f"{end.unselected:,} of the missing questions were selected by an earlier command: leave out "
                "what chooses among the questions (-k, -m, --limit, --lf, paths) to ask them too"
            )

    def _show_tracebacks(self, reporter: pytest.TerminalReporter) -> None:
        """With --tb=long, print the tracebacks of failed users' code of all processes, with keys redacted."""
        if not process.wants_tracebacks(self._config) or not process.has_state(self._config):
            return
        from medvqa import answers, usercode

        texts = dict.fromkeys([usercode.take_tracebacks(), *self._tracebacks])
        if any(texts):
            reporter.section("medvqa: tracebacks")
            for text in filter(None, texts):
                reporter.write_line(answers.redacted(text, self._run.plan.secrets))

    def _print_untested(self, reporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print what to type if no collected test asks about the chosen benchmarks, or about one that was named.

        Skip sessions that ended early, or that repeat failed tests (--lf): they may not have seen all tests.
        """
        config = self._config
        codes = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        if not process.has_state(config) or exitstatus not in codes or config.getoption("lf", False):
            return
        plan, marked = self._run.plan, config.stash.get(process.MARKED, set())
        untested = plan.untested(marked)
        if not options.read(config).typed or not untested:
            return
        if len(untested) < len(plan.benchmarks):
            if plan.options.benchmarks:
                reporter.write_line(f"! no test here asks about {', '.join(untested)}")
            return
        asks = f"about {', '.join(sorted(marked))}, and none about {', '.join(untested)}" if marked else "a model"
        from medvqa import benchmarks

        reporter.section("medvqa")
        reporter.write_line(f"! {'the tests here ask' if marked else 'no test here asks'} {asks}")
        if not {shipped.name for shipped in benchmarks.pytest_medvqa_benchmarks()}.intersection(untested):
            for line in _test_to_write(untested[0], self._config):
                reporter.write_line(line)
            return
        paths = {str(path) for path in config.args}
        typed = [word for word in map(str, config.invocation_params.args) if word not in paths]
        reporter.write_line(f"to run the tests that ship: {shlex.join(['pytest', '--pyargs', SHIPPED_TESTS, *typed])}")

    def _command(self) -> str:
        """Return the command that continues this run."""
        from medvqa.session.sharding import without_auto, without_once

        kept = without_once([str(argument) for argument in self._config.invocation_params.args])
        read = options.read(self._config)
        if read.shard is not None and read.shard_source:
            return shlex.join(["pytest", *without_auto(kept, read.shard, process.names_of(self._config)[0])])
        named = read.run is not None
        return shlex.join(["pytest", *kept, *([] if named else [f"--run={process.names_of(self._config)[0]}"])])


def _test_to_write(name: str, config: pytest.Config) -> list[str]:
    """Return the test that asks about a benchmark, for the user to write into a file."""
    # The name of a file that --benchmark names is unknown in a session without it: a mark with it stops collection.
    mark = f'vqa("{name}")' if name in process.registry_of(config).benchmarks else "vqa"
    word = re.sub(r"\W", "_", name)
    return [
        f"to ask about {name}, write this into test_{word}.py, and type the command again:",
        "",
        "    import pytest",
        "",
        "",
        f"    @pytest.mark.{mark}",
        f"    def test_{word}(medvqa_item, evaluate):",
        "        evaluate(medvqa_item)",
        "",
    ]
