"""Where a run fails: its worst slices, the options that it confuses, and the kinds of its errors."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from medvqa.figures import FEW, number
from medvqa.items import CHOICE_KINDS, INVALID_OUTCOMES, OUTCOMES, SCORED_OUTCOMES, Measure, Result
from medvqa.judging.taxonomy import ErrorShare
from medvqa.protocols import rotation
from medvqa.report import errors
from medvqa.report.build import Part, Report, slices
from medvqa.report.bundle.cells import Cell, cell
from medvqa.report.bundle.shape import Shape
from medvqa.report.bundle.slices import dimensions_of
from medvqa.report.bundle.texts import label, query, query_of, title_of
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
APART = 100
"""Most slices without an interval that are listed beside a ranking."""
MOST = 12
"""Most rows of a confusion matrix, and most positions in a table of letters."""
LONGEST = 60
"""Most characters of an option's text that is a label."""
LEVELS = 5
"""Shades of the fields of a confusion matrix."""
BY_CHANCE = 0.025
"""The share of slices whose 95 % interval lies below their true value."""
KINDS = 300
"""Most rows of a table of kinds of errors."""


class WorstSlice(Shape, frozen=True):
    """One slice of a benchmark, by one measure."""

    cell: Cell
    dimension: str
    title: str
    """The slice's value, for people."""
    short: str
    """Abbreviations of the paper, or ""."""
    query: str
    beyond: bool
    """Whether the whole interval is worse than the value over all questions."""
    same: list[str]
    """Names of further slices with exactly these questions, which are not listed again."""


class WorstSlices(Shape, frozen=True):
    """The slices of a benchmark by one measure, the worst first."""

    measure: str
    better: Literal["higher", "lower"]
    overall: Cell
    rows: list[WorstSlice]
    """The worst slices with an interval, by its bound on the better side. Each is worse than the overall value."""
    ranked: int
    """The number of slices with an interval."""
    beyond: int
    """The number of slices whose whole interval is worse than the value over all questions."""
    apart: list[WorstSlice]
    """Slices without an interval, in the order of the benchmark."""
    unranked: int
    """The number of slices without an interval."""
    notes: list[str]


class AnswerCount(Shape, frozen=True):
    """A number of answers, and the query that selects them; "" without one."""

    label: str
    count: int
    query: str


class MatrixField(Shape, frozen=True):
    """One field of a confusion matrix."""

    count: int
    level: int
    """The shade, 1 to 5 by the share of its row; 0 if too few questions are in the field."""
    share: str
    """Percent of its row; "" if the row has too few questions."""
    query: str


class MatrixColumn(Shape, frozen=True):
    """What was read from answers: an option, or an outcome without one. Outcomes that did not occur have none."""

    label: str
    option: bool
    count: int


class MatrixRow(Shape, frozen=True):
    """The answers to questions with one correct option."""

    label: str
    right: int
    """The place of the column of the same option; -1 if there is none."""
    count: int
    fields: list[MatrixField]
    query: str


class OptionMatrix(Shape, frozen=True):
    """Answers by correct option (rows) and option read (columns)."""

    by: Literal["position", "text"]
    columns: list[MatrixColumn]
    rows: list[MatrixRow]
    count: int
    unit: str
    left_out: list[AnswerCount]
    """Answers that the matrix does not hold."""
    folded: int
    """The number of further options that share one row and one column."""


class PositionRow(Shape, frozen=True):
    """Answers to choice questions that offer one position; `hits`: it was chosen and is correct."""

    letter: str
    offered: int
    chosen: int
    correct: int
    hits: int
    few: bool
    """Whether too few questions offer it for percentages."""
    read: str
    """The query for the answers that chose it."""
    key: str
    """The query for the answers to questions in which it is correct."""


class Positions(Shape, frozen=True):
    """How often each shown position is correct, and how often it is chosen."""

    rows: list[PositionRow]
    unit: str
    folded: int
    """The number of further positions that are not shown."""


class FailingPart(Shape, frozen=True):
    """Where a run fails in one benchmark, asked by one technique."""

    benchmark: str
    technique: str
    """For links: "" if the run has one technique."""
    title: str
    count: int
    unit: str
    outcomes: list[AnswerCount]
    """Numbers of answers that are not correct, by outcome."""
    errors: list[AnswerCount]
    """Errors by their reason, in which # stands for numbers, the most frequent first; then all further ones."""
    worst: list[WorstSlices]
    matrices: list[OptionMatrix]
    positions: Positions | None


