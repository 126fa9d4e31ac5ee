"""Comparisons of runs as tables, for the terminal and for Markdown, and as JSON and CSV."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from medvqa import printing
from medvqa.comparing import (
    Compared,
    Difference,
    Flip,
    Paired,
    PairedPart,
    Ranked,
    Ranking,
    Study,
    Trend,
    under_protocols,
)
from medvqa.figures import (
    DASH,
    Column,
    Table,
    between,
    counted,
    csv,
    markdown,
    number,
    numbers,
    terminal,
    texts,
)
from medvqa.items import Benchmark, Result
from medvqa.records.run_record import RunRecord

SCHEMA = 1
SOME = 5
"""Number of ids to list before counting the rest."""
RESPONSE = 60
"""Characters of a response in a table of flips."""

UNNAMED = " (--json=FILE names them)"
"""Ends lines without ids: printed output may be public, and the data are not declared public."""
EXPLORATORY = "exploratory, p by Holm over all its slices"
FIXED = "fixed before the runs, p by Holm over all its slices"

PAIRS = " and all pairs of runs"
INTERVAL = "95 % interval"
"""The heading of the two bounds of a difference, by `comparing.LEVEL`."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, notes, and tables with their own headings."""

    title: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """The maximum number of flips per part and of rows per table of slices; None for all.

    `measures`: the measures with slices, by default the first headline measure of each benchmark. Without `names`, ids
    and answers are shown only for data that are declared public.
    """

    flips: int | None = 10
    slices: int | None = 10
    measures: tuple[str, ...] = ()
    names: bool = False


def of_study(study: Study, benchmarks: Mapping[str, Benchmark], shown: Shown | None = None) -> list[Section]:
    """Return the comparison of several runs: the rankings, then the sections of each pair."""
    tests = study.tests if len(study.sides) > 2 else 0
    pairs = [
        section
        for versus in study.versus
        for section in sections(
            versus.paired, benchmarks, refusals=versus.refusals, notes=versus.notes, shown=shown, tests=tests
        )
    ]
    if not study.rankings:
        return pairs
    return [Section("Ranking", (), tuple(ranked(ranking, tests) for ranking in study.rankings)), *pairs]


def sections(
    paired: Paired,
    benchmarks: Mapping[str, Benchmark],
    *,
    refusals: Sequence[str] = (),
    notes: Sequence[str] = (),
    shown: Shown | None = None,
    tests: int = 0,
) -> list[Section]:
    """Return the comparison of two runs: a section for both, and one per benchmark and technique.

    `refusals` and `notes` are those of `medvqa.comparing`. `tests`: the number of p-values of several runs that are
    adjusted together, 0 for two runs alone.
    """
    shown = shown or Shown()
    head = [f"not comparable: {line}" for line in refusals] + list(notes)
    if paired.unchanged:
        head.append("unchanged: the responses are identical on every question")
    all_sections = [Section(title(paired), tuple(head), ())]
    for part in paired.parts:
        own = [
            table for table in paired.tables if (table.benchmark, table.technique) == (part.benchmark, part.technique)
        ]
        flips = [flip for flip in paired.flips if (flip.benchmark, flip.technique) == (part.benchmark, part.technique)]
        benchmark = under_protocols(benchmarks[part.benchmark], (paired.new, paired.baseline))
        named = benchmark.public or shown.names
        notes = _warnings(part, paired, named=named)
        tables = [headline(own, paired.difference, tests), *_sliced(own, benchmark, shown, paired, tests)]
        if named:
            tables += _flipped(flips, shown.flips)
        elif flips and shown.flips != 0:
            units = len({flip.unit for flip in flips})
            changed = "1 unit flipped" if units == 1 else f"{units:,} units flipped"
            notes.append(f"{changed}, of data that are not declared public{UNNAMED}")
        all_sections.append(Section(_name(part), tuple(notes), tuple(tables)))
    return all_sections


def title(paired: Paired) -> str:
    """Name both runs, and the one setting in which they differ."""
    names = paired.new.name, paired.baseline.name
    return " against ".join(names) + (f" ({paired.difference.line(*names)})" if paired.difference is not None else "")


