"""Drawings beside the slices: abilities beside people's, calibration, spread over prompts, published rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from medvqa import metrics, statistics
from medvqa.benchmarks import published as papers
from medvqa.figures import FEW, number
from medvqa.items import Measure, Result
from medvqa.protocols import position
from medvqa.report import tables
from medvqa.report.build import Part, Report, slices
from medvqa.report.bundle import axes
from medvqa.report.bundle.axes import Axis
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.explorer import confidence
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.texts import label, link, title_of
from medvqa.tags import lexicon

BINS = 10
"""Bins of equal width of the reliability diagram and of the expected calibration error."""


class Published(Shape, frozen=True):
    """A number of a paper, and how it is shown."""

    value: float | None
    shown: str


class AbilityRow(Shape, frozen=True):
    """One ability of the run, beside people's scores in it."""

    title: str
    href: str
    cell: Cell | None
    people: list[Published]


class Abilities(Shape, frozen=True):
    """The abilities of MedLesionVQA in the order of its paper, which draws them as a radar."""

    measure: str
    people: list[str]
    source: str
    rows: list[AbilityRow]


class ReliabilityBin(Shape, frozen=True):
    """Answers of similar confidence."""

    start: float
    end: float
    range: str
    """The bounds of the bin in words."""
    confidence: float
    """The mean confidence."""
    confidence_shown: str
    correct: Cell
    """The share of correct answers; `n` counts answers."""
    verdict: Literal["", "overconfident", "underconfident"]
    """Whether the mean confidence lies outside the interval of the share of correct answers, corrected for all bins."""


class Calibration(Shape, frozen=True):
    """Confidence against the share of correct answers of one technique."""

    technique: str
    error: float
    """The expected calibration error."""
    error_shown: str
    n: int
    bins: list[ReliabilityBin]


class SpreadDeviation(Shape, frozen=True):
    """A standard deviation over prompts or samples."""

    name: str
    heading: str
    value: float | None
    shown: str


class SpreadLine(Shape, frozen=True):
    """A measure by one prompt: a value for each sample, and their mean."""

    prompt: str
    samples: list[float | None]
    mean: float | None
    shown: str


class SpreadView(Shape, frozen=True):
    """The spread of a measure over prompts and samples, in its own numbers."""

    name: str
    title: str
    percent: bool
    mean: float | None
    mean_shown: str
    heading: str
    """The heading of the mean."""
    axis: Axis
    lines: list[SpreadLine]
    deviations: list[SpreadDeviation]


class PublishedRow(Shape, frozen=True):
    """A row of a paper's table; the run's own has cells in place of published numbers."""

    name: str
    values: list[Published]
    cells: list[Cell | None] | None = None


class PublishedView(Shape, frozen=True):
    """Rows of a paper with the run's own among them. Their setting is another one."""

    source: str
    note: str
    columns: list[str]
    rows: list[PublishedRow]


def _published(value: float | None) -> Published:
    return Published(value, number(value))


# ---- abilities -------------------------------------------------------------------------------------------------------


def abilities(part: Part, technique: str = "") -> Abilities | None:
    """The abilities beside those of people; None if nobody's are published, or the run has fewer than three."""
    paper = papers.overall(part.benchmark)
    if paper is None or not paper.abilities:
        return None
    people: Mapping[str, Mapping[str, Any]] = {
        name: values for name, values in paper.abilities.items() if name != "source"
    }
    names = lexicon.medlesionvqa().dimensions["ability"].values
    measured = {m.slice["ability"]: m for m in slices(part.measures, "ability") if m.name == "mean_score"}
    if len(measured.keys() & names.keys()) < 3:
        return None
    rows = [
        AbilityRow(
            title_of("ability", ability),
            link(part.benchmark.name, technique, ability=ability),
            cell(measured[ability]) if ability in measured else None,
            [_published(values[ability] / 100 if ability in values else None) for values in people.values()],
        )
        for ability in names
    ]
    return Abilities("mean score", list(people), paper.abilities["source"], rows)


# ---- calibration -----------------------------------------------------------------------------------------------------


def calibrations(results: Iterable[Result]) -> Iterator[Calibration]:
    """One calibration per technique whose answers to single-choice questions hold log-probabilities of options.

    Confidence is the largest of the options' probabilities, normalised over the options. The error is the mean
    distance of confidence and share of right answers over bins of equal width, weighted by their answers
    (Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 5). It is above 0 by chance alone, the more
    so the fewer answers there are, so it has no interval; the share of each bin has one, over independent groups. A
    bin is called over- or underconfident by Clopper and Pearson's interval of the level 1 - 0.05 / bins: among ten bins
    of a calibrated model, some interval of 95 % leaves out the confidence in 20 to 32 % of cases.
    """
    sure: dict[str, list[tuple[float, Result]]] = {}
    for result in results:
        if (probability := confidence(result)) is not None:
            sure.setdefault(result.technique, []).append((probability, result))
    for technique, answers in sorted(sure.items()):
        bins = _bins(technique, answers)
        error = math.fsum(each.correct.n * abs(each.confidence - (each.correct.value or 0.0)) for each in bins) / len(
            answers
        )
        yield Calibration(technique, error, number(error), len(answers), bins)


