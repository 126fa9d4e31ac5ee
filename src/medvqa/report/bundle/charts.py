"""Drawings: abilities beside people, calibration, spread over prompts, robustness, published rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from medvqa import metrics, statistics
from medvqa.benchmarks import published as papers
from medvqa.comparing import ChangedMeasure, Robustness
from medvqa.figures import FEW, INTERVAL, UNITS, About, Column, Figure, Table, counted, defined, number, texts
from medvqa.items import Result
from medvqa.metrics import Spread
from medvqa.perturbing import LEVELS
from medvqa.protocols import position
from medvqa.report.build import Part, slices
from medvqa.report.bundle import axes
from medvqa.report.bundle.axes import PERCENT, Axis, Tick
from medvqa.report.bundle.explorer import confidence
from medvqa.report.bundle.page_blocks import Block, PlotBlock, PlotPoint, PlotSeries, table_block
from medvqa.report.bundle.texts import Linker, label, query_of, title_of
from medvqa.tags import lexicon

BINS = 10
"""Bins of equal width of the reliability diagram and of the expected calibration error."""
PERTURBATIONS, APART = 5, 0.08
"""Perturbations of one drawing, which has a colour more, and the distance of their points at one level."""
LONG = 24
"""A table with more published rows is folded at first."""


def drawings(part: Part, link: Linker, tabs: tuple[str, ...]) -> list[Block | None]:
    """The drawings of a part; tables and plots without data are None or left out."""
    beside_people, of_papers = abilities(part, link), published(part)
    return [
        None if beside_people is None else table_block(beside_people, tabs=tabs),
        *(spread_plot(spread, tabs) for spread in part.headline_spreads),
        *calibrations(part.results, tabs),
        None if of_papers is None else table_block(of_papers, folded=len(of_papers.rows) > LONG, tabs=tabs),
    ]


# ---- abilities -------------------------------------------------------------------------------------------------------


def abilities(part: Part, link: Linker) -> Table | None:
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
    rows, about = list[tuple[object, ...]](), list[About]()
    for ability in names:
        levels = {name: values[ability] / 100 for name, values in people.items() if ability in values}
        own = measured[ability].figure if ability in measured else Figure(None, why="not asked")
        rows.append((title_of("ability", ability), own, own, own, *(Figure(levels.get(name)) for name in people)))
        about.append(About({0: link(query_of("ability", ability))}))
    columns = (
        *(
            *texts("ability"),
            Column("mean score %", "figure"),
            INTERVAL,
            UNITS,
        ),
        *(Column(f"{name} %", "figure") for name in people),
    )
    notes = (f"Not directly comparable: {paper.abilities['source']}; in another setting, without intervals.",)
    return Table("Abilities beside physicians", columns, tuple(rows), notes, about=tuple(about))


# ---- calibration -----------------------------------------------------------------------------------------------------


def calibrations(results: Iterable[Result], tabs: tuple[str, ...] = ()) -> Iterator[PlotBlock]:
    """A plot for each technique whose answers to single-choice questions hold log-probabilities of options.

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
        points, error = _bins(answers)
        yield PlotBlock(
            f"Calibration, technique {technique}: expected calibration error {number(error)} %, "
            f"{counted(len(answers), 'answers')}",
            "mean confidence %",
            "correct %",
            PERCENT,
            PERCENT,
            [PlotSeries("share of correct answers, 95 % interval", points)],
            diagonal=True,
            notes=(
                "Confidence: the probability of the chosen option among all. Hollow: a bin of few answers, without an "
                "interval. The error is above 0 by chance alone.",
            ),
            tabs=tabs,
        )


def _bins(answers: list[tuple[float, Result]]) -> tuple[list[PlotPoint], float]:
    """Return a point for each bin that holds answers, and the expected calibration error."""
    import numpy as np

    # Rows of one question are next to each other, so that they are numbered as one unit.
    answers = sorted(answers, key=lambda answer: answer[1].key)
    places = np.array([min(int(BINS * probability), BINS - 1) for probability, _ in answers], dtype=np.intp)
    right = np.array([float(result.score.outcome == "correct") for _, result in answers])
    questions = {key: k for k, key in enumerate(dict.fromkeys(result.key.question for _, result in answers))}
    unit = np.array([questions[result.key.question] for _, result in answers], dtype=np.intp)
    group = metrics.groups([result for _, result in answers])
    table, _ = statistics.by_unit(statistics.UnitTable(right, np.ones_like(right), unit, group, places, BINS))
    shares = statistics.estimate(table, binary=len(table.unit) == len(unit))
    low, high, units = shares.low, shares.high, shares.units
    judged = (units >= FEW) & ~np.isnan(low)
    surely = shares.bounds(1 - 0.025 / max(int(judged.sum()), 1))
    points, gaps = list[PlotPoint](), list[float]()
    for k in sorted(set(places.tolist())):
        inside = [probability for (probability, _), place in zip(answers, places.tolist(), strict=True) if place == k]
        count, sure = float(right[places == k].sum()), math.fsum(inside) / len(inside)
        value = count / len(inside)
        gaps.append(len(inside) * abs(sure - value))
        correct = Figure(
            *(value, defined(min(low[k], value)), defined(max(high[k], value)), len(inside), "answers", count),
            units=int(units[k]),
            groups=int(shares.groups[k]),
        )
        verdict = ""
        if not correct.few and judged[k]:
            verdict = "overconfident" if sure > surely[1][k] else "underconfident" if sure < surely[0][k] else ""
        shown = f"confidence {number(sure)} %, correct {correct.stated}"
        said = filter(None, (shown, correct.interval, correct.counted, verdict))
        bounds = (None, None) if correct.few else (correct.low, correct.high)
        points.append(PlotPoint(sure, value, *bounds, ", ".join(said)))
    return points, math.fsum(gaps) / len(answers)


