"""Votes: hand-computed examples, and their laws."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics
from medvqa.benchmarks import mediconfusion, medlesionvqa, phantom
from medvqa.items import Answer, Item, Judgement, Kind, Outcome, Result, Score, UsageError
from medvqa.protocols import combining, voting
from medvqa.protocols.protocol import Protocol
from support.laws import examples
from support.runs import record

QUESTION = Item("q1", "slake", "single_choice", "Which?", {"A": "liver", "B": "spleen", "C": "lung"}, ("A",))
VOTE = Protocol(samples=3, combine="vote")
SILENT: dict[str, Outcome] = {"?": "unparsed", "!": "refused", "-": "abstained"}


def answered(said: str, item: Item = QUESTION) -> list[Result]:
    """A sample for each character: an option, or ? unparsed, ! refused, - abstained, x error."""
    return [_sample(number, letter, item) for number, letter in enumerate(said, 1)]


def _sample(number: int, letter: str, item: Item) -> Result:
    if letter == "x":
        return Result("run", item, "p", None, Score(None, "error", why="no answer"), sample=number)
    if letter in SILENT:
        return Result("run", item, "p", Answer("hm"), Score(0.0, SILENT[letter]), sample=number)
    if not item.answers:
        return Result("run", item, "p", Answer(letter), Score(None, "unscored", (letter,)), sample=number)
    right = letter in item.answers
    score = Score(float(right), "correct" if right else "wrong", (letter,), f"chose {letter}")
    return Result("run", item, "p", Answer(f"It is {letter}."), score, sample=number)


@pytest.mark.parametrize(
    ("said", "outcome", "value", "extracted", "why"),
    [
        ("AAABBC", "correct", 1.0, ("A",), "A 3, B 2, C 1 of 6 votes"),
        ("BBA", "wrong", 0.0, ("B",), "B 2, A 1 of 3 votes"),
        ("AAABBB", "unparsed", 0.0, (), "tie: A 3, B 3 of 6 votes"),
        # Invalid answers do not vote, so they neither win nor break a tie; nor do errors.
        ("A?????", "correct", 1.0, ("A",), "A 1 of 1 vote; without a vote: 5 unparsed"),
        ("AB!!-x", "unparsed", 0.0, (), "tie: A 1, B 1 of 2 votes; without a vote: 2 refused, 1 abstained, 1 error"),
        ("!!?", "refused", 0.0, (), "no votes; without a vote: 2 refused, 1 unparsed"),
        ("!?", "unparsed", 0.0, (), "no votes; without a vote: 1 refused, 1 unparsed"),
        ("--x", "abstained", 0.0, (), "no votes; without a vote: 2 abstained, 1 error"),
        ("xx", "error", None, (), "no votes; without a vote: 2 error"),
    ],
)
def test_votes_by_hand(said: str, outcome: str, value: float | None, extracted: tuple[str, ...], why: str) -> None:
    result = voting.vote(answered(said))
    assert (result.score.outcome, result.score.value, result.score.extracted) == (outcome, value, extracted)
    assert result.score.why == why
    assert (result.sample, result.run, result.prompt) == (0, "run", "p")


def test_the_answer_of_a_vote_is_the_option_and_no_sample_s_text() -> None:
    assert voting.vote(answered("AAB")).answer == Answer("A", finish="", confidence=2 / 3)
    assert voting.vote(answered("AB")).answer == Answer("", finish="")
    assert voting.vote(answered("xx")).answer is None


def test_whole_sets_of_options_are_voted_on() -> None:
    """Multiple response: A,B twice wins over A,B,C, B and A, although most answers hold A."""
    item = replace(QUESTION, kind="multiple_response", answers=("A", "B"))
    sets = [("A", "B"), ("A", "B", "C"), ("B", "A"), ("A",)]
    samples = [
        Result("run", item, "p", Answer(""), Score(0.0 if "C" in chosen else 1.0, "partial", chosen), sample=number)
        for number, chosen in enumerate(sets, 1)
    ]
    result = voting.vote(samples)
    assert result.score.extracted == ("A", "B")
    assert result.score.value == 1.0
    assert result.score.why == "A,B 2, A 1, A,B,C 1 of 4 votes"


def test_terms_of_a_closed_vocabulary_are_voted_on() -> None:
    item = Item("q1", "own", "judgment", "Is it a liver?", {}, ("yes",))
    samples = [
        Result("run", item, "p", Answer(term), Score(float(term == "yes"), "correct", (term,)), sample=number)
        for number, term in enumerate(("yes", "no", "yes"), 1)
    ]
    assert voting.vote(samples).score == Score(1.0, "correct", ("yes",), "yes 2, no 1 of 3 votes")


def test_free_answers_with_a_judge_s_score_cannot_be_voted_on() -> None:
    item = Item("q1", "medlesionvqa-val", "short_answer", "Which lesion?", {}, ("papule",))
    judged = Result("run", item, "p", Answer("papule"), Score(1.0, "correct", ()), sample=1)
    waiting = replace(judged, score=Score(None, "unscored"))
    for result in (judged, waiting):
        with pytest.raises(UsageError) as error:
            voting.vote([result])
        assert str(error.value) == (
            "--combine=vote: answers to short_answer questions of medlesionvqa-val choose no option that could be "
            "voted on: such answers are free text. Combine them by --combine=mean, or select other questions"
        )
    (benchmark, *_) = medlesionvqa.BENCHMARKS
    assert not voting.can_vote(item, benchmark)
    assert voting.can_vote(replace(item, kind="judgment"), benchmark) == ("judgment" not in benchmark.judged)
    assert voting.can_vote(replace(QUESTION, kind="multiple_response"), benchmark)


def test_a_withheld_key_leaves_a_vote_without_a_score() -> None:
    item = replace(QUESTION, answers=())
    assert voting.vote(answered("BBA", item)).score == Score(None, "unscored", ("B",), "B 2, A 1 of 3 votes")
    tie = voting.vote(answered("AB", item)).score
    assert tie == Score(None, "unscored", (), "no answer key; tie: A 1, B 1 of 2 votes")


def test_a_rule_that_scores_one_option_differently_gives_its_mean() -> None:
    samples = answered("AA")
    samples[1] = replace(samples[1], score=replace(samples[1].score, value=0.5, outcome="partial"))
    assert voting.vote(samples).score.value == 0.75
    assert voting.vote(samples).score.outcome == "partial"


def test_a_vote_on_free_form_answers_keeps_the_judge_without_its_replies() -> None:
    judgement = Judgement("echo", "judging/closeness@1", "closeness", ("A: 9\nB: 1",), 0.5, {"input": 1.0}, ("d",))
    samples = [replace(result, technique="ff", judgement=judgement) for result in answered("AAB")]
    result = voting.vote(samples)
    assert result.technique == "ff"
    assert result.judgement == Judgement("echo", "judging/closeness@1", "closeness", ())


def test_ties_and_silent_answers_are_counted() -> None:
    items = [replace(QUESTION, id=f"q{number}") for number in range(4)]
    results = [
        result
        for item, said in zip(items, ("AAB", "AB?", "??!", "Bx-"), strict=True)
        for result in answered(said, item)
    ]
    votes = voting.Votes.of(results)
    assert votes == voting.Votes(4, 1, 1, 12, {"unparsed": 3, "refused": 1, "abstained": 1, "error": 1})
    assert votes.line(4) == (
        "4 votes on 4 questions: 1 tie and 1 without a valid answer (both are invalid); 6 of 12 answers did not vote "
        "(1 refused, 1 abstained, 3 unparsed, 1 error)"
    )


def test_only_samples_of_one_variant_vote_together() -> None:
    results = [replace(result, variant=variant) for variant in ("long", "short") for result in answered("AAB")]
    folded = combining.combined(results, VOTE)
    assert [(result.variant, result.score.extracted) for result in folded] == [("long", ("A",)), ("short", ("A",))]


@pytest.mark.parametrize("samples", [(), (1,), (1, 2), (1, 2, 4), (2, 3, 4), (1, 2, 3, 4), (0,), (0, 1, 2)])
def test_a_vote_of_three_needs_samples_one_to_three(samples: tuple[int, ...]) -> None:
    """A vote of fewer or other answers must not pass for it, as in an unfinished run or with -k sample1."""
    whole, part = answered("AAA"), [_sample(number, "A", replace(QUESTION, id="q2")) for number in samples]
    assert [result.item.id for result in combining.combined([*whole, *part], VOTE)] == ["q1"]
    votes = combining.votes([*whole, *part], VOTE)
    assert votes is None or (votes.questions, votes.answers) == (1, 3)


def test_a_recorded_number_of_samples_may_be_any() -> None:
    assert combining.combined(answered("AAA"), Protocol(samples=10**9, combine="vote")) == ()


@pytest.mark.parametrize(
    ("asked", "counted"),
    [
        ({"short": (0,), "long": (0,)}, True),
        ({"short": (1, 2), "long": (1, 2)}, True),
        ({"short": (0,)}, False),
        ({"short": (1, 2), "long": (1,)}, False),
        ({"short": (0,), "long": (0,), "other": (0,)}, False),
        ({"": (0,)}, False),
    ],
)
def test_a_question_counts_if_every_prompt_was_asked_as_often(asked: dict[str, tuple[int, ...]], counted: bool) -> None:
    run = record({"benchmarks": {"slake": {"asked_by": ["long", "short"]}, "other": {"asked_by": ["short"]}}})
    answers = [replace(_sample(n, "A", QUESTION), variant=name) for name, numbers in asked.items() for n in numbers]
    elsewhere = replace(answered("A")[0], item=replace(QUESTION, benchmark="other"))
    assert combining.combined([*answers, elsewhere], run.protocol, run.prompts) == (
        *(answers if counted else ()),
        elsewhere,
    )


def test_a_prompt_that_lacks_a_rotation_leaves_the_question_out() -> None:
    run = record({"protocol": {"rotations": 2}, "benchmarks": {"slake": {"asked_by": ["long", "short"]}}})
    answers = [replace(answered("A")[0], sample=0, variant=name) for name in ("long+r1", "long+r2", "short+r1")]
    assert combining.combined(answers, run.protocol, run.prompts) == ()
    whole = [*answers, replace(answers[0], variant="short+r2")]
    assert [result.variant for result in combining.combined(whole, run.protocol, run.prompts)] == ["long", "short"]


# --- laws ---------------------------------------------------------------------------------------------------

SAID = st.text(st.sampled_from("ABC?!-x"), min_size=1, max_size=12)


@examples(100)
@given(said=SAID, data=st.data())
def test_the_order_of_the_samples_does_not_matter(said: str, data: st.DataObject) -> None:
    other = "".join(data.draw(st.permutations(said)))
    assert voting.vote(answered(said)) == voting.vote(answered(other))


@examples(50)
@given(letter=st.sampled_from("ABC?!-x"))
def test_a_vote_of_one_is_the_answer(letter: str) -> None:
    (single,) = answered(letter)
    score = voting.vote([single]).score
    assert (score.value, score.outcome, score.extracted) == (
        single.score.value,
        single.score.outcome,
        single.score.extracted,
    )


@examples(50)
@given(said=SAID, silent=st.text(st.sampled_from("?!-x"), max_size=5))
def test_answers_that_do_not_vote_never_change_a_vote(said: str, silent: str) -> None:
    one, more = voting.vote(answered(said)).score, voting.vote(answered(said + silent)).score
    if one.extracted or voting.ballot(answered(said)).tied:
        assert (one.value, one.outcome, one.extracted) == (more.value, more.outcome, more.extracted)


@examples(30)
@given(pairs=st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("AB")), min_size=1, max_size=30))
def test_with_valid_pairs_individual_is_twice_set_and_confused(pairs: list[tuple[str, str]]) -> None:
    """The identity behind the counts of MediConfusion's Table 10: 198 = 2 * 33 + 132 and 202 = 2 * 40 + 122."""
    results = [
        result
        for number, letters in enumerate(pairs)
        for side, letter in enumerate(letters)
        for result in answered(letter * 3, _of_pair(number, side))
    ]
    folded = combining.combined(results, VOTE)
    counts = {
        measure.name: measure.count
        for measure in metrics.measures(
            folded,
            (metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion),
            (),
            benchmark="slake",
            signature={},
        )
        if not measure.slice
    }
    assert counts["individual_accuracy"] == 2 * (counts["set_accuracy"] or 0) + (counts["confusion"] or 0)