def values(difference: Difference | None) -> tuple[str, str]:
    """The headings of the columns with the values of the baseline and of the new run."""
    if difference is None:
        return "baseline", "new"
    return f"baseline: {difference.baseline}", f"new: {difference.new}"


def meaning(difference: Difference | None) -> str:
    """Name the effect that new minus baseline is, as the beginning of a title; "" without a difference."""
    return "" if difference is None else f"{difference.effect}; "


def _name(part: PairedPart) -> str:
    return f"{part.benchmark}, {part.technique}: {on_both(part)}"


def on_both(part: PairedPart) -> str:
    """The number of items compared: all items, or those that both runs have scored; of a board, that all have."""
    return _scored_in(part.scored, part.asked, part.runs)


def _scored_in(scored: int, asked: int, runs: int) -> str:
    number = "both runs" if runs == 2 else f"all {runs} runs"
    return (
        f"{counted(asked, 'items')} in {number}"
        if scored == asked
        else f"{scored:,} of {counted(asked, 'items')} scored in {number}"
    )


def _warnings(part: PairedPart, paired: Paired, *, named: bool) -> list[str]:
    """Lines about items that block a verdict, by reason and run; `named`: with ids."""
    blocking = [
        (part.unmatched_new, f"only in {paired.new.name}"),
        (part.unmatched_baseline, f"only in {paired.baseline.name}"),
        (part.errors_new, f"without an answer in {paired.new.name}"),
        (part.errors_baseline, f"without an answer in {paired.baseline.name}"),
    ]
    lines = [
        f"no verdict can be given: {counted(len(ids), 'items')} {reason}"
        + (f": {printing.some(ids, SOME)}" if named else UNNAMED)
        for ids, reason in blocking
        if ids
    ]
    lines += [f"{failed.name} is not compared: {failed.why}" for failed in part.failed]
    if part.unchanged and not paired.unchanged:
        lines.append("unchanged: the responses are identical on every question")
    return lines


def family(tests: int) -> str:
    """Name the p-values that are adjusted together; `tests` as for `sections`."""
    return f"all {tests} tests of headline measures and pairs of runs" if tests else "all headline measures"


def headline(compared: Sequence[Compared], difference: Difference | None = None, tests: int = 0) -> Table:
    """Tabulate the headline measures over all items: both values, the difference, its interval, and counts.

    `difference`: the one setting in which the runs differ, which the title and the columns name. `tests` as for
    `sections`.
    """
    rows = [row for row in compared if row.headline and not row.slice]
    resampled = any(row.resampled for row in rows)
    exact = any(row.comparison.mcnemar is not None for row in rows)
    columns = (
        *_columns("measure", difference),
        *numbers("flipped groups", "detectable"),
        *([Column("McNemar p", "chance")] if exact else []),
        *numbers(*(["bootstrap"] if resampled else [])),
    )
    return Table(
        f"{meaning(difference)}difference in points, new minus baseline; intervals and p two-sided; p by Holm "
        f"over {family(tests)}",
        columns,
        tuple(
            (
                *_cells(row.metric, row),
                *(row.comparison.discordant_groups, _detectable(row)),
                *([row.comparison.mcnemar] if exact else []),
                *([between(*row.resampled, sign=True) if row.resampled else DASH] if resampled else []),
            )
            for row in rows
        ),
    )


def _columns(heading: str, difference: Difference | None) -> tuple[Column, ...]:
    """The columns of a measure of two runs."""
    before, after = values(difference)
    return (
        *(Column(heading), Column(before, "figure"), Column(after, "figure")),
        *(Column("difference", "figure"), Column(INTERVAL, "interval"), *numbers("better", "worse")),
        *(Column("n", "units"), *numbers("groups"), Column("adjusted p", "chance")),
    )


def _cells(label: str, row: Compared) -> tuple[object, ...]:
    own, (before, after, difference) = row.comparison, row.figures
    counts = (own.gained, own.lost, difference, own.groups)
    return (label, before, after, difference, difference, *counts, row.adjusted)


