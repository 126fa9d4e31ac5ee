"""The comparison of runs: sentences, rankings, differences by slice, and the flips with both answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Literal

from medvqa.comparing import Compared, Paired, PairedPart, Ranked, Ranking, Side, Study, Versus, under_protocols
from medvqa.data import lexicon
from medvqa.items import Benchmark
from medvqa.printing import some
from medvqa.report import cells, comparison, tables
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import bounds, chance, label, points, title_of
from medvqa.report.bundle.verdict import synthetic

STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Possible ends of an axis of differences, as fractions."""
SURE = 0.05
"""A difference is shown if its adjusted p-value is at most this."""
NAMED = 5
"""Names of runs in a sentence."""

Way = Literal["better", "worse", ""]


class ComparedCell(Shape, frozen=True):
    """One measure of two runs, over all questions or over a slice. Numbers are those of `medvqa compare --json`."""

    benchmark: str
    technique: str
    name: str
    slice: dict[str, str]
    title: str
    """The measure, or the value of the slice, for people."""
    short: str
    """Abbreviations of the slice's value, or ""."""
    baseline: float | None
    new: float | None
    difference: float | None
    low: float | None
    """One-sided bound of new minus baseline, as `high`."""
    high: float | None
    adjusted: float | None
    """Two-sided p-value after Holm."""
    units: int
    groups: int
    gained: int
    """Units that are better in the new run."""
    lost: int
    discordant_groups: int
    detectable: float | None
    mcnemar: float | None
    lower: bool
    """Whether less is better."""
    percent: bool
    few: bool
    """Whether there are too few units for percentages."""
    sure: Way
    """The direction of a difference that is shown."""
    flips: bool
    """Whether flips of this measure are part of the bundle."""
    texts: ComparedTexts


class ComparedTexts(Shape, frozen=True):
    """The numbers of a `ComparedCell` as they are shown."""

    baseline: str
    new: str
    difference: str
    bounds: str
    """The bounds, or the reason for their absence."""
    units: str
    adjusted: str
    detectable: str
    mcnemar: str


class SlicedTable(Shape, frozen=True):
    """One measure over the values of one dimension, the largest loss first."""

    measure: str
    dimension: str
    fixed: bool
    """Whether the dimension was fixed before the runs; else its slices are exploratory."""
    rows: list[ComparedCell]


class ComparedMeasure(Shape, frozen=True):
    """The slices of one headline measure, on one axis from -`end` to `end`."""

    measure: str
    lower: bool
    end: float
    tables: list[SlicedTable]


class ComparedWord(Shape, frozen=True):
    """Some words of a sentence, or a number."""

    text: str
    number: str
    """The field of the first headline measure that has the number; "" for plain words."""


class ComparedSentence(Shape, frozen=True):
    """What the rules of a comparison allow to say about a benchmark: its first headline measure in words."""

    words: list[ComparedWord]
    way: Way
    more: str
    """The other headline measures, or ""."""


class PairedPartView(Shape, frozen=True):
    """One benchmark and technique of a comparison."""

    benchmark: str
    technique: str
    title: str
    counted: str
    """The number of questions that both runs have scored."""
    warnings: list[str]
    sentence: ComparedSentence
    rows: list[ComparedCell]
    """The headline measures."""
    end: float
    """The axis of the headline measures runs from -`end` to `end`."""
    slices: list[ComparedMeasure]


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


class PairView(Shape, frozen=True):
    """The comparison of two runs, which are places in `Head.runs`. If there are `refusals`, there are no parts."""

    new: int
    baseline: int
    level: float
    """The level of each one-sided bound."""
    refusals: list[str]
    notes: list[str]
    differs: str
    """The one setting in which the runs differ, or ""."""
    effect: str
    """The meaning of new minus baseline if one setting differs, or ""."""
    headings: tuple[str, str]
    """Headings of the values of the baseline and of the new run."""
    parts: list[PairedPartView]
    setting: str = ""
    """The option that sets the one difference, such as "ablate", "prompt" or "shots"; "" without one."""
    question: str = ""
    """The question that this difference answers, such as "Does it look at the picture?"; "" without one."""


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


class RunFacts(Shape, frozen=True):
    """The set-up of a run, in the order of `Head.runs`."""

    techniques: str
    images: str
    """The images that the model saw: "original", or the ablation."""
    answers: int
    started: str


