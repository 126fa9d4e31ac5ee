"""Define the metrics of the three benchmarks, and two decorators for new ones: `ratio`, and `metric` for users.

Sources: GMAI-MMBench (Chen et al. 2024), formulas (1) to (3); MediConfusion (Sepehri et al. 2024), sections 2.2 and 3,
with totals as in `create_score_table`:
https://github.com/AIF4S/MediConfusion/blob/2eb1686ba79f38d80435d70cc4fbd92f6714d8e7/utils/answering.py.
An answer without a value (`unscored`, `error`) has the denominator 0. An invalid answer (refused, abstained, unparsed)
is wrong and stays in the denominator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from math import isfinite
from numbers import Real
from typing import Literal, overload

from medvqa import scoring, usercode
from medvqa.items import (
    CHOICE_KINDS,
    INVALID_OUTCOMES,
    KINDS,
    OPEN_KINDS,
    OPTION_TECHNIQUES,
    OUTCOMES,
    SCORED_OUTCOMES,
    Kind,
    Metric,
    Outcome,
    Result,
    UsageError,
)

Terms = Callable[[Sequence[Result]], tuple[float, float]]
"""The results of one unit -> (numerator, denominator); the denominator 0 leaves the unit out."""

LEFT_OUT, NO, YES = (0.0, 0.0), (0.0, 1.0), (1.0, 1.0)
"""The terms of a unit that is left out, wrong, or right."""
MAX_VALUE = 1e50
"""Largest value of one unit. Intervals need the fourth power of sums of values, which must stay finite."""
MAX_NAME = 60
"""Most characters in a metric's name."""


def _share(*outcomes: Outcome) -> Mapping[Outcome, tuple[float, float]]:
    """Return the terms by outcome of a rate: these outcomes / scored outcomes."""
    return {
        outcome: YES if outcome in outcomes else NO if outcome in SCORED_OUTCOMES else LEFT_OUT for outcome in OUTCOMES
    }


_CORRECT, _INVALID = _share("correct"), _share(*INVALID_OUTCOMES)
_REFUSED, _ABSTAINED, _UNPARSED = _share("refused"), _share("abstained"), _share("unparsed")


def ratio(
    name: str = "",
    *,
    unit: Literal["item", "pair"] = "item",
    binary: bool = True,
    kinds: Collection[Kind] | None = None,
    mean_over: str | None = None,
    better: Literal["higher", "lower"] = "higher",
    percent: bool = True,
) -> Callable[[Terms], Metric]:
    """Make a Metric from a function that maps the results of one unit to (numerator, denominator).

    A unit is one result, or the two results of a pair sorted by id. The name defaults to the function's. The first
    line of the docstring is the definition; a digest of it enters the signature of every measure. `binary` promises
    numerators and denominators of 0 or 1; pass False for anything else. `kinds`, `mean_over`, `better` and `percent`:
    see `Metric`.
    """

    def decorate(terms: Terms) -> Metric:
        definition = (terms.__doc__ or "").strip().partition("\n")[0]
        kind_set = None if kinds is None else frozenset(kinds)
        return Metric(name or terms.__name__, terms, unit, binary, mean_over, kind_set, definition, better, percent)

    return decorate


Function = Callable[..., object]
"""A function of one result, or of the two results of a pair, that returns a bool, a number or None."""


@overload
def metric(function: Function, /) -> Metric: ...
@overload
def metric(
    *,
    name: str = ...,
    unit: Literal["item", "pair"] = ...,
    kinds: Collection[Kind] | None = ...,
    better: Literal["higher", "lower"] = ...,
    mean_over: str | None = ...,
    definition: str = ...,
    percent: bool | None = ...,
) -> Callable[[Function], Metric]: ...
def metric(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    unit: Literal["item", "pair"] = "item",
    kinds: Collection[Kind] | None = None,
    better: Literal["higher", "lower"] = "higher",
    mean_over: str | None = None,
    definition: str = "",
    percent: bool | None = None,
) -> Metric | Callable[[Function], Metric]:
    """Make a Metric from a function of a result, with or without options: `@medvqa.metric`.

    The function gets one Result, or with `unit="pair"` the two results of a pair, sorted by id. It returns a bool (the
    measure is the share of True), a finite number (the measure is the mean), or None to leave the unit out. It is not
    called for results without an answer.

    Options: `name` (default: the function's), `definition` (default: the first line of its docstring; a digest of it
    enters signatures), `percent` (show the measure as a percentage; None: if the function returns True and False).
    `kinds`, `better` and `mean_over`: see `Metric`. Raises UsageError for a bad name, kind or other option.
    """

    def decorate(function: Function) -> Metric:
        where, label = usercode.place_of(function), name or getattr(function, "__name__", "")
        if not label.isprintable() or not label.strip() or label != label.strip() or len(label) > MAX_NAME:
            raise UsageError(
                f"{where}: metric {label[:MAX_NAME]!r}: name=... must be printable text of 1 to {MAX_NAME} characters"
            )
        for option, value, allowed in (("unit", unit, ("item", "pair")), ("better", better, ("higher", "lower"))):
            if value not in allowed:
                raise UsageError(f"{where}: metric '{label}': {option}={value!r}; there are: {', '.join(allowed)}")
        if unknown := [kind for kind in kinds or () if kind not in KINDS]:
            raise UsageError(f"{where}: metric '{label}': no kind {unknown[0]!r}; there are: {', '.join(KINDS)}")

        @wraps(function)
        def terms(results: Sequence[Result]) -> tuple[float, float]:
            if any(result.answer is None for result in results):
                return LEFT_OUT
            return _term(function(*results))

        first_line = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
        definition_line = definition or first_line or f"Mean of {label}."
        kind_set = None if kinds is None else frozenset(kinds)
        return Metric(label, terms, unit, None, mean_over, kind_set, definition_line, better, percent)

    return decorate if function is None else decorate(function)


