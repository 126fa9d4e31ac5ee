"""Score answers that give a likelihood of every option: greedy decoding (GD) and prefix-based scores (PS).

MediConfusion (Sepehri et al. 2024), section 3.1; official code: `do_forward` and `do_prefix_forward` of
https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/Models/llava.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, fsum, inf, isnan

from medvqa.items import CHOICE_KINDS, Answer, AnswerError, Item, Score, Technique, replace
from medvqa.printing import clipped


def likeliest(option_logprobs: Mapping[str, float], technique: Technique) -> str | None:
    """Return the option with the largest log-probability, None for no options; ties: first for GD, last for PS.

    MediConfusion's owners break ties like this for their two options: GD takes `argmax` of A and B, PS
    `"A" if scores[0] > scores[1] else "B"`. The order is that of the mapping. An option with -inf is impossible.
    Raises AnswerError for NaN and +inf, and if all options are impossible.
    """
    for letter, value in option_logprobs.items():
        if isnan(value) or value == inf:
            raise AnswerError(f"the log-probability of {letter} is {value}, not a finite number")
    if not option_logprobs:
        return None
    largest = max(option_logprobs.values())
    if largest == -inf:
        raise AnswerError("all log-probabilities from the model are -inf, so no option is the likeliest")
    tied = [letter for letter, value in option_logprobs.items() if value == largest]
    return tied[-1] if technique == "ps" else tied[0]


def score_likeliest(
    item: Item,
    answer: Answer,
    options: Mapping[str, str],
    technique: Technique,
    score: Callable[[Item, Answer], Score],
) -> Score:
    """Score the likeliest of `options` (of the prompt) as the model's answer; `unparsed` without log-probabilities.

    An answer with a text alone, recorded elsewhere, is scored by its text. Raises AnswerError for an answer with
    neither text nor log-probabilities, for invalid log-probabilities, and for unknown options.
    """
    logprobs = answer.option_logprobs
    if logprobs is None:
        if not answer.text and answer.finish != "refusal":
            raise AnswerError(f"the model gave no log-probabilities, but technique '{technique}' needs them")
        return score(item, answer)
    if unknown := [letter for letter in logprobs if letter not in options]:
        raise AnswerError(f"the model gave a log-probability of {unknown[0]!r}, which is none of {', '.join(options)}")
    ordered = {letter: logprobs[letter] for letter in options if letter in logprobs}
    chosen = likeliest(ordered, technique)
    if chosen is None:
        empty = score(item, replace(answer, text=""))
        why = f"none of {', '.join(options)} is among the likeliest next tokens"
        return empty if empty.outcome == "refused" else replace(empty, why=why)
    # Neutral texts: the letter comes from no text, so it cannot be the beginning of another option.
    letters = {letter: f"option {letter}" for letter in item.options}
    scored = score(replace(item, options=letters), Answer(chosen))
    why = f"chose {_with_text(chosen, options)}, {_likelihoods(ordered, chosen, technique)}"
    if scored.outcome == "wrong":
        named = (_with_text(key, item.options) if item.kind in CHOICE_KINDS else clipped(key) for key in item.answers)
        why += f"; correct is {' or '.join(named)}"
    return replace(scored, why=f"no answer key; {why}" if scored.outcome == "unscored" else why)


def _with_text(key: str, options: Mapping[str, str]) -> str:
    text = clipped(options.get(key, key))
    return key if text == key else f"{key} ({text})"


def _likelihoods(ordered: Mapping[str, float], chosen: str, technique: Technique) -> str:
    """GD: the chosen letter's share among the letters. PS: its likelihood per token, and the second best option's."""
    if technique == "gd":
        return f"p = {1 / fsum(exp(value - ordered[chosen]) for value in ordered.values()):.2f}"
    others = {key: value for key, value in ordered.items() if key != chosen}
    own = f"likelihood {exp(ordered[chosen]):.3g} a token"
    if not others:
        return own
    second = max(others, key=lambda key: others[key])
    return f"{own}, {clipped(second)} {exp(others[second]):.3g}"
