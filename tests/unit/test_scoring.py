"""The published rules of the benchmarks' owners, and the scores of choices and of open answers."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa.benchmarks.gmai_mmbench import gmai_rule
from medvqa.benchmarks.mediconfusion import mediconfusion_rule
from medvqa.items import OUTCOMES, Answer, Item, Kind
from medvqa.scoring import (
    Reading,
    normalise,
    read_options,
    score_closed_vocabulary,
    score_multiple_choice,
    score_partial_credit,
    score_single_choice,
    unscored,
)

MEDICONFUSION = Path(__file__).parents[3] / "shared" / "reference" / "mediconfusion"
CHEST = {"A": "Normal", "B": "Pneumonia", "C": "Tuberculosis", "D": "Abnormal, other"}
COLOURS = {"red": ["reddish"], "black": [], "to the left of": ["left of", "left"], "2 cm": ["two centimetres"]}


def item(*answers: str, kind: Kind = "single_choice", options: Mapping[str, str] = CHEST) -> Item:
    return Item("1", "test", kind, "What is it?", options, answers)


# The published rules.


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        *(
            ("A", "A"),
            ("B.", "B"),
            ("B:", "B"),
            (".B", "B"),
            (".B:", "B"),
            ('B")', "B"),
            ('("B")', "B"),
            ('("B").', "B"),
        ),
        *(('("B":', "B"), ("A\nbecause", "A"), ("it is A", "A"), ("A patient with pneumonia", "A"), ("not B", "B")),
        *(("(B)", ""), ("**B**", ""), ("b", ""), ("B)", ""), ("B,", ""), ("A or B", ""), ("A. B.", ""), ("A\tB", "")),
        *(("Pneumonia", ""), ("", ""), ("I'm unable to view images.", "")),
    ],
)
def test_mediconfusions_rule(response: str, letter: str) -> None:
    reading = mediconfusion_rule(response, {"A": "Normal", "B": "Pneumonia"})
    assert ("".join(reading.letters), reading.status) == (letter, "read" if letter else "unparsed")


def test_mediconfusions_rule_on_recorded_answers() -> None:
    """Every answer is read as its owners' own cleaner recorded it: 10 points for the letter that was read."""
    if not MEDICONFUSION.is_dir():
        pytest.skip(f"no {MEDICONFUSION}")
    predictions = json.loads((MEDICONFUSION / "gpt4o_mc_predictions.json").read_text())
    recorded = [pair["answer"][image]["answer"] for pair in predictions.values() for image in ("im1", "im2")]
    assert len(recorded) == 352
    for answer in recorded:
        letters = mediconfusion_rule(answer["full_answer"], {"A": "", "B": ""}).letters
        assert {letter: 10 * (letter in letters) for letter in "AB"} == {letter: answer[letter] for letter in "AB"}


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        *(("B", "B"), ("(B)", "B"), ("**B**", "B"), ("Answer:B", "B"), ("A patient with a cough", "A"), ("not B", "B")),
        *(("pneumonia", "B"), ("It is PNEUMONIA.", "B"), ("tuberculosis (old)", "C"), ("Bronchopneumonia", "B")),
        *(("A or B", ""), ("normal", "A"), ("abnormal, other", ""), ("pneumonia or tuberculosis", ""), ("b", "")),
        *(("Z", ""), ("Z pneumonia", ""), ("I can't process this file. pneumonia", ""), ("", ""), ("E", "")),
        ("Failed to obtain answer via API: pneumonia A", "B"),
    ],
)
def test_gmais_rule(response: str, letter: str) -> None:
    reading = gmai_rule(response, CHEST, version="2024-02")
    assert ("".join(reading.letters), reading.status) == (letter, "read" if letter else "unparsed")


@given(st.text(alphabet="ABCZ .()*\nnormal"), st.booleans())
def test_the_rules_read_one_option_or_none_and_say_why(response: str, multiple: bool) -> None:
    for rule in (mediconfusion_rule, gmai_rule):
        reading = rule(response, CHEST, multiple=multiple)
        assert len(reading.letters) == (reading.status == "read")
        assert set(reading.letters) <= set(CHEST)
        assert reading.why
        assert reading == rule(response, CHEST)


# Choices.