def _term(value: object) -> tuple[float, float]:
    """Return the terms of one unit. A bool stays a bool: it marks a share. Raises TypeError and ValueError."""
    if value is None:
        return LEFT_OUT
    # numpy.bool_ is no subclass of bool. Checking its name avoids importing numpy.
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value), 1.0
    if not isinstance(value, Real):
        raise TypeError(f"it returned a value of type {type(value).__name__}")
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"it returned {number}")
    if abs(number) > MAX_VALUE:
        raise ValueError(f"it returned {number}, and {MAX_VALUE:g} is the most")
    return number, 1.0


@ratio(kinds={"single_choice"})
def accuracy(results: Sequence[Result]) -> tuple[float, float]:
    """Right answers / scored answers to single-choice questions (micro average)."""
    return _CORRECT[results[0].score.outcome]


@ratio()
def individual_accuracy(results: Sequence[Result]) -> tuple[float, float]:
    """Right answers / scored answers to the questions of pairs."""
    return LEFT_OUT if results[0].item.pair_id is None else _CORRECT[results[0].score.outcome]


@ratio(unit="pair")
def set_accuracy(results: Sequence[Result]) -> tuple[float, float]:
    """Pairs with both answers right / pairs with both answers scored."""
    if not _all_scored(results):
        return LEFT_OUT
    return YES if all(result.score.outcome == "correct" for result in results) else NO


@ratio(unit="pair", better="lower")
def confusion(results: Sequence[Result]) -> tuple[float, float]:
    """Pairs with both answers valid and equal / pairs with both answers valid."""
    if not _all_valid(results):
        return LEFT_OUT
    return YES if _equal(results) else NO


