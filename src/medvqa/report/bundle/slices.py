"""The slices of a benchmark: its headline measures by every dimension, and a map of two dimensions at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from medvqa import metrics, statistics
from medvqa.figures import FEW, number
from medvqa.items import Measure, Metric
from medvqa.report.build import PROMPT, Part, Report, slices
from medvqa.report.bundle import axes, charts
from medvqa.report.bundle.axes import Axis
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.charts import Abilities, Calibration, PublishedView, SpreadView
from medvqa.report.bundle.questions import score_of
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label, link, title_of
from medvqa.tags import lexicon

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEAT = ("department", "task")
"""The map of GMAI-MMBench's paper; other benchmarks have one of their first dimensions."""
LEAST_FIELDS, MOST_ROWS, MOST_COLUMNS = 6, 80, 40
"""Bounds of a map's size: below it says no more than the slices, above it cannot be read."""
STEP = 0.1
"""A colour is one step stronger for each 10 points by which a field surely differs, up to 3 steps."""
STEPS = 3

Tone = Literal["", "above", "below"]


class SliceMeasure(Shape, frozen=True):
    """A headline measure: a column of the slices."""

    name: str
    title: str
    unit: str
    """The unit of `n` in slices, a plural."""
    percent: bool
    better: Literal["higher", "lower"]
    axis: Axis
    whole: Cell
    """The measure over the whole benchmark."""


class SliceRow(Shape, frozen=True):
    """One value of a dimension."""

    value: str
    title: str
    short: str
    """Abbreviations of the paper, or ""."""
    href: str
    """The link to its questions."""
    cells: list[Cell | None]
    """Its measures, in the order of the columns."""


class SliceGroup(Shape, frozen=True):
    """The values of one dimension."""

    dimension: str
    title: str
    ordered: bool
    """Whether the order of the rows means something, as that of the prompts of a run."""
    rows: list[SliceRow]


class HeatField(Shape, frozen=True):
    """A field of a map: a measure over the questions with two values."""

    row: int
    column: int
    value: float
    low: float | None
    high: float | None
    n: float
    short: str
    """Whole percent, or counts if there are few units."""
    shown: str
    """As in a table of slices."""
    interval: str
    """The interval, or the reason for its absence; "" if neither is known."""
    few: bool
    href: str
    tone: Tone
    """Where the field surely lies, beside the whole benchmark; "" if that is not sure."""
    step: int
    """How far it surely lies away: 1 to 3; 0 without a tone."""


class HeatLabel(Shape, frozen=True):
    """A value of one of a map's dimensions."""

    title: str
    short: str


class HeatMap(Shape, frozen=True):
    """A measure over two dimensions at once."""

    measure: str
    title: str
    better: Literal["higher", "lower"]
    unit: str
    down: str
    across: str
    rows: list[HeatLabel]
    columns: list[HeatLabel]
    fields: list[HeatField]
    whole: Cell
    tested: int
    """The number of fields with an interval: each is judged at 1 - 0.05 / `tested`."""


class SlicesView(Shape, frozen=True):
    """The slices of one benchmark, as asked by one technique, and the drawings beside them."""

    benchmark: str
    technique: str
    title: str
    measures: list[SliceMeasure]
    groups: list[SliceGroup]
    heat: HeatMap | None
    abilities: Abilities | None
    spreads: list[SpreadView]
    calibrations: list[Calibration]
    published: PublishedView | None


def slices_of(report: Report) -> list[SlicesView]:
    """The slices of each part of a run that has any."""
    views = (slices_view(part, report) for part in report.parts)
    return [v for v in views if v.groups or v.heat or v.abilities or v.spreads or v.calibrations or v.published]


def title_of_part(part: Part, report: Report) -> str:
    """The benchmark's title, with the protocol, and the technique if the run has several."""
    named = part.benchmark.title or part.benchmark.name
    named += f" ({report.protocol})" if report.protocol else ""
    return f"{named}, {part.technique}" if len(report.techniques) > 1 else named


def technique_of(part: Part, report: Report) -> str:
    """The technique for links to questions: "" if the run has one, all of them if the part holds maxima over them."""
    if len(report.techniques) < 2:
        return ""
    return part.technique if part.results else ",".join(report.techniques)


def better(part: Part, name: str) -> Literal["higher", "lower"]:
    """Whether a higher or a lower value of a measure is better."""
    return next((metric.better for metric in part.benchmark.metrics if metric.name == name), "higher")


