"""Score the answers that need no judge, by a rule that is certain (`--rules-first`)."""

from __future__ import annotations

import re
import unicodedata

from medvqa.items import Item, Score
from medvqa.printing import clipped
from medvqa.scoring import normalise, plain, without_reasoning

_YES = ("yes", "true", "correct", "是", "是的", "对", "正确")
_NO = ("no", "false", "incorrect", "not true", "not correct", "否", "不是", "不对", "错误", "不正确")
_SIDES = {normalise(word): side for side, words in enumerate((_NO, _YES)) for word in words}
"""Synonyms of yes and no, without "right" and "wrong": right is also a side of the body."""

_SIGNS = frozenset(".,;:!'\"()[]*_`-<>=+%±≤≥。、")
"""Signs that normalisation drops without loss, or keeps as words. Others, as in "red?" or "~5 cm", may matter."""
_NUMBER = re.compile(r"\d+(?:[^\w\s]+\d+)*")


def decide(item: Item, response: str) -> Score | None:
    """Return a certain score, None if the answer needs a judge.

    A judgment or blank scores 1 if the response equals the reference in words and numbers. A judgment scores 0 if it is
    the opposite of the reference. An answer in a sentence, in other words, or close to the reference needs a judge.
    """
    if item.kind not in ("judgment", "fill_in_the_blank"):
        return None
    normal = _normal_form(without_reasoning(response))
    references = [_normal_form(reference) for reference in item.answers]
    if normal is None or None in references:
        return None
    reading = (normal[0],)
    why = f"said {clipped(response)}, by rule"
    if normal in references:
        return Score(1.0, "correct", reading, why)
    if item.kind == "judgment" and normal[0] in _SIDES:
        sides = {_SIDES.get(reference[0]) for reference in references if reference}
        if sides == {_SIDES[normal[0]]}:
            return Score(1.0, "correct", reading, why)
        if sides == {1 - _SIDES[normal[0]]}:
            return Score(0.0, "wrong", reading, f"{why}; correct is {clipped(' or '.join(item.answers))}")
    return None


def _normal_form(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return a text's normal form and its numbers as written; None if normalisation may lose information."""
    if any(unicodedata.decomposition(char).startswith(("<super", "<sub", "<fraction")) for char in text):
        return None
    simple = plain(text)
    if any(not (char.isalnum() or char.isspace() or char in _SIGNS) for char in simple):
        return None
    words = normalise(text)
    return (words, tuple(_NUMBER.findall(simple))) if words else None
