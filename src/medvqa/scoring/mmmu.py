"""MMMU's published rules for choices and for open answers, without the random choice where nothing is read.

Source: `parse_multi_choice_response`, `parse_open_response` and `eval_open` in mmmu/utils/eval_utils.py of
https://github.com/MMMU-Benchmark/MMMU/tree/bb0b95a945998d91dfef37e969e07d49d1139438. Where no option is read, the
owners draw one (seed 42); here the answer is `unparsed`. So a count of ours is theirs without the drawn hits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from medvqa.items import Answer, Item, Score
from medvqa.scoring.choices import clipped, reading_of
from medvqa.scoring.extraction import Reading
from medvqa.scoring.open_answers import normalise
from medvqa.scoring.text import SEAL, visible

_ENDS = ",.!?;:'"
_WORDS = 5
"""An option's text is searched only in answers of more words."""
_LEADS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
"""A key phrase follows one of these; in the last line also an equals sign."""
_TRIVIAL = frozenset(":,.!?;'")
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)
_PLAIN_NUMBER = re.compile(r"-?(?:\d{1,100}(?:[.,]\d{1,100}){0,9}|\.\d{1,100})")
_TOO_LONG = re.compile(r"[\d.,]{200}")
"""No number is so long, and the expressions above take quadratic time in its length."""


def mmmu_rule(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
    """Read `response` by the owners' rule for multiple choice; `multiple` changes nothing.

    Letters in brackets count, such as "(B)"; else letters between blanks, "A patient" included; else, in answers of
    more than five words, options whose text occurs anywhere ("abnormal" holds "normal"). The last occurrence decides.
    """
    text = response
    for character in _ENDS:
        text = text.strip(character)
    text = f" {text} "
    lowered = text.lower()
    long = len(text.split()) > _WORDS
    for kind, searched, forms in (
        ("letter in brackets", text, {letter: f"({letter})" for letter in options}),
        ("letter", text, {letter: f" {letter} " for letter in options}),
        ("text", lowered, {letter: option.lower() for letter, option in options.items()} if long else {}),
    ):
        places = {letter: at for letter, form in forms.items() if (at := searched.rfind(form)) >= 0}
        if places:
            chosen = max(places, key=places.__getitem__)
            return Reading((chosen,), "read", f"MMMU's rule: {kind} {chosen}")
    return Reading((), "unparsed", "MMMU's rule: no letter or text; the owners draw an option")


def score_mmmu_open(item: Item, answer: Answer) -> Score:
    """Return 1 if a key phrase of the answer contains a reference, or a number in it equals one to two digits.

    References and phrases are compared in lower case, numbers without thousands separators. A reference of one
    character counts only beside a blank.
    """
    reading = reading_of(answer, _read)
    if not item.answers:
        return Score(None, "unscored", (), "no answer key")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    wanted = [value for reference in item.answers for value in _values(reference)]
    said = [value for phrase in reading.letters for value in _values(phrase)]
    phrases = [value for value in said if isinstance(value, str)]
    numbers = {value for value in said if isinstance(value, float)}
    right = any(
        value in numbers if isinstance(value, float) else any(value in phrase for phrase in phrases) for value in wanted
    )
    shown = " | ".join(reading.letters)
    if right:
        return Score(1.0, "correct", (clipped(shown),), f"MMMU's rule: {clipped(shown)}")
    why = f"MMMU's rule: {clipped(shown)}, correct is {clipped(' or '.join(item.answers))}"
    return Score(0.0, "wrong", (clipped(shown),), why)


def _read(response: str) -> Reading:
    """The key phrases of a response, and the numbers in them, in place of letters."""
    if not response.strip():
        return Reading((), "unparsed", "the response is empty")
    if _TOO_LONG.search(response):
        return Reading((), "unparsed", "a number of more than 200 digits")
    phrases = _phrases(response.strip().strip(".").lower())
    numbers = [number for phrase in phrases for pattern in _NUMBERS for number in pattern.findall(phrase)]
    return Reading(tuple(dict.fromkeys([*phrases, *numbers])), "read", "")


def _phrases(text: str) -> list[str]:
    """The shortest text after a lead of each line that has one; else the whole text."""
    lines = text.split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        leads = (*_LEADS, "=") if number == len(lines) else _LEADS
        shortest = ""
        for lead in leads:
            if lead in line:
                rest = line.rpartition(lead)[2].strip()
                shortest = rest if not shortest or len(rest) < len(shortest) else shortest
        if shortest and shortest not in _TRIVIAL:
            found.append(shortest)
    return found or [text]


def _values(text: str) -> list[str | float]:
    """A number rounded to two digits, else the text in lower case; one character needs a blank beside it."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lowered = text.lower()
        return [f" {lowered}", f"{lowered} "] if len(lowered) == 1 else [lowered]


def score_short_answer(item: Item, answer: Answer) -> Score:
    """Return 1 if the whole answer is a reference, normalised, or its one number equals one to two digits; else 0.

    This is our rule: a reference inside of a longer text does not count ("not aspirin").
    """
    reading = reading_of(answer, _answered)
    if not item.answers:
        return Score(None, "unscored", reading.letters, "no answer key")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    [said] = reading.letters
    numbers = {number for found in _PLAIN_NUMBER.findall(said) for number in _values(found)}
    for reference in item.answers:
        wanted = _values(reference)
        if normalise(said) == normalise(reference) or (len(numbers) == 1 and wanted == list(numbers)):
            return Score(1.0, "correct", (clipped(said),), f"said {clipped(said)}")
    why = f"said {clipped(said)}, correct is {clipped(' or '.join(item.answers))}"
    return Score(0.0, "wrong", (clipped(said),), why)


def _answered(response: str) -> Reading:
    """The text of a response without reasoning and markup, in place of letters; the last sealed answer if any."""
    shown = visible(response)
    if SEAL in shown:
        shown = shown.rpartition(SEAL)[2].partition("\n")[0].strip()
    return Reading((shown,), "read", "") if shown else Reading((), "unparsed", "the response is empty")
