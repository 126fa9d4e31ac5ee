"""Hooks of the process that the user started: the run folder, progress, exit code and summary.

Registered in every session, so it imports nothing until the first item has ended.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medvqa.items import MedVQAError
from medvqa.plugin import options as _options
from medvqa.plugin import process

if TYPE_CHECKING:
    from medvqa.items import Outcome
    from medvqa.plugin.recording import Recording
    from medvqa.plugin.spread import BatchScheduling
    from medvqa.plugin.terminal import Progress
    from medvqa.report import Report


class Controller:
    """Listens in the only process, or in the controller of xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        """Nothing is made yet."""
        self._config = config
        self._session: pytest.Session | None = None
        self._failures = 0
        self._expected: set[str] = set()
        self._recording: Recording | None = None
        self._progress: Progress | None = None
        self._report: Report | None = None
        self._problem: str | None = None
        self._scheduler: BatchScheduling | None = None

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

    def check(self) -> None:
        """What can be found wrong before anything is collected (UsageError, DataError)."""
        from medvqa import records

        records.check_new(self.run, self._reports)
        process.state_of(self._config).plan.check()

    def expect(self, names: list[str]) -> None:
        """Note items that were selected and must end with a result."""
        self._expected.update(names)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the session, which knows how many tests there are; say what will leave this machine."""
        self._session = session
        if process.has_state(self._config) and not self._config.option.collectonly:
            self._say(process.state_of(self._config).plan.upload_notice())

    def _say(self, line: str | None) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if line is not None and reporter is not None:
            reporter.write_line(line)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Name the run to a worker."""
        node.workerinput["medvqa_run"] = self.run

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
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from a worker that ended which items it had collected."""
        self.expect(getattr(node, "workeroutput", {}).get("medvqa_expected", []))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the results that came with a report, before anybody else can fail on it."""
        lines: list[str] = getattr(report, "medvqa_results", [])
        if not lines:
            return
        outcomes: dict[str, Outcome] = report.medvqa_outcomes
        try:
            recording = self._recorded()
            about = getattr(report, "medvqa_about", None)
            recording.take(lines, outcomes, about, report.medvqa_usage)
        except (MedVQAError, OSError) as error:
            pytest.exit(f"the run folder cannot be written: {error}", returncode=pytest.ExitCode.INTERRUPTED)
        if self._scheduler is not None and about is not None:
            self._scheduler.batch = about["engine"]["batch_size"] * about["engine"]["concurrency"]
        # The lines are on disk: a session of 130,000 reports need not keep them.
        del report.medvqa_results
        if report.failed and hasattr(report, "medvqa_outcome"):
            self._failures += 1
        self._stop_at_cost(recording)
        if self._progress is not None and self._session is not None:
            self._progress.show(recording.counts, self._session.testscollected)

    def _stop_at_cost(self, recording: Recording) -> None:
        cost, limit = recording.usage["cost"], process.state_of(self._config).options.max_cost
        if limit is None or cost < limit or self._session is None or self._session.shouldstop:
            return
        self._session.shouldstop = f"the answers have cost {cost:.4g}: --max-cost={limit:g} is reached"
        if self._config.pluginmanager.has_plugin("dsession"):
            recording.stop(self._session.shouldstop)

    def _recorded(self) -> Recording:
        if self._recording is None:
            from medvqa.plugin.recording import Recording

            self._recording = Recording(process.state_of(self._config).plan, self._reports / self.run)
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
        if self._recording is not None:
            try:
                self._report = self._recording.finish(self._expected)
            except (MedVQAError, OSError) as error:
                # A metric of one's own that fails, or a full disk: the answers are there and can be reported later.
                self._problem = f"the reports could not be made: {error}"
            if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                others = session.testsfailed > self._failures or self._problem is not None
                session.exitstatus = int(others or not self._recording.is_complete(self._expected))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The headline measures, and where the rest lies."""
        if self._report is not None:
            from medvqa.plugin.terminal import summarise

            summarise(terminalreporter, self._report)
        if self._problem is not None:
            terminalreporter.section("medvqa")
            terminalreporter.write_line(f"! {self._problem}")
            terminalreporter.write_line(f"run folder: {self._reports / self.run}")
