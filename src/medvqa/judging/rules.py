"""What a rule can be certain of, so that no judge is needed (`--rules-first`)."""

from __future__ import annotations

import re
import unicodedata

from medvqa.items import Item, Score
from medvqa.scoring import clipped, normalise, plain, without_reasoning

_YES = ("yes", "true", "correct", "是", "是的", "对", "正确")
_NO = ("no", "false", "incorrect", "not true", "not correct", "否", "不是", "不对", "错误", "不正确")
_SIDES = {normalise(word): side for side, words in enumerate((_NO, _YES)) for word in words}
"""A judgment in other words. "Right" and "wrong" are none: right is a side of the body, too."""

_SIGNS = frozenset(".,;:!'\"()[]*_`-<>=+%±≤≥。、")
"""Signs that normalisation drops without loss, or keeps as words. With any other, "red?" or "~5 cm", it may lose what
matters."""
_NUMBER = re.compile(r"\d+(?:[^\w\s]+\d+)*")


def decide(item: Item, response: str) -> Score | None:
    """The score that a rule is certain of, None for all else.

    Judgments and blanks are decided: 1 where the response is the reference, in the same words and numbers; 0 where a
    judgment is the opposite of the reference. An answer in a sentence, in other words, or close to the reference is for
    the judge.
    """
    if item.kind not in ("judgment", "fill_in_the_blank"):
        return None
    said = _certain(without_reasoning(response))
    references = [_certain(reference) for reference in item.answers]
    if said is None or None in references:
        return None
    reading = (said[0],)
    why = f"said {clipped(response)}, by rule"
    if said in references:
        return Score(1.0, "correct", reading, why)
    if item.kind == "judgment" and said[0] in _SIDES:
        sides = {_SIDES.get(reference[0]) for reference in references if reference}
        if sides == {_SIDES[said[0]]}:
            return Score(1.0, "correct", reading, why)
        if sides == {1 - _SIDES[said[0]]}:
            return Score(0.0, "wrong", reading, f"{why}; correct is {clipped(' or '.join(item.answers))}")
    return None


def _certain(text: str) -> tuple[str, tuple[str, ...]] | None:
    """A text's normal form and its numbers as they are written; None where normalisation may lose something."""
    if any(unicodedata.decomposition(char).startswith(("<super", "<sub", "<fraction")) for char in text):
        return None
    simple = plain(text)
    if any(not (char.isalnum() or char.isspace() or char in _SIGNS) for char in simple):
        return None
    words = normalise(text)
    return (words, tuple(_NUMBER.findall(simple))) if words else None
