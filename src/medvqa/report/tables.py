"""Tables as values: a heading and rows of text, for the terminal and for Markdown alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, fsum

from medvqa.comparing.blank import BlankGap
from medvqa.items import Measure, Outcome
from medvqa.metrics import Spread
from medvqa.report.build import PROMPT, Part, Report, slices

FAILED = "failed"
"""Stands for the value of a metric that could not be computed; `notes_of` says why."""
VALUE = "value"
"""The heading of values if some are no percentages."""
FEW = 10
"""Below this many units a percentage would overstate the precision: counts are shown."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts; `right` holds the indices of right-aligned columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int]


def percent(value: float | None) -> str:
    """A fraction as a percentage with two digits, a dash where undefined."""
    return "–" if value is None else f"{100 * value:.2f}"


def figure(value: float | None, *, is_percent: bool = True) -> str:
    """A fraction as a percentage, or another number as it is, with two digits or three significant ones."""
    if value is None or is_percent:
        return percent(value)
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def value(measure: Measure) -> str:
    """A measure in percent, its counts if it has few units, or a number that is no percentage."""
    if measure.value is not None and measure.count is not None and few(measure) and measure.percent:
        return f"{_number(measure.count)}/{_number(measure.n)}"
    return figure(measure.value, is_percent=measure.percent)


def with_percent(measure: Measure) -> str:
    """A measure as `value` shows it, with " %" if it is a percentage: for places without a heading of the unit."""
    shown = value(measure)
    return f"{shown} %" if measure.percent and measure.value is not None and "/" not in shown else shown


def interval(measure: Measure) -> str:
    """The 95 % interval as its value is shown, or the reason for its absence; empty if counts are shown."""
    if measure.value is None or few(measure):
        return ""
    if measure.low is None or measure.high is None:
        return no_interval(measure.groups)
    low, high = (figure(bound, is_percent=measure.percent) for bound in (measure.low, measure.high))
    return f"{low} to {high}" if measure.low < 0 else f"{low}–{high}"


def no_interval(groups: int | None, df: float | None = None) -> str:
    """Return "no interval" with the number of groups if they are few, else with `df`, the degrees of freedom.

    Many groups have few degrees of freedom if some of them hold most units. "" if groups are not counted.
    """
    if groups is None:
        return ""
    if groups < FEW:
        return f"no interval: {groups} independent {'group' if groups == 1 else 'groups'}"
    # Rounded down: 3.96 is too few, 4.0 would not be.
    return "no interval" if df is None else f"no interval: {floor(10 * df) / 10:g} degrees of freedom"


def few(measure: Measure) -> bool:
    """Whether there are too few units for a percentage. A pair is one unit; slices of a macro average are none."""
    return measure.count is not None and (measure.n if measure.units is None else measure.units) < FEW


def counted(measure: Measure) -> str:
    """The denominator with its unit: "36 pairs"."""
    return with_unit(measure.n, measure.unit)


def with_unit(number: float, unit: str) -> str:
    """A number with its unit, given as a plural: "36 pairs", "1 pair"."""
    return f"{_number(number)} {unit.removesuffix('s') if number == 1 else unit}"


def _number(number: float) -> str:
    return f"{number:g}"


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


def headline(report: Report, references: Sequence[str] = tuple(REFERENCES)) -> TextTable:
    """The headline measures of each benchmark, with reference lines.

    If only a part of a benchmark was selected, a column shows "10 of 60". If questions have several samples, whose
    scores are averaged, a column shows the standard deviation of the measure over samples.
    """
    over_samples = {} if report.combine else _over_samples(report)
    names, partial = _names(report), any(report.selected(part) for part in report.parts)
    selected = ["selected"] if partial else []
    unit = "%" if all(measure.percent for part in report.parts for measure in part.headline) else VALUE
    several = any(len(each.prompts) > 1 for part in report.parts for each in part.headline_spreads)
    between = "95 % interval, for these prompts" if several else "95 % interval"
    columns = (*names, "measure", unit, between, *([SD] if over_samples else []), "n", *selected)
    columns += tuple(REFERENCES[name] for name in references)
    rows = []
    for part in report.parts:
        portion = report.selection.portion(part.benchmark.name, part.technique)
        chosen = [str(portion or "")] if partial else []
        for measure in part.headline:
            levels = (percent(measure.references[n]) if n in measure.references else "" for n in references)
            shown = with_percent(measure) if unit == VALUE else value(measure)
            sd = [over_samples.get((part.name, measure.name), "") if not few(measure) else ""] if over_samples else []
            cells = shown, interval(measure), *sd, counted(measure), *chosen, *levels
            rows.append((*_named(report, part), measure.name, *cells))
        for failed in part.failed:
            blank = [""] * (len(columns) - len(names) - 2)
            rows.append((*_named(report, part), failed.name, FAILED, *blank))
    return TextTable("", columns, tuple(rows), frozenset(range(len(names) + 1, len(columns))))