class ErrorKindRow(Shape, frozen=True):
    """The share of one kind of error; `place`: the value of a dimension, or ""."""

    cell: Cell
    count: int
    place: str
    query: str
    classified: str
    """How many of how many wrong answers were classified."""


class ErrorKindTable(Shape, frozen=True):
    """Shares of kinds of errors by one dimension, or over everything (dimension "")."""

    dimension: str
    rows: list[ErrorKindRow]
    folded: int
    """The number of further rows, which errors.csv has."""


class TextRows(Shape, frozen=True):
    """A table of texts; `right` holds the places of right-aligned columns."""

    columns: list[str]
    rows: list[list[str]]
    right: list[int]


class ErrorKindsView(Shape, frozen=True):
    """The kinds of a run's wrong answers, sentences about them, and the judge's agreement with people."""

    tables: list[ErrorKindTable]
    lines: list[str]
    agreement: TextRows | None


class Failing(Shape, frozen=True):
    """Where a run fails."""

    parts: list[FailingPart]
    kinds: ErrorKindsView | None
    unclassified: bool
    """Whether answers are wrong, and `medvqa classify` has not sorted them."""


def failing(report: Report) -> Failing:
    """Return where a run fails."""
    several = len(report.techniques) > 1
    parts = [_part(part, report, several=several) for part in report.parts if part.results]
    kinds = _kinds(report)
    wrong = any(part.outcomes["wrong"] for part in report.parts)
    return Failing(parts, kinds, wrong and kinds is None)


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
    return (text if len(text) <= MESSAGE else f"{text[: MESSAGE - 1]}…") or "no reason"


def _error_groups(part: Part) -> list[AnswerCount]:
    counts = Counter(masked(result.score.why) for result in part.results if result.score.outcome == "error")
    groups = sorted(counts.items(), key=lambda group: (-group[1], group[0]))
    shown = [AnswerCount(text, number, query({ERROR_MESSAGE: text})) for text, number in groups[:MOST]]
    further = groups[MOST:]
    return shown + ([AnswerCount("other reasons", sum(number for _, number in further), "")] if further else [])


def _part(part: Part, report: Report, *, several: bool) -> FailingPart:
    named = part.benchmark.title or part.benchmark.name
    named += f" ({report.protocol})" if report.protocol else ""
    found = [matrix_by_text(part.results), matrix_by_position(part.results)]
    return FailingPart(
        part.benchmark.name,
        part.technique if several else "",
        f"{named}, {part.technique}" if several else named,
        len(part.results),
        unit_of(part.results),
        [
            AnswerCount(name, part.outcomes[name], query({"outcome": name}))
            for name in OUTCOMES
            if name != "correct" and part.outcomes[name]
        ],
        _error_groups(part),
        worst(part),
        [matrix for matrix in found if matrix is not None],
        positions(part.results),
    )


def unit_of(results: Sequence[Result]) -> str:
    """Return "questions", or "answers" if a question has several. The results are those of a part."""
    return "questions" if len({result.item.id for result in results}) == len(results) else "answers"


# ---- worst slices ----------------------------------------------------------------------------------------------------


Direction = Literal["higher", "lower"]
Place = tuple[str, str]
"""A dimension and one of its values."""


def worst(part: Part) -> list[WorstSlices]:
    """Rank the slices of each headline measure; measures without a slice are left out."""
    better = {metric.name: metric.better for metric in part.benchmark.metrics}
    dimensions = dimensions_of(part)
    members = _members(part.results, dimensions)
    ranked = [
        _ranked(
            overall,
            better.get(overall.name, "higher"),
            [m for name in dimensions for m in slices(part.measures, name) if m.name == overall.name],
            members,
            len({result.item.id for result in part.results}),
        )
        for overall in part.sliced
    ]
    return [each for each in ranked if each.ranked or each.unranked]


def _ranked(
    overall: Measure,
    better: Direction,
    measures: Sequence[Measure],
    members: Mapping[Place, Sequence[int]],
    number: int,
) -> WorstSlices:
    """Rank the slices of one measure; `members` are those of each slice, among `number` questions."""
    groups: dict[Hashable, list[Measure]] = {}
    whole = 0
    for measure in measures:
        [place] = measure.slice.items()
        questions = members.get(place)
        everything = (measure.n, measure.unit) == (overall.n, overall.unit)
        if everything or (questions is not None and len(questions) == number):
            whole += 1
            continue
        # Slices of exactly the same questions are one slice under several names.
        groups.setdefault(place if questions is None else tuple(questions), []).append(measure)
    rows = [
        (
            _bound(first, better),
            _row(first, [_name(each) for each in others], beyond=_is_beyond(first, overall, better)),
        )
        for first, *others in groups.values()
    ]
    ranked = sorted(((bound, row) for bound, row in rows if bound is not None), key=lambda entry: entry[0])
    apart = [row for bound, row in rows if bound is None]
    beyond = sum(row.beyond for _, row in ranked)
    return WorstSlices(
        overall.name,
        better,
        cell(overall),
        [row for _, row in ranked if _is_worse(row.cell.value, overall, better)][:WORST],
        len(ranked),
        beyond,
        apart[:APART],
        len(apart),
        _notes(len(ranked), beyond, whole, better),
    )


