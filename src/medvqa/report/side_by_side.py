"""Runs side by side: a row for each run, and a column for each slice of one measure or of a paper's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import fsum, isclose
from pathlib import Path
from typing import TypeAlias

from medvqa import comparing, items, printing, statistics
from medvqa.comparing import Compared, Side
from medvqa.comparing.paired import ERROR, Pair
from medvqa.figures import BOLD, Column, Figure, Table, counted, latex, markdown, titled
from medvqa.items import Benchmark, Measure, UsageError
from medvqa.paper_tables import PaperColumn
from medvqa.report import fields
from medvqa.report.build import Report
from medvqa.report.rows import Rows
from medvqa.tags import lexicon

_Key: TypeAlias = tuple[str, ...]
OVERALL, CHANCE = "overall", "chance"
OTHER = "*"
"""Mark of a figure from the other split of the data."""
LONGEST = 60
"""Characters of a heading; a tag of somebody's table may be longer."""


@dataclass(frozen=True, slots=True)
class SideRow:
    """The values of a run, of chance, of a published row, or the means of several runs, by column.

    `run`: the place of the run in the table's runs, None for any other row. `runs`: the number of runs of a mean, else
    1. `source`: of a published row. `other`: the places of figures of other questions than the column's. `bold`: the
    places of figures than which no other run's is shown to be better.
    """

    name: str
    figures: tuple[Figure, ...]
    runs: int = 1
    run: int | None = None
    source: str = ""
    other: frozenset[int] = frozenset()
    bold: frozenset[int] = frozenset()

    def at(self, places: Sequence[int]) -> SideRow:
        """Return the row with these columns alone."""
        figures = tuple(self.figures[place] for place in places)
        other = frozenset(new for new, place in enumerate(places) if place in self.other)
        return replace(self, figures=figures, other=other)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Runs by measures and slices: one measure by the values of a dimension, or the columns of a paper's table.

    The last row is that of chance if every run has the same level in the first column with a value. `gap`: values are
    differences to the level of chance of their own cell.
    """

    title: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[SideRow, ...]
    gap: bool = False

    @property
    def percent(self) -> bool:
        """Whether all values are percentages."""
        return all(figure.percent for row in self.rows for figure in row.figures)


def joined(
    title: str,
    columns: Sequence[PaperColumn],
    runs: Sequence[SideRow],
    groups: Mapping[str, Sequence[str]] | None = None,
    *,
    gap: bool = False,
) -> SideBySide:
    """Return the table of runs, with rows of means and of chance.

    `groups`: runs by the name of their group, each of which has a row of unweighted means. `gap`: as differences to
    the level of chance of the same run and slice.
    """
    if gap:
        runs = [replace(row, figures=tuple(map(_above_chance, row.figures))) for row in runs]
    by_name = {row.name: row.figures for row in runs}
    means = [
        SideRow(
            f"mean of {group}", tuple(map(_mean, zip(*(by_name[run] for run in members), strict=True))), len(members)
        )
        for group, members in (groups or {}).items()
    ]
    levels = [_same([row.figures[place].levels.get("random") for row in runs]) for place in range(len(columns))]
    percent = all(figure.percent for row in runs for figure in row.figures)
    chance = SideRow(CHANCE, tuple(Figure(level, percent=percent) for level in levels))
    first = next((i for i in range(len(columns)) if any(row.figures[i].value is not None for row in runs)), 0)
    has_chance = not gap and levels[first] is not None
    return SideBySide(title, tuple(columns), (*runs, *means, *([chance] if has_chance else [])), gap)


def side_by_side(
    measures_of: Mapping[str, Sequence[Measure]],
    name: str,
    dimension: str,
    groups: Mapping[str, Sequence[str]] | None = None,
    *,
    gap: bool = False,
    places: Mapping[str, int] | None = None,
) -> SideBySide:
    """Tabulate the measure `name` of each row by the values of a dimension, in the benchmark's order of values.

    `groups` and `gap` as for `joined`. `places`: of the runs of the rows (default: each row is a run).
    """
    chosen = {
        run: {
            measure.slice.get(dimension, ""): figure_of(measure)
            for measure in measures
            if measure.name == name and list(measure.slice) in ([], [dimension])
        }
        for run, measures in measures_of.items()
    }
    found = sorted({value for own in chosen.values() for value in own if value})
    values = sorted(found, key=lambda value: lexicon.display(dimension, value).casefold())
    columns = [
        PaperColumn(OVERALL, name, ""),
        *(PaperColumn(_short(dimension, value), name, "", slice={dimension: value}) for value in values),
    ]
    undefined = Figure(None, percent=all(figure.percent for own in chosen.values() for figure in own.values()))
    rows = [
        SideRow(
            run,
            tuple(own.get(value, undefined) for value in ("", *values)),
            run=place if places is None else places[run],
        )
        for place, (run, own) in enumerate(chosen.items())
    ]
    return joined(f"{name} by {dimension}" if values else name, columns, rows, groups, gap=gap)


def figure_of(measure: Measure) -> Figure:
    """Return the figure of a measure with its reference lines."""
    return replace(measure.figure, levels=measure.references)


def of_reports(
    reports: Mapping[Path, Report],
    benchmark: Benchmark,
    measure: str,
    *,
    by: str | None = None,
    groups: Sequence[str] = (),
    gap: bool = False,
) -> SideBySide:
    """Tabulate one measure of runs.

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
    rows_of = [named[str(folder)] for folder in reports]
    places = {row: place for place, rows in enumerate(rows_of) for row in rows}
    found = side_by_side(measures_of, measure, dimension, groups_of(groups, named), gap=gap, places=places)
    return replace(found, title=f"{benchmark.name}: {found.title}")