def _sliced(
    compared: Sequence[Compared], benchmark: Benchmark, shown: Shown, paired: Paired, tests: int
) -> list[Table]:
    wanted = shown.measures or benchmark.headline[:1]
    fixed = fixed_slices(paired.new.run, benchmark.name) & fixed_slices(paired.baseline.run, benchmark.name)
    return [
        table
        for metric in wanted
        for dimension in benchmark.dimensions
        if (table := by_dimension(compared, metric, dimension, shown.slices, paired.difference, fixed, tests)).rows
    ]


def fixed_slices(run: RunRecord, benchmark: str) -> set[str]:
    """The dimensions of a benchmark that were fixed before the run."""
    return set(run.benchmark(benchmark).fixed_slices)


def by_dimension(
    compared: Sequence[Compared],
    metric: str,
    dimension: str,
    limit: int | None = None,
    difference: Difference | None = None,
    fixed: Collection[str] = (),
    tests: int = 0,
) -> Table:
    """One measure over the slices of one dimension, smallest p first; at most `limit` rows, None for all.

    `fixed`: the dimensions that were fixed before the runs. `tests` as for `sections`.
    """
    slices = [row for row in compared if row.metric == metric and dimension in row.slice]
    slices.sort(key=lambda row: (_or(row.p, inf), -abs(row.comparison.difference or 0.0), row.slice[dimension]))
    kept = slices if limit is None else slices[:limit]
    more = f", {len(kept)} of {len(slices)} shown" if len(kept) < len(slices) else ""
    rows = tuple(_cells(row.slice[dimension], row) for row in kept)
    status = (FIXED if dimension in fixed else EXPLORATORY) + (PAIRS if tests else "")
    title = f"{metric} by {dimension} ({meaning(difference)}{status}{more})"
    return Table(title, _columns(dimension, difference), rows)


def _flipped(flips: Sequence[Flip], limit: int | None) -> list[Table]:
    """One table of flips per measure."""
    metrics = dict.fromkeys(flip.metric for flip in flips)
    return [flipped([flip for flip in flips if flip.metric == metric], limit) for metric in metrics if limit != 0]


def flipped(flips: Sequence[Flip], limit: int | None = None) -> Table:
    """Units whose measure changed, with both outcomes and responses: worse ones first, at most `limit` of each way."""
    worse, better = ([flip for flip in flips if flip.better is way] for way in (False, True))
    kept = [*worse[:limit], *better[:limit]]
    rows = [("better" if flip.better else "worse", flip.unit, _said(flip.baseline), _said(flip.new)) for flip in kept]
    more = f" ({len(kept)} shown)" if len(kept) < len(flips) else ""
    title = f"{flips[0].metric if flips else ''} flipped: {len(worse)} worse, {len(better)} better{more}"
    return Table(title, texts("way", "unit", "baseline", "new"), tuple(rows))


def _said(results: Sequence[Result]) -> str:
    """Outcome and response of each question of a unit, in one line."""
    return " | ".join(f"{result.score.outcome}: {_short(result)}" for result in results)


def _short(result: Result) -> str:
    text = " ".join(result.answer.text.split()) if result.answer is not None else ""
    if not text and result.score.extracted:
        text = ", ".join(result.score.extracted)
    return text if len(text) <= RESPONSE else text[: RESPONSE - 1] + "…"


def of_all(ranking: Ranking) -> str:
    """The number of items in a ranking; if a run costs many, its name."""
    number = _scored_in(ranking.scored, ranking.asked, len(ranking.rows))
    if (costly := ranking.costliest) is None:
        return number
    return f"{number}; without {costly.name} it would be {costly.scored:,}"


def _in_all(items: int, scored: int) -> str:
    if scored == items:
        return f"{counted(items, 'items')} that all runs have"
    return f"{scored:,} of {counted(items, 'items')} that all runs have scored"


