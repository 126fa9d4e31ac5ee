"""The likeliest option: ties, missing letters, and what is no log-probability."""

from dataclasses import replace
from math import inf, log, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import benchmarks
from medvqa.benchmarks import phantom
from medvqa.items import Answer, AnswerError, Item, Score, Technique
from medvqa.scoring import likeliest, score_likeliest, score_partial_credit, score_single_choice

ITEM = Item("1", "slake", "single_choice", "Which?", {"A": "liver", "B": "spleen", "C": "kidney"}, ("B",))
finite = st.floats(allow_nan=False, allow_infinity=False)
logprobs = st.dictionaries(st.sampled_from("ABCDEF"), finite, min_size=1)
few = st.dictionaries(st.sampled_from("ABCDEF"), st.sampled_from([-3.0, -2.0, -1.0]), min_size=1)
techniques = st.sampled_from(["gd", "ps"])


def scored(told: dict[str, float] | None, technique: Technique = "gd", item: Item = ITEM, text: str = "") -> Score:
    return score_likeliest(item, Answer(text, told), item.options, technique, score_single_choice)


@given(logprobs, techniques)
def test_nothing_is_likelier_than_the_likeliest(told: dict[str, float], technique: Technique) -> None:
    chosen = likeliest(told, technique)
    assert chosen is not None
    assert told[chosen] == max(told.values())


@given(few)
def test_of_equals_gd_takes_the_first_and_ps_the_last(told: dict[str, float]) -> None:
    tied = [letter for letter, value in told.items() if value == max(told.values())]
    assert (likeliest(told, "gd"), likeliest(told, "ps")) == (tied[0], tied[-1])


@given(few, techniques, st.integers(-5, 5))
def test_a_common_factor_changes_nothing(told: dict[str, float], technique: Technique, shift: int) -> None:
    assert likeliest({letter: value + shift for letter, value in told.items()}, technique) == likeliest(told, technique)


@given(few, techniques, st.data())
def test_leaving_out_what_was_not_chosen_changes_nothing(
    told: dict[str, float], technique: Technique, data: st.DataObject
) -> None:
    chosen = likeliest(told, technique)
    kept = data.draw(st.sets(st.sampled_from(sorted(told)))) | {chosen}
    assert likeliest({letter: value for letter, value in told.items() if letter in kept}, technique) == chosen


@given(logprobs, techniques, st.sampled_from([nan, inf]), st.data())
def test_what_is_not_finite_is_an_error(
    told: dict[str, float], technique: Technique, bad: float, data: st.DataObject
) -> None:
    letter = data.draw(st.sampled_from(sorted(told)))
    with pytest.raises(AnswerError, match=f"^the log-probability of {letter} is {bad}, not a finite number$"):
        likeliest({**told, letter: bad}, technique)


@given(logprobs, techniques, st.data())
def test_an_impossible_option_is_never_chosen(
    told: dict[str, float], technique: Technique, data: st.DataObject
) -> None:
    letter = data.draw(st.sampled_from(sorted(told)))
    others = {key: value for key, value in told.items() if key != letter}
    if others:
        assert likeliest({**told, letter: -inf}, technique) == likeliest(others, technique)
    with pytest.raises(AnswerError, match=r"^all log-probabilities from the model are -inf"):
        likeliest(dict.fromkeys(told, -inf), technique)


def test_nothing_is_chosen_of_nothing() -> None:
    assert likeliest({}, "gd") is None


def test_the_order_of_ties_is_that_of_the_options_and_not_of_the_answer() -> None:
    assert scored({"C": -1.0, "B": -1.0, "A": -2.0}, "gd").extracted == ("B",)
    assert scored({"C": -1.0, "B": -1.0, "A": -2.0}, "ps").extracted == ("C",)


def test_why_tells_how_likely_it_was() -> None:
    told = {"A": log(0.1), "B": log(0.6), "C": log(0.1)}
    assert scored(told, "gd") == Score(1.0, "correct", ("B",), "chose B (spleen), p = 0.75")
    assert scored(told, "ps").why == "chose B (spleen), likelihood 0.6 a token, A 0.1"
    wrong = {"A": log(0.5), "B": log(0.125)}
    assert scored(wrong, "gd") == Score(0.0, "wrong", ("A",), "chose A (liver), p = 0.80; correct is B (spleen)")
    assert scored({"A": -1000.0}, "ps").why == "chose A (liver), likelihood 0 a token; correct is B (spleen)"
    withheld = replace(ITEM, answers=())
    assert scored(told, "gd", withheld) == Score(None, "unscored", ("B",), "no answer key; chose B (spleen), p = 0.75")


def test_letters_that_a_server_does_not_tell_are_no_candidates() -> None:
    assert scored({"B": -9.0}).extracted == ("B",)
    assert scored({}) == Score(0.0, "unparsed", (), "none of A, B, C is among the likeliest next tokens")
    assert scored({}, text="B").outcome == "unparsed", "what else a server said is not what was asked"
    assert scored({}, item=replace(ITEM, answers=())).outcome == "unscored"
    refused = Answer("", {}, finish="refusal")
    assert score_likeliest(ITEM, refused, ITEM.options, "gd", score_single_choice).outcome == "refused"


def test_what_is_no_option_or_no_log_probability_is_an_error() -> None:
    with pytest.raises(AnswerError, match=r"^the model gave a log-probability of 'D', which is none of A, B, C$"):
        scored({"A": -1.0, "D": -0.5})
    with pytest.raises(AnswerError, match=r"^the model gave no log-probabilities, but technique 'ps' needs them$"):
        scored(None, "ps")
    with pytest.raises(AnswerError, match="nan"):
        scored({"A": nan, "B": -1.0})


def test_an_answer_that_was_recorded_as_text_is_read() -> None:
    assert scored(None, text="The answer is B.").outcome == "correct"


@given(st.permutations("ABC"), st.sampled_from("ABC"), techniques)
def test_options_that_are_called_like_letters_are_not_confused(
    names: list[str], letter: str, technique: Technique
) -> None:
    """Blood groups: the option A says "B"."""
    item = replace(ITEM, options=dict(zip("ABC", names, strict=True)), answers=(letter,))
    told = {other: -1.0 if other == letter else -2.0 for other in "ABC"}
    for score in (score_single_choice, score_partial_credit):
        made = score_likeliest(item, Answer("", told), item.options, technique, score)
        assert (made.outcome, made.extracted) == ("correct", (letter,))


def test_every_term_of_the_phantom_s_vocabularies_can_be_chosen() -> None:
    benchmark = next(b for b in phantom.BENCHMARKS if b.name == "phantom-medlesionvqa")
    items = [item for item in benchmarks.load(benchmark, Path()) if benchmark.applies(item, "ps")]
    assert len(items) == 56
    for item in items:
        prompt = benchmark.prompt(item, "ps")
        assert prompt.text == f"Question: {item.question} Answer:"
        for term in prompt.options:
            told = {other: -1.0 if other == term else -2.0 for other in prompt.options}
            score = score_likeliest(item, Answer("", told), prompt.options, "ps", benchmark.score)
            assert score.outcome == ("correct" if term in item.answers else "wrong"), (item.id, term)
            assert score.why.startswith(f"chose {term}, likelihood 0.368 a token")
