"""Where a run fails: outcomes, worst slices, confused options and pairs, kinds of errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from medvqa import printing
from medvqa.figures import INTERVAL, UNITS, About, Table, counted, of_measure, texts
from medvqa.items import OUTCOMES, Measure, Result
from medvqa.judging.taxonomy import ErrorShare
from medvqa.report import errors
from medvqa.report.build import Part, Report, slices
from medvqa.report.bundle import explorer
from medvqa.report.bundle.confused_options import matrix_by_position, matrix_by_text, positions
from medvqa.report.bundle.page_blocks import (
    Block,
    PageSection,
    QuestionChoice,
    QuestionsBlock,
    TextBlock,
    section,
    table_block,
)
from medvqa.report.bundle.slices import beside, dimensions_of
from medvqa.report.bundle.texts import Linker, label, linker, query, query_of, questions, title_of
from medvqa.report.sentences import less_is_better, title
from medvqa.tags import lexicon

KIND_OF_ERROR = "kind of error"
"""The dimension of the page for filters by kind of error; no option of pytest can select by such a name."""
ERROR_MESSAGE = "error message"
"""The dimension of the page for filters by the reason of an error, in which numbers are masked."""
_NUMBERS = re.compile(r"\b0x[0-9a-f]+|\b(?=[0-9a-f-]*\d)[0-9a-f-]{8,}\b|\d+(?:[.,:]\d+)*", re.IGNORECASE)
"""Numbers, times and identifiers that differ between errors of one kind."""
MESSAGE = 160
"""Most characters of a reason by which errors are grouped."""
WORST = 10
"""Most slices in a ranking of the worst."""
MOST = 12
"""Most reasons of errors."""
BY_CHANCE = 0.025
"""The share of slices whose 95 % interval lies below their true value."""
KINDS = 300
"""Most rows of a table of kinds of errors."""
SLICE = "A slice here is a group of questions that share a tag, such as a modality. It is not a slice of an image."
"""To a radiologist, a slice is an image."""
SAME = 3
"""Names of a slice beside its first."""


def failing_section(report: Report) -> PageSection:
    """Where the run fails, by benchmark and technique, and the kinds of its errors."""
    parts = [part for part in report.parts if part.results]
    blocks: list[Block | None] = [chosen for part in parts for chosen in _chosen(part, report)]
    blocks += [TextBlock(lines=(SLICE,))] if any(each.slice for part in parts for each in part.measures) else []
    for part in parts:
        link, place = linker(part, report), (title(report, part),) if len(parts) > 1 else ()
        options = matrix_by_text(part.results, link), matrix_by_position(part.results, link)
        shown = [*map(table_block, worst(part, link)), *options, table_block(positions(part.results, link))]
        blocks += [structs.replace(each, tabs=(*place, each.title)) for each in shown if each is not None]
    return section("failing", "Where it fails", [*blocks, *_kinds(report)])


def pairs_section(report: Report) -> PageSection:
    """The pairs of each benchmark by their verdict, which the explorer shows side by side."""
    found = [_pairs(part, report) for part in report.parts if any(r.item.pair_id is not None for r in part.results)]
    return section("pairs", "Pairs", found)


def _chosen(part: Part, report: Report) -> list[QuestionsBlock]:
    """The numbers of answers by outcome, and of errors by their reason, the most frequent first."""
    link, named = linker(part, report), title(report, part)
    outcomes = [
        QuestionChoice(name, part.outcomes[name], link(query({"outcome": name})))
        for name in OUTCOMES
        if part.outcomes[name]
    ]
    reasons = Counter(masked(result.score.why) for result in part.results if result.score.outcome == "error")
    groups = sorted(reasons.items(), key=lambda group: (-group[1], group[0]))
    why = [QuestionChoice(text, number, link(query({ERROR_MESSAGE: text}))) for text, number in groups[:MOST]]
    if further := groups[MOST:]:
        why.append(QuestionChoice("other reasons", sum(number for _, number in further)))
    blocks = [QuestionsBlock(named, outcomes, len(part.results))]
    if why:
        blocks.append(QuestionsBlock(f"{named}: errors by their reason, # stands for any number", why))
    return blocks


def tags_of(report: Report) -> Callable[[Result], Mapping[str, Sequence[str]]]:
    """Return a function from a result to the kinds of its wrong answer, or the reason of its error, as tags."""
    kinds = {} if report.errors is None else errors.tags(report.errors)

    def tags(result: Result) -> Mapping[str, Sequence[str]]:
        if result.score.outcome == "error":
            return {ERROR_MESSAGE: (masked(result.score.why),)}
        found = kinds.get(tuple(map(str, result.key))) if kinds else None
        return {} if found is None else {KIND_OF_ERROR: found}

    return tags


def masked(why: str) -> str:
    """Return the reason of an error with # for each number, so that errors of one kind have one text."""
    text = " ".join(_NUMBERS.sub("#", why[: 4 * MESSAGE]).split())
    return printing.shortened(text, MESSAGE) or "no reason"


