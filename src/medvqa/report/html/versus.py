"""The page of several runs on the same questions: differences by slice, flipped questions, and a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from medvqa.comparing import Compared, Paired, PairedPart, Ranked, Ranking, Side
from medvqa.data import lexicon
from medvqa.items import Benchmark
from medvqa.report import cells, comparison, tables
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.texts import title_of
from medvqa.report.html import flips
from medvqa.report.html.old_page import draw

STEPS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Possible ends of the axis of differences, as fractions."""
SURE = 0.05
"""Adjusted p-values up to this are marked."""
OPEN = 24
"""A table with more rows is folded at first."""


@dataclass(frozen=True, slots=True)
class Versus:
    """A comparison with its refusals and notes. If there are `refusals`, `paired` is not shown."""

    paired: Paired
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One measure, over all items or over one value of a dimension."""

    label: str
    short: str
    seen: Compared

    @property
    def few(self) -> bool:
        """Whether there are too few units for percentages."""
        return self.seen.comparison.units < tables.FEW

    @property
    def sure(self) -> str:
        """The direction of a significant difference, by p after Holm in its family; "" if it is not significant."""
        p, difference = self.seen.adjusted, self.seen.comparison.difference
        if p is None or p > SURE or not difference or self.few:
            return ""
        return "better" if difference > 0 else "worse"

    @property
    def ways(self) -> tuple[int, int]:
        """The numbers of better and of worse units in the new run."""
        return self.seen.comparison.gained, self.seen.comparison.lost


@dataclass(frozen=True, slots=True)
class Sliced:
    """One measure over the values of one dimension; the axis runs from -`end` to `end`."""

    metric: str
    lower: bool
    dimension: str
    rows: tuple[ComparedRow, ...]
    end: float

    @property
    def folded(self) -> bool:
        """Whether the table is long."""
        return len(self.rows) > OPEN

    @property
    def few(self) -> bool:
        """Whether no row has enough units for a percentage."""
        return all(row.few for row in self.rows)


@dataclass(frozen=True, slots=True)
class PartView:
    """One benchmark and technique of a comparison; `more` are the slices of further headline measures."""

    part: PairedPart
    title: str
    warnings: tuple[str, ...]
    rows: tuple[ComparedRow, ...]
    end: float
    first: tuple[Sliced, ...]
    more: tuple[Sliced, ...]


@dataclass(frozen=True, slots=True)
class View:
    """One comparison; `differs` names the one setting in which its runs differ, `effect` that of new minus baseline.

    `values`: headings of the columns of both runs.
    """

    anchor: str
    new: str
    baseline: str
    level: float
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    parts: tuple[PartView, ...]
    exact: bool
    differs: str
    effect: str
    values: tuple[str, str]


@dataclass(frozen=True, slots=True)
class BoardPlace:
    """A row of the ranking, and the difference from the first run, None for that run itself."""

    row: Ranked
    against: Compared | None


@dataclass(frozen=True, slots=True)
class Board:
    """One ranking; `first` of its benchmark and technique."""

    ranking: Ranking
    title: str
    places: tuple[BoardPlace, ...]
    first: bool


LONG = 200
"""Characters of a file's name without its ending."""


def comparison_name(sides: Sequence[Side]) -> str:
    """The page's file name: `new-against-baseline.html`, or with more runs `3-runs-against-baseline.html`."""
    return _title(sides).replace("/", "-").replace("\\", "-").replace(" ", "-")[:LONG] + ".html"


def _title(sides: Sequence[Side]) -> str:
    baseline, *others = (side.name for side in sides)
    return f"{others[0] if len(others) == 1 else f'{len(others)} runs'} against {baseline}"


def comparison_page(
    sides: Sequence[Side],
    compared: Sequence[Versus],
    rankings: Sequence[Ranking],
    benchmarks: Mapping[str, Benchmark],
    pictures: Pictures | None = None,
) -> bytes:
    """The page; the first of `sides` is the baseline of the others. `pictures` are those of items that flipped."""
    pictures = pictures or Pictures("none", "Images are left out.")
    allowed = [versus for versus in compared if not versus.refusals]
    views = [_view(versus, benchmarks, number) for number, versus in enumerate(compared)]
    data = flips.pack(
        [versus.paired for versus in allowed],
        benchmarks,
        pictures,
        measures=comparison.as_csv([versus.paired for versus in allowed]),
        ranking=_ranking_as_csv(rankings),
    )
    return draw(
        "comparison",
        data,
        title=comparison.title(compared[0].paired) if len(compared) == 1 else _title(sides),
        sides=sides,
        runs=[_about(side) for side in sides],
        views=views,
        boards=_boards(rankings, allowed, benchmarks),
        pictures=pictures,
    )


