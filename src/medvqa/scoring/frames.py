"""Phrases around a mention that make it an answer, a rejected option, or neither.

A frame is a pattern over marked-up text (`mentions.mark_up`) with a group at the mention. Every gap is bounded, so
that searching takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from medvqa.scoring.mentions import FIRM, TEXT, WEAK
from medvqa.scoring.text import SEAL
from medvqa.scoring.words import CJK, compiled, word_set


class Weight(IntEnum):
    """The strength of a mention as evidence; see the table in `extraction`."""

    NAMED = 0
    TEXT = 1
    CLAIM = 2
    LABEL = 3
    STATED = 4
    FINAL = 5


STATED = Weight.STATED


@dataclass(frozen=True, slots=True)
class PhrasePattern:
    """A frame: `weight` for a mention with a letter at the group of `pattern`, `text_weight` for one without.

    `explicit`: the answer is clear even if the response was cut off later.
    """

    name: str
    pattern: re.Pattern[str]
    weight: Weight
    text_weight: Weight
    explicit: bool


def _frame(
    name: str, pattern: str, weight: Weight, text_weight: Weight | None = None, *, explicit: bool = False
) -> PhrasePattern:
    text_weight = weight if text_weight is None else text_weight
    return PhrasePattern(name, compiled(pattern, re.I | re.M), weight, text_weight, explicit)


_MENTION = f"(?P<m>[{FIRM}{WEAK}{TEXT}])"
_FILLER = r"(?:[\s:,\-(\[{]|(?&particle)){0,6}"
# A line such as "B - most likely" ends before the next, except after a colon.
_LINE_FILLER = r"(?:[^\S\n]|(?<=[:\n])\n|[:,\-(\[{]|(?&particle)){0,6}"
# No answer follows "each option: A ..." (a discussion) or "the answer choices are ..." (a list).
_ANSWER = (
    r"(?<!each )(?<!every )(?<!any )(?<!other )(?<!another )(?<!possible )(?<!one )(?<!chaque )(?<!cada )(?<!ogni )"
    rf"(?&answer)(?! (?:choices|options|set|list)\b)[^.!?;\n{FIRM}{WEAK}{TEXT}{SEAL}]{{0,80}}?"
)
_IS = r"(?:[:=]|-{1,2}>|[→⇒]|\s-\s|(?<!could )(?<!might )(?<!may )\bbe\b|(?&is))"
# The phrase must end here: no verb after a letter, no further noun after a text ("normal lung").
_ENDS = (
    rf"(?:(?<=[{FIRM}{WEAK}])(?!\s+(?&verb))|(?<={TEXT})(?=\s*(?:$|[^\w\s]|[{CJK}]|"
    r"\b(?&after_text)\b)))"
)
# A bare capital is the subject of a verdict only at the start of a clause: not in "hepatitis C is likely".
_SUBJECT = (
    rf"(?:(?P<m>[{FIRM}{TEXT}])|(?:^|[.!?;:,(\n{SEAL}-]\s{{0,9}}|"
    rf"(?:(?&answer_noun)|\b(?&before_subject))\s)"
    rf"(?P<w>{WEAK}))(?:\s?\([^()\n]{{0,60}}\))?"
)


def _ticked(sign: str, word: str) -> str:
    """Match a mention after a sign at the head of a line, or before a sign or a word."""
    suffix = rf"[ ]?[:\-]?[ ]?\(?(?:{sign}|\b(?:{word})\s{{0,3}}(?:[.,;!)(}}|{FIRM}{WEAK}]|$))"
    return rf"^{sign}\s{{0,3}}{_MENTION}|(?P<w>[{FIRM}{WEAK}{TEXT}]){suffix}"


_VERDICT = rf"{_SUBJECT}(?:\s(?:(?&auxiliary)(?:\s(?&adverb)){{0,5}}\s"
_AFTER_CHOICE = rf"(?: that)?(?: (?&is)| it's)?{_FILLER}{_MENTION}{_ENDS}"
_NO_GUESS = r"(?<!might )(?<!could )(?<!may )(?<!(?<!i )(?<!we )(?<!ly )(?<=\w )would )"  # "many would choose A"

FRAMES = (
    _frame("given in answer form", SEAL + _FILLER + _MENTION, Weight.FINAL, explicit=True),
    _frame(
        "final answer",
        rf"(?&final_answer)[^.!?;\n{FIRM}{WEAK}{TEXT}{SEAL}]{{0,80}}?(?:{_IS}|\n){_FILLER}{_MENTION}",
        Weight.FINAL,
        explicit=True,
    ),
    _frame("verdict", rf"{_VERDICT}(?&decisive)|(?&fits_best))|\s?(?&is_good_abroad))", STATED, explicit=True),
    _frame("verdict", rf"{_VERDICT}(?&good)))", STATED),
    _frame("verdict", rf"{_VERDICT}preferred\b))", STATED, Weight.NAMED),
    _frame("presence", rf"{_VERDICT}(?:present\b|(?<=are )(?:visible|seen|shown)\b)))", STATED, Weight.CLAIM),
    _frame(
        "verdict",
        rf"(?:^|[.;]\s)(?:yes|present|selected|true|applicable)(?: \w+)?\s?:\s?{_MENTION}",
        STATED,
        Weight.CLAIM,
    ),
    _frame("verdict", _ticked("[✓✔✅☑➡👉]", "correct|true|yes|right|present"), STATED),
    _frame("answer", _ANSWER + _IS + _FILLER + _MENTION, STATED, explicit=True),
    _frame(
        "answer letter",
        rf"(?:^|[.;:!?,。]\s{{0,3}})(?:(?:the|my|die|la|le|a|el)\s)?(?&answer_noun)\s{{1,3}}"
        rf"(?P<m>[{FIRM}{WEAK}])(?=\s*(?:[.,;:!)\n]|$))",
        STATED,
        explicit=True,
    ),
    _frame(
        "verdict",
        rf"\bonly (?:option )?{_MENTION} (?:remains|is left|fits|matches|applies)\b",
        STATED,
        explicit=True,
    ),
    _frame("heading", rf"^.{{0,30}}\b(?:answer|conclusion)\s{{0,9}}\n{_MENTION}", STATED, explicit=True),
    _frame("choice", f"{_NO_GUESS}(?&choose){_AFTER_CHOICE}", STATED, explicit=True),
    _frame("choice", f"{_NO_GUESS}(?&believe){_AFTER_CHOICE}", STATED),
    _frame("conclusion", f"(?&consequence){_FILLER}{_MENTION}{_ENDS}", STATED, Weight.CLAIM, explicit=True),
    _frame(
        "conclusion",
        rf"(?:\A(?:only|both|just)\b|\b(?:no|yes|sure|ok|okay|wait|scratch that),|[→⇒]|[-=]{{1,2}}>|(?&conclusion))"
        rf"{_LINE_FILLER}{_MENTION}{_ENDS}",
        STATED,
        Weight.CLAIM,
    ),
    _frame("hedge", f"(?&hedge){_FILLER}{_MENTION}{_ENDS}", Weight.CLAIM),
    _frame("finding", rf"(?&finding){_FILLER}(?P<m>{TEXT}){_ENDS}", Weight.CLAIM),
    _frame(
        "number",
        rf"(?:\A|[.;]\s)(?P<m>{TEXT})\s[^\W\d_]{{3,}}\s(?:is|are)\s(?:visible|seen|present|shown)\b",
        Weight.CLAIM,
    ),
    _frame(
        "number",
        rf"\b(?:there (?:is|are)|count|see|shows?|contains?|has|number [^.\n{TEXT}]{{0,60}} is|only|total(?: of)?)"
        rf"(?: only| about| exactly)? (?P<m>{TEXT})(?=\s+(?!(?&unit)\b)[^\W\d_]{{3,}}|\s*(?:[.,;!]|$))",
        Weight.CLAIM,
    ),
)
"""Frames of answers. A verdict concerns one option, any other frame the whole answer."""

REJECTIONS = (
    compiled(
        rf"{_SUBJECT}(?:\s(?:(?&auxiliary)|(?&modal))(?:n't\b|"
        rf"\s(?:(?:(?&adverb)|be|been|quite|easily|highly|likely)\s){{0,5}}(?&bad))|"
        rf"\scannot\b|\scan't\b|\sit (?:is not|isn't)\b|\s?(?&is_bad_abroad))",
        re.I | re.M,
    ),
    compiled(_ticked("[✗✘❌✖×]", "incorrect|false|no|wrong|absent|not (?:present|seen|visible)"), re.I | re.M),
)
"""Frames that deny an option by the words after it; `negated` reads the words before it."""

_NEGATION = compiled(r"(?&negation)|n't\b", re.I)
_RELATION = compiled(r"(?&relation)(?:\s\w+){0,3}\s*$", re.I)
_NO_NEGATION = compiled("(?&no_negation)", re.I)
_TURN = r"[.;!?。\n]|(?&turn)"
_LETTER_TURN = compiled(f",|{_TURN}", re.I)
_TEXT_TURN = compiled(f"{_TURN}|,(?=[^,]*(?&clause))", re.I)


def negated(before: str, *, text: bool) -> bool:
    """Return whether the words before a mention, back to the last turn of the sentence, deny it.

    A comma is a turn before a letter, but not before a `text`: "no nevus, cyst or scar" denies all three.
    """
    turns = list((_TEXT_TURN if text else _LETTER_TURN).finditer(before))
    clause = before[turns[-1].end() :] if turns else before
    return _RELATION.search(clause) is not None or _NEGATION.search(_NO_NEGATION.sub("", clause)) is not None


_SENTENCE = compiled(r"(?<!\bvs)(?<!\bdr)(?<!\be\.g)(?<!\bi\.e)(?<!\bv\.a)(?<!\bz\.n)\.|[!?;。\n]", re.I)
_HEADING = compiled(r"^[^:]{1,40}:")
NO_FINDING = compiled("(?&no_finding)", re.I)
_LATER = compiled(
    r"(?:, now)?[^.!?;,。\n]{0,16}?(?&later)",
    re.I,
)
_RESTART = compiled(r",\s?(?=(?:this|it|there|here|the image|we|i)\b)", re.I)
ALTERNATIVE = compiled(r"\s+(?:or|oder|ou|или)\b", re.I)
_SHOWS = compiled("(?&shows)", re.I)
_SEEN = compiled(
    r"[^.!?;。\n]{0,24}?(?&seen)(?!\s+(?&beside)\b)",
    re.I,
)
_PLACE = compiled(r"(?&place)|\w+ing (?:the|an?|its)\b", re.I)
_CLAUSE = compiled("(?&turn)", re.I)
_MODIFIERS = compiled(rf"[\s:,\-(\[\"]*(?:[\w/'\-]+[\s,(]+){{0,6}}[^\W_{CJK}]*[{CJK}]{{0,12}}[\s(]*")
_NOUN_PHRASE = compiled(
    r"\s*(?:(?:the|an?|this|these|some|likely|probable|findings?:)\s+)?"
    r"(?:(?!(?:of|in|the|an?|is|are|was|were|has|have|this|that|and)\b)[\w/\-]+\s+){0,4}"
)
_SHOWN = compiled(
    rf"\s*(?:$|[^\w\s]|[{CJK}])|(?:\s+[\w\-]*[^\Ws])?(?:\s+[\w\-]+)?(?:\s*(?:$|[^\w\s])|\s+(?&after_noun))|"
    r"\s+(?:is|are|was|present|seen|noted|visible|mit|da|weil)\b",
    re.I,
)
_GOES_ON = compiled(r"\s+(?&verb)|(?:\s+[\w\-]+){1,2}\s+(?&supposing)", re.I)
_ENDS_PHRASE = compiled(
    r"\s*(?:$|[^\w\s])|(?:です|である|だ|입니다|이다|的?(?:影像|图像|表现|特征|征象)|の(?:所見|像|画像)|\s?소견)|"
    r"\s+[\w\-]+\s*(?:$|[.,;!)\n])|\s+(?&after_noun)|"
    r"\s+(?&after_finding)\b",
    re.I,
)


def _this_sentence(before: str) -> str:
    ends = list(_SENTENCE.finditer(before))
    return before[ends[-1].end() :] if ends else before


def elsewhere(before: str, after: str) -> bool:
    """Return whether the sentence around an option's text is about the past, a suspicion, a comparison or a rule."""
    if before.endswith("?"):
        return True  # "?pneumothorax"
    sentence = _this_sentence(before)
    turns = list(_CLAUSE.finditer(sentence))
    clause = sentence[turns[-1].end() :] if turns else sentence
    clause = _RESTART.split(clause)[-1]
    if ":" in clause and not _HEADING.match(clause):
        clause = clause[clause.rfind(":") + 1 :]
    return NO_FINDING.search(clause) is not None or _LATER.match(after) is not None