def ranked(ranking: Ranking, tests: int) -> Table:
    """Several runs by one measure, the best first; `tests` as for `sections`."""
    differ = any(row.differs for row in ranking.rows)
    rows = [
        (
            *(row.rank, row.name, *([row.differs] if differ else []), row.figure, row.figure),
            f"{row.best}" if row.best == row.worst else f"{row.best} to {row.worst}",
        )
        for row in ranking.rows
    ]
    less = ", less is better" if ranking.better == "lower" else ""
    title = (
        f"{ranking.benchmark}, {ranking.technique}: {ranking.metric}{less} ({of_all(ranking)}; possible ranks, given "
        f"the intervals of differences: 5 % by Holm over {family(tests)})"
    )
    columns = (
        *(*numbers("rank"), *texts("run", *(["differs in"] if differ else []))),
        *(Column("%", "figure"), Column("95 % interval", "interval"), *numbers("possible ranks")),
    )
    return Table(title, columns, tuple(rows))


def trend(found: Trend) -> Table:
    """Several runs by a number, smallest first; the title has the slope of the measure on its log10."""
    rows = tuple((row.name, f"{row.number:g}", row.figure, row.figure) for row in found.rows)
    less = ", less is better" if found.better == "lower" else ""
    slope, models = found.slope, found.models
    title = (
        f"{found.benchmark}, {found.technique}: {found.metric}{less} by {found.by} "
        f"({_in_all(found.items, found.scored)}). {slope.text} points for ten times the {found.by}, 95 % "
        f"interval over questions {slope.interval or DASH}, over models {models.interval or DASH}: an association, for "
        "the models differ in more"
    )
    columns = (Column("run"), *numbers(found.by), Column("%", "figure"), Column("95 % interval", "interval"))
    return Table(title, columns, rows)


def text(sections: Sequence[Section]) -> str:
    """Sections for a terminal."""
    blocks = []
    for section in sections:
        blocks.append("\n".join([printing.line(section.title), *(f"! {printing.line(n)}" for n in section.notes)]))
        blocks += [f"{printing.line(table.title)}\n{terminal(table).rstrip()}" for table in section.tables]
    return "\n\n".join(blocks)


def as_markdown(sections: Sequence[Section]) -> str:
    """Sections as Markdown."""
    blocks = []
    for i, section in enumerate(sections):
        blocks.append(f"{'##' if i else '#'} {printing.markdown(section.title)}")
        if section.notes:
            blocks.append("\n".join(f"- {printing.markdown(note)}" for note in section.notes))
        for table in section.tables:
            blocks += [printing.markdown(table.title), markdown(table)]
    return "\n\n".join(blocks) + "\n"


def as_json(study: Study, trends: Sequence[Trend] = ()) -> dict[str, Any]:
    """The comparisons with their refusals and notes, rankings and trends, as a value for `run_folder.write_json`."""
    several = len(study.sides) > 2
    return {
        "schema": SCHEMA,
        **({"tests": study.tests} if several else {}),
        "comparisons": [
            {
                "new": versus.paired.new.name,
                "baseline": versus.paired.baseline.name,
                "level": versus.paired.coverage,
                "refusals": list(versus.refusals),
                "notes": list(versus.notes),
                "unchanged": versus.paired.unchanged,
                **({} if versus.paired.difference is None else {"differs": versus.paired.difference}),
                "parts": [_part_as_json(part, several=several) for part in versus.paired.parts],
                "measures": [_as_json(table) for table in versus.paired.tables],
                "flips": [_flip_as_json(flip) for flip in versus.paired.flips],
            }
            for versus in study.versus
        ],
        "rankings": [
            {
                "benchmark": ranking.benchmark,
                "technique": ranking.technique,
                "name": ranking.metric,
                "better": ranking.better,
                "asked": ranking.asked,
                "items": ranking.items,
                "scored": ranking.scored,
                "runs": [_ranked_as_json(row) for row in ranking.rows],
                "pairs": [
                    {"runs": [pair.baseline, pair.new], "adjusted": pair.compared.adjusted} for pair in ranking.pairs
                ],
                **({} if ranking.costliest is None else {"costliest": ranking.costliest}),
            }
            for ranking in study.rankings
        ],
        **({"trends": list(map(_trend_as_json, trends))} if trends else {}),
    }