def _bound(measure: Measure, better: Direction) -> float | None:
    """The bound on the better side, turned so that a smaller one is worse; None without an interval to show."""
    if measure.value is None or measure.low is None or measure.high is None or measure.figure.few:
        return None
    return measure.high if better == "higher" else -measure.low


def _is_beyond(measure: Measure, overall: Measure, better: Direction) -> bool:
    bound = _bound(measure, better)
    return bound is not None and _is_worse(bound if better == "higher" else -bound, overall, better)


def _is_worse(value: float | None, overall: Measure, better: Direction) -> bool:
    if value is None or overall.value is None:
        return False
    return value < overall.value if better == "higher" else value > overall.value


def _notes(ranked: int, beyond: int, whole: int, better: Direction) -> list[str]:
    """Sentences about a ranking: how many slices were compared, and how many would look bad by chance."""
    side, bound = ("below", "upper") if better == "higher" else ("above", "lower")
    notes = ["No slice has an interval."]
    if ranked:
        chance = BY_CHANCE * ranked
        expected = f"about {chance:.0f} of {ranked:,}" if chance >= 1 else f"1 of {round(1 / BY_CHANCE)}"
        notes = [
            f"Exploratory: {_of(ranked, 'slice')} compared, by the {bound} bound of the 95 % interval.",
            f"Intervals wholly {side} the overall value: {beyond:,}; equal slices would have {expected} by chance.",
        ]
    if whole:
        notes.append(f"Not compared: {_of(whole, 'value')} that every measured question has.")
    return notes


def _of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _row(measure: Measure, same: Sequence[str], *, beyond: bool) -> WorstSlice:
    [(dimension, value)] = measure.slice.items()
    return WorstSlice(
        cell(measure),
        label(dimension),
        title_of(dimension, value),
        ", ".join(lexicon.abbreviations(dimension, value)),
        query_of(dimension, value),
        beyond,
        list(same),
    )


def _name(measure: Measure) -> str:
    [(dimension, value)] = measure.slice.items()
    return f"{title_of(dimension, value)} ({label(dimension)})"


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


# ---- confused options ------------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """One answer in a matrix: its question, the key, and the option read, or the outcome if none was read."""

    question: str
    key: str
    read: str
    outcome: str = ""


def matrix_by_position(results: Sequence[Result]) -> OptionMatrix | None:
    """Return answers to single-choice questions by the shown letters of the correct option and of the option read.

    None without such an answer.
    """
    entries, left_out, places = list[_Entry](), Counter[str](), dict[str, int]()
    for result in results:
        if result.item.kind not in CHOICE_KINDS:
            continue
        if why := _left_out(result):
            left_out[why] += 1
            continue
        result = rotation.result_shown(result)
        for place, letter in enumerate(result.item.options):
            places[letter] = min(place, places.get(letter, place))
        [key] = result.item.answers
        read, outcome = _option_read(result)
        entries.append(_Entry(result.item.id, key, read, outcome))
    used = {entry.key for entry in entries} | {entry.read for entry in entries if not entry.outcome}
    letters = sorted(filter(None, used), key=lambda letter: (places[letter], letter))
    more = " kind:single_choice" if left_out[MULTIPLE] else ""
    names = {letter: letter for letter in letters[:MOST]}
    return _matrix(
        "position", entries, names, left_out, unit_of(results), len(used) - len(names), more + _scored(left_out)
    )