def is_place(phrase: str) -> bool:
    """Return whether a phrase is itself a relation, such as "to the left of"."""
    return _PLACE.match(phrase) is not None


def asserted(before: str, after: str) -> bool:
    """Return whether the sentence around an option's text asserts that the image shows it.

    True if the text is the whole sentence ("small pleural effusion on the left"), the object of a verb such as "shows",
    or the subject of "is seen". False if another thing lies beside it or comes from it.
    """
    if elsewhere(before, after):
        return False
    sentence = _this_sentence(before)
    seen = _SEEN.match(after) is not None
    if _GOES_ON.match(after) and not seen:
        return False
    shows = list(_SHOWS.finditer(sentence))
    if shows:
        between = sentence[shows[-1].end() :]
        if _MODIFIERS.fullmatch(between) and not _PLACE.search(between) and _SHOWN.match(after):
            return True
    phrase = re.split(r"[,:]", sentence)[-1]
    if seen:
        return not _PLACE.search(phrase)
    return bool(_NOUN_PHRASE.fullmatch(phrase) and not _PLACE.search(phrase) and _ENDS_PHRASE.match(after))


_NOT_MINE = compiled("(?&not_mine)", re.I)
_SAID_BY = compiled("(?&said_by)", re.I)
_MINE = compiled(r",\s?(?=(?:i|we|my)\b)", re.I)


