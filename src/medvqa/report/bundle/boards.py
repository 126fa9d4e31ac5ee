"""Several runs beside each other: rankings, the differences of every two runs, and measures by run and slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from msgspec import structs

from medvqa.comparing import Compared, Ranked, RankedPair, Ranking, Study
from medvqa.figures import Figure, csv, of_units, typeset
from medvqa.items import Benchmark
from medvqa.printing import some
from medvqa.report import comparison
from medvqa.report.bundle.differences import ComparedCell, Way, compared_cell, sure
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label, title_of
from medvqa.tags import lexicon

NAMED = 5
"""Names of runs in a sentence."""


class ScaleView(Shape, frozen=True):
    """A headline measure of a benchmark and technique on which runs are compared unit by unit.

    The columns `units/S.*` hold its units, S its place in `ComparisonView.scales`: the list `questions` (places of the
    unit's questions: one, or those of a pair) and `values` (f64, units x runs in the order of `Head.runs`, one unit
    after the other; NaN where a run has no score). A unit flipped between two runs if both values are there and differ.
    """

    benchmark: int
    """A place in `Head.benchmarks`."""
    technique: int
    """A place in `Head.techniques`."""
    measure: str
    title: str
    """For people."""
    unit: Literal["item", "pair"]
    lower: bool
    """Whether less is better."""


class BoardPair(Shape, frozen=True):
    """The difference between two runs of a board, `new` minus `baseline`, which are places in `Head.runs`."""

    new: int
    baseline: int
    difference: float | None
    low: float | None
    high: float | None
    adjusted: float | None
    """Two-sided p-value after Holm over the comparison's family (`ComparisonView.tests`)."""
    sure: Way
    shown: str
    """The difference in points."""
    bounds: str


class SliceMatrixCell(Shape, frozen=True):
    """One run's value of a measure over one slice."""

    run: int
    value: float | None
    low: float | None
    high: float | None
    n: int
    """Number of units."""
    shown: str
    interval: str
    few: bool
    """Whether there are too few units for percentages."""
    difference: float | None = None
    """From the first run of the board, null for that run itself."""
    difference_shown: str = ""
    adjusted: float | None = None
    sure: Way = ""


class SliceMatrixRow(Shape, frozen=True):
    """One value of a dimension, with a cell for each run of the board, in the board's order of runs."""

    value: str
    title: str
    short: str
    cells: list[SliceMatrixCell]


class SliceMatrix(Shape, frozen=True):
    """A measure by run and slice: one dimension."""

    scale: int
    """A place in `ComparisonView.scales`."""
    dimension: str
    title: str
    fixed: bool
    """Whether the dimension was fixed before the runs; else its slices are exploratory."""
    rows: list[SliceMatrixRow]


class BoardRow(Shape, frozen=True):
    """A run in a ranking."""

    run: int
    rank: int
    best: int
    worst: int
    value: float | None
    low: float | None
    high: float | None
    shown: str
    interval: str
    differs: str
    against: ComparedCell | None
    """The difference from the first run, null for that run itself."""


class BoardView(Shape, frozen=True):
    """Runs by one headline measure, over the questions that all runs have scored."""

    benchmark: str
    technique: str
    measure: str
    title: str
    counted: str
    lower: bool
    sentence: str
    rows: list[BoardRow]
    pairs: list[BoardPair]
    """All pairs of the board's runs."""
    first: int = 0
    """The run from which the differences of rows are taken: the first of `Head.runs`, unless it is not on the board."""


def scale_views(study: Study, benchmarks: Sequence[str], techniques: Sequence[str]) -> list[ScaleView]:
    """The scales of a study; `benchmarks` and `techniques` are those of the bundle's head, in its order."""
    return [
        ScaleView(
            benchmarks.index(scale.benchmark),
            techniques.index(scale.technique),
            scale.metric,
            label(scale.metric),
            scale.unit,
            scale.better == "lower",
        )
        for scale in study.scales
    ]


def boards(
    study: Study, benchmarks: Mapping[str, Benchmark], places: Mapping[str, int] | None = None
) -> list[BoardView]:
    """The rankings of a study. `places`: those of its runs in `Head.runs`, by name; None: in the order of the study."""
    places = {side.name: place for place, side in enumerate(study.sides)} if places is None else places
    return [
        BoardView(
            ranking.benchmark,
            ranking.technique,
            ranking.metric,
            f"{benchmarks[ranking.benchmark].title or ranking.benchmark}, {ranking.technique}",
            comparison.of_all(ranking),
            ranking.better == "lower",
            _leading(ranking, everyone=len(study.board) == len(study.sides)),
            [_board_row(row, places[row.name], ranking, study.sides[study.board[0]].name) for row in ranking.rows],
            [_board_pair(pair, places) for pair in ranking.pairs],
            places[study.sides[study.board[0]].name],
        )
        for ranking in study.rankings
    ]