def _ranking_as_csv(rankings: Sequence[Ranking]) -> str:
    differ = any(row.differs for ranking in rankings for row in ranking.rows)
    columns = ("benchmark", "technique", "measure", "better", "place", "run", "value", "low", "high", "best", "worst")
    rows = [
        (
            *(ranking.benchmark, ranking.technique, ranking.metric, ranking.better),
            *(row.rank, row.name, row.value, row.low, row.high, row.best, row.worst),
            *([row.differs] if differ else []),
        )
        for ranking in rankings
        for row in ranking.rows
    ]
    return cells.table((*columns, *(["differs"] if differ else [])), rows)


def _about(side: Side) -> dict[str, str]:
    """A run's set-up, as a row of the table of runs."""
    model = side.run.get("model") or {}
    return {
        "Model": str(model.get("name", "unknown")),
        "Technique": ", ".join(dict.fromkeys(name for names in side.asked.values() for name in names)),
        "Images": str(side.run.get("ablation") or "original"),
        "Answers": f"{len(side.results):,}",
        "Started": str(side.run.get("started", ""))[:16].replace("T", " "),
    }


def _view(versus: Versus, benchmarks: Mapping[str, Benchmark], number: int) -> View:
    paired = versus.paired
    difference = paired.difference
    head, *sections = comparison.sections(
        paired, benchmarks, notes=versus.notes, shown=comparison.Shown(0, 0, names=True)
    )
    parts = [
        _part(part, paired, benchmarks, section.notes) for part, section in zip(paired.parts, sections, strict=True)
    ] * (not versus.refusals)
    return View(
        f"comparison-{number + 1}",
        paired.new.name,
        paired.baseline.name,
        paired.level,
        versus.refusals,
        head.notes,
        tuple(parts),
        any(row.seen.comparison.mcnemar is not None for part in parts for row in part.rows),
        "" if difference is None else difference.line(paired.new.name, paired.baseline.name),
        "" if difference is None else difference.effect,
        comparison.values(difference),
    )


def _part(part: PairedPart, paired: Paired, benchmarks: Mapping[str, Benchmark], warnings: tuple[str, ...]) -> PartView:
    benchmark = benchmarks[part.benchmark]
    own = [
        table
        for table in paired.tables
        if table.headline and (table.benchmark, table.technique) == (part.benchmark, part.technique)
    ]
    warnings = (*warnings, *comparison.numbers(own))
    own = [table for table in own if table.percent]
    rows = tuple(ComparedRow(table.metric, "", table) for table in own if not table.slice)
    sliced = [
        sliced_measure
        for metric in dict.fromkeys(row.seen.metric for row in rows)
        for dimension in benchmark.dimensions
        if (sliced_measure := _sliced(own, metric, dimension)).rows
    ]
    first = sliced[0].metric if sliced else ""
    several = len({other.technique for other in paired.parts if other.benchmark == part.benchmark}) > 1
    named = benchmark.title or benchmark.name
    return PartView(
        part,
        f"{named}, {part.technique}" if several else named,
        warnings,
        rows,
        _end(rows),
        tuple(table for table in sliced if table.metric == first),
        tuple(table for table in sliced if table.metric != first),
    )


def _sliced(compared: Sequence[Compared], metric: str, dimension: str) -> Sliced:
    tables = [table for table in compared if table.metric == metric and dimension in table.slice]
    rows = [
        ComparedRow(
            title_of(dimension, table.slice[dimension]),
            ", ".join(lexicon.abbreviations(dimension, table.slice[dimension])),
            table,
        )
        for table in tables
    ]
    # Worst first, because losses decide.
    rows.sort(key=lambda row: (row.few, row.seen.comparison.difference or 0.0, row.label))
    lower = bool(tables) and tables[0].better == "lower"
    return Sliced(metric, lower, dimension, tuple(rows), _end(rows))


def _end(rows: Sequence[ComparedRow]) -> float:
    """The end of a table's axis: after the farthest bound, at most 1."""
    shown = [row.seen.shown for row in rows if not row.few]
    farthest = max(
        (abs(bound) for value in shown for bound in (value.low, value.high, value.difference) if bound is not None),
        default=0.0,
    )
    return next((step for step in STEPS if farthest <= step), float(ceil(farthest)))


def _boards(rankings: Sequence[Ranking], allowed: Sequence[Versus], benchmarks: Mapping[str, Benchmark]) -> list[Board]:
    against = {
        (versus.paired.new.name, row.benchmark, row.technique, row.metric): row
        for versus in allowed
        for row in versus.paired.tables
        if not row.slice
    }
    drawn: set[tuple[str, str]] = set()
    boards = []
    for ranking in rankings:
        places = tuple(
            BoardPlace(row, against.get((row.name, ranking.benchmark, ranking.technique, ranking.metric)))
            for row in ranking.rows
        )
        title = f"{benchmarks[ranking.benchmark].title or ranking.benchmark}, {ranking.technique}"
        boards.append(Board(ranking, title, places, (ranking.benchmark, ranking.technique) not in drawn))
        drawn.add((ranking.benchmark, ranking.technique))
    return boards