@ratio(binary=False, kinds={"multiple_response"})
def precision_mcls(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over multiple-response questions of right chosen options / chosen options (0 for none chosen)."""
    return _matches(results[0], len(results[0].score.extracted))


@ratio(binary=False, kinds={"multiple_response"})
def recall_mcls(results: Sequence[Result]) -> tuple[float, float]:
    """Mean over multiple-response questions of right chosen options / right options."""
    return _matches(results[0], len(results[0].item.answers))


@ratio(kinds={"multiple_response"})
def exact_match(results: Sequence[Result]) -> tuple[float, float]:
    """Multiple-response questions with all right options and no other chosen / scored multiple-response questions."""
    result = results[0]
    if result.score.outcome not in SCORED_OUTCOMES:
        return LEFT_OUT
    return YES if set(result.score.extracted) == set(result.item.answers) else NO


@ratio(binary=False)
def mean_score(results: Sequence[Result]) -> tuple[float, float]:
    """Mean of the scores from 0 to 1 of scored answers (micro average)."""
    value = results[0].score.value
    return LEFT_OUT if value is None else (value, 1.0)


choice_score = replace(mean_score, name="choice_score", kinds=CHOICE_KINDS)
"""`mean_score` of choice questions. No judge takes part."""

open_score = replace(mean_score, name="open_score", kinds=OPEN_KINDS)
"""`mean_score` of open questions."""


def macro_accuracy(dimension: str) -> Metric:
    """Return a metric: the unweighted mean of `accuracy` over the values of a lexicon dimension."""
    return replace(accuracy, name="macro_accuracy", mean_over=dimension)


def macro_score(dimension: str) -> Metric:
    """Return a metric: the unweighted mean of `mean_score` over the values of a lexicon dimension."""
    return replace(mean_score, name="macro_score", mean_over=dimension)


TABLE_12 = (("contour_level", 5587.0), ("mask_level", 5587.0), ("image_level", 12942.0), ("box_level", 1715.0))
"""Single-choice questions of val and test together by granularity (Chen et al. 2024, Table 7)."""

table12_overall = replace(
    accuracy,
    name="table12_overall",
    mean_over="granularity",
    weights=TABLE_12,
    definition="Mean of accuracy over granularities, weighted by the paper's numbers of questions (GMAI-MMBench, Table "
    "12's Overall).",
)
"""The columns of Table 12 are `accuracy` at contour, mask, image and box level, there called Seg C, Seg M, 2D Cls and
2D Det. Its Overall is their mean with these weights, whatever the numbers of questions asked."""


@ratio(unit="pair")
def set_precision(results: Sequence[Result]) -> tuple[float, float]:
    """Pairs with both answers right / pairs with both answers valid and different (0 of 0: undefined)."""
    if not _all_valid(results) or _equal(results):
        return LEFT_OUT
    return YES if all(result.score.outcome == "correct" for result in results) else NO


@ratio(unit="pair")
def valid_pairs(results: Sequence[Result]) -> tuple[float, float]:
    """Pairs with both answers valid / pairs with both answers scored."""
    if not _all_scored(results):
        return LEFT_OUT
    return YES if _all_valid(results) else NO


@ratio(better="lower")
def invalid_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Refused, abstained and unparsed answers / scored answers."""
    return _INVALID[results[0].score.outcome]


@ratio(better="lower")
def refused_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Refused answers / scored answers."""
    return _REFUSED[results[0].score.outcome]


@ratio(better="lower")
def abstained_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Abstained answers / scored answers."""
    return _ABSTAINED[results[0].score.outcome]


@ratio(better="lower")
def unparsed_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Unparsed answers / scored answers."""
    return _UNPARSED[results[0].score.outcome]


@ratio(better="lower")
def error_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Questions without an answer / questions."""
    return YES if results[0].score.outcome == "error" else NO


def is_complete(result: Result) -> bool | None:
    """Return whether an answer in words is complete; False if a token limit cut it off.

    None if there is no such answer, or if the reason of its end was not recorded.
    """
    if result.answer is None or not result.answer.finish or result.technique in OPTION_TECHNIQUES:
        return None
    return not (scoring.cut_off(result.answer) or result.answer.cut)


@ratio(better="lower")
def truncated_rate(results: Sequence[Result]) -> tuple[float, float]:
    """Answers cut off at a limit of tokens / answers in words whose end is known."""
    complete = is_complete(results[0])
    return LEFT_OUT if complete is None else NO if complete else YES


@ratio()
def coverage(results: Sequence[Result]) -> tuple[float, float]:
    """Answers that are neither refused, abstained nor unparsed / scored answers."""
    outcome = results[0].score.outcome
    return LEFT_OUT if outcome not in SCORED_OUTCOMES else NO if outcome in INVALID_OUTCOMES else YES


@ratio(binary=False)
def answered_accuracy(results: Sequence[Result]) -> tuple[float, float]:
    """Mean score, 1 if right, of answers that are neither refused, abstained nor unparsed."""
    value, outcome = results[0].score.value, results[0].score.outcome
    if value is None or outcome in INVALID_OUTCOMES:
        return LEFT_OUT
    # Without partial credit, these are shares of right answers, with the interval of a share as `accuracy` has it.
    return (bool(value) if value in (0, 1) else value), 1.0


def effective_reliability(cost: float) -> Metric:
    """Return a metric: the mean of what answers are worth if a wrong one costs `cost` right ones.

    Whitehead et al. (2022), Reliable Visual Question Answering, section 3.3: a score above 0 counts as it is, 0 counts
    as minus the cost, and no answer as 0. They have no refusals and no answers that cannot be read: a refusal gives no
    answer, and an answer that cannot be read may mislead.
    """

    @ratio(name="effective_reliability", binary=False, percent=False)
    def terms(results: Sequence[Result]) -> tuple[float, float]:
        value, outcome = results[0].score.value, results[0].score.outcome
        if value is None:
            return LEFT_OUT
        return (0.0 if outcome in ("abstained", "refused") else value or -cost), 1.0

    definition = f"Mean of the scores, with -{cost:g} for 0 or unparsed, and 0 for abstained or refused answers."
    return replace(terms, definition=definition, signs=(("wrong_costs", f"{cost:g}"),), bounds=(-cost, 1.0))


rates = (invalid_rate, refused_rate, abstained_rate, unparsed_rate, error_rate, truncated_rate)
"""The rates of invalid answers (in total, then by reason), of missing answers and of truncated answers."""


def _matches(result: Result, denominator: int) -> tuple[float, float]:
    if result.score.outcome not in SCORED_OUTCOMES:
        return LEFT_OUT
    matches = len(set(result.score.extracted) & set(result.item.answers))
    return (matches / denominator if denominator else 0.0), 1.0


def _all_scored(results: Sequence[Result]) -> bool:
    return all(result.score.outcome in SCORED_OUTCOMES for result in results)


def _all_valid(results: Sequence[Result]) -> bool:
    return all(result.score.outcome in SCORED_OUTCOMES - INVALID_OUTCOMES for result in results)


def _equal(results: Sequence[Result]) -> bool:
    first, second = results
    return first.score.extracted == second.score.extracted


SHIPPED = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
"""The metrics of this file. A conftest.py that imports one of them adds it to no benchmark."""
