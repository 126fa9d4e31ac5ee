"""Runs side by side: one measure, a row for each run and a column for each slice, as in the papers' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, isclose
from pathlib import Path

from medvqa import comparing, printing
from medvqa.comparing import Side
from medvqa.figures import Column, Figure, Table, counted, csv
from medvqa.items import Benchmark, Measure, UsageError
from medvqa.report.build import Report
from medvqa.tags import lexicon

OVERALL, CHANCE = "overall", "chance"
LONGEST = 60
"""Characters of a heading; a tag of somebody's table may be longer."""


@dataclass(frozen=True, slots=True)
class SideRow:
    """The values of a run (`runs` 1), of chance, or the means of several runs, by column."""

    name: str
    figures: tuple[Figure, ...]
    runs: int = 1


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One measure of several runs over everything and by the values of a dimension.

    `columns`: the values, "" for everything. The last row is that of chance if every run has the same level over
    everything. `gap`: values are differences to the level of chance of their own cell.
    """

    measure: str
    dimension: str
    columns: tuple[str, ...]
    rows: tuple[SideRow, ...]
    gap: bool = False

    @property
    def percent(self) -> bool:
        """Whether all values are percentages."""
        return all(figure.percent for row in self.rows for figure in row.figures)


def side_by_side(
    measures_of: Mapping[str, Sequence[Measure]],
    name: str,
    dimension: str,
    groups: Mapping[str, Sequence[str]] | None = None,
    *,
    gap: bool = False,
) -> SideBySide:
    """Tabulate the measure `name` of each run by the values of a dimension, in the benchmark's order of values.

    `groups`: runs by the name of their group, each of which has a row of unweighted means. `gap`: as differences to
    the level of chance of the same run and slice.
    """
    chosen = {
        run: {
            measure.slice.get(dimension, ""): replace(measure.figure, levels=measure.references)
            for measure in measures
            if measure.name == name and list(measure.slice) in ([], [dimension])
        }
        for run, measures in measures_of.items()
    }
    values = sorted({value for own in chosen.values() for value in own if value})
    columns = ("", *sorted(values, key=lambda value: lexicon.display(dimension, value).casefold()))
    undefined = Figure(None, percent=all(figure.percent for own in chosen.values() for figure in own.values()))
    runs = {run: tuple(own.get(value, undefined) for value in columns) for run, own in chosen.items()}
    levels = [
        _same([figures[place].levels.get("random") for figures in runs.values()]) for place in range(len(columns))
    ]
    shown = {run: tuple(map(_above_chance, figures)) if gap else figures for run, figures in runs.items()}
    means = [
        SideRow(f"mean of {group}", tuple(map(_mean, zip(*(shown[run] for run in members), strict=True))), len(members))
        for group, members in (groups or {}).items()
    ]
    chance = tuple(replace(undefined, value=level) for level in levels)
    rows = (*(SideRow(*row) for row in shown.items()), *means)
    return SideBySide(
        name, dimension, columns, rows if gap or levels[0] is None else (*rows, SideRow(CHANCE, chance)), gap
    )


def of_reports(
    reports: Mapping[Path, Report],
    benchmark: Benchmark,
    measure: str,
    *,
    by: str | None = None,
    groups: Sequence[str] = (),
    gap: bool = False,
) -> tuple[SideBySide, list[str]]:
    """Tabulate one measure of runs, with the headings of columns of few units.

    `by`: the dimension, None for the benchmark's first. `groups`: texts NAME=RUN,RUN. `gap`: as differences to chance.
    UsageError for anything that is not there.
    """
    measures_of, named = _measures(reports, benchmark.name, measure)
    dimensions = list(dict.fromkeys(name for own in measures_of.values() for each in own for name in each.slice))
    dimension = by or next((name for name in benchmark.dimensions if name in dimensions), "kind")
    if dimension not in dimensions:
        raise UsageError(f"--by={dimension}: {_absent(dimension, dimensions)}; there are: {', '.join(dimensions)}")
    own = [each for measures in measures_of.values() for each in measures if each.name == measure]
    if gap and not any("random" in each.references for each in own):
        raise UsageError(f"--gap: {measure} has no level of chance")
    table = side_by_side(measures_of, measure, dimension, _groups(groups, named), gap=gap)
    return table, of_few(table)


def _absent(dimension: str, dimensions: Sequence[str]) -> str:
    """Tell a crossing that the benchmark does not declare from a name that is no dimension."""
    parts = dimension.split(lexicon.CROSSED)
    if len(parts) > 1 and all(part in dimensions for part in parts):
        return "the benchmark does not declare this crossing among its dimensions"
    return "no such dimension"


def shared_benchmark(named: Sequence[str], reports: Sequence[Report]) -> str:
    """Return the benchmark of a table: the one that --benchmark names, else the only one that all runs have.

    UsageError if it names several, or one that a run lacks.
    """
    names = [dict.fromkeys(part.benchmark.name for part in report.parts) for report in reports]
    shared = [name for name in names[0] if all(name in others for others in names)]
    if len(named) > 1:
        raise UsageError(
            f"--benchmark={','.join(named)}: a table is about one benchmark, and these are {len(named)}; type a "
            f"command for each, such as --benchmark={named[0]}"
        )
    if named and named[0] not in shared:
        raise UsageError(f"--benchmark={named[0]}: not in all of these runs; in all are: {', '.join(shared) or 'none'}")
    if not named and len(shared) != 1:
        raise UsageError(
            f"name one benchmark by --benchmark=NAME; in all runs are: {', '.join(shared)}"
            if shared
            else "these runs have no benchmark in common"
        )
    return [*named, *shared][0]


def _measures(
    reports: Mapping[Path, Report], benchmark: str, measure: str
) -> tuple[dict[str, Sequence[Measure]], dict[str, list[str]]]:
    """Return measures by row, and the rows of each run by its path and name.

    A run has a row for each technique by which it has the measure. UsageError if a run has none.
    """
    names = [folder.resolve().name for folder in reports]
    measures_of: dict[str, Sequence[Measure]] = {}
    named: dict[str, list[str]] = {}
    for folder, name in zip(reports, names, strict=True):
        shown = name if names.count(name) == 1 else str(folder)
        parts = [part for part in reports[folder].parts if part.benchmark.name == benchmark]
        having = [part for part in parts if any(each.name == measure for each in part.measures)]
        if not having:
            found = dict.fromkeys(each.name for part in parts for each in part.measures)
            raise UsageError(f"--measure={measure}: {folder} has no such measure; there are: {', '.join(found)}")
        rows = {f"{shown} {part.technique}" if len(having) > 1 else shown: part.measures for part in having}
        measures_of.update(rows)
        for key in (str(folder), shown, *rows):
            named[key] = [key] if key in rows else list(rows)
    return measures_of, named


def _groups(typed: Sequence[str], named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in typed:
        name, sign, members = text.partition("=")
        runs = [member.strip().rstrip("/") for member in members.split(",") if member.strip()]
        if not (sign and name.strip() and runs):
            raise UsageError(f"--group={text}: write a name and runs, as --group=open=reports/a,reports/b")
        for member in runs:
            if member not in named:
                raise UsageError(f"--group={text}: '{member}' is none of the runs; there are: {', '.join(named)}")
        groups[name.strip()] = list(dict.fromkeys(row for member in runs for row in named[member]))
    return groups


def _same(levels: Sequence[float | None]) -> float | None:
    known = [level for level in levels if level is not None]
    if len(known) < len(levels) or not known:
        return None
    return known[0] if all(isclose(level, known[0], abs_tol=1e-9) for level in known) else None


def _above_chance(figure: Figure) -> Figure:
    """Return a value minus its level of chance, undefined without one; of few units, still as counts."""
    chance = figure.levels.get("random")
    value, low, high = (
        None if bound is None or chance is None else bound - chance for bound in (figure.value, figure.low, figure.high)
    )
    return replace(figure, value=value, low=low, high=high, sign=not (figure.few and figure.percent))


def _mean(figures: Sequence[Figure]) -> Figure:
    """Return the unweighted mean, undefined if one of the values is."""
    values = [figure.value for figure in figures if figure.value is not None]
    mean = fsum(values) / len(values) if len(values) == len(figures) else None
    return Figure(mean, percent=figures[0].percent, sign=any(figure.sign for figure in figures))


def as_table(table: SideBySide, *, intervals: bool = False) -> Table:
    """The table for people; slices are headed by the paper's abbreviations if it has any.

    A run's value over few units is given as counts, and no mean stands beside it. `intervals`: with 95 %
    intervals of the runs' values.
    """
    few = {place for row in table.rows for place, figure in enumerate(row.figures) if figure.few}
    headings = (OVERALL, *(_short(table.dimension, value) for value in table.columns[1:]))
    rows = [
        (
            f"{row.name} ({row.runs} runs)" if row.runs > 1 else row.name,
            *(
                Figure(None) if row.runs > 1 and place in few else _with_interval(figure) if intervals else figure
                for place, figure in enumerate(row.figures)
            ),
        )
        for row in table.rows
    ]
    unit = "points above chance" if table.gap else "percent" if table.percent else "values"
    by = f" by {table.dimension}" if len(table.columns) > 1 else ""
    columns = (Column("run"), *(Column(heading, "figure") for heading in headings))
    return Table(f"{table.measure}{by}, {unit}", columns, tuple(rows))


def _with_interval(figure: Figure) -> str:
    return figure.text if figure.low is None or figure.few else f"{figure.text} ({figure.interval})"


def of_few(table: SideBySide) -> list[str]:
    """Return the headings of the columns that count fewer than FEW units in a run, with the smallest number."""
    least: dict[str, Figure] = {}
    for row in table.rows:
        for value, figure in zip(table.columns, row.figures, strict=True):
            if figure.few and (value not in least or (figure.n or 0) < (least[value].n or 0)):
                least[value] = figure
    return [
        f"{_short(table.dimension, value) if value else OVERALL} ({_units(least[value])})"
        for value in table.columns
        if value in least
    ]


def _units(figure: Figure) -> str:
    if figure.units is None or figure.units == figure.n:
        return figure.counted
    return f"{figure.counted} of {counted(figure.units, 'pairs')}"


def _short(dimension: str, value: str) -> str:
    short = ", ".join(lexicon.abbreviations(dimension, value)) or lexicon.display(dimension, value)
    return printing.shortened(short, LONGEST)


def as_csv(tables: Sequence[SideBySide]) -> str:
    """One row per table, run or group, and slice; fractions, empty if undefined; a run's with interval and number."""
    rows = [
        (
            *(row.name, row.runs, table.measure, table.dimension if column else "", column),
            *(figure.value, figure.low, figure.high, figure.n),
        )
        for table in tables
        for row in table.rows
        for column, figure in zip(table.columns, row.figures, strict=True)
    ]
    heading = "above_chance" if any(table.gap for table in tables) else "value"
    return csv(("run", "runs", "measure", "dimension", "slice", heading, "low", "high", "n"), rows)


def notes(runs: Sequence[Side]) -> list[str]:
    """Return lines about runs that differ from the first in more than the model, or that lack results."""
    first, *others = runs
    lines = [] if others else comparing.gaps(first)
    for other in others:
        contrast = comparing.contrast(other, first)
        lines += [f"not comparable: {line}" for line in contrast.refusals]
        if contrast.difference is not None:
            lines.append(f"one setting differs: {contrast.difference.line(other.name, first.name)}")
    lines += [line for other in others for line in comparing.notes(other, first)]
    return [f"! {printing.line(line)}" for line in dict.fromkeys(lines)]