VERDICTS: Mapping[int, tuple[str, str]] = {
    explorer.BOTH_RIGHT: ("both_right", "both right"),
    explorer.CONFUSED: ("confused", "same answer to both questions"),
    explorer.ONE_RIGHT: ("one_right", "one right"),
    explorer.NEITHER_RIGHT: ("neither_right", "neither right"),
    explorer.INVALID: ("invalid", "an answer names no option"),
    explorer.INCOMPLETE: ("incomplete", "not both scored"),
}
"""The bits of a pair's verdict: the value of the field `pair`, and its words."""


def _pairs(part: Part, report: Report) -> QuestionsBlock:
    link, verdicts = linker(part, report), explorer.Verdicts()
    for result in part.results:
        verdicts.add(0, result)
    pairs = {
        (result.item.pair_id, result.variant, result.sample): verdict
        for result, verdict in zip(part.results, verdicts.bits, strict=True)
        if result.item.pair_id is not None
    }
    chosen = [
        QuestionChoice(words, number, link(f"pair:{name}", unit="pairs"))
        for bit, (name, words) in VERDICTS.items()
        if (number := sum(bool(verdict & bit) for verdict in pairs.values()))
    ]
    return QuestionsBlock(title(report, part), chosen, len(pairs))


# ---- worst slices ----------------------------------------------------------------------------------------------------


Place = tuple[str, str]
"""A dimension and one of its values."""


def worst(part: Part, link: Linker) -> list[Table]:
    """Rank the slices of each headline measure; those without a slice that is worse than the whole are left out."""
    dimensions = dimensions_of(part)
    members = _members(part.results, dimensions)
    asked = len({result.item.id for result in part.results})
    tables = []
    for overall in part.sliced:
        groups: dict[Hashable, list[Measure]] = {}
        for measure in (each for name in dimensions for each in slices(part.measures, name)):
            [place] = measure.slice.items()
            questions = members.get(place)
            everything = (measure.n, measure.unit) == (overall.n, overall.unit)
            if measure.name == overall.name and not everything and (questions is None or len(questions) < asked):
                # Slices of exactly the same questions are one slice under several names.
                groups.setdefault(place if questions is None else tuple(questions), []).append(measure)
        tables.append(_ranked(overall, list(groups.values()), link, lower=less_is_better(part, overall.name)))
    return [table for table in tables if table.rows]