def _bins(technique: str, answers: list[tuple[float, Result]]) -> list[ReliabilityBin]:
    """The bins that hold answers."""
    import numpy as np

    # Rows of one question are next to each other, so that they are numbered as one unit.
    answers = sorted(answers, key=lambda answer: answer[1].key)
    places = np.array([min(int(BINS * probability), BINS - 1) for probability, _ in answers], dtype=np.intp)
    right = np.array([float(result.score.outcome == "correct") for _, result in answers])
    questions = {key: k for k, key in enumerate(dict.fromkeys(result.key.question for _, result in answers))}
    unit = np.array([questions[result.key.question] for _, result in answers], dtype=np.intp)
    group = metrics.groups([result for _, result in answers])
    table, _ = statistics.by_unit(statistics.UnitTable(right, np.ones_like(right), unit, group, places, BINS))
    estimates = statistics.clustered(statistics.ratios(table))
    binary = len(table.unit) == len(unit)
    low, high = statistics.intervals(estimates, binary=binary)
    units = np.bincount(table.slice, minlength=BINS)
    judged = (units >= FEW) & ~np.isnan(low)
    surely = statistics.bounds(estimates, binary=binary, level=1 - 0.025 / max(int(judged.sum()), 1))
    made = []
    for k in sorted(set(places.tolist())):
        inside = [probability for (probability, _), place in zip(answers, places.tolist(), strict=True) if place == k]
        count = float(right[places == k].sum())
        value = count / len(inside)
        measure = Measure(
            answers[0][1].item.benchmark,
            "correct",
            value,
            None if np.isnan(low[k]) else min(float(low[k]), value),
            None if np.isnan(high[k]) else max(float(high[k]), value),
            len(inside),
            count=count,
            unit="answers",
            technique=technique,
            units=int(units[k]),
            groups=int(estimates.groups[k]),
        )
        sure, correct = math.fsum(inside) / len(inside), cell(measure)
        verdict: Literal["", "overconfident", "underconfident"] = ""
        if not correct.few and judged[k]:
            verdict = "overconfident" if sure > surely[1][k] else "underconfident" if sure < surely[0][k] else ""
        bounds = f"{100 * k // BINS} to {100 * (k + 1) // BINS} %"
        made.append(ReliabilityBin(k / BINS, (k + 1) / BINS, bounds, sure, number(sure), correct, verdict))
    return made


# ---- spread ----------------------------------------------------------------------------------------------------------


def spreads(part: Part, report: Report) -> Iterator[SpreadView]:
    """The spread of each headline measure over prompts and samples."""
    for spread in part.headline_spreads:
        means = spread.means
        lines = [
            SpreadLine(
                prompt,
                list(values) if len(values) > 1 else [],
                means[prompt],
                number(means[prompt], percent=spread.percent),
            )
            for prompt, values in spread.values.items()
        ]
        yield SpreadView(
            spread.name,
            label(spread.name),
            spread.percent,
            spread.mean,
            number(spread.mean, percent=spread.percent),
            "mean of samples" if report.combine else "mean",
            axes.around([v for values in spread.values.values() for v in values], is_percent=spread.percent),
            lines,
            [
                SpreadDeviation(name, heading, value, number(value, percent=spread.percent))
                for name, heading in tables.deviations([spread]).items()
                for value in (getattr(spread, name),)
            ],
        )


# ---- published rows --------------------------------------------------------------------------------------------------


def published(part: Part) -> PublishedView | None:
    """The rows of the benchmark's paper for the part's technique, best first; None without a paper."""
    paper = papers.overall(part.benchmark)
    if paper is None or not part.results or not paper.rows:
        return None
    own = {measure.name: measure for measure in part.headline}
    own |= {m.name: m for m in part.measures if m.name in paper.measures and not m.slice}
    # A model of the paper was asked in one order.
    own |= {name: own[mean] for name in paper.measures if (mean := position.MEAN + name) in own}
    rows = [
        PublishedRow(name, [_published(None if value is None else value / 100) for value in values])
        for name, of, values in paper.rows
        if of in ("", part.technique)
    ]
    items = len({result.item.id for result in part.results})
    mine = [own.get(name) for name in paper.measures]
    rows.append(
        PublishedRow(
            f"this run, {items:,} questions",
            [_published(None if measure is None else measure.value) for measure in mine],
            [None if measure is None else cell(measure) for measure in mine],
        )
    )
    rows.sort(key=lambda row: -(first if (first := row.values[0].value) is not None else -1))
    names, note = list(map(label, paper.measures)), paper.note
    if paper.titles:
        same = ", ".join(f"{title} is {name}" for title, name in zip(paper.titles, names, strict=True))
        names, note = list(paper.titles), f"{note} In the row of this run, {same}.".lstrip()
    return PublishedView(paper.source, note, names, rows)