def names_of(folders: Iterable[Path]) -> list[str]:
    """Return the names of runs: those of their folders, and for several with the same name, their paths."""
    names = {folder: folder.resolve().name for folder in folders}
    several = {name for name, number in Counter(names.values()).items() if number > 1}
    return [str(folder) if name in several else name for folder, name in names.items()]


def in_bold(
    tables: Sequence[SideBySide], runs: Sequence[Side], benchmarks: Mapping[str, Benchmark]
) -> list[SideBySide]:
    """Put in bold the figures than which no other run's is shown to be better, in columns where all are compared.

    As in `medvqa compare`, on the questions that the runs share: no other run has a better value at an adjusted p of
    at most ERROR. `runs`: in the order of the tables' places. A published row has no answers to compare, and people are
    no run to compare with.
    """
    models = [place for place, side in enumerate(runs) if side.run.readers is None]
    pairs = [(new, baseline) for baseline, new in combinations(models, 2)]
    if not pairs:
        return list(tables)
    study = comparing.study(runs, benchmarks, pairs=pairs, flips=False, units=False, robust=False)
    compared: dict[Pair, dict[_Key, Compared]] = {
        pair: {
            _key(items.measure_of(each.benchmark, each.technique, each.metric, each.slice)): each
            for each in versus.paired.tables
        }
        for pair, versus in zip(pairs, study.versus, strict=True)
        if not versus.refusals
    }
    made = []
    for table in tables:
        bold = [_best(table.rows, place, compared) for place in range(len(table.columns))]
        rows = [
            replace(row, bold=frozenset(place for place, best in enumerate(bold) if number in best))
            for number, row in enumerate(table.rows)
        ]
        made.append(replace(table, rows=tuple(rows)))
    return made


def _key(of: Mapping[str, str]) -> _Key:
    return tuple(of.get(name, "") for name in ("benchmark", "technique", "measure", "slice"))


def _best(rows: Sequence[SideRow], column: int, compared: Mapping[Pair, Mapping[_Key, Compared]]) -> frozenset[int]:
    """Return the rows of a column than which none is shown to be better; none if all are, or two are not compared."""
    having = [
        number for number, row in enumerate(rows) if row.run is not None and row.figures[column].value is not None
    ]
    measures = {_key(rows[number].figures[column].of) for number in having}
    places = {rows[number].run: number for number in having}
    if len(measures) != 1 or len(places) < max(2, len(having)):
        return frozenset()
    (measure,) = measures
    found = {pair: own.get(measure) for pair, own in compared.items() if set(pair) <= places.keys()}
    p_values = {pair: own.p for pair, own in found.items() if own is not None and own.p is not None}
    if len(p_values) < len(places) * (len(places) - 1) // 2:
        return frozenset()
    # Of a measure that is no headline, the comparison of two runs adjusts nothing: here a column has all runs.
    holm = dict(zip(p_values, statistics.holm(list(p_values.values())).tolist(), strict=True))
    worse = set()
    for (new, baseline), own in found.items():
        if own is None or own.comparison.difference is None:
            continue
        if (holm[new, baseline] if own.adjusted is None else own.adjusted) <= ERROR:
            worse.add(baseline if own.comparison.difference > 0 else new)
    # Where nothing is shown to differ, bold would say nothing.
    return frozenset(number for place, number in places.items() if worse and place not in worse)


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
    measures_of: dict[str, Sequence[Measure]] = {}
    named: dict[str, list[str]] = {}
    for folder, shown in zip(reports, names_of(reports), strict=True):
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