def image_gain(report: Report) -> TextTable:
    """The headline measures with and without the image, and the gain of the image with its interval.

    No rows without a run to compare with (`medvqa report RUN --blank=RUN2`).
    """
    found = report.blank
    gaps = () if found is None else found.gaps
    several = len(report.techniques) > 1
    rows = []
    for gap in gaps:
        few_units = gap.percent and gap.n < FEW
        values = (
            f"{round(value * gap.n, 2):g}/{gap.n}"
            if few_units and value is not None
            else figure(value, is_percent=gap.percent)
            for value in (gap.shown, gap.blank)
        )
        gained = "" if few_units else difference(gap.value, is_percent=gap.percent)
        bounds = "" if few_units else difference_interval(gap)
        named = (gap.benchmark, gap.technique) if several else (gap.benchmark,)
        rows.append((*named, gap.name, *values, gained, bounds, with_unit(gap.n, gap.unit)))
    names = _names(report)
    columns = (*names, "measure", "with image", "without", "gain, points", "95 % interval", "n")
    title = "" if found is None else f"Gain of the image, against run {found.name} (image: {found.image})"
    return TextTable(title, columns, tuple(rows), frozenset(range(len(names) + 1, len(columns))))


def difference(value: float | None, *, is_percent: bool = True) -> str:
    """A difference with its sign, in points if it is one of fractions; a dash where undefined."""
    if value is None:
        return percent(value)
    return f"{100 * value + 0.0:+.2f}" if is_percent else f"{value + 0.0:+.4g}"


def difference_interval(gap: BlankGap) -> str:
    """The interval of a gap, or the reason for its absence."""
    if gap.low is None or gap.high is None:
        return no_interval(gap.groups)
    return " to ".join(difference(bound, is_percent=gap.percent) for bound in (gap.low, gap.high))


def _over_samples(report: Report) -> dict[tuple[str, str], str]:
    """The standard deviation over samples of each headline measure, by part and measure."""
    return {
        (part.name, each.name): figure(each.sd_over_samples, is_percent=each.percent)
        for part in report.parts
        for each in part.headline_spreads
        if each.sd_over_samples is not None
    }


def outcomes(report: Report, shown: Sequence[str] = tuple(OUTCOME_COLUMNS)) -> TextTable:
    """Outcomes: the number of items of each benchmark by outcome; of answers, if items have several samples.

    If any answer was cut off, a last column counts these.
    """
    names = _names(report)
    truncated = ["truncated"] if any(part.truncated for part in report.parts) else []
    columns = (*names, report.counted, *shown, *truncated)
    rows = [
        (
            *_named(report, part),
            str(len(part.results)),
            *(str(part.outcomes[OUTCOME_COLUMNS[name]]) for name in shown),
            *(str(len(part.truncated)) for _ in truncated),
        )
        for part in report.parts
        if part.results
    ]
    return TextTable("", columns, tuple(rows), frozenset(range(len(names), len(columns))))


def _names(report: Report) -> tuple[str, ...]:
    """The columns that name a part; the technique is one of them if the run has several."""
    return ("benchmark", "technique") if len(report.techniques) > 1 else ("benchmark",)


def _named(report: Report, part: Part) -> tuple[str, ...]:
    name = part.benchmark.name
    shown = f"{name} ({report.label})" if report.label else name
    return (shown, part.technique)[: len(_names(report))]


def by_dimension(part: Part, dimension: str) -> TextTable:
    """The headline measures over the values of one dimension: value, interval and n of each."""
    shown = {measure.name for measure in part.sliced}
    cells: dict[str, dict[str, Measure]] = {}
    for measure in slices(part.measures, dimension):
        if measure.name in shown:
            cells.setdefault(measure.slice[dimension], {})[measure.name] = measure
    names = [measure.name for measure in part.sliced if any(measure.name in row for row in cells.values())]
    # Chance differs between slices if questions have different numbers of options.
    chance = {name: any("random" in row[name].references for row in cells.values() if name in row) for name in names}
    percents = {measure.name: measure.percent for measure in part.sliced}
    columns = [
        dimension,
        *(
            column
            for name in names
            for column in (
                f"{name} %" if percents[name] else name,
                "95 % interval",
                "n",
                *(["random"] if chance[name] else []),
            )
        ),
    ]
    rows = [
        (label, *(text for name in names for text in _cell(row.get(name), chance=chance[name])))
        for label, row in sorted(cells.items())
    ]
    return TextTable(f"{part.name} by {dimension}", tuple(columns), tuple(rows), _all_but_first(columns))


