"""Score questions that are answered by option letters.

All scorers take an item, its answer and a reader; `read_options` also learns whether the answer was cut off. If no
option was read, the outcome is refused, abstained or unparsed with value 0. If the item has no answer key, the outcome
is `unscored` without a value. `Score.extracted` holds the letters read in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from medvqa.items import Answer, Item, Score
from medvqa.printing import clipped
from medvqa.scoring.extraction import Reading, read_options

_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens", "token_limit", "model_length"})
"""Values of `Answer.finish` for an answer cut at a token limit: OpenAI and ours, Anthropic and Gemini, others."""


class Reader(Protocol):
    """A function from a response to option letters: `read_options`, or the rule of a data set's owners."""

    def __call__(self, response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
        """Return the letters of `options` that `response` chooses, one unless `multiple`."""
        ...


def score_single_choice(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """Return 1 if the one letter in `answer` is correct, else 0."""
    return _score(item, answer, read, multiple=False, value=_share_of_chosen)


def score_multiple_choice(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """Return the share of chosen letters that are correct: n_match / len(prediction), 0 if none is chosen.

    This precision is GMAI-MMBench's ACC_mcls of one item (supplement, D.2, formula (2)). The metrics compute recall
    (formula (3)) and exact match from `Score.extracted` and `Item.answers`. The outcome is `correct` only if the sets
    are equal, `partial` if some chosen letter is correct: a value of 1 may be `partial`.
    """
    return _score(item, answer, read, multiple=True, value=_share_of_chosen)


def score_partial_credit(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """Return 0 if any chosen letter is wrong, else the share of the correct letters that are chosen.

    MedLesionVQA's rule for multiple-response questions (section 3.4); it also covers a single correct letter. The
    paper's extractor answers Z if no option fits. Then, or if no letter is read, the answer is `unparsed`
    (or refused, abstained) with value 0.
    """
    return _score(item, answer, read, multiple=True, value=_share_of_correct)


def _share_of_chosen(chosen: frozenset[str], correct: frozenset[str]) -> float:
    return len(chosen & correct) / len(chosen)


def _share_of_correct(chosen: frozenset[str], correct: frozenset[str]) -> float:
    return len(chosen) / len(correct) if chosen <= correct else 0.0


def _score(
    item: Item,
    answer: Answer,
    read: Reader,
    *,
    multiple: bool,
    value: Callable[[frozenset[str], frozenset[str]], float],
) -> Score:
    if read is read_options:
        # A published rule reads cut answers like others; ours does not guess their missing end.
        read = partial(read_options, finished=not cut_off(answer))
    reading = reading_of(answer, lambda text: read(text, item.options, multiple=multiple))
    if not item.answers:
        return Score(None, "unscored", reading.letters, f"no answer key; {reading.why}")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    chosen, correct = frozenset(reading.letters), frozenset(item.answers)
    credit = value(chosen, correct)
    if chosen == correct:
        return Score(credit, "correct", reading.letters, f"chose {_with_texts(item, reading.letters)}")
    why = f"chose {_with_texts(item, reading.letters)}, correct is {_with_texts(item, item.answers)}"
    return Score(credit, "partial" if credit > 0 else "wrong", reading.letters, why)


def right_or_wrong(item: Item, right: bool, extracted: tuple[str, ...], why: str) -> Score:
    """Return the score of an answer that is right or wrong as a whole; `why` says how it was read."""
    if right:
        return Score(1.0, "correct", extracted, why)
    return Score(0.0, "wrong", extracted, f"{why}, correct is {clipped(' or '.join(item.answers))}")


def cut_off(answer: Answer) -> bool:
    """Return whether the answer was cut off at a token limit, for any server's value of `finish`."""
    return answer.finish.casefold() in _LENGTH


def reading_of(answer: Answer, read: Callable[[str], Reading]) -> Reading:
    """Read an answer's text, or return `refused` if the server reports a refusal."""
    if answer.finish == "refusal":
        return Reading((), "refused", "the server reports a refusal")
    if not answer.text and answer.whole:
        cut = "the answer was cut off: " if cut_off(answer) else ""
        return Reading((), "unparsed", f"{cut}the reply has no line that holds the answer")
    return read(answer.text)


def _with_texts(item: Item, letters: Sequence[str]) -> str:
    return ", ".join(f"{letter} ({clipped(item.options.get(letter, ''))})" for letter in letters)
