"""Drawings: abilities beside people, spread over prompts, robustness, published rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medvqa.benchmarks import published as papers
from medvqa.comparing import ChangedMeasure, Robustness
from medvqa.figures import INTERVAL, UNITS, About, Column, Figure, Table, counted, texts
from medvqa.metrics import Spread
from medvqa.perturbing import LEVELS
from medvqa.protocols import position
from medvqa.report.build import Part, slices
from medvqa.report.bundle import axes
from medvqa.report.bundle.axes import PERCENT, Axis, Tick
from medvqa.report.bundle.page_blocks import Block, PlotBlock, PlotPoint, PlotSeries, table_block
from medvqa.report.bundle.texts import Linker, label, query_of, title_of
from medvqa.tags import lexicon

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
