"""Comparisons of runs as tables, for the terminal and for Markdown, and as JSON and CSV."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any

import msgspec

from medvqa import printing
from medvqa.comparing import (
    AgainstReaders,
    Compared,
    Difference,
    Flip,
    Paired,
    PairedPart,
    Ranked,
    Ranking,
    ReadersPart,
    Robustness,
    Study,
    Trend,
    under_protocols,
)
from medvqa.figures import (
    DASH,
    INTERVAL,
    UNITS,
    About,
    Column,
    Figure,
    Kind,
    Table,
    between,
    counted,
    csv,
    freedom,
    latex,
    markdown,
    numbers,
    terminal,
    texts,
)
from medvqa.items import Benchmark, Result, measure_of
from medvqa.records.run_record import RunRecord
from medvqa.report import confidences, robustness
from medvqa.statistics import readers as statistics

SCHEMA = 1
SOME = 5
"""Number of ids to list before counting the rest."""
RESPONSE = 60
"""Characters of a response in a table of flips."""

UNNAMED = " (--json=FILE names them)"
"""Ends lines without ids: printed output may be public, and the data are not declared public."""
UNCHANGED = "unchanged: the responses are identical on every question"
EXPLORATORY = "exploratory, p by Holm over all its slices"
FIXED = "fixed before the runs, p by Holm over all its slices"

PAIRS = " and all pairs of runs"


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
    # Of two runs, their differences come first.
    changed = robust(study.robustness)
    pairs = [*against_readers(study), *([*pairs, *changed] if len(study.sides) == 2 else [*changed, *pairs])]
    if not study.rankings:
        return pairs
    return [Section("Ranking", (of_others(study.equivalent, tests),), tuple(map(ranked, study.rankings))), *pairs]


def robust(found: Sequence[Robustness]) -> list[Section]:
    """A section for each clean run with changed runs."""
    return [
        Section(f"Robustness of {each.clean}", tuple(robustness.notes(each)), tuple(robustness.tables(each)))
        for each in found
    ]


def against_readers(study: Study) -> list[Section]:
    """The section of models against readers; [] without people."""
    if not study.against:
        return []
    panels = [side for side in study.sides if side.run.readers is not None and side.run.protocol.combine == "vote"]
    notes = [f"{side.name}: compared by the mean of its readers, not by the panel's majority" for side in panels]
    for each in study.against:
        notes += [f"not comparable: {line}" for line in each.refusals]
        notes += [f"{each.people}: {line}" for line in each.missing]
        if each.margin is not None:
            notes.append(f"{each.people}: the margin is {each.margin:g} points, fixed in the plan of the study")
        for part in each.parts:
            notes += [f"{each.model}, {part.benchmark}: no verdict: {line}" for line in part.why]
            crossed = part.difference.method == statistics.CROSSED
            notes += filter(None, [statistics.warning(part.difference.readers, crossed=crossed)])
    asked = {part.technique for each in study.against for part in each.parts}
    names = ("model", "readers", "benchmark", "technique")[: 3 + (len(asked) > 1)]
    rows = [row for each in study.against for part in each.parts for row in _against(each, part, len(names))]
    columns = (
        *texts(*names),
        *(Column("model %", "figure"), Column("readers %", "figure"), Column("difference", "figure")),
        *(replace(INTERVAL, name="difference"), *numbers("df"), Column("p", "chance"), *texts("method")),
        *(*numbers("readers", "questions"), *texts("verdict")),
    )
    title = "difference in points, model minus mean of readers; intervals and p two-sided, p not adjusted"
    table = Table(title, columns, tuple(rows))
    return [Section("Model against readers", tuple(dict.fromkeys(notes)), (table,) if rows else ())]


def _against(each: AgainstReaders, part: ReadersPart, named: int) -> Iterator[tuple[object, ...]]:
    """The row of a model against readers, and a row for these readers alone; `named`: the number of its names."""
    for found in (part.difference, part.alone):
        if found is not None:
            difference = Figure(found.value, found.low, found.high, groups=found.cases, df=found.df, sign=True)
            names = (each.model, each.people, part.benchmark, part.technique)[:named]
            shown = (Figure(part.model), Figure(part.readers), difference, difference)
            df = "" if found.df is None else freedom(found.df)
            verdict = part.verdict or "" if found is part.difference else ""
            yield (*names, *shown, df, found.p, found.method, found.readers, part.questions, verdict)


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
        head.append(UNCHANGED)
    if paired.equivalent is not None and paired.parts:
        head.append(tested_alike(paired.equivalent))
    all_sections = [Section(title(paired), tuple(head), ())]
    for part in paired.parts:
        flips = [flip for flip in paired.flips if (flip.benchmark, flip.technique) == (part.benchmark, part.technique)]
        benchmark = under_protocols(benchmarks[part.benchmark], (paired.new, paired.baseline), part.technique)
        named = benchmark.public or shown.names
        notes = [*warnings(part, paired, named=named), *untested(paired, part)]
        tables = [headline(measures_in(paired, part), paired.difference, tests), *of_confidences(paired, part)]
        for each in slices(paired, part, benchmark, shown.measures or benchmark.headline[:1], tests):
            kept = each.rows if shown.slices is None else each.rows[: shown.slices]
            more = f", {len(kept)} of {len(each.rows)} shown" if len(kept) < len(each.rows) else ""
            own = f"{each.measure} by {each.dimension} ({meaning(paired.difference)}{each.status}{more})"
            if kept:
                tables.append(
                    tabled(own, each.dimension, kept, paired.difference, lambda row: "".join(row.slice.values()))
                )
        if named:
            tables += _flipped(flips, shown.flips)
        elif flips and shown.flips != 0:
            units = len({flip.unit for flip in flips})
            changed = "1 unit flipped" if units == 1 else f"{units:,} units flipped"
            notes.append(f"{changed}, of data that are not declared public{UNNAMED}")
        about = f"{part.benchmark}, {part.technique}: {on_both(part)}"
        all_sections.append(Section(about, tuple(notes), tuple(tables)))
    return all_sections


def of_confidences(paired: Paired, part: PairedPart) -> list[Table]:
    """The paired differences of confidences; [] unless both runs have some of one kind."""
    named = part.benchmark, part.technique
    found = [each for each in paired.confidences if (each.benchmark, each.technique) == named]
    return [confidences.compared_table(each, meaning(paired.difference)) for each in found]


def measures_in(paired: Paired, part: PairedPart) -> list[Compared]:
    """The measures of a part, over all questions and over slices."""
    return [row for row in paired.tables if (row.benchmark, row.technique) == (part.benchmark, part.technique)]


@dataclass(frozen=True, slots=True)
class SlicesOfPair:
    """A measure over the slices of one dimension, smallest p first; and how these were chosen and tested."""

    measure: str
    dimension: str
    rows: list[Compared]
    status: str


def slices(
    paired: Paired, part: PairedPart, benchmark: Benchmark, measures: Iterable[str], tests: int = 0
) -> Iterator[SlicesOfPair]:
    """Yield measures of a part by each dimension of the benchmark that has slices; `tests` as for `sections`."""
    own = measures_in(paired, part)
    fixed = fixed_slices(paired.new.run, part.benchmark) & fixed_slices(paired.baseline.run, part.benchmark)
    for measure in measures:
        for dimension in benchmark.dimensions:
            rows = [row for row in own if row.metric == measure and dimension in row.slice]
            rows.sort(key=lambda row: (_or(row.p, inf), -abs(row.comparison.difference or 0.0), *row.slice.values()))
            if rows:
                status = (FIXED if dimension in fixed else EXPLORATORY) + (PAIRS if tests else "")
                yield SlicesOfPair(measure, dimension, rows, status)


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


def warnings(part: PairedPart, paired: Paired, *, named: bool) -> list[str]:
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
        lines.append(UNCHANGED)
    return lines


def untested(paired: Paired, part: PairedPart) -> list[str]:
    """A line about the headline measures of a part that cannot be tested against a margin in points."""
    names = [
        row.metric
        for row in measures_in(paired, part)
        if paired.equivalent is not None and row.headline and not row.slice and row.equivalence is None
    ]
    return [f"not tested to be alike, as a margin in points needs percentages: {', '.join(names)}"] if names else []


def family(tests: int) -> str:
    """Name the p-values that are adjusted together; `tests` as for `sections`."""
    return f"all {tests} tests of headline measures and pairs of runs" if tests else "all headline measures"


def tested_alike(margin: float) -> str:
    """Say by which tests runs are alike."""
    within = f"between -{100 * margin:g} and +{100 * margin:g} points"
    each = "two tests of 5 %, each pair of runs by itself"
    return f"alike: the difference is shown to lie {within}, as its 90 % interval does ({each})"


def headline(compared: Sequence[Compared], difference: Difference | None = None, tests: int = 0) -> Table:
    """Tabulate the headline measures over all items: both values, the difference, its interval, and counts.

    `difference`: the one setting in which the runs differ, which the title and the columns name. `tests` as for
    `sections`.
    """
    title = (
        f"{meaning(difference)}difference in points, new minus baseline; intervals and p two-sided; p by Holm "
        f"over {family(tests)}"
    )
    rows = [row for row in compared if row.headline and not row.slice]
    return tabled("; ".join(filter(None, (title, of_own(rows)))), "measure", rows, difference)


def of_own(rows: Iterable[Compared]) -> str:
    """Say how measures are compared that leave answers out; "" if both runs count the same units in all rows."""
    if all({*row.comparison.counted} == {row.comparison.units} for row in rows):
        return ""
    return "numbers in brackets count in baseline and new run, each measured over its own"


def tabled(
    title: str,
    heading: str,
    rows: Sequence[Compared],
    difference: Difference | None,
    label: Callable[[Compared], str] = lambda row: row.metric,
    about: Callable[[Compared], About] | None = None,
    of: Mapping[str, str] | None = None,
) -> Table:
    """Tabulate measures of two runs under the heading of their labels. Headline measures have more counts.

    For pages: `about` a row, and the names of the runs that its figures are `of`.
    """
    whole = not any(row.slice for row in rows)
    exact = whole and any(row.comparison.mcnemar is not None for row in rows)
    margin = margin_of(rows)
    resampled = whole and any(row.resampled for row in rows)
    kind: Kind = "figure" if all(row.percent for row in rows) else "stated"
    before, after = values(difference)
    columns = (
        *(
            Column(heading),
            Column(before, kind, "baseline"),
            Column(after, kind, "new"),
            Column("difference", "figure"),
        ),
        *(replace(INTERVAL, name="difference"),),
        *((*numbers("90 % interval"), *texts(f"within {points(margin)}")) if margin is not None else ()),
        *(*numbers("better", "worse"), UNITS),
        *(*numbers("groups"), Column("adjusted p", "chance")),
        *((*numbers("flipped groups"), Column("detectable", "figure")) if whole else ()),
        *([Column("McNemar p", "chance")] if exact else ()),
        *(numbers("bootstrap") if resampled else ()),
    )

    def cells(row: Compared) -> tuple[object, ...]:
        own, (before, after, change) = row.comparison, identified(row, of or {})
        counts = (own.gained, own.lost, change, own.groups, row.adjusted)
        more = [own.discordant_groups, detectable(row)] if whole else []
        more += [own.mcnemar] if exact else []
        more += (
            [between(*row.resampled, percent=row.percent, sign=True) if row.resampled else DASH] if resampled else []
        )
        alike = [narrow_interval(row), verdict(row)] if margin is not None else []
        return (label(row), before, after, change, change, *alike, *counts, *more)

    return Table(title, columns, tuple(map(cells, rows)), about=tuple(map(about, rows)) if about is not None else ())


def margin_of(rows: Iterable[Compared]) -> float | None:
    """The margin that measures are tested against, a fraction; None if they are not."""
    return next((row.equivalence.margin for row in rows if row.equivalence is not None), None)


def points(margin: float) -> str:
    """A margin in points, with the word."""
    return "1 point" if margin == 0.01 else f"{100 * margin:g} points"


def narrow_interval(row: Compared) -> str:
    """The 90 % interval of a difference, with which it is tested against the margin; "" if counts are shown."""
    test = row.equivalence
    if test is None or row.figures[0].few:
        return ""
    return between(test.low, test.high, sign=True) or DASH


def verdict(row: Compared) -> str:
    """Say whether two runs are shown to be alike or different by a measure; "" if that is not tested."""
    if row.equivalence is None:
        return ""
    differs = bool(identified(row, {})[2].tone)
    if row.alike:
        return f"differs, by less than {points(row.equivalence.margin)}" if differs else "alike"
    return "different" if differs else "open"


def identified(row: Compared, of: Mapping[str, str]) -> tuple[Figure, Figure, Figure]:
    """The figures of a measure of two runs with their names, and the direction of a difference that is shown.

    None is with few units, or if the adjusted p is large.
    """
    before, after, change = row.figures
    named = {**measure_of(row.benchmark, row.technique, row.metric, row.slice), **of}
    better = row.comparison.difference
    sure = row.differs and not before.few
    return (
        replace(before, of={**named, "field": "baseline"}),
        replace(after, of={**named, "field": "new"}),
        replace(
            change,
            of={**named, "field": "difference"},
            tone=("better" if (better or 0) > 0 else "worse") if sure else "",
        ),
    )


def fixed_slices(run: RunRecord, benchmark: str) -> set[str]:
    """The dimensions of a benchmark that were fixed before the run."""
    return set(run.benchmark(benchmark).fixed_slices)


def _flipped(flips: Sequence[Flip], limit: int | None) -> list[Table]:
    """One table of flips for all measures in which the same units flipped in the same way."""
    if limit == 0:
        return []
    by_metric: dict[str, list[Flip]] = {}
    for flip in flips:
        by_metric.setdefault(flip.metric, []).append(flip)
    alike: dict[tuple[tuple[str, bool], ...], list[str]] = {}
    for metric, own in by_metric.items():
        alike.setdefault(tuple((flip.unit, flip.better) for flip in own), []).append(metric)
    return [flipped(by_metric[metrics[0]], ", ".join(metrics), limit) for metrics in alike.values()]


def flipped(flips: Sequence[Flip], measures: str, limit: int | None = None) -> Table:
    """Units whose measures changed, with both outcomes and responses: worse ones first, at most `limit` of each way."""
    worse, better = ([flip for flip in flips if flip.better is way] for way in (False, True))
    kept = [*worse[:limit], *better[:limit]]
    rows = [("better" if flip.better else "worse", flip.unit, _said(flip.baseline), _said(flip.new)) for flip in kept]
    more = f" ({len(kept)} shown)" if len(kept) < len(flips) else ""
    title = f"{measures} flipped: {len(worse)} worse, {len(better)} better{more}"
    return Table(title, texts(*FLIPS), tuple(rows))


def _said(results: Sequence[Result]) -> str:
    """Outcome and response of each question of a unit, in one line."""
    return " | ".join(f"{result.score.outcome}: {_short(result)}" for result in results)


def _short(result: Result) -> str:
    text = " ".join(result.answer.text.split()) if result.answer is not None else ""
    if not text and result.score.extracted:
        text = ", ".join(result.score.extracted)
    return printing.shortened(text, RESPONSE)


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


def others(ranking: Ranking, row: Ranked) -> dict[str, str]:
    """The other runs of a ranking, seen from one run, by the headings of columns: their ranks, such as "3, 5 to 9".

    A rank stands for all runs of that rank. If only some of them are meant, these are named.
    """
    columns = {"better than": row.better_than, "worse than": row.worse_than}
    if ranking.equivalent is not None:
        columns["alike"] = row.alike
    return {heading: _by_rank(ranking, names) for heading, names in {**columns, "open": row.open}.items()}


def _by_rank(ranking: Ranking, names: Sequence[str]) -> str:
    """Some runs of a ranking by their ranks; "none" without one."""
    of_rank = {row.rank: [other.name for other in ranking.rows if other.rank == row.rank] for row in ranking.rows}
    meant = {rank: [name for name in own if name in names] for rank, own in of_rank.items()}
    texts = list[str]()
    for whole, group in groupby(of_rank, lambda rank: meant[rank] == of_rank[rank]):
        first, *others = group
        texts += [f"{first} to {others[-1]}" if others else f"{first}"] if whole else []
    apart = [name for rank, own in meant.items() if own != of_rank[rank] for name in own]
    return ", ".join([*texts, *([printing.some(apart, SOME)] if apart else [])]) or "none"


def of_others(margin: float | None, tests: int) -> str:
    """Say what the columns of `others` hold, and by which tests; `tests` as for `sections`."""
    said = f"better than, worse than: ranks of runs from which it is shown to differ, 5 % by Holm over {family(tests)}"
    if margin is None:
        return f"{said}; open: no difference is shown, which does not show that runs are alike"
    return f"{said}; {tested_alike(margin)}; open: neither is shown"


def ranked(ranking: Ranking) -> Table:
    """Several runs by one measure, the best first."""
    differ = any(row.differs for row in ranking.rows)
    seen = [others(ranking, row) for row in ranking.rows]
    rows = [
        (*(row.rank, row.name, *([row.differs] if differ else []), row.figure, row.figure), *own.values())
        for row, own in zip(ranking.rows, seen, strict=True)
    ]
    less = ", less is better" if ranking.better == "lower" else ""
    title = f"{ranking.benchmark}, {ranking.technique}: {ranking.metric}{less} ({of_all(ranking)})"
    columns = (
        *(*numbers("rank"), *texts("run", *(["differs in"] if differ else []))),
        *(Column("%", "figure"), INTERVAL, *texts(*dict.fromkeys(name for own in seen for name in own))),
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
    columns = (Column("run"), *numbers(found.by), Column("%", "figure"), INTERVAL)
    return Table(title, columns, rows)


FLIPS = ["way", "unit", "baseline", "new"]
"""The columns of a table of flips."""
LEAST = 20
"""Characters that a narrow terminal shows of a response at least."""
LEAST_TELLING = ("detectable", "flipped groups", "groups", "McNemar p", "n", "worse", "better")
"""Columns that a narrow terminal does not show, the first that goes first."""


def text(sections: Sequence[Section], width: int | None = None) -> str:
    """Sections for a terminal; without `width`, no line is broken and no column is left out."""

    def line(text: str) -> str:
        plain = printing.line(text)
        # A word that is cut cannot be typed.
        return plain if width is None else textwrap.fill(plain, width, break_on_hyphens=False, break_long_words=False)

    blocks, left_out = [], dict[str, None]()
    for section in sections:
        blocks.append("\n".join([line(section.title), *(line(f"! {note}") for note in section.notes)]))
        for table in section.tables:
            fitting = table if width is None else _fitted(table, width)
            left_out |= dict.fromkeys(column.title for column in table.columns if column not in fitting.columns)
            blocks.append(f"{line(table.title)}\n{terminal(fitting).rstrip()}")
    if left_out:
        blocks.append(line(f"left out, as the terminal is narrow: {', '.join(left_out)}; --csv=FILE has all columns"))
    return "\n\n".join(blocks)


def _fitted(table: Table, width: int) -> Table:
    """Return a table without those of LEAST_TELLING that make it wider than a terminal; flips are cut instead."""
    if table.headings == FLIPS:
        longest = [max(map(len, cells)) for cells in zip(table.headings, *table.texts, strict=True)]
        room = max(2 * LEAST, width - sum(longest[:2]) - 2 * len(FLIPS))
        first = min(longest[2], max(room // 2, room - longest[3]))
        most = (*longest[:2], first, room - first)
        rows = (map(printing.shortened, cells, most) for cells in table.texts)
        return replace(table, rows=tuple(map(tuple, rows)))
    for title in LEAST_TELLING:
        if max(map(len, terminal(table).splitlines())) <= width:
            break
        table = table.at([place for place, column in enumerate(table.columns) if column.title != title])
    return table


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


def as_latex(sections: Sequence[Section]) -> str:
    """Return the tables of sections for LaTeX, each below the heading of its section as a comment."""
    return "\n".join(
        f"% {printing.line(section.title)}\n{latex(table)}" for section in sections for table in section.tables
    )


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
                **({"confidence": [each.content for each in sure]} if (sure := versus.paired.confidences) else {}),
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
                    {"runs": [pair.baseline, pair.new], "adjusted": pair.compared.adjusted}
                    | ({} if ranking.equivalent is None else {"equivalence": equivalence_of(pair.compared)})
                    for pair in ranking.pairs
                ],
                **({} if ranking.costliest is None else {"costliest": ranking.costliest}),
            }
            for ranking in study.rankings
        ],
        **robustness.as_json(study.robustness),
        **({"readers": [msgspec.to_builtins(each) for each in study.against]} if study.against else {}),
        **({"trends": list(map(_trend_as_json, trends))} if trends else {}),
    }


def _part_as_json(part: PairedPart, *, several: bool) -> dict[str, Any]:
    """A part; only if several runs may share its questions, it says how many do, and how many items these asked."""
    left_out = () if several else ("runs", "asked")
    return {own.name: getattr(part, own.name) for own in fields(part) if own.name not in left_out}


OTHERS = ("better_than", "worse_than", "alike", "open")
"""The other runs of a ranking, seen from one run, by their names in files."""


def _ranked_as_json(row: Ranked) -> dict[str, Any]:
    figure = {"value": row.figure.value, "low": row.figure.low, "high": row.figure.high}
    ranks = {"rank": row.rank, "best": row.best, "worst": row.worst}
    others = {name: getattr(row, name) for name in OTHERS}
    return {"name": row.name, **figure, **ranks, **others, **({"differs": row.differs} if row.differs else {})}


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
    *("baseline", "new", "difference", "low", "high", "worse", "units", "groups", "discordant_groups", "gained"),
    *("lost", "deff", "df", "se", "detectable", "mcnemar", "method", "p", "adjusted"),
)
"""The numbers of a measure of two runs in files."""


EQUIVALENCE = ("margin", "low_90", "high_90", "verdict")
"""The test of being alike in files."""


def equivalence_of(row: Compared) -> dict[str, Any]:
    """Return the test of being alike by its names in files; None if there is none."""
    test = row.equivalence
    if test is None:
        return dict.fromkeys(EQUIVALENCE)
    values = (test.margin, test.low, test.high, verdict(row))
    return dict(zip(EQUIVALENCE, values, strict=True))


def in_full(compared: Iterable[Compared], *, alike: bool = False) -> Table:
    """Return each measure and slice with all its numbers, for files and data frames; `alike`: with `EQUIVALENCE`."""
    names = ("benchmark", "technique", "measure", "better", "headline", "dimension", "slice", *NUMBERS)
    rows = (
        (
            *(row.benchmark, row.technique, row.metric, row.better, row.headline),
            *(*next(iter(row.slice.items()), ("", "")), *numbers_of(row).values(), *(row.resampled or (None, None))),
            *(equivalence_of(row).values() if alike else ()),
        )
        for row in compared
    )
    columns = texts(*names, "bootstrap_low", "bootstrap_high", *(EQUIVALENCE if alike else ()))
    return Table("", columns, tuple(rows), audience="file")


def numbers_of(compared: Compared) -> dict[str, Any]:
    """Return the numbers of a measure of two runs by their names in files."""
    shown = attrgetter(*NUMBERS[:-2])(compared.shown)
    return dict(zip(NUMBERS, (*shown, compared.p, compared.adjusted), strict=True))


def _as_json(compared: Compared) -> dict[str, Any]:
    units, (new, baseline) = compared.comparison.units, compared.comparison.counted
    return {
        "benchmark": compared.benchmark,
        "technique": compared.technique,
        "name": compared.metric,
        "better": compared.better,
        **({} if compared.percent else {"percent": False}),
        "headline": compared.headline,
        "slice": dict(compared.slice),
        **numbers_of(compared),
        **({} if new == baseline == units else {"counted": {"new": new, "baseline": baseline}}),
        "bootstrap": compared.resampled,
        **({} if compared.equivalence is None else {"equivalence": equivalence_of(compared)}),
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
    differ = any(paired.difference for paired in compared)
    every = [row for paired in compared for row in paired.tables]
    full = in_full(every, alike=margin_of(every) is not None)
    place = full.names.index("headline")
    runs = [
        (paired.new.name, paired.baseline.name, _settings(paired.difference))
        for paired in compared
        for _ in paired.tables
    ]
    rows = (
        (new, baseline, *row[:place], *row[place + 1 :], *(settings if differ else ()))
        for (new, baseline, settings), row in zip(runs, full.rows, strict=True)
    )
    names = ["value" if name == "slice" else name for name in full.names if name != "headline"]
    settings = ("differs", "new_setting", "baseline_setting", "effect") if differ else ()
    return csv(("new_run", "baseline_run", *names, *settings), rows)


def ranking_csv(rankings: Sequence[Ranking]) -> str:
    """A row per run and ranking; fractions, and numbers of other runs."""
    differ = any(row.differs for ranking in rankings for row in ranking.rows)
    own = ("benchmark", "technique", "measure", "better", "place", "run", "value", "low", "high", "best", "worst")
    columns = (*own, *OTHERS)
    rows = [
        (
            *(ranking.benchmark, ranking.technique, ranking.metric, ranking.better),
            *(row.rank, row.name, row.figure.value, row.figure.low, row.figure.high, row.best, row.worst),
            *(len(getattr(row, name)) for name in OTHERS),
            *([row.differs] if differ else []),
        )
        for ranking in rankings
        for row in ranking.rows
    ]
    return csv((*columns, *(["differs"] if differ else [])), rows)


def _settings(difference: Difference | None) -> tuple[str, ...]:
    return (
        ("",) * 4
        if difference is None
        else (difference.setting, difference.new, difference.baseline, difference.effect)
    )


def detectable(compared: Compared) -> Figure:
    """The true loss that such data would show in 80 % of comparisons; undefined without a flip.

    If nothing flipped, the variance is 0 and gives no detectable loss.
    """
    value = compared.comparison.detectable if compared.comparison.discordant_groups else None
    return Figure(value, percent=compared.percent)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