def _part_as_json(part: PairedPart, *, several: bool) -> dict[str, Any]:
    """A part; only if several runs may share its questions, it says how many do, and how many items these asked."""
    left_out = () if several else ("runs", "asked")
    return {own.name: getattr(part, own.name) for own in fields(part) if own.name not in left_out}


def _ranked_as_json(row: Ranked) -> dict[str, Any]:
    figure = {"value": row.figure.value, "low": row.figure.low, "high": row.figure.high}
    ranks = {"rank": row.rank, "best": row.best, "worst": row.worst}
    return {"name": row.name, **figure, **ranks, **({"differs": row.differs} if row.differs else {})}


def _trend_as_json(found: Trend) -> dict[str, Any]:
    about = ("benchmark", "technique", "metric", "better", "by", "items", "scored")
    rows = [
        {"name": row.name, "number": row.number, "value": own.value, "low": own.low, "high": own.high}
        for row in found.rows
        for own in [row.figure]
    ]
    slope = {"slope": found.slope.value, "low": found.slope.low, "high": found.slope.high}
    models = {"models_low": found.models.low, "models_high": found.models.high}
    return {**{name: getattr(found, name) for name in about}, "rows": rows, **slope, **models}


NUMBERS = (
    *(
        "baseline",
        "new",
        "difference",
        "low",
        "high",
        "worse",
        "units",
        "groups",
        "discordant_groups",
        "gained",
        "lost",
    ),
    *("deff", "df", "se", "detectable", "mcnemar", "method"),
)
"""Fields of a comparison in JSON and CSV."""


def _as_json(compared: Compared) -> dict[str, Any]:
    shown = compared.shown
    return {
        "benchmark": compared.benchmark,
        "technique": compared.technique,
        "name": compared.metric,
        "better": compared.better,
        **({} if compared.percent else {"percent": False}),
        "headline": compared.headline,
        "slice": dict(compared.slice),
        **{name: getattr(shown, name) for name in NUMBERS},
        "p": compared.p,
        "adjusted": compared.adjusted,
        "bootstrap": compared.resampled,
    }


def _flip_as_json(flip: Flip) -> dict[str, Any]:
    return {
        "benchmark": flip.benchmark,
        "technique": flip.technique,
        "name": flip.metric,
        "unit": flip.unit,
        "better": flip.better,
        "new": [_result_as_json(result) for result in flip.new],
        "baseline": [_result_as_json(result) for result in flip.baseline],
    }


def _result_as_json(result: Result) -> dict[str, Any]:
    return {
        "item": result.item.id,
        "sample": result.sample,
        "outcome": result.score.outcome,
        "value": result.score.value,
        "extracted": result.score.extracted,
        "response": None if result.answer is None else result.answer.text,
    }


def as_csv(compared: Sequence[Paired]) -> str:
    """One row per measure and slice of each comparison; fractions, empty if undefined.

    If runs differ in one setting, the last columns name it, its values and its effect.
    """
    about = ("new_run", "baseline_run", "benchmark", "technique", "measure", "better", "dimension", "value")
    differs = ("differs", "new_setting", "baseline_setting", "effect") if any(p.difference for p in compared) else ()
    rows = [
        (
            *(paired.new.name, paired.baseline.name, table.benchmark, table.technique, table.metric, table.better),
            *next(iter(table.slice.items()), ("", "")),
            *(getattr(shown, name) for name in NUMBERS),
            *(table.p, table.adjusted, *(table.resampled or (None, None))),
            *(_settings(paired.difference) if differs else ()),
        )
        for paired in compared
        for table in paired.tables
        for shown in [table.shown]
    ]
    return csv((*about, *NUMBERS, "p", "adjusted", "bootstrap_low", "bootstrap_high", *differs), rows)


def _settings(difference: Difference | None) -> tuple[str, ...]:
    return (
        ("",) * 4
        if difference is None
        else (difference.setting, difference.new, difference.baseline, difference.effect)
    )


def _detectable(compared: Compared) -> str:
    # If nothing flipped, the variance is 0 and gives no detectable loss.
    value = compared.comparison.detectable if compared.comparison.discordant_groups else None
    return number(value, percent=compared.percent)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