@pytest.mark.parametrize(
    ("response", "value", "outcome", "extracted", "why"),
    [
        ("B", 1.0, "correct", ("B",), "chose B (Pneumonia)"),
        ("C", 0.0, "wrong", ("C",), "chose C (Tuberculosis), correct is B (Pneumonia)"),
        ("A and B", 0.0, "unparsed", (), "several answers: A/B"),
        ("I can't help.", 0.0, "refused", (), 'says "can\'t help."'),
        ("It cannot be determined.", 0.0, "abstained", (), 'says "cannot be determined."'),
    ],
)
def test_single_choice(response: str, value: float, outcome: str, extracted: tuple[str, ...], why: str) -> None:
    score = score_single_choice(item("B"), Answer(response))
    assert (score.value, score.outcome, score.extracted, score.why) == (value, outcome, extracted, why)


@pytest.mark.parametrize(
    ("chosen", "multiple_choice", "partial_credit", "outcomes"),
    [
        ("A, B", 1.0, 1.0, ("correct", "correct")),
        ("A", 1.0, 0.5, ("partial", "partial")),
        ("A, B, C", 2 / 3, 0.0, ("partial", "wrong")),
        ("A, C", 0.5, 0.0, ("partial", "wrong")),
        ("C, D", 0.0, 0.0, ("wrong", "wrong")),
        ("Z", 0.0, 0.0, ("unparsed", "unparsed")),
        ("", 0.0, 0.0, ("unparsed", "unparsed")),
    ],
)
def test_multiple_responses(
    chosen: str, multiple_choice: float, partial_credit: float, outcomes: tuple[str, str]
) -> None:
    question = item("A", "B", kind="multiple_response")
    scores = [score(question, Answer(chosen)) for score in (score_multiple_choice, score_partial_credit)]
    assert [score.value for score in scores] == pytest.approx([multiple_choice, partial_credit])
    assert tuple(score.outcome for score in scores) == outcomes


SETS = st.sets(st.sampled_from("ABCD"))


@given(SETS, SETS, st.sampled_from([score_single_choice, score_multiple_choice, score_partial_credit]))
def test_laws_of_scores(chosen: set[str], correct: set[str], score) -> None:
    def read(response: str, options: Mapping[str, str], *, multiple: bool = False) -> Reading:
        letters = tuple(letter for letter in options if letter in chosen)
        return Reading(letters, "read" if letters else "unparsed", "as drawn")

    if score is score_single_choice:
        chosen = set(sorted(chosen)[:1])
    result = score(item(*sorted(correct)), Answer("..."), read)
    assert result.outcome in OUTCOMES
    assert "\n" not in result.why
    assert result.extracted == tuple(sorted(chosen))
    if not correct:
        assert (result.value, result.outcome) == (None, "unscored")
    elif not chosen:
        assert (result.value, result.outcome) == (0.0, "unparsed")
    else:
        assert 0.0 <= result.value <= 1.0
        assert (result.outcome == "correct") == (chosen == correct)
        assert (result.outcome == "wrong") == (result.value == 0.0)
        if score is score_partial_credit:
            assert (result.value > 0.0) == (chosen <= correct)
        else:
            assert (result.value > 0.0) == bool(chosen & correct)


def test_one_correct_letter_is_the_special_case_of_partial_credit() -> None:
    for response in ("A", "B", "C", "A, B", "nothing"):
        whole = score_single_choice(item("B"), Answer(response))
        partial = score_partial_credit(item("B"), Answer(response))
        assert whole.value == partial.value


@pytest.mark.parametrize("score", [score_single_choice, score_multiple_choice, score_partial_credit])
def test_without_an_answer_key_the_letters_are_kept(score) -> None:
    result = score(item(), Answer("B"))
    assert (result.value, result.outcome, result.extracted) == (None, "unscored", ("B",))
    assert result.why.startswith("no answer key")
    assert score(item(), Answer("no idea")).outcome == "unscored"


@pytest.mark.parametrize("score", [score_single_choice, score_multiple_choice, score_partial_credit])
def test_a_refusal_by_the_server_is_a_refusal_whatever_the_text(score) -> None:
    result = score(item("B"), Answer("B", finish="refusal"))
    assert (result.value, result.outcome, result.extracted) == (0.0, "refused", ())


def test_a_published_rule_can_take_the_readers_place() -> None:
    answer = Answer("A patient with pneumonia")
    assert score_single_choice(item("B"), answer).outcome == "correct"
    assert score_single_choice(item("B"), answer, mediconfusion_rule).extracted == ("A",)
    assert score_multiple_choice(item("B"), answer, read=gmai_rule).extracted == ("A",)


def test_why_is_short() -> None:
    question = item("B", options={"A": "very " * 100 + "long", "B": "two\nlines"})
    assert len(score_single_choice(question, Answer("A")).why) < 200
    assert score_single_choice(question, Answer("B")).why == "chose B (two lines)"


