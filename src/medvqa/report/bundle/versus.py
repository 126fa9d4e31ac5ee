"""The comparison of runs: what is compared with what, differences by measure and slice, and the views of all runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil

from medvqa import comparing, metrics
from medvqa.comparing import Compared, Paired, PairedPart, Side, Study, Versus, under_protocols
from medvqa.figures import FEW
from medvqa.items import INVALID_OUTCOMES, Benchmark
from medvqa.report import comparison
from medvqa.report.bundle import boards
from medvqa.report.bundle.boards import BoardView, SliceMatrix
from medvqa.report.bundle.differences import ComparedCell, compared_cell
from medvqa.report.bundle.effects import QUESTIONS, ComparedSentence, sentence
from medvqa.report.bundle.packing import Packed
from medvqa.report.bundle.pictures import Pictures
from medvqa.report.bundle.questions import ScaleView
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.verdict import synthetic

STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Possible ends of an axis of differences, as fractions."""


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


class PairView(Shape, frozen=True):
    """The comparison of two runs, which are places in `Head.runs`. If there are `refusals`, there are no parts."""

    new: int
    baseline: int
    level: float
    """The level of the two-sided intervals of differences."""
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


class RunFacts(Shape, frozen=True):
    """The set-up of a run, in the order of `Head.runs`."""

    techniques: str
    images: str
    """The images that the model saw: "original", or the ablation."""
    answers: int
    started: str
    limits: list[str]
    """What is missing of the run, such as "unfinished: 19 of 307 questions have a result", and the selected part."""
    invalid: int
    """Answers that were refused, abstained or could not be read; they count as wrong."""
    truncated: int
    """Answers cut off at a token limit."""


class RunApart(Shape, frozen=True):
    """A run that is not on the leaderboard; `run` is a place in `Head.runs`."""

    run: int
    why: list[str]


class CostlyRun(Shape, frozen=True):
    """A run that costs many questions: without its scores, the others share more. `run` is a place in `Head.runs`."""

    run: int
    lines: list[str]
    """How many questions count, and how many would without the run, for each benchmark that it costs questions."""
    boards: list[BoardView]
    """The leaderboard without the run."""


class ComparisonView(Shape, frozen=True):
    """The comparison of runs; the first of `Head.runs` is the baseline.

    The columns `units/S.*` hold the units of the headline measures (`ScaleView`).
    """

    runs: list[RunFacts]
    images: str
    """One or more sentences about the place of the images."""
    few: int
    """Below this number of units, counts are shown in place of percentages."""
    boards: list[BoardView]
    pairs: list[PairView]
    """Each run against the first of `Head.runs`, or if they are not comparable, against the run from which it differs
    in one setting."""
    scales: list[ScaleView]
    matrices: list[SliceMatrix]
    apart: list[RunApart]
    """Runs that are not on the leaderboard."""
    tests: int = 0
    """Number of tests in the family of headline measures: all differences whose p is adjusted together."""
    cut: int = 0
    """Characters of a response in this bundle; longer ones are cut, and say so. 0: none is."""
    left_out: str = ""
    """A sentence if the texts of all results are left out, else ""; there are no blocks of answers then."""
    synthetic: str = ""
    """A sentence if a program drew images of the runs, else ""."""
    costly: CostlyRun | None = None


LONG = 200
"""Characters of a file's name without its ending."""


def comparison_name(study: Study) -> str:
    """The page's file name: `new-against-baseline.html`, or with more runs `3-runs-against-baseline.html`."""
    return _title(study).replace("/", "-").replace("\\", "-").replace(" ", "-")[:LONG] + ".html"


def title(study: Study) -> str:
    """Name the runs; for two of them, also the one setting in which they differ."""
    return comparison.title(study.versus[0].paired) if len(study.sides) == 2 else _title(study)


def _title(study: Study) -> str:
    baseline, *others = (side.name for side in study.sides)
    if not any(versus.paired.baseline.name == baseline for versus in study.versus if not versus.refusals):
        return f"{len(study.sides)} runs"  # The first run is compared with none.
    return f"{others[0] if len(others) == 1 else f'{len(others)} runs'} against {baseline}"


def allowed(compared: Iterable[Versus]) -> list[Paired]:
    """The comparisons without refusals."""
    return [versus.paired for versus in compared if not versus.refusals]


def view(
    study: Study,
    benchmarks: Mapping[str, Benchmark],
    pictures: Pictures,
    packed: Packed,
) -> ComparisonView:
    """The comparison; `packed` holds questions and results."""
    compared = allowed(study.versus)
    places = {side.name: place for place, side in enumerate(study.sides)}
    tests = study.tests if len(study.sides) > 2 else 0
    listed = {(scale.benchmark, scale.technique, scale.metric) for scale in study.scales}
    return ComparisonView(
        [_facts(side) for side in study.sides],
        pictures.note,
        FEW,
        boards.boards(study, benchmarks),
        [_pair(versus, benchmarks, places, tests, listed) for versus in study.versus],
        list(packed.scales),
        boards.matrices(study, benchmarks),
        [RunApart(place, list(why)) for place, why in study.apart.items()] if study.rankings else [],
        study.tests,
        packed.cut,
        packed.left_out,
        synthetic=synthetic(benchmarks[part.benchmark] for paired in compared for part in paired.parts),
        costly=_costly(study, benchmarks, places),
    )


