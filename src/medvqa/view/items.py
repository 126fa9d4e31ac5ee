"""Pages of a run's results, filtered and read from the file: a run of any size, and one that is still running."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from medvqa import metrics
from medvqa.items import OUTCOMES, TECHNIQUES, DataError, Result, UsageError, replace
from medvqa.protocols import rotation
from medvqa.protocols.question_forms import offered
from medvqa.records.run_folder import RESULTS
from medvqa.records.run_record import RunRecord
from medvqa.report.bundle.pictures import address, seen
from medvqa.view.run_index import IndexRow, RunIndex
from medvqa.view.shapes import ItemPage, ItemRow

Order = Literal["first", "latest"]
ORDERS: tuple[Order, ...] = get_args(Order)
CUT_OFF = "truncated"
"""Stands among the outcomes of a query for answers that were cut off at a token limit, whatever their outcome."""
MOST = 200
"""Rows of a page."""
LONGEST = 20_000
"""Characters of a response in a page."""
LONGEST_TEXT = 1000
"""Characters of a text that is searched."""
LONGEST_LINE = 2**22
"""Bytes of a line that is read for a page."""
LAST = "\U0010ffff"
"""Stands after all characters of ids."""
TRIES = 3
"""How often a page is read anew if its file is replaced meanwhile."""


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """Which results a page shows.

    `order`: `first` as keys first came, `latest` the last result first. `outcomes`: one of these, () for all. `id`:
    the whole id, or its begin before `*`. `text`: a part of question or response, in upper or lower case.
    """

    start: int = 0
    count: int = 50
    order: Order = "first"
    benchmark: str = ""
    technique: str = ""
    outcomes: tuple[str, ...] = ()
    id: str = ""
    text: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ItemQuery:
        """Read the parameters of an address; `outcome` may name several, with commas (UsageError)."""
        outcomes = tuple(filter(None, given.get("outcome", "").split(",")))
        for name, values, known in (
            ("outcome", outcomes, (*OUTCOMES, CUT_OFF)),
            ("technique", tuple(filter(None, [given.get("technique", "")])), TECHNIQUES),
        ):
            if wrong := [value for value in values if value not in known]:
                raise UsageError(f"{name}={wrong[0][:40]}: there are {', '.join(known)}")
        order = given.get("order") or "first"
        if order not in ORDERS:
            raise UsageError(f"order={order[:40]}: there are {', '.join(ORDERS)}")
        text = given.get("text", "")
        if len(text) > LONGEST_TEXT:
            raise UsageError(f"text: at most {LONGEST_TEXT:,} characters can be searched, and it has {len(text):,}")
        return cls(
            number(given, "start", 0, 2**53),
            number(given, "count", 50, MOST),
            "latest" if order == "latest" else "first",
            given.get("benchmark", ""),
            given.get("technique", ""),
            outcomes,
            given.get("id", ""),
            text,
        )


def number(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Return a parameter of an address (UsageError)."""
    value = given.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,16}", value) or int(value) > most:
        raise UsageError(f"{name}={value[:40]}: a whole number from 0 to {most:,} is expected")
    return int(value)


def page(index: RunIndex, query: ItemQuery) -> ItemPage:
    """Return a page of the results as they are now (DataError, OSError).

    Only `text` reads more of the file than the rows of the page. A result that is replaced meanwhile is left out, and
    comes with a later version.
    """
    for _ in range(TRIES):
        with index.lock:
            index.catch_up()
            if index.problem:
                raise DataError(index.problem)
            try:
                return _page(index, query)
            except FileNotFoundError:
                continue  # The file was replaced or removed since: read the new one.
    return ItemPage([], 0, 0, index.version)


def _page(index: RunIndex, query: ItemQuery) -> ItemPage:
    if query.text:
        index.search(query.text)
    where, values = _condition(query)
    order = "place desc" if query.order == "latest" else "row"
    rest = f"where {where} order by {order} limit ? offset ?"
    places = index.places(rest, [*values, query.count, query.start])
    results = index.results(place for place in places if place.length <= LONGEST_LINE)
    rows = [
        _unshown(place) if place.length > LONGEST_LINE else _row(place, next(results), index.run) for place in places
    ]
    matching, total = index.number(where, values), sum(count.number for count in index.counts())
    return ItemPage([row for row in rows if row is not None], matching, total, index.version)


def _condition(query: ItemQuery) -> tuple[str, list[str]]:
    """Return the condition of a query in SQL, and its values."""
    clauses, values = ["true"], list[str]()
    for column, value in (("benchmark", query.benchmark), ("technique", query.technique)):
        if value:
            clauses.append(f"{column} = ?")
            values.append(value)
    if query.outcomes:
        outcomes = [outcome for outcome in query.outcomes if outcome != CUT_OFF]
        cut_off = " or truncated" if CUT_OFF in query.outcomes else ""
        clauses.append(f"(outcome in ({', '.join('?' * len(outcomes))}){cut_off})")
        values += outcomes
    if query.id.endswith("*"):
        clauses.append("id >= ? and id < ?")
        values += [query.id[:-1], query.id[:-1] + LAST]
    elif query.id:
        clauses.append("id = ?")
        values.append(query.id)
    if query.text:
        clauses.append("place in (select place from found)")
    return " and ".join(clauses), values


def _row(place: IndexRow, result: Result | None, run: RunRecord) -> ItemRow | None:
    return None if result is None else item_row(place.row, result, run)


def _unshown(place: IndexRow) -> ItemRow:
    """Return the row of a result whose line is too long by far: it is named, and not read."""
    why = f"not shown: its line in {RESULTS} has {place.length:,} bytes"
    key = place.key
    return ItemRow(
        row=place.row,
        benchmark=key.benchmark,
        id=key.item,
        technique=key.technique,
        variant=key.variant,
        sample=key.sample,
        kind="",
        question="",
        options=[],
        answers=[],
        extracted=[],
        outcome=place.outcome,
        score=None,
        why=why,
        response="",
        cut=0,
        seconds=None,
        images=[],
    )


def item_row(row: int, result: Result, run: RunRecord) -> ItemRow:
    """Return a result for people: letters and options as the model saw them."""
    result = replace(result, item=offered(result.item, run.protocol.perturb))
    shown = rotation.result_shown(result)
    item, answer, score = shown.item, shown.answer, shown.score
    response = answer.text if answer is not None else ""
    seconds = answer.seconds if answer is not None else None
    return ItemRow(
        row=row,
        benchmark=item.benchmark,
        id=item.id,
        technique=shown.technique,
        variant=shown.variant,
        sample=shown.sample,
        kind=item.kind,
        question=item.question,
        options=list(item.options.items()),
        answers=list(item.answers),
        extracted=list(score.extracted),
        outcome=score.outcome,
        score=score.value if score.value is not None and math.isfinite(score.value) else None,
        why=score.why,
        response=response[:LONGEST],
        cut=max(len(response) - LONGEST, 0),
        seconds=seconds if seconds is not None and math.isfinite(seconds) else None,
        images=[address(image) for image in seen(item, run)],
        pair=item.pair_id or "",
        truncated=metrics.is_complete(result) is False,
    )