def of_somebody_else(before: str, after: str) -> bool:
    """Return whether the sentence around a statement makes it that of somebody else, or of another question."""
    clause = _MINE.split(_CLAUSE.split(_this_sentence(before))[-1])[-1]
    return _NOT_MINE.search(clause) is not None or _SAID_BY.match(after) is not None


_OF_THE_IMAGE = compiled("(?&of_the_image)", re.I)
_STATE_OF = compiled(
    r"(?:^|[.,;:!?\n]|\b(?:and|but|while)\b)(?P<subject>[^.,;:!?\n]{1,60})"
    r"\s(?:is|are|was|were|appears?|looks?|remains?|seems?)(?: to be)?(?: \w+ly| also| otherwise)?\s*$",
    re.I,
)
_STATE_WITHIN = compiled(
    r"\s+in (?:size|shape|position|calib(?:er|re)|contour|appearance|width)\b"
    r"|(?P<noun>(?:\s+(?!(?&after_state)\b)[^\W\d]+){1,3})",
    re.I,
)


def state_weight(texts: Sequence[str], before: str, after: str) -> Weight:
    """Return the most that an option such as "normal" may weigh: a normal heart is not a normal image.

    `before` and `after` are the text around it. Alone, "The heart size is normal." is an answer.
    """
    if not all(text.strip().casefold() in word_set("states") for text in texts):
        return Weight.FINAL
    within = _STATE_WITHIN.match(after)
    if within and within["noun"] and not _OF_THE_IMAGE.search(within["noun"]):
        return Weight.NAMED
    if within and not within["noun"]:
        return Weight.NAMED
    of_a_part = _STATE_OF.search(before)
    if not of_a_part or _OF_THE_IMAGE.search(of_a_part["subject"]):
        return Weight.FINAL
    alone = of_a_part.start() == 0 and not after.strip(" .!\n")
    return Weight.TEXT if alone else Weight.NAMED