def _of_pair(number: int, side: int) -> Item:
    options = {"A": "left", "B": "right"}
    return Item(f"{number}/{side}", "slake", "single_choice", "Which?", options, ("AB"[side],), pair_id=str(number))


@pytest.mark.parametrize(
    ("right", "individual", "confused", "both"),
    [(33, 198, 132, 176), (41, 202, 119, 175), (40, 202, 122, 176)],
)
def test_table_ten_of_mediconfusion_by_counts(right: int, individual: int, confused: int, both: int) -> None:
    """Votes of three that give each row's counts give its published percentages.

    With N = 10 one pair is missing: the identity leaves one right question, so one question of that pair was a tie.
    """
    rows = {33: (18.75, 56.25, 75.00), 41: (23.30, 57.39, 68.00), 40: (22.73, 57.39, 69.32)}
    said = ["AB"] * right + ["AA"] * confused + ["BA"] * (both - right - confused)
    single = individual - 2 * right - confused
    said += ["A?"] * single
    assert len(said) == 176
    results = [
        result
        for number, letters in enumerate(said)
        for side, letter in enumerate(letters)
        for result in answered("AB?" if letter == "?" else letter * 3, _of_pair(number, side))
    ]
    computed = metrics.measures(
        combining.combined(results, VOTE),
        (metrics.set_accuracy, metrics.individual_accuracy, metrics.confusion, metrics.invalid_rate),
        (),
        benchmark="slake",
        signature={},
    )
    values = {measure.name: measure for measure in computed if not measure.slice}
    shown = [round(100 * (values[name].value or 0), 2) for name in ("set_accuracy", "individual_accuracy", "confusion")]
    assert tuple(shown) == rows[right]
    assert values["invalid_rate"].count == 176 - both
    assert voting.Votes.of(results).ties == 176 - both


def test_shipped_benchmarks_say_which_questions_can_vote() -> None:
    kinds: list[Kind] = ["single_choice", "multiple_response", "judgment", "fill_in_the_blank", "short_answer"]
    for benchmark in (*phantom.BENCHMARKS, *mediconfusion.BENCHMARKS, *medlesionvqa.BENCHMARKS):
        for kind in kinds:
            item = Item("q", benchmark.name, kind, "?")
            assert voting.can_vote(item, benchmark) == (kind not in benchmark.judged)


def orders(samples: Sequence[Result]) -> list[list[Result]]:
    return [list(order) for order in permutations(samples)]


def test_every_order_of_three_samples_gives_one_vote() -> None:
    assert len({repr(voting.vote(order)) for order in orders(answered("ABA"))}) == 1
