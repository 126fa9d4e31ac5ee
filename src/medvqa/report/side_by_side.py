"""Runs side by side: one measure, a row for each run and a column for each slice, as in the papers' tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, isclose
from pathlib import Path

from medvqa import comparing, printing
from medvqa.comparing import Side
from medvqa.figures import Column, Table, between, counted, csv, number, numbers
from medvqa.items import Benchmark, Measure, UsageError
from medvqa.report.build import Report
from medvqa.tags import lexicon

OVERALL, CHANCE = "overall", "chance"
LONGEST = 60
"""Characters of a heading; a tag of somebody's table may be longer."""


@dataclass(frozen=True, slots=True)
class SideRow:
    """The values of a run (`runs` 1), or the means of several, by column; None if undefined.

    `measures`: the measures of a run, by column; () for means and for chance.
    """

    name: str
    values: tuple[float | None, ...]
    runs: int = 1
    measures: tuple[Measure | None, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One measure of several runs over everything and by the values of a dimension.

    `random` is the row of chance, None unless every cell has the same level in all runs. `gap`: values are differences
    to the level of chance of their own cell.
    """

    measure: str
    dimension: str
    columns: tuple[str, ...]
    rows: tuple[SideRow, ...]
    random: SideRow | None
    gap: bool = False
    percent: bool = True


def side_by_side(measures_of: Mapping[str, Sequence[Measure]], name: str, dimension: str) -> SideBySide:
    """Tabulate the measure `name` of each run by the values of a dimension, in the benchmark's order of values."""
    chosen = {
        run: {
            measure.slice.get(dimension, ""): measure
            for measure in measures
            if measure.name == name and list(measure.slice) in ([], [dimension])
        }
        for run, measures in measures_of.items()
    }
    values = sorted({value for cells_of_run in chosen.values() for value in cells_of_run if value})
    columns = ("", *sorted(values, key=lambda value: lexicon.display(dimension, value).casefold()))
    rows = tuple(
        SideRow(
            run,
            tuple(None if value not in own else own[value].value for value in columns),
            measures=tuple(own.get(value) for value in columns),
        )
        for run, own in chosen.items()
    )
    levels = [[_chance(own.get(value)) for value in columns] for own in chosen.values()]
    shared = tuple(_same([row[i] for row in levels]) for i in range(len(columns)))
    percent = all(measure.percent for own in chosen.values() for measure in own.values())
    random = SideRow(CHANCE, shared) if shared[0] is not None else None
    return SideBySide(name, dimension, columns, rows, random, percent=percent)


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
    table = side_by_side(measures_of, measure, dimension)
    if gap:
        if not any("random" in each.references for own in measures_of.values() for each in own if each.name == measure):
            raise UsageError(f"--gap: {measure} has no level of chance")
        table = above_chance(table, measures_of)
    few = of_few(measures_of, table)
    return with_means(table, _groups(groups, named)), few


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


def _chance(measure: Measure | None) -> float | None:
    return None if measure is None else measure.references.get("random")


def _same(levels: Sequence[float | None]) -> float | None:
    known = [level for level in levels if level is not None]
    if len(known) < len(levels) or not known:
        return None
    return known[0] if all(isclose(level, known[0], abs_tol=1e-9) for level in known) else None


def above_chance(table: SideBySide, measures_of: Mapping[str, Sequence[Measure]]) -> SideBySide:
    """Return the values minus the level of chance of the same run and slice; None where there is none."""
    level_of = {
        (run, measure.slice.get(table.dimension, "")): _chance(measure)
        for run, measures in measures_of.items()
        for measure in measures
        if measure.name == table.measure and list(measure.slice) in ([], [table.dimension])
    }

    def gaps(row: SideRow) -> tuple[float | None, ...]:
        pairs = (
            (value, level_of.get((row.name, column))) for value, column in zip(row.values, table.columns, strict=True)
        )
        return tuple(None if value is None or level is None else value - level for value, level in pairs)

    return replace(table, rows=tuple(replace(row, values=gaps(row)) for row in table.rows), random=None, gap=True)


def with_means(table: SideBySide, groups: Mapping[str, Sequence[str]]) -> SideBySide:
    """Add a row for each group of runs: the unweighted mean of its runs, None in a cell that one of them lacks."""
    row_of = {row.name: row for row in table.rows}
    means = []
    for name, members in groups.items():
        rows = [row_of[member] for member in members]
        values = tuple(_mean(column) for column in zip(*(row.values for row in rows), strict=True))
        means.append(SideRow(f"mean of {name}", values, len(rows)))
    return replace(table, rows=(*table.rows, *means))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if len(known) == len(values) else None


def as_text(table: SideBySide, *, intervals: bool = False) -> Table:
    """The table for a terminal or Markdown; slices are headed by the paper's abbreviations if it has any.

    A run's value over few units is given as counts, and no mean stands beside it. `intervals`: with 95 %
    intervals of the runs' values.
    """
    headings = (OVERALL, *(_short(table.dimension, value) for value in table.columns[1:]))
    lines = [*table.rows, *([table.random] if table.random is not None else [])]
    few_columns = {
        column
        for row in table.rows
        for column, measure in enumerate(row.measures)
        if row.measures and measure is not None and measure.figure.few
    }
    rows = [
        (
            f"{row.name} ({row.runs} runs)" if row.runs > 1 else row.name,
            *(
                _cell(value, measure, table, intervals=intervals)
                if row.measures
                else _shown(None if row.runs > 1 and column in few_columns else value, table)
                for column, (value, measure) in enumerate(
                    zip(row.values, row.measures or (None,) * len(row.values), strict=True)
                )
            ),
        )
        for row in lines
    ]
    unit = "points above chance" if table.gap else "percent" if table.percent else "values"
    by = f" by {table.dimension}" if len(table.columns) > 1 else ""
    title = f"{table.measure}{by}, {unit}"
    return Table(title, (Column("run"), *numbers(*headings)), tuple(rows))


def of_few(measures_of: Mapping[str, Sequence[Measure]], table: SideBySide) -> list[str]:
    """Return the headings of the columns that count fewer than FEW units in a run, with the smallest number."""
    least: dict[str, Measure] = {}
    for measures in measures_of.values():
        for measure in measures:
            if (
                measure.name != table.measure
                or list(measure.slice) not in ([], [table.dimension])
                or not measure.figure.few
            ):
                continue
            value = measure.slice.get(table.dimension, "")
            if value not in least or measure.n < least[value].n:
                least[value] = measure
    return [
        f"{_short(table.dimension, value) if value else OVERALL} ({_units(least[value])})"
        for value in table.columns
        if value in least
    ]


def _units(measure: Measure) -> str:
    if measure.units is None or measure.units == measure.n:
        return measure.figure.counted
    return f"{measure.figure.counted} of {counted(measure.units, 'pairs')}"


def _short(dimension: str, value: str) -> str:
    short = ", ".join(lexicon.abbreviations(dimension, value)) or lexicon.display(dimension, value)
    return short if len(short) <= LONGEST else f"{short[: LONGEST - 1]}…"


def _cell(value: float | None, measure: Measure | None, table: SideBySide, *, intervals: bool) -> str:
    """A run's value: counts if these are few, with its interval if wanted."""
    if measure is not None and measure.figure.few and measure.percent and measure.value is not None:
        return measure.figure.text
    text = _shown(value, table)
    if not intervals or value is None or measure is None or measure.low is None or measure.high is None:
        return text
    chance = (_chance(measure) or 0.0) if table.gap else 0.0
    bounds = between(measure.low - chance, measure.high - chance, percent=table.percent, sign=table.gap)
    return f"{text} ({bounds})"


def _shown(value: float | None, table: SideBySide) -> str:
    return number(value, percent=table.percent, sign=table.gap)


def as_csv(tables: Sequence[SideBySide]) -> str:
    """One row per table, run or group, and slice; fractions, empty if undefined; a run's with interval and number."""
    rows = [
        (row.name, row.runs, table.measure, table.dimension if column else "", column, value, *_ends(measure, table))
        for table in tables
        for row in [*table.rows, *([table.random] if table.random is not None else [])]
        for column, value, measure in zip(
            table.columns, row.values, row.measures or (None,) * len(row.values), strict=True
        )
    ]
    heading = "above_chance" if any(table.gap for table in tables) else "value"
    return csv(("run", "runs", "measure", "dimension", "slice", heading, "low", "high", "n"), rows)


def _ends(measure: Measure | None, table: SideBySide) -> tuple[float | None, float | None, float | None]:
    """The interval of a run's value, and its number of units."""
    if measure is None:
        return None, None, None
    chance = _chance(measure) if table.gap else 0.0
    if measure.low is None or measure.high is None or chance is None:
        return None, None, measure.n
    return measure.low - chance, measure.high - chance, measure.n


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