def _board_row(row: Ranked, run: int, ranking: Ranking, first: str) -> BoardRow:
    against = next((pair.compared for pair in ranking.pairs if (pair.new, pair.baseline) == (row.name, first)), None)
    return BoardRow(
        run,
        row.rank,
        row.best,
        row.worst,
        row.figure.value,
        row.figure.low,
        row.figure.high,
        row.figure.text,
        row.figure.interval,
        row.differs,
        None if against is None else compared_cell(against),
    )


def _board_pair(pair: RankedPair, places: Mapping[str, int]) -> BoardPair:
    difference = pair.compared.figures[2]
    return BoardPair(
        places[pair.new],
        places[pair.baseline],
        difference.value,
        difference.low,
        difference.high,
        pair.compared.adjusted,
        sure(pair.compared, few=difference.few),
        typeset(difference.text),
        typeset(difference.interval),
    )


def _leading(ranking: Ranking, *, everyone: bool) -> str:
    """Say which runs may rank first: no run is shown to be better than these. `everyone`: no run is off the board."""
    measure = label(ranking.metric)
    first, *others = ranking.rows
    if first.figure.value is None:
        return f"By {measure}, no run has a value."
    if all((row.best, row.worst) == (1, len(ranking.rows)) for row in ranking.rows):
        return f"By {measure}, no difference between any two runs{'' if everyone else ' of the leaderboard'} is shown."
    lead = f"By {measure}, {first.name} leads with {first.figure.stated}"
    rivals = [f"{row.name} ({row.figure.stated})" for row in others if row.best == 1]
    if rivals:
        return f"{lead}; {_enumerated(rivals)} may be as good."
    if first.worst == 1:
        board = "" if everyone else " of the leaderboard"
        return f"{lead}, better than {f'each other run{board}' if len(others) > 1 else others[0].name}."
    return f"{lead}; for each other run, a better one is shown."


def _enumerated(names: Sequence[str]) -> str:
    """Names in a sentence: `a, b and c`."""
    if len(names) > NAMED:
        return some(names, NAMED)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def matrices(study: Study, benchmarks: Mapping[str, Benchmark]) -> list[SliceMatrix]:
    """The headline measures of the board's runs over the slices of each dimension."""
    first = study.sides[study.board[0]].name
    against = {
        (versus.paired.new.name, measure.benchmark, measure.technique, measure.metric, *measure.slice.items()): measure
        for versus in study.versus
        if versus.paired.baseline.name == first
        for measure in versus.paired.tables
        if measure.headline and measure.slice
    }
    keys = [(scale.benchmark, scale.technique, scale.metric) for scale in study.scales]
    return [
        SliceMatrix(
            keys.index((sliced.benchmark, sliced.technique, sliced.metric)),
            sliced.dimension,
            label(sliced.dimension),
            all(
                sliced.dimension in comparison.fixed_slices(study.sides[place].run, sliced.benchmark)
                for place in study.board
            ),
            [
                SliceMatrixRow(
                    value,
                    title_of(sliced.dimension, value),
                    ", ".join(lexicon.abbreviations(sliced.dimension, value)),
                    [
                        _matrix_cell(
                            run,
                            own,
                            against.get(
                                (
                                    study.sides[run].name,
                                    *(sliced.benchmark, sliced.technique, sliced.metric),
                                    (sliced.dimension, value),
                                )
                            ),
                        )
                        for run, own in zip(sliced.runs, values, strict=True)
                    ],
                )
                for value, values in sliced.values.items()
            ],
        )
        for sliced in study.sliced
    ]


def _matrix_cell(run: int, own: Figure, against: Compared | None) -> SliceMatrixCell:
    n = int(own.n or 0)
    figure = replace(of_units(own.value, n, "items"), low=own.low, high=own.high)
    cell = SliceMatrixCell(run, own.value, own.low, own.high, n, figure.text, figure.interval, figure.few)
    if against is None:
        return cell
    return structs.replace(
        cell,
        difference=against.shown.difference,
        difference_shown=typeset(against.figures[2].text),
        adjusted=against.adjusted,
        sure=sure(against, few=figure.few),
    )


def ranking_csv(rankings: Sequence[Ranking]) -> str:
    """A row per run and ranking; fractions."""
    differ = any(row.differs for ranking in rankings for row in ranking.rows)
    columns = ("benchmark", "technique", "measure", "better", "place", "run", "value", "low", "high", "best", "worst")
    rows = [
        (
            *(ranking.benchmark, ranking.technique, ranking.metric, ranking.better),
            *(row.rank, row.name, row.figure.value, row.figure.low, row.figure.high, row.best, row.worst),
            *([row.differs] if differ else []),
        )
        for ranking in rankings
        for row in ranking.rows
    ]
    return csv((*columns, *(["differs"] if differ else [])), rows)