class ComparisonView(Shape, frozen=True):
    """The comparison of runs; the first of `Head.runs` is the baseline.

    The columns `flips.*` hold the units whose headline measure changed: `pair` (a place in `pairs`), `benchmark`,
    `technique`; the lists `measures` (places in `measures`) and `better` (1 or 0), of one length; the lists `new` and
    `baseline`, of one length: results of the same question, side by side.
    """

    runs: list[RunFacts]
    images: str
    """One or more sentences about the place of the images."""
    few: int
    """Below this number of units, counts are shown in place of percentages."""
    measures: list[str]
    """The measures of flips."""
    boards: list[BoardView]
    pairs: list[PairView]
    """Each run against the first of `Head.runs`, or if they are not comparable, against the run from which it differs
    in one setting."""
    scales: list[ScaleView]
    matrices: list[SliceMatrix]
    tests: int = 0
    """Number of tests in the family of headline measures: all differences whose p is adjusted together."""
    cut: int = 0
    """Characters of a response in this bundle; longer ones are cut, and say so. 0: none is."""
    synthetic: str = ""
    """A sentence if a program drew images of the runs, else ""."""


LONG = 200
"""Characters of a file's name without its ending."""


def comparison_name(sides: Sequence[Side]) -> str:
    """The page's file name: `new-against-baseline.html`, or with more runs `3-runs-against-baseline.html`."""
    return _title(sides).replace("/", "-").replace("\\", "-").replace(" ", "-")[:LONG] + ".html"


def title(sides: Sequence[Side], compared: Sequence[Versus]) -> str:
    """Name the runs; for two of them, also the one setting in which they differ."""
    return comparison.title(compared[0].paired) if len(compared) == 1 else _title(sides)


def _title(sides: Sequence[Side]) -> str:
    baseline, *others = (side.name for side in sides)
    return f"{others[0] if len(others) == 1 else f'{len(others)} runs'} against {baseline}"


def allowed(compared: Iterable[Versus]) -> list[Paired]:
    """The comparisons without refusals."""
    return [versus.paired for versus in compared if not versus.refusals]


def view(
    study: Study, benchmarks: Mapping[str, Benchmark], pictures: Pictures, measures: Sequence[str]
) -> ComparisonView:
    """The comparison. `measures` have flips."""
    sides, compared, rankings = study.sides, study.versus, study.rankings
    places = {side.name: place for place, side in enumerate(sides)}
    return ComparisonView(
        [_facts(side) for side in sides],
        pictures.note,
        tables.FEW,
        list(measures),
        _boards(rankings, allowed(compared), benchmarks, places),
        [_pair(versus, benchmarks, places) for versus in compared],
        [],
        [],
        synthetic=synthetic(benchmarks[part.benchmark] for paired in allowed(compared) for part in paired.parts),
    )


def _facts(side: Side) -> RunFacts:
    return RunFacts(
        ", ".join(dict.fromkeys(name for names in side.asked.values() for name in names)),
        str(side.run.get("ablation") or "original"),
        len(side.results),
        str(side.run.get("started", ""))[:16].replace("T", " "),
    )


def _pair(versus: Versus, benchmarks: Mapping[str, Benchmark], places: Mapping[str, int]) -> PairView:
    paired, difference = versus.paired, versus.paired.difference
    head, *sections = comparison.sections(
        paired, benchmarks, notes=versus.notes, shown=comparison.Shown(0, 0, names=True)
    )
    parts = [
        _part(part, paired, benchmarks, section.notes)
        for part, section in zip(paired.parts, sections, strict=True)
        if not versus.refusals
    ]
    return PairView(
        places[paired.new.name],
        places[paired.baseline.name],
        paired.level,
        list(versus.refusals),
        list(head.notes),
        "" if difference is None else difference.line(paired.new.name, paired.baseline.name),
        "" if difference is None else difference.effect,
        comparison.values(difference),
        parts,
    )


def _part(
    part: PairedPart,
    paired: Paired,
    benchmarks: Mapping[str, Benchmark],
    warnings: Sequence[str],
) -> PairedPartView:
    benchmark = under_protocols(benchmarks[part.benchmark], (paired.new, paired.baseline))
    flipping = {
        flip.metric for flip in paired.flips if (flip.benchmark, flip.technique) == (part.benchmark, part.technique)
    }
    own = [
        measure
        for measure in paired.tables
        if measure.headline and (measure.benchmark, measure.technique) == (part.benchmark, part.technique)
    ]
    rows = [compared_cell(measure, flipping) for measure in own if not measure.slice]
    rows.sort(key=lambda row: list(benchmark.headline).index(row.name))
    family = sum(measure.headline and not measure.slice and measure.p is not None for measure in paired.tables)
    several = len({other.technique for other in paired.parts if other.benchmark == part.benchmark}) > 1
    named = benchmark.title or benchmark.name
    titled = f"{named}, {part.technique}" if several else named
    fixed = comparison.fixed_slices(paired.new.run, part.benchmark) & comparison.fixed_slices(
        paired.baseline.run, part.benchmark
    )
    return PairedPartView(
        part.benchmark,
        part.technique,
        titled,
        comparison.on_both(part),
        list(warnings),
        _sentence(part, paired, rows, family),
        rows,
        _end(rows),
        [
            sliced
            for row in rows
            if row.percent and (sliced := _sliced(own, row, benchmark.dimensions, fixed, flipping)).tables
        ],
    )


