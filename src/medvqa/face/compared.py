"""`medvqa.compare`: compare two runs on the same questions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from medvqa import comparing
from medvqa.comparing import Paired, Side
from medvqa.face import frames
from medvqa.face.known import Extras, joined, known_with
from medvqa.face.loaded import LoadedRun
from medvqa.items import Benchmark, Metric, UsageError
from medvqa.report import comparison, drawn, rows
from medvqa.report.comparison import Section
from medvqa.session.registry import Registry

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class ComparedRuns:
    """Two runs compared. Made by `medvqa.compare`.

    Differences are new minus baseline. `repr`, and the last line of a notebook's cell, show notes and headline measures
    as `medvqa compare` prints them.
    """

    _paired: Paired
    _known: Registry
    _refusals: tuple[str, ...]
    _notes: tuple[str, ...]

    @property
    def baseline(self) -> str:
        """The name of the baseline run."""
        return self._paired.baseline.name

    @property
    def new(self) -> str:
        """The name of the new run."""
        return self._paired.new.name

    @property
    def differs(self) -> str:
        """The one setting in which the runs differ, as "the image: blank in NEW, shown in BASELINE"; "" without one."""
        difference = self._paired.difference
        return "" if difference is None else difference.line(self.new, self.baseline)

    @property
    def unchanged(self) -> bool:
        """Whether both runs have the same questions, and the same response and score to each."""
        return self._paired.unchanged

    @cached_property
    def differences(self) -> pd.DataFrame:
        """A row for each measure and slice: both values, new minus baseline, interval, p. Columns: docs/reference.md.

        `low` and `high` are the two-sided interval of 95 %. MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.differences(self._paired.tables))

    @cached_property
    def flips(self) -> pd.DataFrame:
        """A row for each question of each unit with a changed headline measure. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.flips(self._paired.flips))

    @cached_property
    def parts(self) -> pd.DataFrame:
        """A row for each benchmark and technique: the number of items that both runs have. Columns: docs/reference.md.

        MedVQAError if pandas is not installed.
        """
        return frames.frame(rows.parts(self._paired.parts))

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings to read with the numbers; the first ones say why runs are not comparable."""
        return tuple(note for section in self._sections for note in section.notes)

    @cached_property
    def _sections(self) -> list[Section]:
        shown = comparison.Shown(flips=0, slices=0)
        return comparison.sections(
            self._paired, self._known.benchmarks, refusals=self._refusals, notes=self._notes, shown=shown
        )

    def __repr__(self) -> str:
        """Return the tables as text."""
        return comparison.text(self._sections)

    def _repr_html_(self) -> str:
        return drawn.sections(self._sections)


def compare(
    baseline: str | os.PathLike[str] | LoadedRun,
    new: str | os.PathLike[str] | LoadedRun,
    *,
    benchmark: str | Iterable[str] = (),
    anyway: bool = False,
    bootstrap: bool = False,
    equivalent: float | None = None,
    benchmarks: Iterable[Benchmark] = (),
    metrics: Iterable[Metric] = (),
    plugins: Extras = (),
) -> ComparedRuns:
    """Compare a run with a baseline, on the questions that both have.

    The first run is the baseline, as for `medvqa compare`. Each is a run folder, a file of `medvqa baseline`, or a
    loaded run. `benchmark` compares only the benchmarks of these names. `bootstrap` adds the cluster bootstrap of
    headline measures. `equivalent` tests whether these differ by less than so many points, with a 90 % interval and a
    verdict: alike, different or open. `benchmarks`, `metrics` and `plugins` are as for `medvqa.load`; loaded runs
    bring their own.

    Runs that differ in one setting of a run, such as the ablation, are compared, and `differs` names it. Raises
    UsageError, which names each difference, if they differ in two settings, or in data, judge or extraction. With
    `anyway=True`, they are compared nevertheless, and `notes` names the differences. Raises UsageError too if a path is
    no run, or if the runs have no benchmark and technique in common. Raises DataError if a file is damaged.
    """
    runs = (baseline, new)
    registry = joined(
        [known_with(benchmarks=benchmarks, metrics=metrics, plugins=plugins)]
        + [run._known for run in runs if isinstance(run, LoadedRun)]
    )
    registry = registry.with_runs(Path(run) for run in runs if not isinstance(run, LoadedRun))
    paths = [str(run.folder if isinstance(run, LoadedRun) else Path(run)) for run in runs]
    sides = [run._side() if isinstance(run, LoadedRun) else _side(run) for run in runs]
    names = (benchmark,) if isinstance(benchmark, str) else tuple(benchmark)
    baseline_side, new_side = comparing.beside(list(zip(paths, sides, strict=True)), names, option="benchmark=")
    refusals = comparing.contrast(new_side, baseline_side).refusals
    if refusals and not anyway:
        raise UsageError(
            "these runs are not comparable:\n  "
            + "\n  ".join(refusals)
            + "\nanyway=True compares them nevertheless, benchmark='NAME' one benchmark alone"
        )
    paired = comparing.compare(new_side, baseline_side, registry.benchmarks, bootstrap=bootstrap, equivalent=equivalent)
    if not paired.parts:
        raise UsageError(f"{new_side.name} and {baseline_side.name} have no benchmark and technique in common")
    return ComparedRuns(paired, registry, refusals, tuple(comparing.notes(new_side, baseline_side)))


def _side(run: str | os.PathLike[str]) -> Side:
    return comparing.load(Path(run))
