"""The scorecard of a run: headline measures and their meaning, the gain of the image, outcomes, further tables."""

from __future__ import annotations

from typing import Literal

from medvqa.comparing.blank import BlankGap
from medvqa.figures import Table, typeset
from medvqa.items import Measure, Outcome
from medvqa.metrics import invalid_rate
from medvqa.report.build import Part, Report
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label
from medvqa.report.sentences import counted, meaning_of, metric_of, title
from medvqa.report.tables import components


class GapView(Shape, frozen=True):
    """The measure without the image, and the gain of the image, as metrics.json has them under `blank`."""

    blank: float | None
    value: float | None
    low: float | None
    high: float | None
    helps: Literal["yes", "no", "open"]
    """Whether the whole interval lies on the better side of 0, on the worse one, or neither."""
    blank_shown: str
    value_shown: str
    interval: str
    shared: str
    """The part of the questions that both runs have scored, "60 of 72 questions"; "" for all."""


class ScoreRow(Shape, frozen=True):
    """One measure over all questions."""

    cell: Cell
    label: str
    meaning: str
    better: Literal["higher", "lower"]
    counted: str
    """The number of units: "36 pairs"."""
    gap: GapView | None = None


class FailedRow(Shape, frozen=True):
    """A metric that could not be computed."""

    name: str
    why: str


class OutcomeCount(Shape, frozen=True):
    """The number of results with this outcome."""

    outcome: Outcome
    count: int


class ScorePart(Shape, frozen=True):
    """One benchmark and technique, or the largest values over techniques (without outcomes)."""

    title: str
    benchmark: str
    technique: str
    selected: str
    """The selected part of the benchmark, "" for the whole."""
    rows: list[ScoreRow]
    failed: list[FailedRow]
    key: str
    """The key of the outcomes in metrics.json."""
    total: int
    outcomes: list[OutcomeCount]


class TableView(Shape, frozen=True):
    """A table of texts; `right`: the places of columns of numbers."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    right: list[int]


class ScorecardView(Shape, frozen=True):
    """The scorecard of a run. `blank`: the name of the run without the images, "" without one."""

    blank: str
    image: str
    """What stood in place of the image in that run: "blank", "left out", "of another question"."""
    counted: Literal["items", "answers"]
    """What outcomes count."""
    parts: list[ScorePart]
    tables: list[TableView]


def scorecard_of(report: Report) -> ScorecardView:
    """The scorecard of a run."""
    found = report.blank
    return ScorecardView(
        "" if found is None else found.name,
        "" if found is None else found.image,
        "answers" if report.counted == "answers" else "items",
        [_part(report, part) for part in report.parts],
        [table_view(parts)] if (parts := components(report)).rows else [],
    )


def table_view(table: Table) -> TableView:
    """A table of texts as a shape."""
    return TableView(table.title, table.headings, table.texts, table.right)


def _part(report: Report, part: Part) -> ScorePart:
    rates = [one for one in part.measures if one.name == invalid_rate.name and not one.slice]
    shown = part.headline
    rows = [_row(report, part, measure) for measure in [*shown, *(rate for rate in rates if rate not in shown)]]
    several = len(report.techniques) > 1
    return ScorePart(
        title(report, part),
        part.benchmark.name,
        part.technique,
        report.selected(part),
        rows,
        [FailedRow(label(failed.name), failed.why) for failed in part.failed],
        f"{part.benchmark.name} {part.technique}" if several else part.benchmark.name,
        len(part.results),
        [OutcomeCount(outcome, number) for outcome, number in part.outcomes.items()] if part.results else [],
    )


def _row(report: Report, part: Part, measure: Measure) -> ScoreRow:
    metric = metric_of(part, measure.name)
    gap = None if report.blank is None else report.blank.gap(part.benchmark.name, part.technique, measure.name)
    return ScoreRow(
        cell(measure),
        label(measure.name),
        meaning_of(part, measure.name),
        "higher" if metric is None else metric.better,
        counted(measure.n, measure.unit),
        None if gap is None else _gap(gap),
    )


def _gap(gap: BlankGap) -> GapView:
    blank, gained = gap.side(gap.blank), gap.figure
    low, high = (gap.low, gap.high) if gap.better == "higher" else (_negative(gap.high), _negative(gap.low))
    helps: Literal["yes", "no", "open"] = "open"
    if low is not None and high is not None and not blank.few:
        helps = "yes" if low > 0 else "no" if high < 0 else "open"
    shared = f"{gap.scored:,} of {gap.asked:,} questions" if gap.scored < gap.asked else ""
    shown = (blank.text, typeset(gained.text), typeset(gained.interval))
    return GapView(gap.blank, gap.value, gap.low, gap.high, helps, *shown, shared)


def _negative(value: float | None) -> float | None:
    return None if value is None else -value