def matrix_by_text(results: Sequence[Result]) -> OptionMatrix | None:
    """Return answers by the texts of the correct option and of the option read: single choices and judgments.

    None unless at least two texts are each correct in `FEW` questions, and together in half of the questions.
    """
    entries, left_out, spelling, short = list[_Entry](), Counter[str](), dict[str, str](), cache(plain)
    for result in results:
        if result.item.kind not in (*CHOICE_KINDS, "judgment"):
            continue
        if why := _left_out(result):
            left_out[why] += 1
            continue
        (key, read), outcome = _texts(result), _option_read(result)[1]
        spelling.setdefault(short(key), " ".join(key.split()))
        entries.append(_Entry(result.item.id, short(key), short(read), outcome))
    keyed: dict[str, set[str]] = {}
    for entry in entries:
        keyed.setdefault(entry.key, set()).add(entry.question)
    often = [text for text, found in keyed.items() if len(found) >= FEW and 0 < len(text) <= LONGEST]
    often.sort(key=lambda text: (-len(keyed[text]), text))
    if len(often) < 2 or 2 * sum(len(keyed[text]) for text in often) < sum(map(len, keyed.values())):
        return None
    names = {text: spelling[text] for text in often[:MOST]}
    used = {entry.key for entry in entries} | {entry.read for entry in entries if not entry.outcome}
    return _matrix("text", entries, names, left_out, unit_of(results), len(used - names.keys()), _scored(left_out))


def plain(text: str) -> str:
    """Return a text as option texts are compared: lower case, one space apart. The page's filter does the same."""
    return " ".join(text.lower().split())


MULTIPLE, FAILED, UNSCORED, UNKEYED = (
    "to multiple-response questions",
    "that ended in an error",
    "without a score",
    "to questions without exactly one correct option",
)


def _scored(left_out: Mapping[str, int]) -> str:
    """The end of queries for scored answers alone; "" if there are no others."""
    outcomes = {FAILED: "error", UNSCORED: "unscored"}
    listed = ",".join(outcome for why, outcome in outcomes.items() if left_out.get(why))
    return f" -outcome:{listed}" if listed else ""


def _left_out(result: Result) -> str:
    """The reason why an answer is in no matrix, or ""."""
    item, outcome = result.item, result.score.outcome
    if item.kind == "multiple_response":
        return MULTIPLE
    if outcome == "error":
        return FAILED
    if outcome not in SCORED_OUTCOMES:
        return UNSCORED
    if item.kind in CHOICE_KINDS:
        return "" if len(item.answers) == 1 and item.answers[0] in item.options else UNKEYED
    return "" if item.answers else UNKEYED


NO_OPTION = "other"
"""The reading of an answer that names no option, or several, and has no outcome that says so."""


def _option_read(result: Result) -> tuple[str, str]:
    """The option that was read and "", or "" and the outcome that names none."""
    outcome, read = result.score.outcome, result.score.extracted
    if outcome in INVALID_OUTCOMES:
        return "", outcome
    offered = len(read) == 1 and (result.item.kind not in CHOICE_KINDS or read[0] in result.item.options)
    return (read[0], "") if offered else ("", NO_OPTION)


def _texts(result: Result) -> tuple[str, str]:
    """The texts of the correct option and of the option read; the latter is "" if none was read."""
    item, (read, outcome) = result.item, _option_read(result)
    key = item.answers[0]
    if item.kind in CHOICE_KINDS:
        return item.options[key], "" if outcome else item.options[read]
    # A synonym of the reference is correct, too.
    return key, "" if outcome else key if result.score.outcome == "correct" else read


Field = tuple[str, str]
"""A row or a column of a matrix: an option and "", or "" and an outcome; ("", "") holds all further options."""


def _matrix(
    by: Literal["position", "text"],
    entries: Sequence[_Entry],
    names: Mapping[str, str],
    left_out: Counter[str],
    unit: str,
    folded: int,
    more: str,
) -> OptionMatrix | None:
    """Count entries over the options of `names` (in order, with labels) and one row and column for the `folded`.

    `more` ends the queries.
    """
    if not entries:
        return None
    asked: dict[str, dict[Field, list[str]]] = {}
    for entry in entries:
        column = ("", entry.outcome) if entry.outcome else (entry.read if entry.read in names else "", "")
        row = asked.setdefault(entry.key if entry.key in names else "", {})
        row.setdefault(column, []).append(entry.question)
    totals = Counter[Field]()
    for row in asked.values():
        totals.update({column: len(found) for column, found in row.items()})
    columns: list[Field] = [(option, "") for option in names]
    columns += [place for place in (("", ""), ("", NO_OPTION)) if place in totals]
    columns += [("", outcome) for outcome in OUTCOMES if outcome in INVALID_OUTCOMES and totals["", outcome]]
    further = f"{folded:,} further"
    key, read = ("key", "read") if by == "position" else ("key_text", "read_text")

    def selected(option: str, place: Field) -> str:
        if not option or place in (("", ""), ("", NO_OPTION)):
            return ""
        of_column = {read: names[place[0]]} if place[0] else {"outcome": place[1]}
        return f"{query({key: names[option], **of_column})}{more}"

    def row_of(option: str) -> MatrixRow:
        found = [asked[option].get(place, []) for place in columns]
        count, questions = sum(map(len, found)), len({question for each in found for question in each})
        fields = [
            MatrixField(
                len(each),
                math.ceil(LEVELS * len(each) / count) if len(set(each)) >= FEW else 0,
                number(len(each) / count, digits=0) if questions >= FEW else "",
                selected(option, place) if each else "",
            )
            for each, place in zip(found, columns, strict=True)
        ]
        if not option:
            return MatrixRow(further, -1, count, fields, "")
        return MatrixRow(names[option], columns.index((option, "")), count, fields, query({key: names[option]}) + more)

    return OptionMatrix(
        by,
        [
            MatrixColumn(names[option] if option else outcome or further, not outcome, totals[option, outcome])
            for option, outcome in columns
        ],
        [row_of(option) for option in (*names, "") if option in asked],
        len(entries),
        unit,
        [AnswerCount(why, number, "") for why, number in left_out.items()],
        folded,
    )


