"""Columns that only the explorer reads: verdicts of pairs, and marks."""

from __future__ import annotations

from medvqa import metrics
from medvqa.items import Result

BOTH_RIGHT, CONFUSED, ONE_RIGHT, NEITHER_RIGHT, INVALID, INCOMPLETE = (1 << bit for bit in range(6))
"""Bits of the column `results.verdict`; 0 for a question without a pair. web/src/rows.ts names them."""
TRUNCATED, JUDGED = 1, 2
"""Bits of the column `results.marks`."""


class Verdicts:
    """The verdict on each result's pair by MediConfusion's definitions: `set_accuracy` and `confusion`.

    A pair has an answer to each of its two questions, by the same run, technique, variant and sample. A confused pair
    got the same answer twice; it has a second bit if both answers are right.
    """

    def __init__(self) -> None:
        """No result has come."""
        self.bits = bytearray()
        """The verdict of each result that came, if none belongs to its pair any more."""
        self._pairs: dict[tuple[object, ...], list[int]] = {}
        self._waiting: dict[tuple[object, ...], Result] = {}

    def add(self, run: int, result: Result) -> None:
        """Take the next result; `run` is the place of its run."""
        if result.item.pair_id is None:
            self.bits.append(0)
            return
        key = (run, result.item.benchmark, result.item.pair_id, result.technique, result.variant, result.sample)
        places = self._pairs.setdefault(key, [])
        places.append(len(self.bits))
        self.bits.append(INCOMPLETE)
        first = self._waiting.pop(key, None)
        if len(places) == 1:
            self._waiting[key] = result
            return
        # More than two answers are no pair.
        verdict = _verdict(result, first) if first is not None else INCOMPLETE
        for place in places:
            self.bits[place] = verdict


def _verdict(*answers: Result) -> int:
    pair = sorted(answers, key=lambda result: result.item.id)
    right, scored = metrics.set_accuracy.terms(pair)
    if not scored:
        return INCOMPLETE
    same, valid = metrics.confusion.terms(pair)
    if not valid:
        return INVALID
    if same or right:
        return (CONFUSED if same else 0) | (BOTH_RIGHT if right else 0)
    return ONE_RIGHT if any(result.score.outcome == "correct" for result in pair) else NEITHER_RIGHT


def marks(result: Result) -> int:
    """Return whether an answer was truncated or judged, as bits."""
    truncated = TRUNCATED if metrics.is_complete(result) is False else 0
    return truncated | (JUDGED if result.judgement is not None else 0)
