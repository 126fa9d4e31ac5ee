"""Rotated options: mapping, folding, position bias, and the chance of guessing."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvqa import metrics, scoring
from medvqa.items import Answer, Benchmark, Item, Measure, Result, Score, UsageError, Variant
from medvqa.metrics import individual_accuracy, set_accuracy
from medvqa.protocols import combining, position, rotation
from medvqa.protocols.protocol import Protocol
from support.laws import examples

TEXTS = ("a cyst", "an abscess", "a tumour", "a stent", "a fracture", "a haematoma")


def item_of(count: int, key: str = "A", item_id: str = "1", **fields: object) -> Item:
    options = dict(zip("ABCDEF", TEXTS[:count], strict=False))
    return Item(item_id, "b", "single_choice", "Which?", options, (key,), **fields)  # type: ignore[arg-type]


def answered(item: Item, shift: int | None, text: str, sample: int = 0, prompt: str = "") -> Result:
    """The result of an answer in shown letters."""
    shown = rotation.rotated(item, shift)
    answer = Answer(text)
    score = rotation.score_back(scoring.score_single_choice(shown, answer), item, Variant(prompt, shift).name)
    return Result("run", item, "", answer, score, "mc", None, sample, Variant(prompt, shift).name)


def of_model(items: list[Item], choose: object) -> list[Result]:
    """Ask a function (item as shown) -> text in every rotation."""
    return [
        answered(item, shift, choose(rotation.rotated(item, shift)))  # type: ignore[operator]
        for item in items
        for shift in rotation.shifts(item, "mc", None)
    ]


def measured(results: list[Result]) -> dict[str, Measure]:
    benchmark = Benchmark(name="b", items=lambda folder: [], metrics=(metrics.accuracy,))
    measure = partial(metrics.measures, dimensions=(), benchmark="b", signature={})
    computed = position.measures(results, results, None, benchmark, measure)
    return {
        m.name if not m.slice else f"{m.name} {m.slice['position']}": m for m in computed if not m.slice.get("kind")
    }


items = st.builds(
    lambda count, key, kind, more: Item(
        "1", "b", kind, "Which?", dict(zip("ABCDEF"[:count], TEXTS, strict=False)),
        tuple(sorted({"ABCDEF"[key % count], *("ABCDEF"[n % count] for n in more)}))
        if kind == "multiple_response" else ("ABCDEF"[key % count],),
    ),
    st.integers(2, 6), st.integers(0, 5), st.sampled_from(["single_choice", "multiple_response"]),
    st.lists(st.integers(0, 5), max_size=3),
)  # fmt: skip


@examples(200)
@given(items, st.integers(0, 5), st.data())
def test_mapping_back_is_the_inverse_of_showing(item: Item, shift: int, data: st.DataObject) -> None:
    shift %= len(item.options)
    shown = rotation.rotated(item, shift)
    assert list(shown.options) == list(item.options)
    assert sorted(shown.options.values()) == sorted(item.options.values())
    assert {shown.options[letter] for letter in shown.answers} == {item.options[letter] for letter in item.answers}
    chosen = tuple(sorted(data.draw(st.sets(st.sampled_from(sorted(item.options)), min_size=1))))
    logprobs = {letter: -float(place + 1) for place, letter in enumerate(item.options)}
    variant, answer = Variant(rotation=shift).name, Answer("", logprobs)
    seen = Result("run", shown, "", answer, Score(0.0, "wrong", chosen), "mc", variant=variant)
    result = rotation.result_back(seen, item, shift)
    back = result.score
    assert {item.options[letter] for letter in back.extracted} == {shown.options[letter] for letter in chosen}
    assert rotation.answer_shown(result.answer, item.options, variant) == answer
    assert replace(rotation.result_shown(result), score=seen.score) == seen
    assert result.answer is not None
    mapped = result.answer.option_logprobs or {}
    assert {item.options[k]: v for k, v in mapped.items()} == {shown.options[k]: v for k, v in logprobs.items()}


@examples(50)
@given(items)
def test_each_text_stands_once_under_each_letter(item: Item) -> None:
    orders = [rotation.rotated(item, shift).options for shift in rotation.shifts(item, "mc", None) if shift is not None]
    for letter in item.options:
        assert sorted(order[letter] for order in orders) == sorted(item.options.values())


def test_a_question_of_three_options_by_hand() -> None:
    """Rotation 1: A cyst, B abscess, C tumour. 2: A abscess, B tumour, C cyst. 3: A tumour, B cyst, C abscess."""
    item = item_of(3, "B")
    orders = [rotation.rotated(item, shift) for shift in (0, 1, 2)]
    assert [list(order.options.values()) for order in orders] == [
        ["a cyst", "an abscess", "a tumour"],
        ["an abscess", "a tumour", "a cyst"],
        ["a tumour", "a cyst", "an abscess"],
    ]
    assert [order.answers for order in orders] == [("B",), ("A",), ("C",)]
    right = [answered(item, shift, letter) for shift, letter in enumerate("BAC")]
    assert [result.score.extracted for result in right] == [("B",)] * 3
    assert [result.variant for result in right] == ["r1", "r2", "r3"]
    (folded,) = rotation.folded(right, None)
    assert (folded.score.value, folded.score.outcome, folded.score.extracted) == (1.0, "correct", ("B",))
    assert folded.variant == ""
    (folded,) = rotation.folded([*right[:2], answered(item, 2, "A")], None)
    assert (folded.score.value, folded.score.outcome, folded.score.extracted) == (0.0, "wrong", ("B", "B", "C"))
    assert "rotations differ (r1: B, r2: B, r3: C)" in folded.score.why
    (folded,) = rotation.folded([*right[:2], answered(item, 2, "I see")], None)
    assert (folded.score.value, folded.score.outcome, folded.score.extracted) == (0.0, "unparsed", ())
    failed = replace(right[2], answer=None, score=Score(None, "error", why="no answer"))
    (folded,) = rotation.folded([*right[:2], failed], None)
    assert (folded.score.value, folded.score.outcome) == (None, "error")


def test_a_question_without_all_its_rotations_is_not_folded() -> None:
    item = item_of(3, "B")
    results = [answered(item, shift, letter) for shift, letter in enumerate("BAC")]
    assert rotation.folded(results[:2], None) == []
    assert len(rotation.folded(results[:2], 2)) == 1
    assert rotation.folded(results, 2) == []
    single = replace(results[0], variant="")
    assert rotation.folded([single], None) == []
    # Free answers show no letters, so they are asked once.
    assert rotation.folded([free := replace(single, technique="ff")], None) == [free]


def test_samples_and_prompts_are_folded_apart() -> None:
    item = item_of(2, "A")
    results = [
        answered(item, shift, text, sample, prompt)
        for prompt in ("short", "long")
        for sample, texts in ((1, "AB"), (2, "AA"))
        for shift, text in enumerate(texts)
    ]
    folded = rotation.folded(results, None)
    assert [(r.variant, r.sample, r.score.value) for r in folded] == [
        ("long", 1, 1.0), ("long", 2, 0.0), ("short", 1, 1.0), ("short", 2, 0.0),
    ]  # fmt: skip


def test_samples_vote_in_each_rotation_before_the_rotations_are_folded() -> None:
    """r1: A, A, B (A wins). r2, where A stands second: B, B, A (B wins, which is A). A tie in r2 is invalid."""
    item = item_of(2, "A")

    def voted(first: str, second: str) -> Result:
        results = [
            answered(item, shift, letter, sample)
            for shift, letters in enumerate((first, second))
            for sample, letter in enumerate(letters, 1)
        ]
        (combined,) = combining.combined(results, Protocol(samples=3, combine="vote", rotations=None))
        return combined

    assert voted("AAB", "BBA").score.outcome == "correct"
    assert voted("AAB", "AAB").score.outcome == "wrong"
    assert voted("AAB", "BA?").score.outcome == "unparsed"
    assert voted("AAB", "BBA").key.sample == 0
    label = combining.label(Protocol(samples=3, combine="vote", rotations=None))
    assert label == "vote of 3, every order"


def test_the_worst_rotation_of_a_multiple_response_counts() -> None:
    item = replace(item_of(4), kind="multiple_response", answers=("A", "C"))
    scores = [Score(1.0, "correct", ("A", "C")), Score(0.5, "partial", ("A", "B")), Score(1.0, "partial", ("A",))]
    results = [
        Result("run", item, "", Answer(""), score, "mc", None, 0, f"r{place}") for place, score in enumerate(scores, 1)
    ]
    (folded,) = rotation.folded(results, 3)
    assert (folded.score.value, folded.score.outcome, folded.score.extracted) == (0.5, "partial", ("A", "B"))


COUNTS = (2, 3, 4)
PAIRS = [item_of(2, key, f"{pair}/{side}", pair_id=str(pair)) for pair in range(20) for side, key in enumerate("AB", 1)]


@pytest.mark.parametrize("count", COUNTS)
def test_a_model_that_always_says_a_is_never_right_and_has_the_full_bias(count: int) -> None:
    questions = [item_of(count, "ABCD"[n % count], str(n)) for n in range(24)]
    results = of_model(questions, lambda shown: "A")
    assert not any(result.score.value for result in rotation.folded(results, None))
    values = measured(results)
    assert values[position.BIAS].value == pytest.approx(1 - 1 / count)
    assert values[position.CONSISTENCY].value == 0
    assert values[position.MEAN + "accuracy"].value == pytest.approx(1 / count)
    shares = [values[f"{position.SHARE} {place}"].value for place in range(1, count + 1)]
    assert shares == [1.0] + [0.0] * (count - 1)


@pytest.mark.parametrize("count", COUNTS)
def test_an_oracle_is_right_in_every_rotation_and_has_no_bias(count: int) -> None:
    questions = [item_of(count, "ABCD"[n * n % count], str(n)) for n in range(24)]
    results = of_model(questions, lambda shown: shown.answers[0])
    assert all(result.score.value == 1 for result in rotation.folded(results, None))
    values = measured(results)
    assert values[position.BIAS].value == pytest.approx(0)
    assert values[position.BIAS].percent is False
    assert values[position.CONSISTENCY].value == 1
    for place in range(1, count + 1):
        share = values[f"{position.SHARE} {place}"]
        assert share.value == pytest.approx(1 / count)
        assert share.references == {"random": pytest.approx(1 / count)}


def test_a_model_without_eyes_is_confused_in_every_pair() -> None:
    """By letter or by text: it gives both images of a pair the same choices in each rotation."""
    for choose in (lambda shown: "A", lambda shown: min(shown.options, key=lambda letter: shown.options[letter])):
        folded = rotation.folded(of_model(PAIRS, choose), None)
        (confusion, *_) = metrics.measures(folded, [metrics.confusion], (), benchmark="b", signature={})
        assert (confusion.value, confusion.n) == (1.0, 20)


@pytest.mark.parametrize("count", COUNTS)
def test_guessing_is_right_in_every_rotation_as_often_as_the_reference_says(count: int) -> None:
    """By enumeration: one of k ** k sequences of letters is right throughout."""
    question = item_of(count, "B")
    sequences = [[]]
    for _ in range(count):
        sequences = [[*begun, letter] for begun in sequences for letter in question.options]
    right = sum(
        rotation.folded([answered(question, shift, letter) for shift, letter in enumerate(letters)], None)[
            0
        ].score.value
        for letters in sequences
    )
    assert right == 1
    folded = rotation.folded(of_model([question], lambda shown: "A"), None)
    (accuracy, *_) = metrics.measures(
        folded, [metrics.accuracy], (), benchmark="b", signature={}, orders=rotation.orders("mc", None)
    )
    assert accuracy.references == {"random": pytest.approx(count**-count)}


def test_references_of_pairs_in_two_orders() -> None:
    """Each image: four sequences of two letters. Right 1/4, a pair 1/16, equal choices 1/4."""
    folded = rotation.folded(of_model(PAIRS, lambda shown: "A"), None)
    kinds = [set_accuracy, individual_accuracy, metrics.confusion]
    computed = metrics.measures(folded, kinds, (), benchmark="b", signature={}, orders=rotation.orders("mc", None))
    assert {m.name: m.references for m in computed if not m.slice} == {
        "set_accuracy": {"random": 1 / 16, "image_blind": 0.0},
        "individual_accuracy": {"random": 1 / 4, "image_blind": 0.5},
        "confusion": {"random": 1 / 4, "image_blind": 1.0},
    }


def test_position_bias_by_hand() -> None:
    """Two questions of two options. First: A, A (first place twice). Second: A, B (first place once of two).

    Shares of the first place: 1 and 1/2, minus 1/2 each: 1/2 and 0, their mean 1/4. One of two is consistent.
    """
    one, other = item_of(2, "A", "1"), item_of(2, "B", "2")
    results = [answered(one, 0, "A"), answered(one, 1, "A"), answered(other, 0, "A"), answered(other, 1, "B")]
    values = measured(results)
    assert values[position.BIAS].value == pytest.approx(0.25)
    assert values[position.CONSISTENCY].value == 0.5
    assert values[f"{position.SHARE} 1"].value == pytest.approx(0.75)
    # An invalid answer has no place.
    values = measured([*results[:3], answered(other, 1, "no idea")])
    assert values[position.BIAS].value == pytest.approx(0.5)
    assert (values[position.CONSISTENCY].value, values[position.CONSISTENCY].n) == (0.0, 1)


def test_only_shown_letters_are_rotated() -> None:
    item = item_of(4)
    assert rotation.shifts(item, "mc", None) == (0, 1, 2, 3)
    assert rotation.shifts(item, "gd", 2) == (0, 1)
    assert rotation.shifts(item, "mc", 9) == (0, 1, 2, 3)
    for technique in ("ps", "ff"):
        assert rotation.shifts(item, technique, None) == (None,)  # type: ignore[arg-type]
    assert rotation.shifts(item, "mc", 0) == (None,)
    assert rotation.shifts(Item("1", "b", "short_answer", "Which?", {}, ("a cyst",)), "mc", None) == (None,)
    assert rotation.shifts(Item("1", "b", "judgment", "Is it?", {"A": "yes", "B": "no"}), "mc", None) == (None,)


def test_a_technique_without_letters_is_refused() -> None:
    rotation.check(["ps", "gd"])
    with pytest.raises(UsageError, match=r"technique 'ps, ff' shows no option letters.*those that do: mc, gd"):
        rotation.check(["ps", "ff"])


def test_an_answer_without_rotation_is_none_of_a_rotated_question() -> None:
    one, open_item = item_of(2), Item("2", "b", "short_answer", "Which?", {}, ("cyst",))
    alone, asked_once = answered(one, None, "A"), Result("run", open_item, "", Answer("cyst"), Score(1.0, "correct"))
    whole, single, incomplete = rotation.grouped([alone, asked_once], None)
    assert (whole, single, incomplete) == ([], [asked_once], [alone])


def test_rotations_that_lack_an_order_count_in_no_measure() -> None:
    """The answers to the first order alone are no mean over orders, and show no preference for a place."""
    items = [item_of(2, "AB"[number % 2], str(number)) for number in range(8)]
    assert measured([answered(item, 0, "A") for item in items]) == {}