def by_prompt(part: Part) -> TextTable:
    """The headline measures for each prompt with their intervals, in the order of the run, and their mean over prompts.

    With several samples, a column has the standard deviation over those of the prompt. The last rows have the p-value
    of equal prompts, and the prompt with the highest value: among several it is the luckiest, so it is named as
    selected.
    """
    spreads = {spread.name: spread for spread in part.headline_spreads}
    measured = {(measure.name, measure.slice[PROMPT]): measure for measure in slices(part.measures, PROMPT)}
    columns, cells = [PROMPT], dict[str, list[str]]()
    means, tests, highest = list[str](), list[str](), list[str]()
    for shown in part.sliced:
        spread = spreads.get(shown.name)
        sampled = spread if spread is not None and len(spread.samples) > 1 else None
        columns += [f"{shown.name} %" if shown.percent else shown.name, "95 % interval", *(["sd"] if sampled else [])]
        found = {name: measured[shown.name, name] for name in part.prompts if (shown.name, name) in measured}
        for name in part.prompts:
            own = found.get(name)
            row = ["–", ""] if own is None else [value(own), interval(own)]
            row += [figure(sampled.by_prompt.get(name), is_percent=shown.percent)] if sampled else []
            cells.setdefault(name, []).extend(row)
        present = {name: own.value for name, own in found.items() if own.value is not None}
        mean = fsum(present.values()) / len(present) if present else None
        blank = [""] * (2 if sampled else 1)
        means += [figure(mean, is_percent=shown.percent), *blank]
        tests += ["–" if spread is None or spread.equal is None else chance(spread.equal), *blank]
        highest += [max(present, key=lambda name: present[name]) if present else "–", *blank]
    rows = [*((name, *row) for name, row in cells.items()), ("mean", *means)]
    rows.append(("p of equal prompts", *tests))
    rows.append((f"highest, selected of {len(part.prompts)}", *highest))
    return TextTable(f"{part.name} by prompt", tuple(columns), tuple(rows), _all_but_first(columns))


def chance(value: float | None) -> str:
    """A p-value with three digits, a dash without one."""
    if value is None:
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


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


def spread(report: Report) -> TextTable:
    """The spread of the headline measures over prompts and samples: their mean and standard deviations."""
    names = _names(report)
    parts = [(part, part.headline_spreads) for part in report.parts]
    every = [each for _, of_part in parts for each in of_part]
    headings = deviations(every)
    kept = [name for name in headings if any(getattr(each, name) is not None for each in every)]
    # Combined answers, such as votes, have other values than the samples.
    mean = "mean of samples" if report.combine else "mean"
    columns = (*names, "measure", mean, *(headings[name] for name in kept), "prompts", "samples")
    rows = [
        (
            *_named(report, part),
            each.name,
            figure(each.mean, is_percent=each.percent),
            *(figure(getattr(each, name), is_percent=each.percent) for name in kept),
            str(len(each.prompts)),
            str(len(each.samples)),
        )
        for part, of_part in parts
        for each in of_part
    ]
    title = "Spread over prompts and samples"
    return TextTable(title, columns, tuple(rows), frozenset(range(len(names) + 1, len(columns))))


COMPONENTS: Mapping[str, str] = {
    "item": "questions",
    "prompt": "prompts",
    "sample": "samples",
    "item_by_prompt": "prompts of a question",
    "rest": "answers to a question",
}
"""Variance components and the headings of their columns."""


def components(report: Report) -> TextTable:
    """The variance components of the headline measures, as standard deviations; a negative one is 0 and says so."""
    found = [
        (part, each, each.components)
        for part in report.parts
        for each in part.headline_spreads
        if each.components is not None
    ]
    kept = [name for name in COMPONENTS if any(getattr(parts, name) is not None for _, _, parts in found)]
    names = _names(report)
    rows = []
    for part, each, parts in found:
        values = {name: getattr(parts, name) for name in kept}
        shown = [
            ""
            if number is None
            else figure(number**0.5, is_percent=each.percent) + (" (below 0)" if name in parts.negative else "")
            for name, number in values.items()
        ]
        # Without the label: these are the variances of single answers, also if answers are combined.
        counted = f"{parts.items:,} {each.unit}{'' if parts.items == 1 else 's'}"
        rows.append((*(part.benchmark.name, part.technique)[: len(names)], each.name, *shown, counted))
    columns = (*names, "sd between", *(COMPONENTS[name] for name in kept), "n")
    return TextTable("Variance components", columns, tuple(rows), frozenset(range(len(names) + 1, len(columns))))


def _cell(measure: Measure | None, *, chance: bool) -> tuple[str, ...]:
    if measure is None:
        return ("",) * (4 if chance else 3)
    level = measure.references.get("random")
    return (
        value(measure),
        interval(measure),
        counted(measure),
        *([percent(level) if level is not None else ""] if chance else []),
    )


def _all_but_first(columns: Sequence[str]) -> frozenset[int]:
    return frozenset(range(1, len(columns)))
