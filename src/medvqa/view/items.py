"""Pages of a run's results, filtered and read from the file: a run of any size, and one that is still running."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from medvqa import metrics
from medvqa.items import OUTCOMES, TECHNIQUES, DataError, Result, UsageError
from medvqa.protocols import rotation
from medvqa.records.run_folder import RESULTS
from medvqa.report.bundle.pictures import address
from medvqa.view.following import Follower
from medvqa.view.shapes import ItemPage, ItemRow
from medvqa.view.snapshot import SEPARATOR, TRUNCATED, Snapshot

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
            _number(given, "start", 0, 2**53),
            _number(given, "count", 50, MOST),
            "latest" if order == "latest" else "first",
            given.get("benchmark", ""),
            given.get("technique", ""),
            outcomes,
            given.get("id", ""),
            text,
        )


def _number(given: Mapping[str, str], name: str, default: int, most: int) -> int:
    value = given.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,16}", value) or int(value) > most:
        raise UsageError(f"{name}={value[:40]}: a whole number from 0 to {most:,} is expected")
    return int(value)


def page(follower: Follower, query: ItemQuery) -> ItemPage:
    """Return a page of the results as they are now (DataError, OSError).

    Only `text` reads more of the file than the rows of the page. It is searched for a short time at once:
    `unsearched` is then not 0, and the same query goes on. A result that is replaced meanwhile is left out, and comes
    with a later version.
    """
    for left in reversed(range(TRIES)):
        follower.catch_up()
        if follower.problem:
            raise DataError(follower.problem)
        snapshot = follower.snapshot()
        try:
            return _page(follower, snapshot, query)
        except FileNotFoundError:
            # The file was replaced or removed since: read the new one.
            if not left:
                break
    return ItemPage([], 0, 0, follower.version)


def _page(follower: Follower, snapshot: Snapshot, query: ItemQuery) -> ItemPage:
    rows, unsearched = _matching(follower, snapshot, query)
    if query.order == "latest":
        rows = rows[np.argsort(snapshot.offsets[rows], kind="stable")[::-1]]
    shown = rows[query.start : query.start + query.count].tolist()
    return ItemPage(
        list(_rows(snapshot, shown)),
        len(rows),
        len(snapshot),
        snapshot.version,
        unsearched,
    )


def _rows(snapshot: Snapshot, rows: Sequence[int]) -> Iterator[ItemRow]:
    """Yield the rows of a page; a line that is too long by far is named, and not read."""
    short = [row for row in rows if snapshot.lengths[row] <= LONGEST_LINE]
    results = snapshot.results(short)
    for row in rows:
        if snapshot.lengths[row] > LONGEST_LINE:
            yield _unshown(snapshot, row)
        elif (result := next(results)) is not None:
            yield item_row(row, result)


def _unshown(snapshot: Snapshot, row: int) -> ItemRow:
    why = f"not shown: its line in {RESULTS} has {int(snapshot.lengths[row]):,} bytes"
    benchmark = snapshot.benchmark_names[int(snapshot.benchmarks[row])]
    outcome, technique = OUTCOMES[int(snapshot.outcomes[row])], TECHNIQUES[int(snapshot.techniques[row])]
    return ItemRow(
        row=row,
        benchmark=benchmark,
        id=snapshot.id_of(row),
        technique=technique,
        variant="",
        sample=0,
        kind="",
        question="",
        options=[],
        answers=[],
        extracted=[],
        outcome=outcome,
        score=None,
        why=why,
        response="",
        cut=0,
        seconds=None,
        images=[],
    )


def _matching(follower: Follower, snapshot: Snapshot, query: ItemQuery) -> tuple[NDArray[np.intp], int]:
    """Return the rows that match, in the order of their keys, and the number of bytes where more may be found."""
    chosen, unsearched = np.ones(len(snapshot), bool), 0
    if query.benchmark:
        names = snapshot.benchmark_names
        code = names.index(query.benchmark) if query.benchmark in names else -1
        chosen &= snapshot.benchmarks == code if code >= 0 else False
    if query.technique:
        chosen &= snapshot.techniques == _place(TECHNIQUES, query.technique)
    if query.outcomes:
        codes = [_place(OUTCOMES, outcome) for outcome in query.outcomes if outcome != CUT_OFF]
        wanted = np.isin(snapshot.outcomes, codes)
        if CUT_OFF in query.outcomes:
            wanted |= (snapshot.marks & TRUNCATED) != 0
        chosen &= wanted
    if query.id:
        named = np.zeros(len(snapshot), bool)
        named[_rows_named(snapshot, query.id)] = True
        chosen &= named
    if query.text:
        offsets, unsearched = follower.searches.of(query.text, snapshot).go_on(snapshot)
        chosen &= np.isin(snapshot.offsets, offsets)
    return np.flatnonzero(chosen), unsearched


def _place(names: tuple[str, ...], name: str) -> int:
    return names.index(name)


def _rows_named(snapshot: Snapshot, name: str) -> NDArray[np.intp]:
    """Return the rows with an id, or with ids that begin with the part before `*`."""
    wanted = SEPARATOR + name.removesuffix("*").encode("utf-8", "surrogatepass")
    ids = snapshot.ids
    if not name.endswith("*"):
        wanted, ids = wanted + SEPARATOR, ids + SEPARATOR
    places, place = [], ids.find(wanted)
    while place >= 0:
        places.append(place)
        place = ids.find(wanted, place + 1)
    return np.searchsorted(snapshot.starts, np.array(places, np.uint64))


def item_row(row: int, result: Result) -> ItemRow:
    """Return a result for people: letters and options as the model saw them."""
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
        images=[address(image) for image in item.images],
        pair=item.pair_id or "",
        truncated=metrics.is_complete(result) is False,
    )