def _costly(study: Study, benchmarks: Mapping[str, Benchmark], places: Mapping[str, int]) -> CostlyRun | None:
    """The run that costs the most questions, with the leaderboard of the others; None if no run costs many."""
    rankings = {(each.benchmark, each.technique): each for each in study.rankings if each.costliest is not None}
    costs = Counter[str]()
    for ranking in rankings.values():
        if ranking.costliest is not None:
            costs[ranking.costliest.name] += ranking.costliest.scored - ranking.scored
    if not costs:
        return None
    [(name, _)] = costs.most_common(1)
    lines = [
        f"{benchmarks[each.benchmark].title or each.benchmark}: all numbers are over the {each.scored:,} of "
        f"{each.asked:,} questions that every run has a score for; without {name} they would be over "
        f"{each.costliest.scored:,}."
        for each in rankings.values()
        if each.costliest is not None and each.costliest.name == name
    ]
    others = [side for side in study.sides if side.name != name]
    without = comparing.study(others, benchmarks, flips=False, rank_two=True)
    return CostlyRun(places[name], lines, boards.boards(without, benchmarks, places))


def _facts(side: Side) -> RunFacts:
    return RunFacts(
        ", ".join(dict.fromkeys(name for names in side.asked.values() for name in names)),
        side.run.ablation or "original",
        len(side.results),
        side.run.started[:16].replace("T", " "),
        [*side.lacking, *_failed(side), *(f"selected {line}" for line in side.selected)],
        sum(result.score.outcome in INVALID_OUTCOMES for result in side.results),
        sum(metrics.is_complete(result) is False for result in side.results),
    )


def _failed(side: Side) -> list[str]:
    errors = sum(result.score.outcome == "error" for result in side.results)
    return [f"{errors:,} of {len(side.results):,} ended in error, without a score"] if errors else []


def _pair(
    versus: Versus,
    benchmarks: Mapping[str, Benchmark],
    places: Mapping[str, int],
    tests: int,
    listed: Collection[tuple[str, str, str]],
) -> PairView:
    """A pair of runs.

    `tests`: the number of p-values of several runs that are adjusted together, 0 for two runs alone. `listed`: the
    benchmark, technique and name of the measures whose units are in the bundle.
    """
    paired, difference = versus.paired, versus.paired.difference
    head, *sections = comparison.sections(
        paired, benchmarks, notes=versus.notes, shown=comparison.Shown(0, 0, names=True)
    )
    parts = [
        _part(part, paired, benchmarks, section.notes, tests, listed)
        for part, section in zip(paired.parts, sections, strict=True)
        if not versus.refusals
    ]
    return PairView(
        places[paired.new.name],
        places[paired.baseline.name],
        paired.coverage,
        list(versus.refusals),
        list(head.notes),
        "" if difference is None else difference.line(paired.new.name, paired.baseline.name),
        "" if difference is None else difference.effect,
        comparison.values(difference),
        parts,
        "" if difference is None else difference.setting,
        "" if difference is None else QUESTIONS.get(difference.setting, ""),
    )


def _part(
    part: PairedPart,
    paired: Paired,
    benchmarks: Mapping[str, Benchmark],
    warnings: Sequence[str],
    tests: int,
    listed: Collection[tuple[str, str, str]],
) -> PairedPartView:
    benchmark = under_protocols(benchmarks[part.benchmark], (paired.new, paired.baseline))
    own = [
        measure
        for measure in paired.tables
        if measure.headline and (measure.benchmark, measure.technique) == (part.benchmark, part.technique)
    ]
    whole = [measure for measure in own if not measure.slice]
    flipping = {
        measure.metric
        for measure in whole
        if (part.benchmark, part.technique, measure.metric) in listed
        and measure.comparison.gained + measure.comparison.lost
    }
    rows = [compared_cell(measure, flipping) for measure in whole]
    rows.sort(key=lambda row: list(benchmark.headline).index(row.name))
    family = sum(measure.headline and not measure.slice and measure.p is not None for measure in paired.tables)
    corrected = f"{tests} tests" if tests else f"{family} measures" if family > 1 else ""
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
        sentence(part, paired, rows, corrected),
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


def _end(rows: Iterable[ComparedCell]) -> float:
    """The end of an axis: after the farthest bound, at most 1."""
    shown = [row for row in rows if row.percent and not row.few]
    farthest = max(
        (abs(bound) for row in shown for bound in (row.low, row.high, row.difference) if bound is not None), default=0.0
    )
    return next((step for step in STEPS if farthest <= step), float(ceil(farthest)))