def slices_view(part: Part, report: Report) -> SlicesView:
    """The slices of one benchmark and technique."""
    technique = technique_of(part, report)
    names = [measure.name for measure in part.sliced]
    groups = [group for name in dimensions_of(part) if (group := _group(part, name, names, technique)).rows]
    found = [[row.cells[k] for group in groups for row in group.rows] for k in range(len(names))]
    columns = [
        _column(part, whole, [each for each in cells if each is not None])
        for whole, cells in zip(part.sliced, found, strict=True)
    ]
    return SlicesView(
        part.benchmark.name,
        part.technique,
        title_of_part(part, report),
        columns,
        groups,
        heat_map(part, technique),
        charts.abilities(part, technique),
        list(charts.spreads(part, report)),
        list(charts.calibrations(part.results)),
        charts.published(part),
    )


def dimensions_of(part: Part) -> list[str]:
    """The prompts of a run, the benchmark's dimensions, then the kind of question if there are several."""
    several = len({result.item.kind for result in part.results}) > 1
    return [
        *([PROMPT] if part.prompts else []),
        *part.benchmark.dimensions,
        *(["kind"] if several and "question_type" not in part.benchmark.dimensions else []),
    ]


def _group(part: Part, dimension: str, names: list[str], technique: str) -> SliceGroup:
    found: dict[str, dict[str, Measure]] = {}
    for measure in slices(part.measures, dimension):
        if measure.name in names:
            found.setdefault(measure.slice[dimension], {})[measure.name] = measure
    rows = [
        SliceRow(
            value,
            title_of(dimension, value),
            ", ".join(lexicon.abbreviations(dimension, value)),
            link(part.benchmark.name, technique, **{dimension: value}),
            [cell(row[name]) if name in row else None for name in names],
        )
        for value, row in found.items()
    ]
    return SliceGroup(dimension, label(dimension.replace("+", " and ")), dimension == PROMPT, rows)


def _column(part: Part, whole: Measure, cells: list[Cell]) -> SliceMeasure:
    """A column; its axis is that of percentages, or holds all of its values and intervals."""
    inside = all(0 <= bound <= 1 for each in [cell(whole), *cells] for bound in _numbers(each))
    axis = axes.PERCENT
    if not whole.percent or not inside:
        axis = axes.around([n for each in [cell(whole), *cells] for n in _numbers(each)], is_percent=whole.percent)
    # Prompts come first, and have the unit of the whole.
    unit = cells[-1].unit if cells else whole.unit
    return SliceMeasure(whole.name, label(whole.name), unit, whole.percent, better(part, whole.name), axis, cell(whole))


def _numbers(cell: Cell) -> list[float]:
    return [n for n in (cell.value, cell.low, cell.high, *cell.references.values()) if n is not None]


# ---- the map of two dimensions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fields:
    """The measure of each field, (fields,) each."""

    keys: list[tuple[str, str]]
    value: list[float]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    surely_low: NDArray[np.float64]
    surely_high: NDArray[np.float64]
    n: list[float]
    units: list[int]
    groups: list[int]
    tested: int


def heat_map(part: Part, technique: str = "") -> HeatMap | None:
    """The measure that counts single questions, over two dimensions; None without two that make a map.

    A field is coloured only if its interval lies on one side of the measure over the whole benchmark. With 60 fields
    and intervals of 95 %, three fields would be coloured by chance: here each interval has level 1 - 0.05 / fields,
    so that all colours together are right in 95 % of runs (Bonferroni). These are Clopper and Pearson's: Wilson's are
    too narrow at high levels near 0 and 1. A field with fewer than ten units has none.
    """
    metric = score_of(part.benchmark)
    overall = {measure.name: measure for measure in part.measures if not measure.slice}
    if metric is None or (whole := overall.get(metric.name)) is None or not whole.percent or whole.value is None:
        return None
    if (chosen := _dimensions_of_heat(part)) is None or (found := _fields(part, metric, *chosen)) is None:
        return None
    down, across = chosen[0]
    rows = sorted({a for a, _ in found.keys}, key=lambda value: title_of(down, value))
    columns = sorted({b for _, b in found.keys}, key=lambda value: title_of(across, value))
    fields = [
        _field(
            part,
            found,
            k,
            (rows.index(a), columns.index(b)),
            whole,
            link(part.benchmark.name, technique, **{down: a, across: b}),
        )
        for k, (a, b) in enumerate(found.keys)
    ]
    return HeatMap(
        metric.name,
        label(metric.name),
        metric.better,
        "questions",
        label(down),
        label(across),
        [HeatLabel(title_of(down, a), ", ".join(lexicon.abbreviations(down, a))) for a in rows],
        [HeatLabel(title_of(across, b), ", ".join(lexicon.abbreviations(across, b))) for b in columns],
        fields,
        cell(whole),
        found.tested,
    )


