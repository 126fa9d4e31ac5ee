"""Answers by the correct option and the option that was read, as matrices, and how often each position is chosen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from medvqa.figures import FEW, About, Column, Figure, Table, count, counted, numbers, texts
from medvqa.items import CHOICE_KINDS, INVALID_OUTCOMES, OUTCOMES, SCORED_OUTCOMES, Kind, Result
from medvqa.protocols import rotation
from medvqa.report.bundle.page_blocks import MatrixBlock, MatrixCell, MatrixLabel, figure_cell
from medvqa.report.bundle.texts import Linker, query

MOST = 12
"""Most rows of a matrix, and most positions of a table."""
LONGEST = 60
"""Most characters of an option's text that is a label."""
LEVELS = 5
"""Shades of the fields of a matrix."""


def unit_of(results: Sequence[Result]) -> str:
    """Return "questions", or "answers" if a question has several. The results are those of a part."""
    return "questions" if len({result.item.id for result in results}) == len(results) else "answers"


class _Entry(NamedTuple):
    """One answer in a matrix: its question, the key, and the option read, or the outcome if none was read."""

    question: str
    key: str
    read: str
    outcome: str = ""


def matrix_by_position(results: Sequence[Result], link: Linker) -> MatrixBlock | None:
    """Return answers to single-choice questions by the shown letters of the correct option and of the option read.

    None without such an answer.
    """
    counting, left_out = _counting(results, CHOICE_KINDS)
    entries, places = list[_Entry](), dict[str, int]()
    for result in map(rotation.result_shown, counting):
        for place, letter in enumerate(result.item.options):
            places[letter] = min(place, places.get(letter, place))
        entries.append(_Entry(result.item.id, result.item.answers[0], *_option_read(result)))
    used = _used(entries)
    letters = sorted(filter(None, used), key=lambda letter: (places[letter], letter))
    more = " kind:single_choice" if left_out[MULTIPLE] else ""
    names = {letter: letter for letter in letters[:MOST]}
    asked = _Counted("position", "key", "read", link, unit_of(results), more + _scored(left_out))
    return _matrix(asked, entries, names, left_out, len(used) - len(names))


def matrix_by_text(results: Sequence[Result], link: Linker) -> MatrixBlock | None:
    """Return answers by the texts of the correct option and of the option read: single choices and judgments.

    None unless at least two texts are each correct in `FEW` questions, and together in half of the questions.
    """
    counting, left_out = _counting(results, (*CHOICE_KINDS, "judgment"))
    entries, spelling, short = list[_Entry](), dict[str, str](), cache(plain)
    keyed: dict[str, set[str]] = {}
    for result in counting:
        key, read = _texts(result)
        spelling.setdefault(short(key), " ".join(key.split()))
        keyed.setdefault(short(key), set()).add(result.item.id)
        entries.append(_Entry(result.item.id, short(key), short(read), _option_read(result)[1]))
    often = [text for text, found in keyed.items() if len(found) >= FEW and 0 < len(text) <= LONGEST]
    often.sort(key=lambda text: (-len(keyed[text]), text))
    if len(often) < 2 or 2 * sum(len(keyed[text]) for text in often) < sum(map(len, keyed.values())):
        return None
    names = {text: spelling[text] for text in often[:MOST]}
    asked = _Counted("text", "key_text", "read_text", link, unit_of(results), _scored(left_out))
    return _matrix(asked, entries, names, left_out, len(_used(entries) - names.keys()))


def _counting(results: Sequence[Result], kinds: Collection[Kind]) -> tuple[list[Result], Counter[str]]:
    """The answers to questions of these kinds that a matrix holds, and the numbers of the others by their reasons."""
    whys = [(_left_out(result), result) for result in results if result.item.kind in kinds]
    return [result for why, result in whys if not why], Counter(why for why, _ in whys if why)


def _used(entries: Sequence[_Entry]) -> set[str]:
    return {entry.key for entry in entries} | {entry.read for entry in entries if not entry.outcome}


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


class _Counted(NamedTuple):
    """By what a matrix counts, the fields of the query line for its rows and columns, and the end of each query."""

    by: str
    key: str
    read: str
    link: Linker
    unit: str
    more: str