def _sliced(
    own: Sequence[Compared],
    overall: ComparedCell,
    dimensions: Sequence[str],
    fixed: Collection[str],
    flipping: Collection[str],
) -> ComparedMeasure:
    found = []
    for dimension in dimensions:
        rows = [
            compared_cell(measure, flipping)
            for measure in own
            if measure.metric == overall.name and dimension in measure.slice
        ]
        # Losses decide: the largest one first, slices with few units last.
        sign = -1 if overall.lower else 1
        rows.sort(key=lambda row: (row.few, sign * (row.difference or 0.0), row.title))
        if rows:
            found.append(SlicedTable(overall.name, dimension, dimension in fixed, rows))
    return ComparedMeasure(overall.name, overall.lower, _end([row for table in found for row in table.rows]), found)


def compared_cell(measure: Compared, flipping: Collection[str] = ()) -> ComparedCell:
    """Return a measure of two runs with its texts; `flipping`: the measures that have flips in the bundle."""
    seen, own = measure.shown, measure.comparison
    few = bool(measure.percent) and own.units < tables.FEW
    dimension, value = next(iter(measure.slice.items()), ("", ""))
    return ComparedCell(
        measure.benchmark,
        measure.technique,
        measure.metric,
        dict(measure.slice),
        title_of(dimension, value) if dimension else label(measure.metric),
        ", ".join(lexicon.abbreviations(dimension, value)) if dimension else "",
        seen.baseline,
        seen.new,
        seen.difference,
        seen.low,
        seen.high,
        measure.adjusted,
        own.units,
        own.groups,
        own.gained,
        own.lost,
        own.discordant_groups,
        own.detectable,
        own.mcnemar,
        measure.better == "lower",
        bool(measure.percent),
        few,
        _sure(measure, few=few),
        measure.metric in flipping,
        _texts(measure, few=few),
    )


def _sure(measure: Compared, *, few: bool) -> Way:
    difference = measure.comparison.difference
    if few or measure.adjusted is None or measure.adjusted > SURE or not difference:
        return ""
    return "better" if difference > 0 else "worse"


def _texts(measure: Compared, *, few: bool) -> ComparedTexts:
    seen, own = measure.shown, measure.comparison
    before, after, difference, bounded = comparison.compared_values(measure)
    if measure.percent:
        difference = "" if few else points(seen.difference)
        bounded = "" if few or seen.difference is None else bounds(seen.low, seen.high)
    # If nothing flipped, the variance is 0 and no loss is detectable.
    detectable = own.detectable if own.discordant_groups and not few else None
    return ComparedTexts(
        before,
        after,
        difference,
        bounded or ("" if few else tables.no_interval(seen.groups)),
        tables.with_unit(own.units, measure.counted),
        chance(measure.adjusted),
        "" if detectable is None else tables.figure(detectable, is_percent=measure.percent),
        chance(own.mcnemar),
    )


def _end(rows: Iterable[ComparedCell]) -> float:
    """The end of an axis: after the farthest bound, at most 1."""
    shown = [row for row in rows if row.percent and not row.few]
    farthest = max(
        (abs(bound) for row in shown for bound in (row.low, row.high, row.difference) if bound is not None), default=0.0
    )
    return next((step for step in STEPS if farthest <= step), float(ceil(farthest)))


