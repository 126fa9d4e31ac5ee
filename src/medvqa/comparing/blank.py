"""The gap between a run and the same run without its images, as `blank.json` of a run folder, the source for reports.

The gap is that of `study.compare` on the questions of both runs. `differing.contrast` decides whether the two runs may
be compared: they must differ in the image alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from medvqa import decode
from medvqa.comparing import differing, paired
from medvqa.comparing.gating import digest
from medvqa.comparing.sides import Side
from medvqa.comparing.study import compare
from medvqa.figures import Figure, of_units
from medvqa.items import Benchmark, UsageError
from medvqa.metrics.definitions import MAX_VALUE
from medvqa.records import run_folder
from medvqa.records.run_record import MAX_RUN

FILE = "blank.json"
SCHEMA = 1
MAX_UNITS = 10**9
LEVEL = 2 * paired.LEVEL - 1
"""Level of the intervals, two-sided, as those of measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlankGap:
    """One headline measure with and without the image, on the units that both runs have scored.

    `value` is `shown` minus `blank`, in terms of the measure, with the interval `low` to `high`, both None without one.
    Values are fractions if `percent`. `n`: the number of compared units, `unit` their plural name; `asked`: the number
    of questions that at least one of the runs asked, `scored` of those that both have scored.
    """

    benchmark: str
    technique: str
    name: str
    shown: float | None
    blank: float | None
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: Literal["items", "pairs", "items and pairs"]
    groups: int
    scored: int
    asked: int
    better: Literal["higher", "lower"] = "higher"
    percent: bool = True

    def side(self, value: float | None) -> Figure:
        """The measure of one run, to be printed: `shown` or `blank`."""
        return of_units(value, self.n, self.unit, percent=self.percent)

    @property
    def figure(self) -> Figure:
        """The gain of the image, to be printed."""
        return replace(self.side(self.value), low=self.low, high=self.high, groups=self.groups, sign=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlankRun:
    """The content of blank.json: the gaps to the run `name`, whose image was `image`: "blank", "left out", ...

    `level`: of each interval. `notes`: remarks on the comparison, such as an unfinished run. `of`: the digest of the
    results of the run itself.
    """

    name: str
    image: str
    of: str
    gaps: tuple[BlankGap, ...]
    notes: tuple[str, ...] = ()
    level: float = LEVEL
    schema: int = SCHEMA

    def gap(self, benchmark: str, technique: str, name: str) -> BlankGap | None:
        """The gap of a measure; None without one."""
        wanted = benchmark, technique, name
        return next((gap for gap in self.gaps if (gap.benchmark, gap.technique, gap.name) == wanted), None)


def against(run: Side, blank: Side, benchmarks: Mapping[str, Benchmark]) -> BlankRun:
    """Return the gaps of all headline measures. UsageError unless the runs differ in the image alone."""
    contrast = differing.contrast(run, blank)
    difference = contrast.difference
    if contrast.refusals:
        raise UsageError(f"{blank.name} is not {run.name} without its images:\n  " + "\n  ".join(contrast.refusals))
    if difference is None or difference.setting != differing.IMAGE:
        apart = "no setting differs" if difference is None else difference.line(run.name, blank.name)
        raise UsageError(
            f"{blank.name} is not {run.name} without its images: {apart}. Ask the same questions with --ablate=blank"
        )
    if difference.reverse or run.run.ablation:
        raise UsageError(
            f"{run.name} is itself a run without its images ({difference.line(run.name, blank.name)}). Name the run "
            "that shows them, and after --blank the one that does not"
        )
    compared = compare(run, blank, benchmarks)
    parts = {(part.benchmark, part.technique): part for part in compared.parts}
    if not parts:
        raise UsageError(f"{run.name} and {blank.name} have no benchmark and technique in common")
    gaps = []
    for row in compared.tables:
        if not row.headline or row.slice:
            continue
        part, shown = parts[row.benchmark, row.technique], row.shown
        gaps.append(
            BlankGap(
                benchmark=row.benchmark,
                technique=row.technique,
                name=row.metric,
                shown=shown.new,
                blank=shown.baseline,
                value=shown.difference,
                low=shown.low,
                high=shown.high,
                n=shown.units,
                unit=row.counted,
                groups=shown.groups,
                scored=part.scored,
                asked=part.asked,
                better=row.better,
                percent=row.percent,
            )
        )
    notes = tuple(differing.notes(run, blank))
    return BlankRun(
        name=blank.name, image=difference.baseline, of=digest(run.run, run.results), gaps=tuple(gaps), notes=notes
    )


def write(folder: Path, found: BlankRun) -> None:
    """Write blank.json."""
    run_folder.write_json(folder / FILE, found)


def read(folder: Path) -> BlankRun | None:
    """The stored gaps of a run, None if there are none. UsageError if blank.json is damaged."""
    path, advice = folder / FILE, f"Delete it, or write it anew: medvqa report {folder} --blank=RUN"
    found = decode.stored(path, BlankRun, MAX_RUN, advice)
    try:
        for gap in () if found is None else found.gaps:
            _check(gap)
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}. {advice}") from error
    return found


def _check(gap: BlankGap) -> None:
    """Raise ValueError for numbers that no gap has."""
    most = 1.0 if gap.percent else MAX_VALUE
    values = [value for value in (gap.shown, gap.blank, gap.value, gap.low, gap.high) if value is not None]
    if any(abs(value) > most for value in values):
        raise ValueError(f"a value of {gap.name} is beyond {most:g}")
    if min(gap.n, gap.groups, gap.scored, gap.asked) < 0 or max(gap.n, gap.groups, gap.scored, gap.asked) > MAX_UNITS:
        raise ValueError(f"a number of units of {gap.name} is not between 0 and {MAX_UNITS}")