Field = tuple[str, str]
"""A row or a column of a matrix: an option and "", or "" and an outcome; ("", "") holds all further options."""


def _matrix(
    asked: _Counted, entries: Sequence[_Entry], names: Mapping[str, str], left_out: Counter[str], folded: int
) -> MatrixBlock | None:
    """Count entries over the options of `names` (in order, with labels) and one row and column for the `folded`."""
    if not entries:
        return None
    found: dict[str, dict[Field, list[str]]] = {}
    for entry in entries:
        column = ("", entry.outcome) if entry.outcome else (entry.read if entry.read in names else "", "")
        row = found.setdefault(entry.key if entry.key in names else "", {})
        row.setdefault(column, []).append(entry.question)
    used = {column for row in found.values() for column in row}
    columns: list[Field] = [(option, "") for option in names]
    columns += [place for place in (("", ""), ("", NO_OPTION)) if place in used]
    columns += [("", outcome) for outcome in OUTCOMES if outcome in INVALID_OUTCOMES and ("", outcome) in used]
    rows, further = [option for option in (*names, "") if option in found], f"{folded:,} further"

    def link_of(option: str, place: Field | None = None) -> str:
        if not option or place in (("", ""), ("", NO_OPTION)):
            return ""
        terms = {asked.key: names[option]}
        if place is not None:
            terms |= {asked.read: names[place[0]]} if place[0] else {"outcome": place[1]}
        return asked.link(f"{query(terms)}{asked.more}")

    labels, fields = list[MatrixLabel](), list[MatrixCell]()
    for at, option in enumerate(rows):
        total = sum(map(len, found[option].values()))
        title = names[option] if option else further
        labels.append(MatrixLabel(title, link=link_of(option), note=counted(total, asked.unit)))
        for place, column in enumerate(columns):
            if not (questions := found[option].get(column)):
                continue
            is_right = bool(option) and column == (option, "")
            figure = Figure(len(questions), n=total, unit=asked.unit, percent=False, digits=0)
            step = math.ceil(LEVELS * len(questions) / total) if len(set(questions)) >= FEW else 0
            fields.append(MatrixCell(at, place, figure_cell(figure), step, link_of(option, column), is_right))
    notes = [
        f"{counted(len(entries), asked.unit)} with one correct option. Framed: correct. Shades: the share of a row."
    ]
    if left_out:
        notes.append(f"Left out, answers: {'; '.join(f'{count(number)} {why}' for why, number in left_out.items())}.")
    return MatrixBlock(
        f"Confused options, by {asked.by}",
        "correct",
        "read",
        labels,
        [MatrixLabel(names[option] if option else outcome or further) for option, outcome in columns],
        fields,
        tuple(notes),
    )


def positions(results: Sequence[Result], link: Linker) -> Table:
    """Return how often each shown position is offered, correct, chosen, and correct where it is chosen.

    Only scored choice questions count.
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
            found, is_chosen, is_correct = counts[letter], letter in chosen, letter in correct
            found[0] += 1
            found[1] += is_chosen
            found[2] += is_correct
            found[3] += is_chosen and is_correct
    order = sorted(counts, key=lambda letter: (places[letter], letter))
    unit, more = unit_of(results), _scored(unscored)
    rows, about = list[tuple[object, ...]](), list[About]()
    for letter in order[:MOST]:
        offered, picked, keyed, hits = counts[letter]
        shares = [
            Figure(number / of if of else None, n=of, unit=unit, count=number, units=min(of, len(asked[letter])))
            for number, of in ((picked, offered), (keyed, offered), (hits, picked))
        ]
        rows.append((letter, offered, *shares))
        links = {2: ("read", picked), 3: ("key", keyed)}
        about.append(About({at: link(query({field: letter}) + more) for at, (field, any_) in links.items() if any_}))
    columns = (
        *(*texts("position"), *numbers("offered")),
        *(Column(title, "figure") for title in ("chosen %", "correct %", "correct where chosen %")),
    )
    notes = ["Without a preference for positions, chosen and correct agree."]
    if further := len(order) - len(rows):
        notes.append(f"{counted(further, 'further positions')} not shown.")
    return Table("Preferred positions", columns, tuple(rows), tuple(notes), about=tuple(about))