def positions(results: Sequence[Result]) -> Positions | None:
    """Count shown positions in scored choice questions: offered, correct, chosen, chosen and correct.

    None without such a question.
    """
    counts: dict[str, list[int]] = {}
    asked: dict[str, set[str]] = {}
    places: dict[str, int] = {}
    unscored = Counter[str]()
    for result in results:
        if result.item.kind not in CHOICE_KINDS:
            continue
        if result.score.outcome not in SCORED_OUTCOMES:
            unscored[FAILED if result.score.outcome == "error" else UNSCORED] += 1
            continue
        result = rotation.result_shown(result)
        correct, chosen = result.item.answers, result.score.extracted
        for place, letter in enumerate(result.item.options):
            if letter not in counts:
                counts[letter], asked[letter], places[letter] = [0, 0, 0, 0], set(), place
            places[letter] = min(place, places[letter])
            if len(asked[letter]) < FEW:
                asked[letter].add(result.item.id)
            count, is_chosen, is_correct = counts[letter], letter in chosen, letter in correct
            count[0] += 1
            count[1] += is_chosen
            count[2] += is_correct
            count[3] += is_chosen and is_correct
    order = sorted(counts, key=lambda letter: (places[letter], letter))
    rows = [
        PositionRow(
            letter,
            offered,
            picked,
            keyed,
            hits,
            len(asked[letter]) < FEW,
            query({"read": letter}) + _scored(unscored),
            query({"key": letter}) + _scored(unscored),
        )
        for letter in order[:MOST]
        for offered, picked, keyed, hits in [counts[letter]]
    ]
    return Positions(rows, unit_of(results), len(order) - len(rows)) if rows else None


# ---- kinds of errors -------------------------------------------------------------------------------------------------


def _kinds(report: Report) -> ErrorKindsView | None:
    """The kinds of wrong answers; None without a classification."""
    lines = errors.lines(report)
    if not lines:
        return None
    shares = report.error_shares
    found = [_table(report, "", [share for share in shares if not share.slice])]
    found += [
        _table(report, name, [share for share in shares if name in share.slice and share.count])
        for name in errors.dimensions(report)
    ]
    agreement = None if report.errors is None else errors.agreement(report.errors)
    return ErrorKindsView(
        [table for table in found if table.rows],
        lines,
        TextRows(agreement.headings, agreement.texts, agreement.right)
        if agreement is not None and agreement.rows
        else None,
    )


def _table(report: Report, dimension: str, shares: Sequence[ErrorShare]) -> ErrorKindTable:
    rows = [_kind_row(share, report.techniques) for share in shares[:KINDS]]
    return ErrorKindTable(label(dimension), rows, len(shares) - len(rows))


def _kind_row(share: ErrorShare, techniques: Sequence[str]) -> ErrorKindRow:
    (dimension, value), *_ = [*share.slice.items(), ("", "")]
    asked = [value] if dimension == "technique" else techniques
    # The explorer lists one technique at a time unless the query names several.
    place = [f"technique:{','.join(asked)}"] if len(techniques) > 1 else []
    place += [query_of(dimension, value)] if dimension not in ("", "technique") else []
    return ErrorKindRow(
        cell(errors.measure(share)),
        share.count,
        title_of(dimension, value) if dimension else "",
        " ".join([*place, query({KIND_OF_ERROR: share.kind})]),
        errors.classified_of(share),
    )