def _sentence(part: PairedPart, paired: Paired, rows: Sequence[ComparedCell], family: int) -> ComparedSentence:
    """Say the first headline measure in words; a difference is named only if it is shown.

    `family`: the number of headline measures that p is corrected for.
    """
    if part.unchanged:
        return ComparedSentence([_word("The responses are identical on every question.")], "", "")
    if not rows:
        return ComparedSentence([_word("No headline measure can be compared.")], "", "")
    first, *others = rows
    more = _others(others)
    if first.baseline is None or first.new is None:
        return ComparedSentence([_word(f"{_start(first.title)} is not defined in both runs.")], "", more)
    new, baseline = paired.new.name, paired.baseline.name
    if first.few:
        words = [
            *(_word(f"{_start(first.title)}: "), _word(first.texts.new, "new"), _word(f" in {new}, ")),
            *(_word(first.texts.baseline, "baseline"), _word(f" in {baseline}: too few for a difference.")),
        ]
        return ComparedSentence(words, "", more)
    if first.sure:
        words = [_word(f"{new} is {first.sure} than {baseline} by {first.title}")]
    else:
        words = [_word(f"No difference in {first.title} is shown")]
    words += [_word(" (less is better): " if first.lower else ": "), *_measured(first)]
    if first.texts.adjusted:
        corrected = f", corrected for {family} measures" if family > 1 else ""
        words += [_word("; p "), _word(first.texts.adjusted, "adjusted"), _word(corrected)]
    words.append(_word("."))
    if not first.sure and first.texts.detectable:
        words += [
            _word(" In 80 % of comparisons, such data would show a true loss of "),
            _word(f"{first.texts.detectable}{' points' if first.percent else ''}", "detectable"),
            _word("."),
        ]
    return ComparedSentence(words, first.sure, more)


def _measured(first: ComparedCell) -> list[ComparedWord]:
    """Both values, the difference and its bounds."""
    percent, points_ = (" %", " points") if first.percent else ("", "")
    words = [
        *(_word(f"{first.texts.new}{percent}", "new"), _word(" against ")),
        *(_word(f"{first.texts.baseline}{percent}", "baseline"), _word(" of " if first.percent else " over ")),
        *(_word(first.texts.units, "units"), _word(", ")),
        *(_word(first.texts.difference, "difference"), _word(points_)),
    ]
    low, _, high = first.texts.bounds.partition(" to ")
    if first.low is None or first.high is None:
        return [*words, _word(f", {first.texts.bounds or 'no bounds'}")]
    return [*words, _word(", bounds "), _word(low, "low"), _word(" to "), _word(high, "high")]


def _word(text: str, number: str = "") -> ComparedWord:
    return ComparedWord(text, number)


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _others(rows: Iterable[ComparedCell]) -> str:
    """The other headline measures, by the way in which they changed."""
    by_way: dict[Way, list[str]] = {}
    for row in rows:
        by_way.setdefault(row.sure, []).append(row.title)
    words: Mapping[Way, str] = {"better": "better", "worse": "worse", "": "no difference shown"}
    told = [f"{', '.join(by_way[way])}: {words[way]}" for way in words if way in by_way]
    return _start("; ".join(told)) + "." if told else ""


def _boards(
    rankings: Sequence[Ranking],
    compared: Sequence[Paired],
    benchmarks: Mapping[str, Benchmark],
    places: Mapping[str, int],
) -> list[BoardView]:
    against = {
        (paired.new.name, measure.benchmark, measure.technique, measure.metric): measure
        for paired in compared
        for measure in paired.tables
        if not measure.slice
    }
    return [
        BoardView(
            ranking.benchmark,
            ranking.technique,
            ranking.metric,
            f"{benchmarks[ranking.benchmark].title or ranking.benchmark}, {ranking.technique}",
            comparison.of_all(ranking),
            ranking.better == "lower",
            _leading(ranking),
            [
                _board_row(
                    row,
                    places[row.name],
                    against.get((row.name, ranking.benchmark, ranking.technique, ranking.metric)),
                )
                for row in ranking.rows
            ],
            [],
        )
        for ranking in rankings
    ]


def _board_row(row: Ranked, run: int, against: Compared | None) -> BoardRow:
    interval = "" if row.low is None or row.high is None else f"{tables.percent(row.low)}–{tables.percent(row.high)}"
    return BoardRow(
        run,
        row.rank,
        row.best,
        row.worst,
        row.value,
        row.low,
        row.high,
        tables.percent(row.value),
        interval,
        row.differs,
        None if against is None else compared_cell(against),
    )


def _leading(ranking: Ranking) -> str:
    """Say which runs may rank first."""
    measure = label(ranking.metric)
    leaders = [row for row in ranking.rows if row.best == 1]
    if len(leaders) == 1 and leaders[0].worst == 1:
        first = leaders[0]
        return f"By {measure}, {first.name} ranks first: {tables.percent(first.value)} %, better than each other run."
    if all((row.best, row.worst) == (1, len(ranking.rows)) for row in ranking.rows):
        return f"By {measure}, no difference between any two runs is shown."
    names = some([f"{row.name} ({tables.percent(row.value)} %)" for row in leaders], NAMED)
    return f"By {measure}, the first rank is open. It may be that of {names}."


def ranking_csv(rankings: Sequence[Ranking]) -> str:
    """A row per run and ranking; fractions."""
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
