"""The tables of a run, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum

from medvqa.figures import (
    DASH,
    INTERVAL,
    UNITS,
    About,
    Column,
    Figure,
    Table,
    chance,
    counted,
    number,
    numbers,
    of_measure,
    texts,
)
from medvqa.items import Measure, Outcome, measure_of
from medvqa.metrics import Spread
from medvqa.report import confidences
from medvqa.report.build import PROMPT, Part, Report, slices
from medvqa.report.sentences import less_is_better, meaning_of, title

FAILED = "failed"
"""Stands for the value of a metric that could not be computed; `notes_of` says why."""
VALUE = "value"
"""The heading of values if some are no percentages."""
REFERENCES: Mapping[str, str] = {"random": "random", "majority": "majority", "image_blind": "image-blind"}
"""Reference lines and the headings of their columns."""
OUTCOME_COLUMNS: Mapping[str, Outcome] = {
    "correct": "correct",
    "partial": "partial",
    "wrong": "wrong",
    "unparsed": "unparsed",
    "refused": "refused",
    "abstained": "abstained",
    "unscored": "unscored",
    "errors": "error",
}


def headline(report: Report, references: Sequence[str] = tuple(REFERENCES)) -> Table:
    """The headline measures of each benchmark, with reference lines.

    If only a part of a benchmark was selected, a column shows "10 of 60". If questions have several samples, whose
    scores are averaged, a column shows the standard deviation of the measure over samples.
    """
    over_samples = {} if report.combine else _over_samples(report)
    names, partial = naming(report), any(report.selected(part) for part in report.parts)
    selected = ["selected"] if partial else []
    unit = "%" if all(measure.percent for part in report.parts for measure in part.headline) else VALUE
    several = any(len(each.prompts) > 1 for part in report.parts for each in part.headline_spreads)
    fixed = "prompts" if several else "readers" if report.run.readers is not None else ""
    between = replace(INTERVAL, title=f"{INTERVAL.title}, for these {fixed}") if fixed else INTERVAL
    columns = (
        *texts(*names, "measure"),
        Column(unit, "stated" if unit == VALUE else "figure"),
        between,
        *numbers(*([SD] if over_samples else [])),
        UNITS,
        *numbers(*selected),
        *(Column(REFERENCES[name], "figure") for name in references),
    )
    rows, about = list[tuple[object, ...]](), list[About]()
    for part in report.parts:
        portion = report.selection.portion(part.benchmark.name, part.technique)
        chosen = [str(portion or "")] if partial else []
        for measure in part.headline:
            levels = (_level(measure, name) for name in references)
            shown = measure.figure
            sd = [over_samples.get((part.name, measure.name), "") if not shown.few else ""] if over_samples else []
            rows.append((*_named(report, part), measure.name, shown, shown, *sd, shown, *chosen, *levels))
            about.append(_about(report, part, measure.name))
        for failed in part.failed:
            blank = [""] * (len(columns) - len(names) - 2)
            rows.append((*_named(report, part), failed.name, FAILED, *blank))
            about.append(About(group=title(report, part), note=failed.why))
    return Table("", columns, tuple(rows), about=tuple(about))


def _level(measure: Measure, name: str) -> Figure | None:
    level = measure.references.get(name)
    return None if level is None else Figure(level, of={**measure.of, "reference": name})


def _about(report: Report, part: Part, name: str) -> About:
    less = "Less is better. " if less_is_better(part, name) else ""
    return About(group=title(report, part), note=f"{less}{meaning_of(part, name)}")


def image_gain(report: Report) -> Table:
    """The headline measures with and without the image, and the gain of the image with its interval.

    No rows without a run to compare with (`medvqa report RUN --blank=RUN2`).
    """
    found = report.blank
    gaps = () if found is None else found.gaps
    several = len(report.techniques) > 1
    parts = {(part.benchmark.name, part.technique): part for part in report.parts}
    rows, about = list[tuple[object, ...]](), list[About]()
    for gap in gaps:
        of = measure_of(gap.benchmark, gap.technique, gap.name, {})
        shown, blank, gain = (
            replace(figure, of={**of, "gap": name})
            for name, figure in (("shown", gap.side(gap.shown)), ("blank", gap.side(gap.blank)), ("value", gap.figure))
        )
        names = (gap.benchmark, gap.technique) if several else (gap.benchmark,)
        rows.append((*names, gap.name, shown, blank, gain, gain, gain))
        part = parts.get((gap.benchmark, gap.technique))
        about.append(About() if part is None else _about(report, part, gap.name))
    columns = (
        *texts(*naming(report), "measure"),
        *(Column(title, "figure") for title in ("with image", "without", "gain, points")),
        *(INTERVAL, UNITS),
    )
    heading = "" if found is None else f"Gain of the image, against run {found.name} (image: {found.image})"
    return Table(heading, columns, tuple(rows), about=tuple(about))


def _over_samples(report: Report) -> dict[tuple[str, str], str]:
    """The standard deviation over samples of each headline measure, by part and measure."""
    return {
        (part.name, each.name): number(each.sd_over_samples, percent=each.percent)
        for part in report.parts
        for each in part.headline_spreads
        if each.sd_over_samples is not None
    }


def outcomes(report: Report, shown: Sequence[str] = tuple(OUTCOME_COLUMNS)) -> Table:
    """Outcomes: the number of items of each benchmark by outcome; of answers, if items have several samples.

    If any answer was cut off, a last column counts these.
    """
    names = naming(report)
    truncated = ["truncated"] if any(part.truncated for part in report.parts) else []
    columns = (*texts(*names), *numbers(report.counted, *shown, *truncated))
    rows = [
        (
            *_named(report, part),
            len(part.results),
            *(part.outcomes[OUTCOME_COLUMNS[name]] for name in shown),
            *(len(part.truncated) for _ in truncated),
        )
        for part in report.parts
        if part.results
    ]
    return Table("", columns, tuple(rows))


def confidence(report: Report, *, short: bool = False) -> Table:
    """The quality of confidences (`confidences.table`); no rows without any."""
    found = [
        (_named(report, part), title(report, part), part.confidence)
        for part in report.parts
        if part.confidence is not None
    ]
    return confidences.table(found, naming(report), short=short)


def naming(report: Report) -> tuple[str, ...]:
    """The columns that name a part; the technique is one of them if the run has several."""
    return ("benchmark", "technique") if len(report.techniques) > 1 else ("benchmark",)


def _named(report: Report, part: Part) -> tuple[str, ...]:
    name = part.benchmark.name
    shown = f"{name} ({report.label})" if report.label else name
    return (shown, part.technique)[: len(naming(report))]


def sliced(part: Part, dimension: str) -> dict[str, dict[str, Measure]]:
    """The headline measures of each value of a dimension, by value and name."""
    shown = {measure.name for measure in part.sliced}
    found: dict[str, dict[str, Measure]] = {}
    for measure in slices(part.measures, dimension):
        if measure.name in shown:
            found.setdefault(measure.slice[dimension], {})[measure.name] = measure
    return found


def by_dimension(part: Part, dimension: str) -> Table:
    """The headline measures over the values of one dimension: value, interval and n of each."""
    cells = sliced(part, dimension)
    names = [measure.name for measure in part.sliced if any(measure.name in row for row in cells.values())]
    # Chance differs between slices if questions have different numbers of options.
    chance = {name: any("random" in row[name].references for row in cells.values() if name in row) for name in names}
    percents = {measure.name: measure.percent for measure in part.sliced}
    columns = [Column(dimension)]
    for name in names:
        columns += [of_measure(name, percent=percents[name]), INTERVAL]
        columns += [UNITS, *(Column("random", "figure") for _ in range(chance[name]))]
    rows = [
        (label, *(cell for name in names for cell in _cells(row.get(name), chance=chance[name])))
        for label, row in sorted(cells.items())
    ]
    return Table(f"{part.name} by {dimension}", tuple(columns), tuple(rows))


def by_prompt(part: Part) -> Table:
    """The headline measures for each prompt with their intervals, in the order of the run, and their mean over prompts.

    With several samples, a column has the standard deviation over those of the prompt. The last rows have the p-value
    of equal prompts, and the prompt with the highest value: among several it is the luckiest, so it is named as
    selected.
    """
    spreads = {spread.name: spread for spread in part.headline_spreads}
    measured = {(measure.name, measure.slice[PROMPT]): measure for measure in slices(part.measures, PROMPT)}
    columns, cells = [Column(PROMPT)], dict[str, list[object]]()
    means, tests, highest = list[str](), list[str](), list[str]()
    for shown in part.sliced:
        spread = spreads.get(shown.name)
        sampled = spread if spread is not None and len(spread.samples) > 1 else None
        columns += [of_measure(shown.name, percent=shown.percent), INTERVAL, *numbers(*(["sd"] if sampled else []))]
        found = {name: measured[shown.name, name] for name in part.prompts if (shown.name, name) in measured}
        for name in part.prompts:
            own = found[name].figure if name in found else Figure(None)
            row = [own, own, *([number(sampled.by_prompt.get(name), percent=shown.percent)] if sampled else [])]
            cells.setdefault(name, []).extend(row)
        present = {name: own.value for name, own in found.items() if own.value is not None}
        mean = fsum(present.values()) / len(present) if present else None
        blank = [""] * (2 if sampled else 1)
        means += [number(mean, percent=shown.percent), *blank]
        tests += [chance(None if spread is None else spread.equal), *blank]
        highest += [max(present, key=lambda name: present[name]) if present else DASH, *blank]
    rows = [*((name, *row) for name, row in cells.items()), ("mean", *means)]
    rows.append(("p of equal prompts", *tests))
    rows.append((f"highest, selected of {len(part.prompts)}", *highest))
    return Table(f"{part.name} by prompt", tuple(columns), tuple(rows))


def sliced_tables(report: Report) -> Iterator[Table]:
    """Yield the headline measures of each part by prompt, if it has several, and by each dimension."""
    for part in report.parts:
        if part.prompts:
            yield by_prompt(part)
        yield from (table for dimension in part.benchmark.dimensions if (table := by_dimension(part, dimension)).rows)


SD = "sd over samples"
"""The heading of the standard deviation over samples, with the divisor n - 1."""

DEVIATIONS: Mapping[str, str] = {
    "sd_within_prompts": "sd within prompts",
    "sd_between_prompts": "sd between prompts",
    "sd_all": "sd of all",
}
"""The standard deviations of a spread and the headings of their columns."""


def deviations(spreads: Iterable[Spread]) -> Mapping[str, str]:
    """The deviations to show, with their headings. With one prompt, there is only the one over its samples."""
    return DEVIATIONS if any(len(each.prompts) > 1 for each in spreads) else {"sd_over_samples": SD}


def adds(report: Report) -> bool:
    """Whether the table of spreads adds to the headline table, which has the deviations over samples of means."""
    spreads = [each for part in report.parts for each in part.spreads]
    return bool(spreads) and (bool(report.combine) or any(len(each.prompts) > 1 for each in spreads))


def spread(report: Report) -> Table:
    """The spread of the headline measures over prompts and samples: their mean and standard deviations."""
    names = naming(report)
    parts = [(part, part.headline_spreads) for part in report.parts]
    every = [each for _, of_part in parts for each in of_part]
    headings = deviations(every)
    kept = [name for name in headings if any(getattr(each, name) is not None for each in every)]
    # Combined answers, such as votes, have other values than the samples.
    mean = "mean of samples" if report.combine else "mean"
    columns = (
        *texts(*names, "measure"),
        *(Column(title, "figure") for title in (mean, *(headings[name] for name in kept))),
        *numbers("prompts", "samples"),
    )
    rows = [
        (
            *_named(report, part),
            each.name,
            *(Figure(value, percent=each.percent) for value in (each.mean, *(getattr(each, name) for name in kept))),
            *(len(each.prompts), len(each.samples)),
        )
        for part, of_part in parts
        for each in of_part
    ]
    return Table("Spread over prompts and samples", columns, tuple(rows))


COMPONENTS: Mapping[str, str] = {
    "item": "questions",
    "prompt": "prompts",
    "sample": "samples",
    "item_by_prompt": "prompts of a question",
    "rest": "answers to a question",
}
"""Variance components and the headings of their columns."""


def components(report: Report) -> Table:
    """The variance components of the headline measures, as standard deviations; a negative one is 0 and says so."""
    found = [
        (part, each, each.components)
        for part in report.parts
        for each in part.headline_spreads
        if each.components is not None
    ]
    kept = [name for name in COMPONENTS if any(getattr(parts, name) is not None for _, _, parts in found)]
    names = naming(report)
    rows = []
    for part, each, parts in found:
        values = {name: getattr(parts, name) for name in kept}
        shown = [
            ""
            if variance is None
            else number(variance**0.5, percent=each.percent) + (" (below 0)" if name in parts.negative else "")
            for name, variance in values.items()
        ]
        # Without the label: these are the variances of single answers, also if answers are combined.
        units = counted(parts.items, f"{each.unit}s")
        rows.append((*(part.benchmark.name, part.technique)[: len(names)], each.name, *shown, units))
    columns = (*texts(*names, "sd between"), *numbers(*(COMPONENTS[name] for name in kept), "n"))
    return Table("Variance components", columns, tuple(rows))


def _cells(measure: Measure | None, *, chance: bool) -> tuple[object, ...]:
    if measure is None:
        return (None,) * (3 + chance)
    return (*(measure.figure,) * 3, *([_level(measure, "random")] if chance else []))