# ---- spread ----------------------------------------------------------------------------------------------------------


def spread_plot(spread: Spread, tabs: tuple[str, ...] = ()) -> PlotBlock:
    """Return the values of a measure for each sample, by prompt if there are several; else by sample."""

    def point(x: float, value: float | None, name: str) -> PlotPoint:
        return PlotPoint(x, value, label=f"{name}: {Figure(value, percent=spread.percent).stated}")

    several = len(spread.values) > 1
    samples = [
        point(at if several else k, value, f"{prompt or 'sample'} {k}" if len(values) > 1 else prompt)
        for at, (prompt, values) in enumerate(spread.values.items(), start=1)
        for k, value in enumerate(values, start=1)
    ]
    means = [point(at, spread.means[prompt], prompt) for at, prompt in enumerate(spread.values, start=1)]
    names = list(spread.values) if several else [f"{k}" for k in range(1, len(samples) + 1)]
    across = Axis(0.5, len(names) + 0.5, [Tick(at, name) for at, name in enumerate(names, start=1)])
    name = label(spread.name)
    return PlotBlock(
        f"Spread of {name} over {'prompts' if several else 'samples'}",
        "prompt" if several else "sample",
        f"{name} %" if spread.percent else name,
        across,
        axes.around((v for values in spread.values.values() for v in values), is_percent=spread.percent),
        [PlotSeries("samples", samples), PlotSeries("mean of a prompt", means)]
        if several and len(samples) > len(names)
        else [PlotSeries("", samples)],
        tabs=tabs,
    )


# ---- robustness ------------------------------------------------------------------------------------------------------


def robustness_plots(found: Robustness, tabs: tuple[str, ...] = ()) -> Iterator[PlotBlock]:
    """Yield the first headline measure of each benchmark and technique over the levels of some perturbations each."""
    rows = [row for row in found.changes if row.level and row.compared.percent]
    firsts = {(row.compared.benchmark, row.compared.technique): row.compared for row in reversed(rows)}
    for (benchmark, technique), first in sorted(firsts.items()):
        key = benchmark, technique, first.metric
        own = [row for row in rows if row.compared.key == key]
        names, named = list(dict.fromkeys(row.name for row in own)), label(first.metric)
        clean = max((row.compared.figures[0] for row in own), key=lambda figure: figure.n or 0)
        line = [PlotPoint(at, clean.value, label=f"{clean.stated}, {clean.counted}") for at in (0.5, LEVELS + 0.5)]
        for start in range(0, len(names), PERTURBATIONS):
            shown = names[start : start + PERTURBATIONS]
            aside = {name: (k - (len(shown) - 1) / 2) * APART for k, name in enumerate(shown)}
            yield PlotBlock(
                f"{benchmark}, {technique}: {named} by level"
                + f", {shown[0]} to {shown[-1]}" * (len(names) > len(shown)),
                "level",
                f"{named} %",
                Axis(0.5, LEVELS + 0.5, [Tick(at, f"{at}") for at in range(1, LEVELS + 1)]),
                PERCENT,
                [
                    PlotSeries("clean", line, "line"),
                    *(
                        PlotSeries(label(name), [_at_level(row, at) for row in own if row.name == name], "line")
                        for name, at in aside.items()
                    ),
                ],
                notes=("Lines join the levels of a change. Bars: the 95 % interval of each value by itself.",),
                tabs=tabs,
            )


def _at_level(row: ChangedMeasure, aside: float) -> PlotPoint:
    """The point of a row, moved aside so that intervals of one level do not cover each other."""
    value, place = row.value, (row.level or 0) + aside
    said = f"level {row.level}: {value.stated}, {value.interval}"
    return PlotPoint(place, value.value, value.low, value.high, said)


# ---- published rows --------------------------------------------------------------------------------------------------


def published(part: Part) -> Table | None:
    """The rows of the benchmark's paper for the part's technique, best first; None without a paper."""
    paper = papers.overall(part.benchmark)
    if paper is None or not part.results or not paper.rows:
        return None
    own = {measure.name: measure for measure in part.headline}
    own |= {m.name: m for m in part.measures if m.name in paper.measures and not m.slice}
    # A model of the paper was asked in one order.
    own |= {name: own[mean] for name in paper.measures if (mean := position.MEAN + name) in own}
    rows = [
        (name, [Figure(None if value is None else value / 100) for value in values])
        for name, of, values in paper.rows
        if of in ("", part.technique)
    ]
    items = len({result.item.id for result in part.results})
    mine = (own.get(name) for name in paper.measures)
    rows.append((f"this run, {counted(items, 'questions')}", [Figure(None) if m is None else m.figure for m in mine]))
    rows.sort(key=lambda row: -(-1 if (first := row[1][0].value) is None else first))
    names, notes = list(map(label, paper.measures)), [f"Another setting: {paper.source}. {paper.note}".rstrip()]
    if paper.titles:
        same = ", ".join(f"{title} is {name}" for title, name in zip(paper.titles, names, strict=True))
        names = list(paper.titles)
        notes.append(f"In the row of this run, {same}.")
    columns = (*texts("row"), *(Column(f"{name} %", "figure") for name in names))
    cells = tuple((name, *figures) for name, figures in rows)
    return Table("Compared with published results", columns, cells, tuple(notes))