_Pairs = set[tuple[str, str]]


def _dimensions_of_heat(part: Part) -> tuple[tuple[str, str], _Pairs] | None:
    """Two dimensions neither of which follows from the other, and the combinations of values that questions have.

    Crossed dimensions come first, then department and task, then the benchmark's first dimensions.
    """
    declared = part.benchmark.dimensions
    crossed = [tuple(name.split(lexicon.CROSSED)) for name in declared if lexicon.CROSSED in name]
    plain = [name for name in declared if lexicon.CROSSED not in name]
    candidates = [
        *((a, b) for a, b, *rest in crossed if not rest),
        *([HEAT] if set(HEAT) <= set(plain) else []),
        *((a, b) for i, a in enumerate(plain[:4]) for b in plain[i + 1 : 4]),
    ]
    for a, b in candidates:
        pairs = _pairs(part, a, b)
        rows, columns = len({x for x, _ in pairs}), len({y for _, y in pairs})
        sized = 2 <= rows <= MOST_ROWS and 2 <= columns <= MOST_COLUMNS and len(pairs) >= LEAST_FIELDS
        if sized and len(pairs) > max(rows, columns):
            return (a, b), pairs
    return None


def _pairs(part: Part, a: str, b: str) -> _Pairs:
    """The combinations of values that counted questions have."""
    return {
        (x, y)
        for result in part.combined
        for x in lexicon.values_of(result.item, a)
        for y in lexicon.values_of(result.item, b)
    }


def _fields(part: Part, metric: Metric, dimensions: tuple[str, str], pairs: _Pairs) -> _Fields | None:
    """The measure of each combination of values that any counted question has."""
    import numpy as np

    dimension = lexicon.CROSSED.join(dimensions)
    tabled = next(iter(metrics.tables(part.combined, [metric], [dimension], [], alone=True)), None)
    if tabled is None:
        return None
    n, frame = tabled.frame.sums(tabled.terms[1]), tabled.frame
    kept = [k for k, (name, _) in enumerate(frame.slices) if name == dimension and n[k] > 0]
    table = tabled.table()
    estimates = statistics.clustered(statistics.ratios(table))
    units = np.bincount(table.slice[table.denominator > 0], minlength=table.slices)
    low, high = np.full_like(n, np.nan), np.full_like(n, np.nan)
    surely_low, surely_high, tested = low.copy(), high.copy(), 0
    if tabled.bounded:
        low, high = statistics.intervals(estimates, binary=tabled.binary)
        tested = sum(1 for k in kept if units[k] >= FEW and not np.isnan(low[k]))
        level = 1 - 0.025 / max(tested, 1)
        surely_low, surely_high = statistics.bounds(estimates, binary=tabled.binary, level=level)
    value = frame.sums(tabled.terms[0])[kept] / n[kept]
    # A value may hold the sign that joins two.
    pair_of = {lexicon.CROSSED.join(pair): pair for pair in pairs}
    return _Fields(
        [pair_of[frame.slices[k][1]] for k in kept],
        value.tolist(),
        np.minimum(low[kept], value),
        np.maximum(high[kept], value),
        surely_low[kept],
        surely_high[kept],
        n[kept].tolist(),
        units[kept].tolist(),
        estimates.groups[kept].tolist(),
        tested,
    )


def _field(part: Part, found: _Fields, k: int, at: tuple[int, int], whole: Measure, href: str) -> HeatField:
    import numpy as np

    low, high = (None if np.isnan(bounds[k]) else float(bounds[k]) for bounds in (found.low, found.high))
    few, value, n = found.units[k] < FEW, found.value[k], found.n[k]
    tone: Tone = ""
    apart, middle = 0.0, whole.value or 0.0
    if not few and found.surely_low[k] > middle:
        tone, apart = "above", float(found.surely_low[k]) - middle
    elif not few and found.surely_high[k] < middle:
        tone, apart = "below", middle - float(found.surely_high[k])
    # The measure of this field, as a table of slices would show it.
    measure = Measure(
        part.benchmark.name,
        whole.name,
        value,
        low,
        high,
        n,
        count=value * n,
        units=found.units[k],
        groups=found.groups[k],
    )
    shown = cell(measure)
    step = min(1 + int(apart / STEP), STEPS) if tone else 0
    short = shown.shown if few else number(value, digits=0)
    return HeatField(*at, value, low, high, n, short, shown.shown, shown.interval, few, href, tone, step)
