"""Score closed questions: yes or no, Chinese yes or no by its verb, or one of two things in the question.

No rule searches for a substring: "no" is not read in "abnormal", "know" or "not", nor 包含 in 不包含.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from medvqa.items import Answer, Item, Score
from medvqa.printing import clipped
from medvqa.scoring.choices import cut_off, reading_of, right_or_wrong
from medvqa.scoring.clauses import read_clause
from medvqa.scoring.extraction import Reading, read_term
from medvqa.scoring.open_answers import normalise, score_closed_vocabulary
from medvqa.scoring.overlap import answered
from medvqa.scoring.text import plain

YES_OR_NO: Mapping[str, tuple[str, ...]] = {"yes": ("true",), "no": ("false",)}
"""The answers to a yes-or-no question, and another way to write each."""

CHINESE: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "是": (frozenset({"是", "是的", "对", "对的", "yes"}), frozenset({"不是", "不是的", "否", "不", "不对", "no"})),
    "有": (frozenset({"有", "有的"}), frozenset({"没有", "没", "无"})),
    "包含": (frozenset({"包含"}), frozenset({"不包含"})),
    "存在": (frozenset({"存在"}), frozenset({"不存在"})),
    "可以": (frozenset({"可以"}), frozenset({"不可以"})),
    "能": (frozenset({"能", "能够"}), frozenset({"不能", "不能够"})),
    "会": (frozenset({"会"}), frozenset({"不会"})),
    "属于": (frozenset({"属于"}), frozenset({"不属于"})),
    "正常": (frozenset({"正常"}), frozenset({"不正常", "异常"})),
    "健康": (frozenset({"健康"}), frozenset({"不健康"})),
}
"""The two answers to a Chinese question, by its verb or predicate: Chinese repeats them to say yes and no."""

GENERAL = "是"
"""The verb whose answers fit questions with other verbs too."""
PREDICATES = frozenset({"正常", "健康"})
"""Predicates that a question may also deny. 是的 ("it is so") does not tell whether it is normal."""


def score_closed(item: Item, answer: Answer) -> Score:
    """Return 1 if the answer is one of `item.answers`, else 0.

    - The key is yes or no: the answer must say one of them as a whole word (`score_closed_vocabulary`).
    - The key is a Chinese yes or no (`CHINESE`): one of the two answers with the key's verb must fill a clause of the
      answer, as in "是的，有积液". 是的 and 不是 answer other verbs too, but no predicate such as 正常 (normal).
    - Any other key, such as one of two things in the question: the whole answer must equal it, normalised.

    An answer that says neither, or that was cut off, is `unparsed` (or refused, abstained) with value 0. Without a key
    it is `unscored`.
    """
    if not item.answers:
        return Score(None, "unscored", (), "no answer key")
    if all(map(is_yes_or_no, item.answers)):
        return score_closed_vocabulary(item, answer, YES_OR_NO)
    sides = [side_of(key) for key in item.answers]
    if None not in sides:
        verbs = {side[0] for side in sides if side is not None}
        return _scored(item, answer, {_word(side[1]) for side in sides if side}, lambda text: _read_side(text, verbs))
    keys = {normalise(key) for key in item.answers}
    return _scored(item, answer, keys, lambda text: _read_whole(text, keys))


def is_yes_or_no(key: str) -> bool:
    """Return whether a key says yes or no in English, and nothing else."""
    return normalise(key) in YES_OR_NO


def side_of(text: str) -> tuple[str, bool] | None:
    """Return the verb of a Chinese yes or no, and whether it says yes; None for any other text.

    >>> side_of("不包含"), side_of("异常"), side_of("肝脏")
    (('包含', False), ('正常', False), None)
    """
    word = plain(text).strip().casefold()
    return next(((verb, word in yes) for verb, (yes, no) in CHINESE.items() if word in yes or word in no), None)


def _scored(item: Item, answer: Answer, keys: Collection[str], read: Callable[[str], Reading]) -> Score:
    reading = reading_of(answer, read)
    if reading.status == "read" and cut_off(answer):
        reading = Reading((), "unparsed", f"the answer was cut off: {reading.why}")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    return right_or_wrong(item, reading.letters[0] in keys, reading.letters, reading.why)


def _read_side(text: str, verbs: Collection[str]) -> Reading:
    """Read yes or no from a Chinese answer, of which one of the two answers must fill a clause."""
    fitting = {*verbs, *([] if PREDICATES.intersection(verbs) else [GENERAL])}
    both = [sorted(word for verb in fitting for word in CHINESE[verb][side]) for side in (0, 1)]
    reading = read_clause(text, {words[0]: words for words in both})
    if reading is None:
        return read_term(text, {})
    return replace(reading, letters=(_word(reading.letters[0] == both[0][0]),))


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


def _read_whole(text: str, keys: Collection[str]) -> Reading:
    """Take the whole answer, normalised, unless it is empty or refuses. A key never refuses."""
    words = normalise(answered(text))
    if words not in keys:
        refused = read_term(text, {})
        if not words or refused.status != "unparsed":
            return refused
    return Reading((clipped(words, 200),), "read", f"said {clipped(words)}")