# Open answers.


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The  *Basal-cell* carcinoma.", "basal cell carcinoma"),
        ("２ ｃｍ", "2 cm"),
        ("An ulcer, a scar", "ulcer scar"),
        ("fundus_photography", "fundus photography"),
        ("> 5 mm", "> 5 mm"),
        ("from -0.5 to 3-4", "from -0 5 to 3 4"),
        ("a", "a"),
        ("肺炎。", "肺 炎"),
        ("", ""),
    ],
)
def test_normalise(text: str, normalised: str) -> None:
    assert normalise(text) == normalised


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        *(("red", "red"), ("Red.", "red"), ("**Red**", "red"), ("reddish", "red"), ("It is red.", "red")),
        *(("The lesion is red, not black.", "red"), ("not black but red", "red"), ("<think>black</think>red", "red")),
        *(("left", "to the left of"), ("It lies to the left of the other one.", "to the left of")),
        *(("The lesion is 2 cm in diameter.", "2 cm"), ("２ｃｍ is too tight, two centimetres", "2 cm")),
        *(("black, later red. Final answer: red", "red"), ("The answer is red. Black would be a melanoma.", "red")),
        *(("red or black", "unparsed"), ("red and black", "unparsed"), ("green", "unparsed"), ("not red", "unparsed")),
        *(("infrared", "unparsed"), ("", "unparsed"), ("R", "unparsed"), ("I can't help with that.", "refused")),
        ("It cannot be determined.", "abstained"),
    ],
)
def test_closed_vocabulary(response: str, expected: str) -> None:
    for term in COLOURS:
        score = score_closed_vocabulary(item(term, kind="short_answer", options={}), Answer(response), COLOURS)
        if expected in COLOURS:
            assert score.extracted == (normalise(expected),)
            assert (score.value, score.outcome) == ((1.0, "correct") if term == expected else (0.0, "wrong"))
        else:
            assert (score.value, score.outcome, score.extracted) == (0.0, expected, ())


def test_a_reference_may_be_written_another_way() -> None:
    question = item("Two centimetres", kind="fill_in_the_blank", options={})
    assert score_closed_vocabulary(question, Answer("2 cm"), COLOURS).outcome == "correct"
    wrong = score_closed_vocabulary(question, Answer("red"), COLOURS)
    assert wrong.why == "said red, correct is Two centimetres"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        *(("yes", "yes"), ("No.", "no"), ("Yes, the border is irregular.", "yes"), ("No, there is no mass.", "no")),
        *(("True", "yes"), ("false", "no"), ("Correct.", "yes"), ("That is incorrect.", "no"), ("Not true.", "no")),
        *(
            ("The statement is true.", "yes"),
            ("The answer is no.", "no"),
            ("是", "unparsed"),
            ("Yes and no", "unparsed"),
        ),
        *(("The heart is abnormal.", "unparsed"), ("There is no mass.", "unparsed"), ("It is notable.", "unparsed")),
        *(("Is there a mass? Yes.", "yes"), ("I know", "unparsed"), ("The right side is affected.", "unparsed")),
        ("No. Yes, on second thought.", "unparsed"),
    ],
)
def test_judgments(response: str, expected: str) -> None:
    question = item("yes", kind="judgment", options={})
    score = score_closed_vocabulary(question, Answer(response), {"yes": [], "no": []})
    assert (score.extracted or (score.outcome,)) == (expected,), score.why


def test_open_answers_without_a_key_or_from_a_server_that_refuses() -> None:
    question = item(kind="short_answer", options={})
    assert score_closed_vocabulary(question, Answer("red"), COLOURS).extracted == ("red",)
    assert score_closed_vocabulary(question, Answer("red"), COLOURS).outcome == "unscored"
    assert score_closed_vocabulary(question, Answer("green"), COLOURS).value is None
    refused = score_closed_vocabulary(item("red", kind="short_answer"), Answer("red", finish="refusal"), COLOURS)
    assert refused.outcome == "refused"


def test_open_answers_without_a_rule_wait_for_a_judge() -> None:
    score = unscored(item("a ring-shaped\nrash", kind="short_answer", options={}), Answer("a rash"))
    assert (score.value, score.outcome, score.extracted) == (None, "unscored", ())
    assert score.why == "a judge has to compare it with a ring-shaped rash"


@given(st.text())
def test_vocabulary_terms_are_read_as_they_are(text: str) -> None:
    """Whatever is written around nothing else than one term, it is this term or none."""
    score = score_closed_vocabulary(item("red", kind="short_answer"), Answer(text), COLOURS)
    assert score.extracted in [(), *((normalise(term),) for term in COLOURS)]
    assert read_options(text, {}).letters == ()
