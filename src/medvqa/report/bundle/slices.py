"""The slices of a benchmark: its headline measures by every dimension, and a map of two dimensions at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from medvqa import metrics, statistics
from medvqa.figures import (
    FEW,
    INTERVAL,
    UNITS,
    About,
    Column,
    Figure,
    Table,
    Tone,
    between,
    defined,
    number,
    of_measure,
)
from medvqa.items import Measure, Metric
from medvqa.report.build import PROMPT, Part, Report
from medvqa.report.bundle import charts
from medvqa.report.bundle.page_blocks import (
    Block,
    MatrixBlock,
    MatrixCell,
    MatrixLabel,
    PageSection,
    figure_cell,
    section,
    table_block,
)
from medvqa.report.bundle.questions import score_of
from medvqa.report.bundle.texts import Linker, label, linker, query_of, title_of
from medvqa.report.sentences import title
from medvqa.report.tables import sliced
from medvqa.tags import lexicon

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
"""The row of the whole benchmark, before its slices."""
WHOLE = "whole"
"""The level of the whole benchmark beside each slice."""
MOST_POOLED = 300
"""The values of a dimension up to which they are pooled: more are names of cases, and take seconds."""
POOLED = (
    "Pooled: an estimate with its 95 % interval that takes the values of a dimension as alike, and pulls small slices "
    "to their mean. It hides the dangerous slice: of a slice 20 points below the rest, the pooled interval held the "
    "true value in 79 % of simulated runs at 12 questions, in 71 % at 48. Judge such a slice by its own value."
)
"""The note below pooled estimates; figures of `python bench/promises pooled`."""


def slices_section(report: Report) -> PageSection:
    """The slices of each part of a run that has any, and the drawings beside them."""
    blocks = list[Block | None]()
    for part in report.parts:
        link, named = linker(part, report), title(report, part)
        table = slices_table(part, link)
        blocks += [
            table_block(replace(table, title=named), first=ROWS, tabs=(named,)),
            heat_map(part, link, (named,)),
            *charts.drawings(part, link, (named,)),
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


def slices_table(part: Part, link: Linker) -> Table:
    """The headline measures of the whole benchmark and of each value of each dimension; no rows without a slice."""
    better = {metric.name: metric.better for metric in part.benchmark.metrics}
    every = {measure.name: measure.n for measure in part.sliced}
    found = {dimension: sliced(part, dimension) for dimension in dimensions_of(part)}
    # A dimension with one value that all questions have says what the whole benchmark does.
    found = {
        dimension: values
        for dimension, values in found.items()
        if len(values) > 1 or any(each.n != every[each.name] for own in values.values() for each in own.values())
    }
    names = {name for values in found.values() for measures in values.values() for name in measures}
    whole = {measure.name: measure for measure in part.sliced if measure.name in names}
    columns = [Column("slice")]
    for name, measure in whole.items():
        columns += [of_measure(label(name), percent=measure.percent, better=better.get(name, "higher"))]
        columns += [INTERVAL, UNITS]
    rows: list[tuple[object, ...]] = [(ALL, *(whole[name].figure for name in whole for _ in range(3)))]
    about = [About()]
    asides = pooled(part, [name for name in found if name != PROMPT], names)
    for dimension, values in found.items():
        group = label(dimension.replace("+", " and "))
        for value, measures in values.items():
            figures = [
                replace(beside(measures[name], whole[name]), aside=asides.get((name, dimension, value), ""))
                if name in measures
                else None
                for name in whole
            ]
            rows.append((title_of(dimension, value), *(figure for figure in figures for _ in range(3))))
            about.append(
                About({0: link(query_of(dimension, value))}, group, ", ".join(lexicon.abbreviations(dimension, value)))
            )
    if len(rows) == 1:
        return Table("", tuple(columns), ())
    sort = "" if part.prompts else f"-{columns[1].title}"
    return Table("", tuple(columns), tuple(rows), (POOLED,) if asides else (), sort, tuple(about))


def pooled(part: Part, dimensions: Sequence[str], names: Collection[str]) -> dict[tuple[str, str, str], str]:
    """The partially pooled estimates of slices as words, by measure, dimension and value (`statistics.pooled`).

    Only of measures that are shares, and of dimensions with LEAST_SLICES values with units or more. Prompts are no such
    dimension, as they have the same questions.
    """
    shares = [metric for metric in part.benchmark.metrics if metric.name in names and metric.mean_over is None]
    found = {}
    for tabled in metrics.tables(part.combined, shares, dimensions, [], alone=True):
        if not (tabled.bounded and tabled.metric.percent):
            continue
        estimated = tabled.estimate()
        units = statistics.effective_units(estimated.precision, binary=tabled.binary)
        for dimension in dimensions:
            kept = [k for k, (name, _) in enumerate(tabled.frame.slices) if name == dimension and units[k] > 0]
            if not statistics.LEAST_SLICES <= len(kept) <= MOST_POOLED:
                continue
            rates = statistics.pooled(estimated.value[kept].clip(0, 1), units[kept])
            for k, *ends in zip(kept, rates.value, rates.low, rates.high, strict=True):
                value, low, high = map(float, ends)
                shown = f"pooled {number(value, digits=0)} ({between(low, high, digits=0)})"
                found[tabled.metric.name, *tabled.frame.slices[k]] = shown
    return found


def beside(measure: Measure, whole: Measure) -> Figure:
    """A slice with the level of the whole benchmark."""
    levels = measure.references if whole.value is None else {**measure.references, WHOLE: whole.value}
    return replace(measure.figure, levels=levels)


# ---- the map of two dimensions ---------------------------------------------------------------------------------------


def heat_map(part: Part, link: Linker, tabs: tuple[str, ...] = ()) -> MatrixBlock | None:
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
    if (chosen := _dimensions_of_heat(part)) is None or not (found := _fields(part, metric, *chosen, whole)):
        return None
    if sum(figure.few for figure, _ in found.values()) > MOST_SMALL * len(found):
        return None
    down, across = chosen[0]
    rows = sorted({a for a, _ in found}, key=lambda value: title_of(down, value))
    columns = sorted({b for _, b in found}, key=lambda value: title_of(across, value))
    fields = [
        MatrixCell(
            *(rows.index(a), columns.index(b), figure_cell(figure), step),
            link(f"{query_of(down, a)} {query_of(across, b)}"),
        )
        for (a, b), (figure, step) in found.items()
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


def _fields(
    part: Part, metric: Metric, dimensions: tuple[str, str], pairs: _Pairs, whole: Measure
) -> dict[tuple[str, str], tuple[Figure, int]]:
    """The measure of each combination of values, and the strength of its colour.

    Its tone says on which side of the whole benchmark it surely lies, its strength how far away.
    """
    import numpy as np

    dimension = lexicon.CROSSED.join(dimensions)
    tabled = next(iter(metrics.tables(part.combined, [metric], [dimension], [], alone=True)), None)
    if tabled is None:
        return {}
    frame, found_in, middle = tabled.frame, tabled.estimate(), whole.value or 0.0
    count, n = (frame.sums(terms) for terms in tabled.terms)
    kept = [k for k, (name, _) in enumerate(frame.slices) if name == dimension and n[k] > 0]
    units, low, high = found_in.units, found_in.low, found_in.high
    surely_low = surely_high = np.full(len(n), np.nan)
    if tabled.bounded:
        tested = sum(1 for k in kept if units[k] >= FEW and not np.isnan(low[k]))
        surely_low, surely_high = found_in.bounds(1 - 0.025 / max(tested, 1))
    # A value may hold the sign that joins two.
    pair_of = {lexicon.CROSSED.join(pair): pair for pair in pairs}
    found = {}
    for k in kept:
        value, above, below = count[k] / n[k], surely_low[k] - middle, middle - surely_high[k]
        apart = float(max(above, below)) if units[k] >= FEW and max(above, below) > 0 else None
        tone: Tone = "better" if (above > 0) == (metric.better == "higher") else "worse"
        figure = Figure(
            *(float(value), defined(min(low[k], value)), defined(max(high[k], value)), float(n[k]), "questions"),
            count=float(count[k]),
            units=int(units[k]),
            groups=int(found_in.groups[k]),
            digits=0,
            tone="" if apart is None else tone,
        )
        found[pair_of[frame.slices[k][1]]] = (figure, 0 if apart is None else min(1 + int(apart / STEP), STEPS))
    return found
