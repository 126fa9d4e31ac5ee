"""The slices of a benchmark: its headline measures by every dimension, and a map of two dimensions at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from medvqa import metrics, statistics
from medvqa.figures import FEW, About, Column, Figure, Table, Tone, defined
from medvqa.items import Measure, Metric
from medvqa.report.build import PROMPT, Part, Report, slices
from medvqa.report.bundle import charts
from medvqa.report.bundle.page_blocks import (
    Block,
    FigureCell,
    MatrixBlock,
    MatrixCell,
    MatrixLabel,
    PageSection,
    figure_cell,
    section,
    table_block,
)
from medvqa.report.bundle.questions import score_of
from medvqa.report.bundle.texts import label, link, title_of
from medvqa.report.bundle.verdict import technique_of
from medvqa.report.sentences import title
from medvqa.tags import lexicon

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEAT = ("department", "task")
"""The map of GMAI-MMBench's paper; other benchmarks have one of their first dimensions."""
LEAST_FIELDS, MOST_ROWS, MOST_COLUMNS = 6, 80, 40
"""Bounds of a map's size: below it says no more than the slices, above it cannot be read."""
MOST_SMALL = 0.5
"""The share of fields with too few questions for a percentage from which a map is left out."""
STEP = 0.1
"""A colour is one step stronger for each 10 points by which a field surely differs, up to 3 steps."""
STEPS = 3
ROWS = 200
"""Rows of a dimension at first: drawing thousands takes seconds."""
ALL = "all questions"
"""The whole benchmark, beside its slices."""


def slices_section(report: Report) -> PageSection:
    """The slices of each part of a run that has any, and the drawings beside them."""
    blocks = list[Block | None]()
    for part in report.parts:
        technique, named = technique_of(part, report), title(report, part)
        table = slices_table(part, technique)
        blocks += [
            table_block(replace(table, title=named), first=ROWS, tabs=(named,)),
            heat_map(part, technique, (named,)),
            *charts.drawings(part, report, technique, (named,)),
        ]
    return section("slices", "Slices", blocks)


def dimensions_of(part: Part) -> list[str]:
    """The prompts of a run, the benchmark's dimensions, then the kind of question if there are several."""
    several = len({result.item.kind for result in part.results}) > 1
    return [
        *([PROMPT] if part.prompts else []),
        *part.benchmark.dimensions,
        *(["kind"] if several and "question_type" not in part.benchmark.dimensions else []),
    ]


def slices_table(part: Part, technique: str) -> Table:
    """The headline measures of the whole benchmark and of each value of each dimension; no rows without a slice."""
    better = {metric.name: metric.better for metric in part.benchmark.metrics}
    dimensions = dimensions_of(part)
    names = {measure.name for dimension in dimensions for measure in slices(part.measures, dimension)}
    whole = {measure.name: measure for measure in part.sliced if measure.name in names}
    columns = [Column("slice")]
    for name, measure in whole.items():
        shown = f"{label(name)} %" if measure.percent else label(name)
        columns += [Column(shown, "figure", better=better.get(name, "higher"))]
        columns += [Column("95 % interval", "interval"), Column("n", "units")]
    rows: list[tuple[object, ...]] = [(ALL, *(whole[name].figure for name in whole for _ in range(3)))]
    about = [About()]
    for dimension in dimensions:
        found: dict[str, dict[str, Measure]] = {}
        for measure in slices(part.measures, dimension):
            if measure.name in whole:
                found.setdefault(measure.slice[dimension], {})[measure.name] = measure
        group = label(dimension.replace("+", " and "))
        for value, measures in found.items():
            figures = [_beside(measures[name], whole[name]) if name in measures else None for name in whole]
            rows.append((title_of(dimension, value), *(figure for figure in figures for _ in range(3))))
            to = link(part.benchmark.name, technique, **{dimension: value})
            about.append(About({0: to}, group, ", ".join(lexicon.abbreviations(dimension, value))))
    if len(rows) == 1:
        return Table("", tuple(columns), ())
    return Table(
        "", tuple(columns), tuple(rows), sort="" if part.prompts else f"-{columns[1].title}", about=tuple(about)
    )


def _beside(measure: Measure, whole: Measure) -> Figure:
    """A slice with the level of the whole benchmark."""
    levels = measure.references if whole.value is None else {**measure.references, ALL: whole.value}
    return replace(measure.figure, levels=levels)


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


def heat_map(part: Part, technique: str = "", tabs: tuple[str, ...] = ()) -> MatrixBlock | None:
    """The measure that counts single questions, over two dimensions.

    None without two that make a map, and if most fields have too few questions for a percentage.
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
    if sum(units < FEW for units in found.units) > MOST_SMALL * len(found.units):
        return None
    down, across = chosen[0]
    rows = sorted({a for a, _ in found.keys}, key=lambda value: title_of(down, value))
    columns = sorted({b for _, b in found.keys}, key=lambda value: title_of(across, value))
    fields = [
        MatrixCell(
            rows.index(a),
            columns.index(b),
            *_field(found, k, whole, metric.better),
            link(part.benchmark.name, technique, **{down: a, across: b}),
        )
        for k, (a, b) in enumerate(found.keys)
    ]
    name = label(metric.name)
    note = (
        f"Coloured: {sum(bool(field.step) for field in fields)} fields that surely differ from all questions "
        f"({whole.figure.stated}), each judged at a level at which all colours together hold in 95 % of runs."
    )
    return MatrixBlock(
        f"{name[0].upper()}{name[1:]} % by {label(down)} and {label(across)}",
        label(down),
        label(across),
        [_label(down, value) for value in rows],
        [_label(across, value) for value in columns],
        fields,
        (note,),
        tabs=tabs,
    )


def _label(dimension: str, value: str) -> MatrixLabel:
    return MatrixLabel(title_of(dimension, value), ", ".join(lexicon.abbreviations(dimension, value)))


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


def _field(found: _Fields, k: int, whole: Measure, better: str) -> tuple[FigureCell, int]:
    """Return a field and the strength of its colour: how far it surely lies away from the whole benchmark."""
    few, value, n, middle = found.units[k] < FEW, found.value[k], found.n[k], whole.value or 0.0
    low, high, surely_low, surely_high = (
        float(bounds[k]) for bounds in (found.low, found.high, found.surely_low, found.surely_high)
    )
    above, below = (not few and surely_low > middle), (not few and surely_high < middle)
    tone: Tone = "better" if (above and better == "higher") or (below and better == "lower") else "worse"
    apart = surely_low - middle if above else middle - surely_high
    figure = Figure(
        *(value, defined(low), defined(high), n, "questions", value * n),
        units=found.units[k],
        groups=found.groups[k],
        digits=0,
        tone=tone if above or below else "",
    )
    step = min(1 + int(apart / STEP), STEPS) if above or below else 0
    return figure_cell(figure), step
