"""`medvqa.load`: load a run folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import printing, report
from medvqa.comparing import Side
from medvqa.face import frames
from medvqa.face.known import Extras, known_with
from medvqa.items import Benchmark, Metric, UsageError
from medvqa.records import baseline_file, run_folder
from medvqa.records.coverage import Coverage
from medvqa.records.run_record import Selection, runs_beside
from medvqa.report import Report, drawn, html, rows, tables, terminal
from medvqa.report.gate import headline as verdict_line
from medvqa.session.registry import Registry

if TYPE_CHECKING:
    import pandas as pd

    from medvqa.comparing.gating import Verdict

WIDTH = 100
"""Width of the text that `repr` returns, in characters, as in `medvqa report`."""


@dataclass(frozen=True, repr=False, eq=False)
class LoadedRun:
    """A run, as it was on disk when it was loaded. Made by `medvqa.load` and `medvqa.evaluate`.

    `repr`, and the last line of a notebook's cell, show the tables of the terminal, after a warning if results are
    missing.
    """

    _report: Report
    _known: Registry
    _notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._report.folder

    @property
    def name(self) -> str:
        """The run's name, which is its folder's."""
        return self.folder.resolve().name

    @cached_property
    def measures(self) -> pd.DataFrame:
        """A row for each measure and slice; values and bounds are fractions. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.measures(self._report))

    @cached_property
    def items(self) -> pd.DataFrame:
        """A row for each question that has a result: text, options, answer key, tags. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.items(self._report))

    @cached_property
    def results(self) -> pd.DataFrame:
        """A row for each result: answer, outcome, value, seconds, tokens, tags. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.results(self._report))

    @cached_property
    def errors(self) -> pd.DataFrame:
        """A row for each wrong answer that `medvqa classify` sorted; no row before that. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.errors(self._report))

    @property
    def selection(self) -> Selection:
        """The part of each benchmark that the run selected: `selection.benchmarks["NAME"]["mc"]` prints "77 of 143"."""
        return self._report.selection

    @property
    def coverage(self) -> Coverage:
        """The part of the selection that has a result: `coverage.finished`, `coverage.missing`, `coverage.lines`."""
        return self._report.covered

    @property
    def finished(self) -> bool:
        """Whether every selected question has a result."""
        return self._report.covered.finished

    @property
    def verdict(self) -> Verdict | None:
        """The gate's verdict, None without a gate: `verdict.outcome` is "PASS", "FAIL", "INCONCLUSIVE" or None."""
        return None if self._report.gate is None else self._report.gate.verdict

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to read with the numbers; the first ones say if results are missing."""
        return (*self._report.covered.lines, *self._notes, *report.notes_of(self._report))

    def report(self) -> Path:
        """Return the path of the run's page, index.html; if it is missing, write all reports.

        UsageError if the folder cannot be written.
        """
        page = self.folder / html.FILE
        if not page.is_file():
            report.write(self._report)
        return page

    def __repr__(self) -> str:
        """Return the tables as text."""
        notes = [f"! {printing.line(note)}" for note in self._notes]
        return "\n".join([*notes, terminal.summary(self._report, width=WIDTH, exits=False)])

    def _repr_html_(self) -> str:
        shown = [tables.headline(self._report, ["random"]), tables.outcomes(self._report)]
        blocks = [
            drawn.paragraph(self._report.title, strong=True),
            *(drawn.paragraph(line, strong=True) for line in (*self._notes, *self._report.covered.lines)),
            *(drawn.grid(table) for table in shown if table.rows),
            drawn.listed(report.notes_of(self._report)),
        ]
        if self._report.gate is not None:
            blocks.append(drawn.paragraph(f"gate: {verdict_line(self._report.gate, exits=False)}", strong=True))
        blocks.append(drawn.paragraph(f"run folder: {self.folder}"))
        return "\n".join(filter(None, blocks))

    def _side(self) -> Side:
        """Return the run as a side of a comparison (UsageError if it is half scored)."""
        run_folder.check_scored(self.folder, self._report.run)
        results = [result for part in self._report.parts for result in part.results]
        results.sort(key=lambda result: result.key)
        return Side.of(self.name, self._report.run, tuple(results), self._report.covered)


def load(
    run: str | os.PathLike[str],
    *,
    benchmarks: Iterable[Benchmark] = (),
    metrics: Iterable[Metric] = (),
    plugins: Extras = (),
) -> LoadedRun:
    """Load a run folder, such as `reports/RUN`, and compute its measures; nothing is written.

    `benchmarks` and `metrics` are your own, in addition to the shipped ones. `plugins` are modules or Python files that
    define them, such as "conftest.py"; files are executed.

    The run may be unfinished: see `finished`, `warnings` or the printed table.

    Raises UsageError if the folder is no run folder, is damaged, or holds results of an unknown benchmark. Raises
    DataError if its results cannot be read.
    """
    folder = Path(run)
    if baseline_file.is_baseline(folder):
        raise UsageError(f"{folder} is a baseline file, not a run folder; medvqa.compare() takes it")
    if not folder.is_dir():
        raise UsageError(f"{folder} is no run folder{runs_beside(folder)}")
    return loaded(folder, known_with(benchmarks=benchmarks, metrics=metrics, plugins=plugins))


def loaded(folder: Path, known: Registry) -> LoadedRun:
    """Load a run folder with the benchmarks and metrics of a registry (UsageError, DataError)."""
    known = known.with_runs([folder])
    return LoadedRun(report.build(folder, known.benchmarks), known)