CUE = compiled("(?&cue)", re.I)
RETRACTION = compiled("(?&retraction)", re.I)
HYPOTHESIS = compiled("(?&hypothesis)", re.I)
ABSTENTION = compiled("(?&abstention)", re.I)
REFUSAL = compiled("(?&refusal)", re.I)
DISCUSSION = compiled(r"\s+(?&discussion)|[ \t]*[-:.)\]]{1,2}[ \t]+(?:[\w'\-]+[ \t]+){0,6}?(?&supposing)", re.I)
CONDITION = compiled(r",?\s+(?:if|unless|provided)\b", re.I)
WOULD_IF = compiled(r"\s+would\b[^.;!?\n]{0,80}?(?&hypothesis)", re.I)
WOULD = compiled(r"\s+would\b[^.;!?\n]*\Z", re.I)
LIST_NUMBER = compiled(r"[.)]\s+\w")
RANKING = compiled(r"\bleast likely\s?:", re.I)
PREDICATE = compiled(r"\s+(?&verb)", re.I)
RUN_ON = compiled(r"\n\s{0,9}(?:question|q|human|user|assistant|instruction)\s?\d{0,3}\s?:", re.I)
"""The start of a further dialogue that a base model invents."""
_WITHIN = rf"[^.:!?\n{FIRM}{WEAK}{TEXT}{SEAL}]"
ANNOUNCEMENT = compiled(
    rf"(?:(?&examine){_WITHIN}{{0,60}}?(?&options)(?! (?:is|are|was)\b)|(?&announces_abroad))"
    rf"(?:(?!,){_WITHIN}){{0,40}}?(?:[.:\n。]|$)",
    re.I,
)
"""Announces a walk through the options: "Let's analyze each option:"."""
EXPLANATION = compiled(r"\s*[.)]?\s*\n\s*(?:#+\s)?(?&explanation)\b", re.I)
"""Follows a complete answer."""
UNDECIDED = compiled(r"\s*(?:[,/&+-]\s*)*(?:(?&undecided)|[/&+、和与與及或と]|$)", re.I)
"""Continues an answer in a way that may change it."""
HEADING = compiled(r"^(?P<heading>[^\n]{1,160}):[ \t]*$", re.M)
DENIES = compiled(r"(?&negation)|(?&bad)|\bother\b", re.I)
