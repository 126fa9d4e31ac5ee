"""The phrases around a mention that say what it is: an answer, a rejected option, or neither.

A frame is a pattern over marked-up text (`mentions.mark_up`) with a group at the mention it speaks of. Every
gap in it is bounded, so that searching takes time linear in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from medvqa.scoring import words
from medvqa.scoring.mentions import FIRM, TEXT, WEAK
from medvqa.scoring.text import CJK, SEAL


class Weight(IntEnum):
    """How much a mention says; see the table in `extraction`."""

    NAMED = 0
    TEXT = 1
    CLAIM = 2
    LABEL = 3
    STATED = 4
    FINAL = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """`pattern` gives the mention at its group `weight`, and `text_weight` to one without a letter."""

    name: str
    pattern: re.Pattern[str]
    weight: Weight
    text_weight: Weight


def _frame(name: str, pattern: str, weight: Weight, text_weight: Weight | None = None) -> Frame:
    compiled = re.compile(pattern, re.I | re.M)
    return Frame(name, compiled, weight, weight if text_weight is None else text_weight)


_MENTION = f"(?P<m>[{FIRM}{WEAK}{TEXT}])"
_FILLER = rf"(?:[\s:,\-(\[{{]|{words.PARTICLE}){{0,6}}"
# "each option: A ..." opens a discussion, "the answer choices are ..." a list.
_ANSWER = (
    r"(?<!each )(?<!every )(?<!any )(?<!other )(?<!another )"
    rf"{words.ANSWER}(?! (?:choices|options|set|list)\b)[^.!?;\n{FIRM}{WEAK}{TEXT}{SEAL}]{{0,80}}?"
)
_IS = rf"(?:[:=]|-{{1,2}}>|[→⇒]|\s-\s|(?<!could )(?<!might )(?<!may )\bbe\b|{words.IS})"
# What makes a letter a subject or lets an option's text go on ("normal lung") does not end with the mention.
_ENDS = (
    rf"(?:(?<=[{FIRM}{WEAK}])(?!\s+{words.VERB})|(?<={TEXT})(?=\s*(?:$|[^\w\s]|[{CJK}]|"
    r"\b(?:because|since|as|due|given|based|for|with|in|on|which|where|that|and|but|not|rather)\b)))"
)
# A bare capital is the subject of a verdict only where a clause begins: not in "hepatitis C is likely".
_SUBJECT = (
    rf"(?:(?P<m>[{FIRM}{TEXT}])|(?:^|[.!?;:,(\n{SEAL}-]\s{{0,9}}|"
    r"\b(?:answer|so|and|but|that|think|believe|thus|therefore|because|since|only|both|then|hence|while|whereas|although|however|though|yet|is)\s)"
    rf"(?P<w>{WEAK}))(?:\s?\([^()\n]{{0,60}}\))?"
)


def _ticked(sign: str, word: str) -> str:
    """A mention with a sign before it at the head of a line, or with a sign or a word behind it."""
    behind = rf"[ ]?[:\-]?[ ]?(?:{sign}|\b(?:{word})\s{{0,3}}(?:[.,;!)]|$))"
    return rf"^{sign}\s{{0,3}}{_MENTION}|(?P<w>[{FIRM}{WEAK}{TEXT}]){behind}"


FRAMES = (
    _frame("given in answer form", SEAL + _FILLER + _MENTION, Weight.FINAL),
    _frame(
        "final answer",
        rf"{words.FINAL_ANSWER}[^.!?;\n{FIRM}{WEAK}{TEXT}{SEAL}]{{0,80}}?(?:{_IS}|\n){_FILLER}{_MENTION}",
        Weight.FINAL,
    ),
    _frame(
        "verdict",
        rf"{_SUBJECT}(?:\s(?:{words.AUXILIARY}(?:\s{words.ADVERB}){{0,5}}\s{words.GOOD}|{words.FITS_BEST})|"
        rf"{words.IS_GOOD_ABROAD})",
        Weight.STATED,
    ),
    _frame("verdict", _ticked("[✓✔✅☑➡👉]", "correct|true|yes|right"), Weight.STATED),
    _frame("answer", _ANSWER + _IS + _FILLER + _MENTION, Weight.STATED),
    _frame("heading", rf"^.{{0,30}}\banswer\s{{0,9}}\n{_MENTION}", Weight.STATED),
    _frame("choice", rf"{words.CHOOSE}(?: that)?(?: {words.IS}| it's)?{_FILLER}{_MENTION}{_ENDS}", Weight.STATED),
    _frame(
        "conclusion",
        rf"(?:\A(?:only|both|just)\b|\b(?:no|yes|sure|ok|okay|wait|scratch that),|[→⇒]|[-=]{{1,2}}>|{words.CONCLUSION})"
        rf"{_FILLER}{_MENTION}{_ENDS}",
        Weight.STATED,
        Weight.CLAIM,
    ),
    _frame("hedge", words.HEDGE + _FILLER + _MENTION + _ENDS, Weight.CLAIM),
    _frame("finding", rf"{words.FINDING}{_FILLER}(?P<m>{TEXT}){_ENDS}", Weight.CLAIM),
)
"""Frames of answers. A verdict speaks of one option at a time, the others of the whole answer."""

REJECTIONS = (
    re.compile(
        rf"{_SUBJECT}(?:\s(?:{words.AUXILIARY}|{words.MODAL})(?:n't\b|"
        rf"\s(?:(?:{words.ADVERB}|be|been|quite|easily|highly|likely)\s){{0,5}}{words.BAD})|"
        rf"\scannot\b|\scan't\b|{words.IS_BAD_ABROAD})",
        re.I | re.M,
    ),
    re.compile(_ticked("[✗✘❌✖×]", "incorrect|false|no|wrong"), re.I | re.M),
)
"""Frames that deny an option by what follows it; for what stands before it see `negated`."""

_NEGATION = re.compile(rf"{words.NEGATION}|n't\b", re.I)
_RELATION = re.compile(rf"{words.RELATION}(?:\s\w+){{0,3}}\s*$", re.I)
_NO_NEGATION = re.compile(words.NO_NEGATION, re.I)
_TURN = rf"[.;!?。；！？\n]|{words.TURN}"
_LETTER_TURN = re.compile(f"[,，]|{_TURN}", re.I)
_TEXT_TURN = re.compile(f"{_TURN}|[,，](?=[^,]*{words.CLAUSE})", re.I)


def negated(before: str, *, text: bool) -> bool:
    """Whether the words before a mention deny it, back to where the sentence last turned.

    A comma is a turn before a letter, but "no nevus, cyst or scar" denies all `text` of its list.
    """
    turns = list((_TEXT_TURN if text else _LETTER_TURN).finditer(before))
    clause = before[turns[-1].end() :] if turns else before
    return _RELATION.search(clause) is not None or _NEGATION.search(_NO_NEGATION.sub("", clause)) is not None


CUE = re.compile(words.CUE, re.I)
RETRACTION = re.compile(words.RETRACTION, re.I)
HYPOTHESIS = re.compile(words.HYPOTHESIS, re.I)
ABSTENTION = re.compile(words.ABSTENTION, re.I)
REFUSAL = re.compile(words.REFUSAL, re.I)
DISCUSSION = re.compile(rf"\s+{words.DISCUSSION}", re.I)
CONDITION = re.compile(r",?\s+(?:if|unless|provided)\b", re.I)
PREDICATE = re.compile(rf"\s+{words.VERB}", re.I)
RUN_ON = re.compile(r"\n\s{0,9}(?:question|q|human|user|assistant|instruction)\s?\d{0,3}\s?:", re.I)
"""Where a base model goes on with a dialogue of its own."""
