"""Score short answers, texts or numbers, of which the whole must be right."""

from __future__ import annotations

import re

from medvqa.items import Answer, Item, Score
from medvqa.printing import clipped
from medvqa.scoring.choices import reading_of, right_or_wrong
from medvqa.scoring.extraction import Reading
from medvqa.scoring.open_answers import normalise
from medvqa.scoring.overlap import answered

_NUMBER = re.compile(r"-?(?:\d{1,100}(?:[.,]\d{1,100}){0,9}|\.\d{1,100})")


def score_short_answer(item: Item, answer: Answer) -> Score:
    """Return 1 if the whole answer is a reference, normalised, or its one number equals one to two digits; else 0.

    A reference inside of a longer text does not count ("not aspirin").
    """
    reading = reading_of(answer, _read)
    if not item.answers:
        return Score(None, "unscored", reading.letters, "no answer key")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    [said] = reading.letters
    numbers = {value_of(found) for found in _NUMBER.findall(said)}
    right = any(normalise(said) == normalise(key) or numbers == {value_of(key)} for key in item.answers)
    return right_or_wrong(item, right, (clipped(said),), f"said {clipped(said)}")


def value_of(text: str) -> float | str:
    """Return a number without thousands separators, rounded to two digits; any other text in lower case."""
    text = text.strip()
    try:
        return round(float(text.replace(",", "")), 2)
    except ValueError:
        return text.lower()


def _read(response: str) -> Reading:
    """The whole answer in place of letters."""
    said = answered(response)
    return Reading((said,), "read", "") if said else Reading((), "unparsed", "the response is empty")