def _ranked(overall: Measure, groups: Sequence[Sequence[Measure]], link: Linker, *, lower: bool) -> Table:
    """Rank the slices of one measure, those of a group as one; `lower`: a lower value is better."""
    # Turned so that less is worse.
    turn = -1.0 if lower else 1.0
    middle, bounds = turn * (overall.value or 0.0), [(_bound(first, turn), first, others) for first, *others in groups]
    ranked = sorted(((b, first, others) for b, first, others in bounds if b is not None), key=lambda entry: entry[0])
    rows, about = list[tuple[object, ...]](), list[About]()
    for bound, first, others in ranked:
        if turn * (first.value or 0.0) < middle and len(rows) < WORST:
            [(dimension, value)] = first.slice.items()
            figure = replace(beside(first, overall), tone="worse" if bound < middle else "")
            rows.append((title_of(dimension, value), label(dimension), figure, figure, figure))
            about.append(_about(first, others, link))
    side, end = ("above", "lower") if lower else ("below", "upper")
    chance = BY_CHANCE * len(ranked)
    expected = f"about {round(chance)} of {len(ranked):,}" if chance >= 1 else f"1 of {round(1 / BY_CHANCE)}"
    beyond = sum(bound < middle for bound, _, _ in ranked)
    notes = [
        f"Exploratory: {counted(len(ranked), 'slices')} compared, by the {end} bound of the 95 % interval. Intervals "
        f"wholly {side} the overall value: {beyond:,}; equal slices would have {expected} by chance."
    ]
    if without := len(groups) - len(ranked):
        notes.append(f"{counted(without, 'slices')} without an interval {'is' if without == 1 else 'are'} not ranked.")
    name = label(overall.name)
    columns = (*texts("slice", "of"), of_measure(name, percent=overall.percent), INTERVAL, UNITS)
    return Table(f"Worst slices by {name}", columns, tuple(rows), tuple(notes), about=tuple(about))


def _bound(measure: Measure, turn: float) -> float | None:
    """The bound on the better side, turned so that less is worse; None without an interval to show."""
    if measure.low is None or measure.high is None or measure.figure.few:
        return None
    return max(turn * measure.low, turn * measure.high)


def _about(measure: Measure, same: Sequence[Measure], link: Linker) -> About:
    [(dimension, value)] = measure.slice.items()
    names = [f"{title_of(*place)} ({label(place[0])})" for each in same for place in each.slice.items()]
    others = [f"the same questions: {printing.some(names, SAME)}"] if names else []
    notes = [*lexicon.abbreviations(dimension, value), *others]
    return About({0: link(query_of(dimension, value), unit=measure.unit)}, note=", ".join(notes))


def _members(results: Sequence[Result], dimensions: Sequence[str]) -> dict[Place, list[int]]:
    """The numbers of the questions in each slice, ascending; slices of prompts are none of questions."""
    items = {result.item.id: result.item for result in results}
    members: dict[Place, list[int]] = {}
    for place, item in enumerate(items.values()):
        for name in dimensions:
            kind = (item.kind,) if name == "kind" else ()
            for value in lexicon.values_of(item, name) if lexicon.CROSSED in name else item.tags.get(name, kind):
                members.setdefault((name, value), []).append(place)
    return members


# ---- kinds of errors -------------------------------------------------------------------------------------------------


def _kinds(report: Report) -> list[Block | None]:
    """The kinds of wrong answers, sentences about them, and the judge's agreement with people."""
    blocks: list[Block | None] = []
    for dimension in ("", *errors.dimensions(report)):
        shares = errors.shares_of(report, dimension)[:KINDS]
        table = errors.table(report, dimension)
        about = tuple(About({len(table.columns) - 5: _kind_link(share, report)}) for share in shares)
        table = replace(table, rows=table.rows[:KINDS], about=about)
        blocks.append(table_block(table, folded=bool(dimension)))
    if lines := errors.lines(report):
        blocks.append(TextBlock("" if report.errors else "Kinds of errors", tuple(lines)))
    if report.errors is not None:
        blocks.append(table_block(errors.agreement(report.errors)))
    return blocks


def _kind_link(share: ErrorShare, report: Report) -> str:
    if not share.count:
        return ""
    (dimension, value), *_ = [*share.slice.items(), ("", "")]
    # The explorer lists one technique at a time unless the query names several.
    asked = [value] if dimension == "technique" else report.techniques
    place = [f"technique:{','.join(asked)}"] if len(report.techniques) > 1 else []
    place += [query_of(dimension, value)] if dimension not in ("", "technique") else []
    return questions(share.benchmark, "", " ".join([*place, query({KIND_OF_ERROR: share.kind})]))
