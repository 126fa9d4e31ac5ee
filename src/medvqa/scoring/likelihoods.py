"""Answers that say how likely each option is: greedy decoding (GD) and prefix-based scores (PS).

MediConfusion (Sepehri et al. 2024), section 3.1; official code: `do_forward` and `do_prefix_forward` of
https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/Models/llava.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, fsum, inf, isnan

from medvqa.items import CHOICE_KINDS, Answer, AnswerError, Item, Score, Technique
from medvqa.scoring.choices import clipped


def likeliest(option_logprobs: Mapping[str, float], technique: Technique) -> str | None:
    """The option with the largest log-probability, None where there are none; of equal ones GD's first, PS's last.

    So do the owners of MediConfusion with their two options: GD takes `argmax` of A and B, PS
    `"A" if scores[0] > scores[1] else "B"`. The order is that of the mapping. An option with -inf is impossible.
    Raises AnswerError for NaN and +inf, and where every option that is told is impossible.
    """
    for letter, value in option_logprobs.items():
        if isnan(value) or value == inf:
            raise AnswerError(f"the log-probability of {letter} is {value}, which is no finite number")
    if not option_logprobs:
        return None
    largest = max(option_logprobs.values())
    if largest == -inf:
        raise AnswerError("every log-probability that the model gave is -inf, so that no option is the likeliest")
    tied = [letter for letter, value in option_logprobs.items() if value == largest]
    return tied[-1] if technique == "ps" else tied[0]


def score_likeliest(
    item: Item,
    answer: Answer,
    options: Mapping[str, str],
    technique: Technique,
    score: Callable[[Item, Answer], Score],
) -> Score:
    """Score the likeliest of `options`, those of the prompt, as if the model had named it; `unparsed` without any.

    An answer without log-probabilities that has a text (one that was recorded elsewhere) is scored by its text.
    Raises AnswerError where there is neither, for log-probabilities that are none, and for other options.
    """
    told = answer.option_logprobs
    if told is None:
        if not answer.text and answer.finish != "refusal":
            raise AnswerError(f"the model gave no log-probabilities, which technique '{technique}' needs")
        return score(item, answer)
    if unknown := [letter for letter in told if letter not in options]:
        raise AnswerError(f"the model gave a log-probability of {unknown[0]!r}, which is none of {', '.join(options)}")
    ordered = {letter: told[letter] for letter in options if letter in told}
    chosen = likeliest(ordered, technique)
    if chosen is None:
        nothing = score(item, replace(answer, text=""))
        why = f"none of {', '.join(options)} is among the likeliest next tokens"
        return nothing if nothing.outcome == "refused" else replace(nothing, why=why)
    # The letter was not read out of a text, in which it may also be the beginning of another option.
    letters = {letter: f"option {letter}" for letter in item.options}
    scored = score(replace(item, options=letters), Answer(chosen))
    why = f"chose {_named(chosen, options)}, {_likelihoods(ordered, chosen, technique)}"
    if scored.outcome == "wrong":
        named = (_named(key, item.options) if item.kind in CHOICE_KINDS else clipped(key) for key in item.answers)
        why += f"; correct is {' or '.join(named)}"
    return replace(scored, why=f"no answer key; {why}" if scored.outcome == "unscored" else why)


def _named(key: str, options: Mapping[str, str]) -> str:
    text = clipped(options.get(key, key))
    return key if text == key else f"{key} ({text})"


def _likelihoods(ordered: Mapping[str, float], chosen: str, technique: Technique) -> str:
    """GD: the share of the chosen letter among the letters. PS: the likelihood a token, and that of the next best."""
    if technique == "gd":
        return f"p = {1 / fsum(exp(value - ordered[chosen]) for value in ordered.values()):.2f}"
    others = {key: value for key, value in ordered.items() if key != chosen}
    own = f"likelihood {exp(ordered[chosen]):.3g} a token"
    if not others:
        return own
    second = max(others, key=lambda key: others[key])
    return f"{own}, {clipped(second)} {exp(others[second]):.3g}"
