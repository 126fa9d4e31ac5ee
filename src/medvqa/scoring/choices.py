"""Scores of questions that are answered by option letters.

All scorers take an item, the answer to it and a reader. If the answer was cut off at a token limit, `read_options` is
told so. Where nothing was read the outcome says how (refused,
abstained, unparsed) and the value is 0; where the item has no answer key the outcome is `unscored`, without a
value. `Score.extracted` holds what was read in either case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from medvqa.items import Answer, Item, Score
from medvqa.scoring.extraction import Reading, read_options

_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens", "token_limit", "model_length"})
"""What `Answer.finish` says if an answer ended at a limit: OpenAI and ours, Anthropic and Gemini, others."""


class Reader(Protocol):
    """How a response becomes option letters: `read_options`, or a published rule of `medvqa.scoring.official`."""

    def __call__(self, response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
        """Return the letters of `options` that `response` chooses, one unless `multiple`."""
        ...


def score_single_choice(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """1 if the one letter that `answer` gives is correct, else 0."""
    return _score(item, answer, read, multiple=False, value=_share_of_chosen)


def score_multiple_choice(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """The share of the chosen letters that are correct: n_match / len(prediction), 0 where nothing is chosen.

    GMAI-MMBench's ACC_mcls of one item (supplement, D.2, formula (2)), which is a precision; recall (formula (3))
    and exact match follow from `Score.extracted` and `Item.answers` in the metrics. The outcome is `correct`
    only if the sets are equal, `partial` if some chosen letter is correct: a value of 1 may be `partial`.
    """
    return _score(item, answer, read, multiple=True, value=_share_of_chosen)


def score_partial_credit(item: Item, answer: Answer, read: Reader = read_options) -> Score:
    """0 if any chosen letter is wrong, else the share of the correct letters that are chosen.

    MedLesionVQA's rule for multiple-response questions (section 3.4), of which a single correct letter is the
    special case. The paper's extractor answers Z where no option fits; so read, and where nothing is read,
    the answer is `unparsed` (or refused, abstained) with value 0.
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
        # A published rule reads an answer whatever its end is; ours does not guess what a cut answer would have said.
        read = partial(read_options, finished=not cut_off(answer))
    reading = reading_of(answer, lambda text: read(text, item.options, multiple=multiple))
    if not item.answers:
        return Score(None, "unscored", reading.letters, f"no answer key; {reading.why}")
    if reading.status != "read":
        return Score(0.0, reading.status, (), reading.why)
    chosen, correct = frozenset(reading.letters), frozenset(item.answers)
    credit = value(chosen, correct)
    if chosen == correct:
        return Score(credit, "correct", reading.letters, f"chose {_named(item, reading.letters)}")
    why = f"chose {_named(item, reading.letters)}, correct is {_named(item, item.answers)}"
    return Score(credit, "partial" if credit > 0 else "wrong", reading.letters, why)


def cut_off(answer: Answer) -> bool:
    """Whether the answer ended at a token limit, in the words of any server."""
    return answer.finish.casefold() in _LENGTH


def reading_of(answer: Answer, read: Callable[[str], Reading]) -> Reading:
    """Read an answer's text, unless the server says that the model declined."""
    if answer.finish == "refusal":
        return Reading((), "refused", "the server reports a refusal")
    return read(answer.text)


def _named(item: Item, letters: Sequence[str]) -> str:
    return ", ".join(f"{letter} ({clipped(item.options.get(letter, ''))})" for letter in letters)


def clipped(text: str, width: int = 60) -> str:
    """Return `text` on one line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