def written(form: str, tables: Sequence[SideBySide], notes: Sequence[str], *, intervals: bool = False) -> str | bytes:
    """Return tables as terminal, latex, markdown, csv or parquet; the latter two have no notes.

    MedVQAError for parquet without pyarrow.
    """
    if form in ("csv", "parquet"):
        full = in_full(tables)
        return full.csv() if form == "csv" else full.parquet()
    shown = [as_table(table, intervals=intervals) for table in tables]
    if form == "latex":
        return "".join([*map(latex, shown), *(f"% {printing.line(note)}\n" for note in notes)])
    if form == "markdown":
        blocks = [block for table in shown for block in (printing.markdown(table.title), markdown(table))]
        listed = "\n".join(f"- {printing.markdown(note)}" for note in notes)
        return "\n\n".join([*blocks, *([listed] if listed else [])]) + "\n"
    return "\n".join(["\n\n".join(map(titled, shown)), *(f"! {printing.line(note)}" for note in notes)]) + "\n"


def groups_of(typed: Sequence[str], named: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the rows of each group, typed as NAME=RUN,RUN (UsageError). `named`: rows by the words for a run."""
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


def as_table(table: SideBySide, *, intervals: bool = False, heading: str = "run") -> Table:
    """The table for people.

    A run's value over few units is given as counts, and no mean stands beside it. `intervals`: with 95 % intervals of
    the runs' values. `heading`: of the column of names.
    """
    few = {place for row in table.rows for place, figure in enumerate(row.figures) if figure.few}

    def cell(row: SideRow, place: int, figure: Figure) -> str:
        shown = Figure(None) if row.runs > 1 and place in few else figure
        bounds = f" ({shown.interval})" if intervals and shown.low is not None and not shown.few else ""
        return f"{shown.text}{bounds}{OTHER if place in row.other else ''}"

    rows = [(_named(row), *(cell(row, place, own) for place, own in enumerate(row.figures))) for row in table.rows]
    unit = "points above chance" if table.gap else "percent" if table.percent else "values"
    columns = (Column(heading), *(Column(column.title, "figure") for column in table.columns))
    bold = frozenset((number, 1 + place) for number, row in enumerate(table.rows) for place in row.bold)
    return Table(f"{table.title}, {unit}", columns, tuple(rows), bold=bold)


def _named(row: SideRow) -> str:
    if row.source:
        return f"{row.name} (published)"
    return f"{row.name} ({row.runs} runs)" if row.runs > 1 else row.name


def of_few(table: SideBySide) -> list[str]:
    """Return the headings of the columns that count fewer than FEW units in a run, with the smallest number."""
    found = []
    for column, figures in zip(table.columns, zip(*(row.figures for row in table.rows), strict=True), strict=True):
        if few := [figure for figure in figures if figure.few]:
            found.append(f"{column.title} ({_units(min(few, key=lambda figure: figure.n or 0))})")
    return found


def _units(figure: Figure) -> str:
    if figure.units is None or figure.units == figure.n:
        return figure.counted
    return f"{figure.counted} of {counted(figure.units, 'pairs')}"


def _short(dimension: str, value: str) -> str:
    """Return the heading of a slice: the paper's abbreviation if it has any."""
    short = ", ".join(lexicon.abbreviations(dimension, value)) or lexicon.display(dimension, value)
    return printing.shortened(short, LONGEST)


def in_full(tables: Sequence[SideBySide]) -> Rows:
    """One row per table, row and column; fractions, missing if undefined; a run's with interval and number."""
    rows = [
        (
            *(row.name, row.runs, column.measure, *next(iter(column.slice.items()), ("", ""))),
            *(figure.value, figure.low, figure.high, figure.n),
            *(column.title, figure.of.get("benchmark", ""), figure.of.get("technique", column.technique)),
            *(place in row.bold, row.source),
        )
        for table in tables
        for row in table.rows
        for place, (column, figure) in enumerate(zip(table.columns, row.figures, strict=True))
    ]
    value = "above_chance" if any(table.gap for table in tables) else "value"
    return Rows({value if name == "value" else name: each for name, each in fields.SIDE_BY_SIDE.items()}, rows)


RULE = (
    f"in bold ({BOLD} in a terminal): no other run of the table is shown to be better on the questions that they share "
    f"(adjusted p at most {ERROR:g}, as in medvqa compare)"
)


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
    return list(dict.fromkeys(lines))
